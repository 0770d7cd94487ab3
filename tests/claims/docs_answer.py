"""Whether the site's search leads to the pages that answer: docs_answer.py BROWSER SITE QUESTIONS.

A line of QUESTIONS is `question | page.md#anchor | source`; the source may be missing. The first comment with `at least N` says how many
questions find their page among the first three. Prints the misses, and ends with 1 where fewer do; else one line of counts.
"""

import pathlib
import re
import sys

from docs_chromium import Search, opened

FIRST, LEAST = 3, 110  # the first 3 pages of the list count; at least 110 questions must find their page


def page_of(path: str) -> str:
    """Where the site has the file `path` of the checkout."""
    if path == "README.md" or path.endswith("/README.md"):
        return path.removesuffix("README.md") + "index.html"
    return path.removesuffix(".md") + ".html"


def main() -> None:
    site, text = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).read_text(encoding="utf-8")
    stated = re.search(r"^#.*\bat least (\d+)", text, re.MULTILINE)
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.strip() and not line.startswith("#")]
    faults = [] if stated else ["no comment says `at least N`"]
    for row in rows:
        words = len(row[0].split())
        if len(row) not in (2, 3) or not 3 <= words <= 10:
            faults.append(f"{' | '.join(row)}: not a question of 3 to 10 words, its page and perhaps its source")
            continue
        path, _, anchor = row[1].partition("#")
        html = site / page_of(path)
        if not html.is_file():
            faults.append(f"{row[1]}: the site has no such page")
        elif anchor and not re.search(rf'\bid="{re.escape(anchor)}"', html.read_text(encoding="utf-8")):
            faults.append(f"{row[1]}: the page has no such anchor")
    if len({row[0].lower() for row in rows}) != len(rows):
        faults.append("a question stands there twice")
    if faults:
        print("\n".join(faults))
        raise SystemExit(1)

    misses = []
    with opened(sys.argv[1], site) as (page, address):
        page.goto(address + "index.html")
        search = Search(page)
        for question, target, *_ in rows:
            found = search.pages(question, FIRST)
            if page_of(target.partition("#")[0]) not in found:
                misses.append(f"{question} | {target} | found: {', '.join(found) or 'nothing'}")
    least = max(LEAST, int(stated[1]))
    print("\n".join(misses))
    print(f"{len(rows) - len(misses)} of {len(rows)} questions")
    if len(rows) - len(misses) < least:
        print(f"fewer than {least}")
        raise SystemExit(1)


main()
