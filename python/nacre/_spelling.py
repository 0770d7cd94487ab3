"""Spells options of the command line as keywords of Python. make_keywords.py reads this file without the package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SPELLED = re.compile(
    r"(?<![\w/-])--(?P<name>[a-z][a-z0-9-]*)(?: (?P<value>'[^']*'|(?:[^\s,;:()]|,(?=\S))+))?(?P<after>.?)",
    re.DOTALL,
)
# After such a verb a sentence asks for an option. Other options, or another option's value, may stand in between.
_ASKED = re.compile(r"(?:\b(?:add|write|give|take|give it:) (?:[^.;:\n]* (?:or|and) )?|--[a-z-]+ (?!and |or )\S+ )$")


def keyword_of(option: str) -> str:
    keyword = option.replace("-", "_")
    return keyword + "_" if keyword in ("except", "lambda") else keyword


def in_keywords(command: str, sentence: str, options: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a sentence of the command line with keywords for options: "add --labels FILE" becomes "add labels=FILE".

    Options of another command ("nacre convert --train", "convert it with --target host") stay as they are.
    `options`: those of the command, by their keywords.
    """
    others = "|".join(name for name in ("convert", "export", "tune") if name != command)
    typed = [match.span() for match in re.finditer(rf"\b(?:nacre [a-z]+|{others}) [^,;:\n]*", sentence)]

    def keyword(match: re.Match[str]) -> str:
        name = keyword_of(match["name"])
        option = options.get(name)
        if option is None or any(begin <= match.start() < end for begin, end in typed):
            return match[0]
        before, value = sentence[: match.start()], match["value"]
        asked = _ASKED.search(before) is not None
        if not option["value"]:
            name += "=True" if asked else ""
        elif value and (asked or not before or not re.fullmatch(r"[a-z]+", value)):
            return f"{name}={value}{match['after']}"
        return name + (f" {value}" if value else "") + match["after"]

    return _SPELLED.sub(keyword, sentence)
