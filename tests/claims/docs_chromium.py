"""What the claims of the documentation's site share: a web server of this process, a page of Chromium, and the site's search."""

import collections.abc
import contextlib
import functools
import http.server
import pathlib
import threading
import urllib.parse

from playwright.sync_api import Page, TimeoutError, sync_playwright


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def opened(browser: str, site: pathlib.Path) -> collections.abc.Iterator[tuple[Page, str]]:
    """A page of the program `browser`, and the address of `site`, which ends with a slash."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        try:
            yield chromium.new_page(), f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            chromium.close()
            server.shutdown()


class Search:
    """The search of the site on a page that shows it."""

    def __init__(self, page: Page) -> None:
        self.field = page.locator("input.md-search__input")
        self.items = page.locator("ol.md-search-result__list > li.md-search-result__item")
        for _ in range(30):  # keys that are pressed before the page's script listens are lost
            self.field.fill("")
            self.field.press_sequentially("Trainer")
            with contextlib.suppress(TimeoutError):
                self.items.first.wait_for(timeout=4000)
                return
        raise SystemExit("the search of the site does not answer")

    def pages(self, question: str, most: int) -> list[str]:
        """Types `question`: the first pages of the list, `most` of them, without their anchors. No page within 10 s: none."""
        return [links[0].partition("#")[0] for links in self.links(question, most)]

    def links(self, question: str, most: int) -> list[list[str]]:
        """Types `question`: the links to each of the first pages, `most` of them, and to places on them."""
        self.field.fill("x")
        self.field.press("Backspace")
        self.items.first.wait_for(state="detached", timeout=20000)
        self.field.fill(question[:-1])  # the script reads the field when a key goes up: one query, of the whole question
        self.field.press_sequentially(question[-1])
        with contextlib.suppress(TimeoutError):
            self.items.first.wait_for(timeout=10000)
        found = self.items.evaluate_all(
            "(items, most) => items.slice(0, most).map(i => [...i.querySelectorAll('a.md-search-result__link')].map(a => a.href))", most
        )
        parts = [[urllib.parse.urlsplit(link) for link in links] for links in found]
        return [[urllib.parse.unquote(f"{p.path.removeprefix('/')}#{p.fragment}") for p in links] for links in parts]
