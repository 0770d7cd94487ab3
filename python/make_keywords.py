#!/usr/bin/env python3
"""Writes the types of the package's keyword arguments, from the tool's own table of options:

make_keywords.py FOLDER OUTPUT.py     FOLDER has the extension module _native
"""

import json
import sys

COMMANDS = ("convert", "inspect", "compare", "eval", "search", "tune", "export", "report", "firmware")
# Options that the functions set themselves, or for which they have an argument.
OWN = {"json", "output"}
OF_DATA = {"data", "labels"}
HEAD = '''"""Keyword arguments of the package's functions: the options of the commands. Made by python/make_keywords.py."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

Text = str | int | float | os.PathLike[str]
Texts = Text | Sequence[Text] | Mapping[str, Any]
Data = Any
'''


def type_of(option: dict) -> str:
    if not option["value"]:
        return "bool"
    if option["reads"]:
        return "Data"
    if option["many"]:
        return "Texts"
    return "int" if option["value"] == "N" else "Text"


def main() -> int:
    folder, output = sys.argv[1:]
    sys.path.insert(0, folder)
    import _native

    text = HEAD
    for command in json.loads(_native.commands()):
        if command["name"] not in COMMANDS:
            continue
        text += f"\n\nclass {command['name'].capitalize()}Options(TypedDict, total=False):\n"
        own = OWN | OF_DATA if command["name"] in ("compare", "eval", "search", "tune") else OWN
        for option in command["options"]:
            if option["name"] in own:
                continue
            keyword = option["name"].replace("-", "_")
            keyword += "_" if keyword in ("except", "lambda") else ""
            text += f"    {keyword}: {type_of(option)} | None\n"
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
