#!/usr/bin/env python3
"""Checks the docstrings of the package's public names, and runs their examples: docstrings.py [MODULE...]

A docstring has a summary and NumPy's sections. They name the parameters of the signature, what is returned, exceptions
that exist, and every option of the command. Each docstring's examples run alone, in a folder that has nothing but the
checkout's tools/. Without names of modules, those of flower, keras, mpi and sklearn that cannot be imported
are left out;
tests/claims/guides_run.sh has Keras.
Prints the counts as one JSON object, or what is wrong, and ends with 1.
"""

import builtins
import dataclasses
import doctest
import functools
import importlib
import inspect
import json
import logging
import os
import pathlib
import re
import sys
import tempfile
import time
import types
import typing
import warnings

import nacre
from nacre import _keywords

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = ("policies", "updates")
NEEDY = ("flower", "keras", "mpi", "sklearn")  # modules that need more packages
SECTIONS = ("Parameters", "Other Parameters", "Attributes", "Returns", "Raises", "Warns", "Notes", "Examples")
OPENING = re.compile(r"(?:^|[.?!]\s+)(Of|What|Where|As|Those|Behind|The same)\b")
MOST_SECONDS = 10  # processor time of one docstring's examples
faults: list[str] = []


def public_members(of: type) -> dict[str, object]:
    """Returns the public methods and properties that the package itself defines, with __call__."""
    found: dict[str, object] = {}
    for base in reversed(of.__mro__):
        if base.__module__.partition(".")[0] == "nacre":
            found |= vars(base)
    kinds = (types.FunctionType, property, functools.cached_property)
    public = (name for name in found if name == "__call__" or not name.startswith("_"))
    return {name: found[name] for name in public if isinstance(found[name], kinds)}


def public_names(modules: list[str]) -> dict[str, object]:
    """Returns every public name of the package with its object, the members of classes included."""
    found: dict[str, object] = {"nacre": nacre}
    found |= {f"nacre.{name}": getattr(nacre, name) for name in nacre.__all__ if name != "version"}
    for module in modules:
        made = importlib.import_module(f"nacre.{module}")
        found[f"nacre.{module}"] = made
        for name, value in vars(made).items():
            if not name.startswith("_") and isinstance(value, (type, types.FunctionType)) and ours(value, made):
                found[f"nacre.{module}.{name}"] = value
    for name, value in list(found.items()):
        if isinstance(value, type):
            found |= {f"{name}.{member}": of_class for member, of_class in public_members(value).items()}
    return found


def ours(value: type | types.FunctionType, module: types.ModuleType) -> bool:
    return value.__module__ == module.__name__ or value.__name__ in getattr(module, "__all__", ())


def sections_of(text: str) -> dict[str, str]:
    """Returns the text before the first section, by "", and the text of each section by its title."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}$\n?", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2]))}


def entries_of(section: str) -> dict[str, str]:
    """Returns the names of a section's entries, each with its description."""
    found = {}
    for entry in re.findall(r"^(\S.*(?:\n(?: .*)?)*)", section, flags=re.MULTILINE):
        head, _, description = entry.partition("\n")
        for name in head.partition(" : ")[0].split(", "):
            found[name.lstrip("*")] = description.strip()
    return found


def parameters_of(value: object) -> list[str]:
    signature = inspect.signature(value)  # type: ignore[arg-type]
    return [name for name in signature.parameters if name != "self"]


def fault(name: str, sentence: str) -> None:
    faults.append(f"{name}: {sentence}")


def check_parameters(name: str, value: object, sections: dict[str, str]) -> int:
    """Compares the parameters, and the options of a command, with the signature. Returns the number of options."""
    named = entries_of(sections.get("Parameters", ""))
    wanted = parameters_of(value)
    if list(named) != wanted:
        fault(name, f"has the parameters {', '.join(wanted)}, and names {', '.join(named)}")
    function = value.__init__ if isinstance(value, type) else value  # type: ignore[misc]
    hints = typing.get_type_hints(function)
    options = hints.get("options")
    if options is None or name.endswith("DeployedSize"):  # its options are those of convert
        return 0
    keywords = typing.get_args(options)[0]
    others = entries_of(sections.get("Other Parameters", ""))
    own = list(keywords.__annotations__)
    if keywords is _keywords.GraphOptions:  # the others are those of convert
        own = [keyword for keyword in own if keyword not in _keywords.ConvertOptions.__annotations__]
    lacking = [keyword for keyword in own if not others.get(keyword)]
    if lacking or own != list(others):
        fault(name, f"lacks the options {', '.join(lacking)}" if lacking else "has other options than its type")
    return len(others)


def check_returns(name: str, function: types.FunctionType, sections: dict[str, str]) -> None:
    returns = typing.get_type_hints(function).get("return")
    if (returns is not type(None)) != ("Returns" in sections):
        fault(name, "has a section Returns, or has none, against its type")


def check_raises(name: str, sections: dict[str, str]) -> None:
    for title in ("Raises", "Warns"):
        for exception in entries_of(sections.get(title, "")):
            found = getattr(nacre, exception, None) or getattr(builtins, exception, None)
            if not (isinstance(found, type) and issubclass(found, BaseException)):
                fault(name, f"{title}: there is no exception {exception}")


def check(name: str, value: object) -> int:
    """Checks one docstring. Returns the number of a command's options in it."""
    text = inspect.getdoc(value) or ""
    if not text:
        fault(name, "has no docstring")
        return 0
    sections = sections_of(text)
    titles = [title for title in sections if title]
    if titles != [title for title in SECTIONS if title in titles]:
        fault(name, f"has the sections {', '.join(titles)}")
    if not text.split("\n\n")[0].rstrip().endswith((".", ":")):
        fault(name, "has no sentence for a summary")
    prose = "\n".join(part for title, part in sections.items() if title not in ("Other Parameters", "Examples"))
    if opened := OPENING.search(" ".join(prose.split())):
        fault(name, f"has a sentence that begins with {opened[1]}")
    check_raises(name, sections)
    if isinstance(value, types.ModuleType):
        return 0
    if "Examples" not in sections:
        fault(name, "has no example")
    if isinstance(value, type):
        if dataclasses.is_dataclass(value):
            fields = [field.name for field in dataclasses.fields(value)]
            if list(entries_of(sections.get("Attributes", ""))) != fields:
                fault(name, "names other attributes than its fields")
            return 0
        made_here = getattr(value.__init__, "__module__", "").partition(".")[0] == "nacre"  # type: ignore[misc]
        return check_parameters(name, value, sections) if made_here else 0
    function = value.fget if isinstance(value, property) else getattr(value, "func", value)
    check_returns(name, function, sections)
    return check_parameters(name, function, sections)


def run(name: str, value: object) -> tuple[int, float]:
    """Runs the examples of one docstring. Returns how many there are, and the seconds that they took."""
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(value) or "", {}, name, None, 0)
    if not test.examples:
        return 0, 0
    said: list[str] = []
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "tools").symlink_to(ROOT / "tools")
        before = os.getcwd()
        os.chdir(folder)
        try:
            result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
        finally:
            os.chdir(before)
    seconds = time.process_time() - began
    if result.failed:
        fault(name, "".join(said))
    if seconds > MOST_SECONDS:
        fault(name, f"its examples take {seconds:.1f} s")
    return result.attempted, seconds


def main() -> int:
    modules, left_out = sys.argv[1:], []
    for module in () if modules else NEEDY:
        try:
            importlib.import_module(f"nacre.{module}")
            modules.append(module)
        except ImportError:
            left_out.append(module)
    names = public_names([*(() if sys.argv[1:] else MODULES), *modules])
    if sys.argv[1:]:  # these modules alone
        names = {name: value for name, value in names.items() if name.split(".")[1:2] and name.split(".")[1] in modules}
    warnings.simplefilter("error", nacre.Warning)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    options = examples = 0
    slowest = ("", 0.0)
    for name, value in names.items():
        options += check(name, value)
        count, seconds = run(name, value)
        examples += count
        slowest = max(slowest, (name, seconds), key=lambda each: each[1])
    if faults:
        print("\n".join(faults))
        return 1
    facts = {"names": len(names), "examples": examples, "options": options, "left_out": left_out}
    print(json.dumps({**facts, "slowest": slowest[0], "processor_seconds": round(slowest[1], 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
