"""Nacre converts, runs and trains neural networks without a heap, each layer with a numeric policy.

    import nacre
    m = nacre.convert("net.onnx", policy="int8/static_from_float32", calibrate=x)
    y = nacre.Program(m)(x)
    m.save("net.nacre")

The package is the library of the command `nacre` and of a device's firmware: it gives the same bytes and numbers.
"""

from __future__ import annotations

from typing import Any

from . import _commands, policies, updates
from ._error import Error, Warning
from ._machine import doctor
from ._model import Layer, Model, ProgramInfo, convert, evaluate, graph, load, report
from ._native import version
from ._program import Program
from ._tensors import TensorInfo
from ._trainer import StepReport, Trainer
from ._training import Tuned, search, tune

__version__ = version

__all__ = [
    "Error",
    "Layer",
    "Model",
    "Program",
    "ProgramInfo",
    "StepReport",
    "TensorInfo",
    "Trainer",
    "Tuned",
    "Warning",
    "convert",
    "doctor",
    "evaluate",
    "graph",
    "load",
    "policies",
    "report",
    "search",
    "set_progress",
    "tune",
    "updates",
    "version",
]


def set_progress(told: _commands.Progress | None) -> None:
    """Calls `told(what, done, total)` while long calls work. None shows a bar in notebooks, elsewhere nothing."""
    if told is not None and not callable(told):
        raise TypeError(f"progress is told to a function, not to {type(told).__name__}")
    _commands.progress = told


def __getattr__(name: str) -> Any:
    if name in ("flower", "keras", "mpi"):
        import importlib

        return importlib.import_module(f"nacre.{name}")  # imports Flower, Keras or mpi4py, which takes seconds
    raise AttributeError(f"module 'nacre' has no attribute {name!r}")


for _function, _command in ((convert, "convert"), (tune, "tune"), (search, "search"), (evaluate, "eval")):
    _without = ("json", "output", "help", "data", "labels")
    _function.__doc__ = f"{_function.__doc__}\n{_commands.help_of(_command, _without)}"
