"""Reads the tables of a page that `nacre report` wrote."""

from __future__ import annotations

import html.parser
import os
import re
from typing import Any

from ._result import Result

_NUMBER = re.compile(r"(-?[\d,]+(?:\.\d+)?(?:e[+-]?\d+)?)(?: %| dB)?")


class _Page(html.parser.HTMLParser):
    """Collects the tables of a page: their captions, columns and rows. A table in a tab has the tab's name first."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self._sections: list[str] = []  # names of the tabs around the place, "" for a section that is none
        self._caption = ""
        self._columns: list[str] = []
        self._row: list[str] = []
        self._text: list[str] | None = None  # of a cell, inside one

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        about = dict(attributes)
        if tag == "section":
            self._sections.append(about.get("aria-label") or "")
        elif tag == "table":
            self._caption, self._columns = self._caption_of(about.get("aria-label") or "table"), []
        elif tag == "tr":
            self._row = []
        elif tag in ("th", "td"):
            self._text = []

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "section" and self._sections:
            self._sections.pop()
        elif tag in ("th", "td") and self._text is not None:
            self._row.append(" ".join("".join(self._text).split()))
            self._text = None
        elif tag == "tr" and not self._columns:
            self._columns = self._row
        elif tag == "tr" and len(self._row) == len(self._columns):
            row = {column: _value(cell) for column, cell in zip(self._columns, self._row)}
            self.tables.setdefault(self._caption, []).append(row)

    def _caption_of(self, label: str) -> str:
        caption = re.split(r"\. |; ", label.removeprefix("Table: "), maxsplit=1)[0]
        tab = next((name for name in reversed(self._sections) if name), "")
        name = f"{tab}: {caption}" if tab and not caption.startswith(tab) else caption
        count = 1
        while name in self.tables:
            count += 1
            name = f"{name.removesuffix(f' ({count - 1})')} ({count})"
        return name


def _value(cell: str) -> Any:
    """Returns a cell's number if it has one, perhaps with "%" or "dB" behind it; None for "-"; else its text."""
    found = _NUMBER.fullmatch(cell)
    if not found:
        return None if cell in ("-", "") else cell
    digits = found[1].replace(",", "")
    return int(digits) if re.fullmatch(r"-?\d+", digits) else float(digits)


def result_of(path: str) -> Result:
    """Returns the result of `nacre report`. A page in no regular file, such as a pipe, is not read."""
    if not os.path.isfile(path):
        return Result("report", {"page": path, "tables": {}})
    with open(path, encoding="utf-8") as file:
        text = file.read()
    page = _Page()
    page.feed(text)
    return Result("report", {"page": path, "file_bytes": len(text.encode()), "tables": page.tables})
