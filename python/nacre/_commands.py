"""Runs the commands of the tool in this process. Keywords become its options, arrays become files for one call."""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from . import _files, _keywords, _native, _progress, _spelling
from ._error import Error, Warning
from ._result import Result

LOG = logging.getLogger("nacre")
LOG.addHandler(logging.NullHandler())

Function = TypeVar("Function", bound=Callable[..., object])


@functools.cache
def table() -> dict[str, dict[str, Any]]:
    """Returns every command but completions and man, by name, each with its options as the command line has them."""
    return {command["name"]: command for command in json.loads(_native.commands())}


@functools.cache
def options_of(command: str) -> dict[str, dict[str, Any]]:
    """Returns the options of a command by their keywords."""
    return {_spelling.keyword_of(option["name"]): option for option in table()[command]["options"]}


def in_keywords(command: str, sentence: str) -> str:
    """Returns a sentence of the command line with the keywords of this command in place of its options."""
    return _spelling.in_keywords(command, sentence, options_of(command))


def documented(keywords: str) -> Callable[[Function], Function]:
    """Returns a decorator that adds the keywords of a class in _keywords.py to a docstring: its section Other
    Parameters. Without docstrings (python -OO) it adds nothing."""

    def add(function: Function) -> Function:
        text = inspect.getdoc(function)
        if text:
            before, after = re.split(r"\n\n(?=(?:Returns|Raises)\n-+\n)", text, maxsplit=1)
            section = f"Other Parameters\n----------------\n{_keywords.PARAMETERS[keywords]}"
            function.__doc__ = f"{before}\n\n{section}\n{after}\n"
        return function

    return add


def run(
    command: str,
    arguments: Sequence[str],
    options: Mapping[str, object],
    folder: _files.Folder,
    *,
    own: Mapping[str, object] | None = None,
    without: Sequence[str] = (),
    epoch: Callable[[str], object] | None = None,
) -> str:
    """Runs a command and returns the text that it prints. Its notices become records of the logger "nacre", at INFO,
    and its warnings Python warnings, both at once. `own`: options that the package sets itself, and that its user
    cannot give.

    Raises TypeError for an option that the command lacks or that cannot be given (`without` too), and Error.
    """
    own = own or {}
    words = [command, *(path if not path.startswith("-") else os.path.join(".", path) for path in arguments)]
    for keyword in options:
        if keyword not in options_of(command) or keyword in without or keyword in own:
            raise TypeError(_unknown(command, keyword, (*without, *own)))
    for keyword, value in (*own.items(), *options.items()):
        words += _words(options_of(command)[keyword], value, folder)
    if any("\0" in word for word in words):
        raise ValueError(f"nacre {command}: a path or an option with a null character")

    bar = _progress.bar()

    def notice(line: str, wrong: bool) -> None:
        if bar:
            bar.hide()
        tell(folder.without(in_keywords(command, line)), wrong)

    def ended(record: str) -> object:
        assert epoch is not None
        if bar:
            bar.hide()
        return epoch(record)

    try:
        told = _progress.chosen or bar
        printed = _native.run([os.fsencode(word) for word in words], told, ended if epoch else None, notice)
    except Error as error:
        raise error.replaced(folder.without(in_keywords(command, str(error)))) from None
    finally:
        if bar:
            bar.clear()
    return folder.without(printed)


def tell(sentence: str, wrong: bool) -> None:
    """Makes a notice of the library a warning if something is wrong, else a record of the logger."""
    if wrong:
        warn(sentence)
    else:
        LOG.info("%s", sentence)


def warn(sentence: str) -> None:
    warnings.warn(sentence, Warning, stacklevel=_caller_level())


def run_json(
    command: str,
    arguments: Sequence[str],
    options: Mapping[str, object],
    folder: _files.Folder,
    *,
    own: Mapping[str, object] | None = None,
    **more: Any,
) -> Result:
    own = {**(own or {}), "json": True}
    return Result(command, json.loads(run(command, arguments, options, folder, own=own, **more)))


def _words(option: Mapping[str, Any], value: object, folder: _files.Folder) -> list[str]:
    name = "--" + option["name"]
    if value is None or value is False:
        return []
    if not option["value"]:
        if value is not True:
            raise TypeError(f"{_spelling.keyword_of(option['name'])} is True or False, not {value!r}")
        return [name]
    if value is True:
        raise TypeError(f"{_spelling.keyword_of(option['name'])} takes a value: {option['value']}")
    if option["many"] and isinstance(value, (list, tuple)) and all(map(_files.is_path, value)):
        return [f"{name}={os.fsdecode(each)}" for each in value]
    if option["reads"]:
        return [f"{name}={folder.data(option['name'], value)}"]
    return [f"{name}={text}" for text in _files.texts_of(value)]


def _caller_level() -> int:
    """Returns the stack level, for warnings.warn, of the first frame outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "nacre":
        frame, level = frame.f_back, level + 1
    return level


def _unknown(command: str, keyword: str, without: Sequence[str]) -> str:
    names = [name for name in options_of(command) if name not in without]
    near = difflib.get_close_matches(keyword, names, 1)
    return f"nacre {command} has no option {keyword!r}" + (f": did you mean {near[0]!r}?" if near else "")
