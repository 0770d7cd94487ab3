"""Checks arguments that the library takes without conversion. A wrong one raises an error of one sentence."""

from __future__ import annotations

import math
import operator
import os
from typing import Any

import numpy as np

from ._error import Error


_LEARNING_RATE = 100  # nacre::Code::kLearningRate: what the engine would say


def whole(name: str, value: Any, lowest: int, highest: int) -> int:
    """Returns a whole number. Raises TypeError if it is not whole, ValueError if it is out of range."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number from {lowest} to {highest}, not {value!r}") from None
    if not lowest <= number <= highest:
        raise ValueError(f"{name} is {number}, not from {lowest} to {highest}")
    return number


def one_of(name: str, value: Any, choices: list[str]) -> str:
    if isinstance(value, str) and value in choices:
        return value
    raise ValueError(f"{name} is {value!r}, not one of {', '.join(choices)}")


def text(name: str, value: Any) -> str:
    """Returns a text. Raises TypeError if it is not a text, or if UTF-8 cannot encode it."""
    try:
        if isinstance(value, str):
            value.encode()
            return value
    except UnicodeEncodeError:
        pass
    raise TypeError(f"{name} is a text, not {value!r}")


def rate(value: Any) -> float:
    """Returns a learning rate. Raises TypeError if it is not a number, nacre.Error if no step can use it."""
    try:
        if value is None or isinstance(value, (str, bytes)):
            raise TypeError
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise TypeError(f"lr is a number, not {value!r}") from None
    if not 0 <= number <= float(np.finfo(np.float32).max):
        sentence = f"lr is {number}: the learning rate must be finite, in float32 too, and not negative"
        raise Error(sentence, 2, _LEARNING_RATE, "LearningRate")
    return number


def path(value: str | bytes | os.PathLike[Any]) -> bytes:
    """Returns a path in the system's form. Raises TypeError if it is not a path, ValueError if it cannot be one."""
    made = os.fsencode(value)
    if not made or b"\0" in made:
        raise ValueError(f"a path is not empty and has no null character: {value!r}")
    return made
