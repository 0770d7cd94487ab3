#!/usr/bin/env python3
"""Writes the types of the package's keyword arguments and what they mean, from the tool's own table of options:

make_keywords.py FOLDER OUTPUT.py     FOLDER has the extension module _native
"""

import json
import pathlib
import re
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "nacre"))
import _spelling  # noqa: E402

# Options of export for a network that is compiled anew, and not written back to its own file.
OF_COMPILED = {"policy", "set", "policy-file", "only", "except", "batch", "calibrate", "cast-samples"}
# Each class of keywords, its command, and the options that it lacks: those that the function sets itself, has an
# argument for, or refuses.
CLASSES = {
    "ConvertOptions": ("convert", {"stop-after", "dump", "explain"}),
    "InspectOptions": ("inspect", {"steps", "svg", "batch", "shape", "ignore-setting", "io-layout"}),
    "InspectFileOptions": ("inspect", {"steps", "svg"}),
    "RunOptions": ("run", {"input"}),
    "BenchOptions": ("bench", set()),
    "KernelsOptions": ("kernels", set()),
    "CompareOptions": ("compare", {"data"}),
    "EvalOptions": ("eval", {"data", "labels"}),
    "SearchOptions": ("search", {"data", "labels"}),
    "TuneOptions": ("tune", {"data", "labels"}),
    "ExportOptions": ("export", {"checkpoint", "best", "keras", "onnx"}),
    "CheckpointOptions": ("export", {"checkpoint", "keras", "onnx"}),
    "NetworkFileOptions": ("export", {"checkpoint", "network", "keras", "onnx"} | OF_COMPILED),
    "ReportOptions": ("report", set()),
    "FirmwareOptions": ("firmware", set()),
}
OWN = {"json", "output"}
MOST_CHOICES = 4  # that fit the line of a type; more are listed below it
COLUMNS = 100
WHOLE, REAL = ("N", "RANK", "STEPS"), ("X", "P", "D", "M", "T")  # names of values that are numbers
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


def choices_of(option: dict) -> list[str]:
    value = option["value"]
    return value.split("|") if re.fullmatch(r"[a-z0-9_/]+(\|[a-z0-9_/]+)+", value) else []


def said_type(option: dict) -> str:
    """Returns the type as a docstring says it."""
    value, choices = option["value"], choices_of(option)
    if not value:
        return "bool"
    if option["reads"]:
        return "path or data"
    if option["many"]:
        return "dict, or str or list of str" if "=" in value else "str or list of str"
    if choices:
        return "{" + ", ".join(map(repr, choices)) + "}" if len(choices) <= MOST_CHOICES else "str"
    return "int" if value in WHOLE else "float" if value in REAL else "int or str" if value == "BYTES" else "str"


def begun(sentence: str) -> str:
    """Returns the sentence with a capital letter, unless it begins with a value: "top1, topK", "auto: ..."."""
    return sentence if re.match(r"[\w/]+[,:]", sentence) else sentence[0].upper() + sentence[1:]


def entry_of(command: str, option: dict, options: dict[str, dict]) -> str:
    """Returns the entry of an option in a section of parameters: its keyword, type, default, form and effect."""
    help_text = re.sub(r"--(\{[a-z,]+\}list)-", r"\1_", " ".join(option["help"].split()))
    help_text = _spelling.in_keywords(command, help_text, options)
    default = "optional" if option["value"] else "default: False"
    found = re.fullmatch(r"(?P<text>.*?)\s*\[(?P<default>[^\[\]]*)\]", help_text)
    sentences = [found["text"] if found else help_text]
    if found and " " not in found["default"]:
        default = f"default: {found['default']}"
    choices = choices_of(option)
    if len(choices) > MOST_CHOICES:
        sentences.append(f"One of {', '.join(choices)}")
    elif not choices and not re.fullmatch(r"[A-Z]*", option["value"]):
        sentences.append(f"Form: {option['value']}")
    if found and " " in found["default"]:
        sentences.append(f"Default: {found['default']}")
    help_text = ". ".join(map(begun, filter(None, sentences))).removesuffix(".") + "."
    lines = textwrap.wrap(help_text, COLUMNS - 4, break_long_words=False, break_on_hyphens=False)
    head = f"{_spelling.keyword_of(option['name'])} : {said_type(option)}, {default}"
    return "\n".join([head, *("    " + line for line in lines)]) + "\n"


def class_text(name: str, base: str, options: list[dict]) -> str:
    fields = "".join(f"    {_spelling.keyword_of(option['name'])}: {type_of(option)} | None\n" for option in options)
    return f"\n\nclass {name}({base}, total=False):\n{fields}"


def main() -> int:
    folder, output = sys.argv[1:]
    sys.path.insert(0, folder)
    import _native

    commands = {command["name"]: command["options"] for command in json.loads(_native.commands())}
    classes, said = "", {}
    for name, (command, without) in CLASSES.items():
        by_keyword = {_spelling.keyword_of(option["name"]): option for option in commands[command]}
        taken = [option for option in commands[command] if option["name"] not in OWN | without]
        classes += class_text(name, "TypedDict", taken)
        said[name] = "".join(entry_of(command, option, by_keyword) for option in taken)
        if name == "ConvertOptions":  # nacre.graph takes these too
            more = [option for option in commands[command] if option["name"] in without]
            classes += class_text("GraphOptions", name, more)
            said["GraphOptions"] = "".join(entry_of(command, option, by_keyword) for option in more)
    text = f"{HEAD}{classes}\n\nPARAMETERS = {{\n"
    text += "".join(f"    {name!r}: {entries!r},\n" for name, entries in said.items())
    with open(output, "w", encoding="utf-8") as file:
        file.write(text + '}\n"""Entries of each class for a docstring\'s section of parameters."""\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
