"""Nacre converts, runs and trains neural networks without a heap, each layer with a numeric policy.

The package is the library of the command `nacre` and of a device's firmware: it gives the same bytes and numbers.

Attributes
----------
version : str
    Version of the package and of the library.
flower, keras, mpi, sklearn
    Modules that need Flower, Keras, mpi4py or scikit-learn. The first use imports them.

Notes
-----
Notices of the library are records of the logger "nacre", at the level INFO: `logging.basicConfig(level="INFO")` shows
them. A sentence about something wrong is a `nacre.Warning`, and a refusal a `nacre.Error`.

Examples
--------
>>> import numpy as np
>>> import nacre
>>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
>>> m = nacre.convert("tools/samples/digits.onnx", policy="int8/static_from_float32", calibrate=x[:64])
>>> y = nacre.Program(m)(x)
>>> m.save("digits.nacre")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _progress, policies, updates
from ._convert import convert, evaluate, graph, load, report
from ._error import Error, Warning
from ._infos import Layer, ProgramInfo, TensorInfo
from ._machine import doctor
from ._model import Model
from ._native import version
from ._profile import Profile, StepTime
from ._program import Program
from ._reports import compare, export, export_network, inspect, kernels, size
from ._result import Result
from ._step_report import StepReport
from ._trainer import Trainer
from ._training import Tuned, search, tune

__version__ = version

__all__ = [
    "Error",
    "Layer",
    "Model",
    "Profile",
    "Program",
    "ProgramInfo",
    "Result",
    "StepReport",
    "StepTime",
    "TensorInfo",
    "Trainer",
    "Tuned",
    "Warning",
    "compare",
    "convert",
    "doctor",
    "evaluate",
    "export",
    "export_network",
    "graph",
    "inspect",
    "kernels",
    "load",
    "policies",
    "report",
    "search",
    "set_progress",
    "size",
    "tune",
    "updates",
    "version",
]


def set_progress(told: _progress.Progress | None) -> None:
    """Sets the function that is called while long calls work.

    Parameters
    ----------
    told : callable or None
        Called as `told(what, done, total)`: what is under way, how much of it is done, and of how much. An exception
        that it raises ends the call. None shows a bar in notebooks and, if the package tqdm is installed, on a terminal
        (`pip install 'nacre[progress]'`). Nothing is shown if standard error is no terminal.

    Raises
    ------
    TypeError
        `told` cannot be called.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> labels = np.load("tools/samples/digits_labels.npy")
    >>> seen = []
    >>> nacre.set_progress(lambda what, done, total: seen.append(what))
    >>> options = {"policies": ["float32", "bfloat16"], "budget": 5, "max_drop": 1}
    >>> found = nacre.search("tools/samples/digits.onnx", x[:40], labels[:40], **options)
    >>> nacre.set_progress(None)
    >>> "search" in seen
    True
    """
    if told is not None and not callable(told):
        raise TypeError(f"progress is told to a function, not to {type(told).__name__}")
    _progress.chosen = told


if TYPE_CHECKING:
    from . import flower as flower
    from . import keras as keras
    from . import mpi as mpi
    from . import sklearn as sklearn
else:

    def __getattr__(name: str) -> object:
        if name in ("flower", "keras", "mpi", "sklearn"):
            import importlib

            return importlib.import_module(f"nacre.{name}")  # imports its package, which takes seconds
        raise AttributeError(f"module 'nacre' has no attribute {name!r}")
