"""Opens the documentation's site in Chromium, from a web server of this process: docs_site_in_browser.py BROWSER
SITE.

Every page must open without a message in its console, an error of its scripts or a request to another host. The
search must find names of C, C++ and Python where they are declared. Prints what is wrong and ends with 1; else prints
one line of counts.
"""

import pathlib
import sys

from docs_chromium import Search, opened

# Names that are typed, each with a link that one of the first three pages of the list must have.
NAMES = {
    "nacre_program_bind": "engine/nacre_c.h.html#nacre-program-bind",
    "nacre_trainer_commit": "engine/nacre_c_training.h.html#nacre-trainer-commit",
    "Program::packed_operands": "engine/run/program.h.html#nacre-program-packed-operands",
    "Trainer::accumulate_apart": "engine/train/trainer.h.html#nacre-trainer-accumulate-apart",
    "nacre.Trainer.commit": "python_reference.html#nacre.Trainer.commit",
}


def main() -> None:
    site = pathlib.Path(sys.argv[2])
    faults: list[str] = []
    requests: list[str] = []
    with opened(sys.argv[1], site) as (page, address):
        page.on("console", lambda m: faults.append(f"{page.url}: console: {m.text}"))
        page.on("pageerror", lambda e: faults.append(f"{page.url}: script: {e}"))
        page.on("request", lambda r: requests.append(r.url))
        pages = sorted(site.rglob("*.html"))
        for path in pages:
            page.goto(address + path.relative_to(site).as_posix(), wait_until="load")
        page.goto(address + "index.html")
        search = Search(page)
        for name, wanted in NAMES.items():
            found = search.links(name, 3)
            if not any(wanted in links for links in found):
                faults.append(f"the search for {name} does not find {wanted}: {found}")
    faults += [f"a request to another host: {url}" for url in requests if not url.startswith((address, "data:", "blob:"))]
    if faults:
        print("\n".join(faults))
        raise SystemExit(1)
    print(
        f"Chromium opens {len(pages)} pages with {len(requests)} requests, none to another host, no message in the console; its search finds"
        f" {len(NAMES)} names of C, C++ and Python where they are declared"
    )


main()
