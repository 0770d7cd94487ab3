"""Opens the documentation's site in Chromium, from a web server of this process: docs_site_in_browser.py BROWSER
SITE.

Every page must open without a message in its console, an error of its scripts or a request to another host. The
search must find a class of the Python package. Prints what is wrong and ends with 1; else prints one line of counts.
"""

import functools
import http.server
import pathlib
import sys
import threading

from playwright.sync_api import TimeoutError, sync_playwright


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


def main() -> None:
    site = pathlib.Path(sys.argv[2])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    faults: list[str] = []
    requests: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=sys.argv[1], args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda m: faults.append(f"{page.url}: console: {m.text}"))
        page.on("pageerror", lambda e: faults.append(f"{page.url}: script: {e}"))
        page.on("request", lambda r: requests.append(r.url))
        pages = sorted(site.rglob("*.html"))
        for path in pages:
            page.goto(address + path.relative_to(site).as_posix(), wait_until="load")
        page.goto(address + "index.html")
        found = page.locator("a.md-search-result__link")
        for _ in range(30):  # keys that are pressed before the page's script listens are lost
            page.locator("input.md-search__input").fill("")
            page.locator("input.md-search__input").press_sequentially("Trainer")
            try:
                found.first.wait_for(timeout=4000)
                break
            except TimeoutError:
                pass
        results = found.count()
        browser.close()
    server.shutdown()
    faults += [f"a request to another host: {url}" for url in requests if not url.startswith((address, "data:", "blob:"))]
    if faults or results == 0:
        print("\n".join(faults) or "the search finds nothing")
        raise SystemExit(1)
    print(f"Chromium opens {len(pages)} pages with {len(requests)} requests, none to another host, no message in the console; its search finds {results} pages")


main()
