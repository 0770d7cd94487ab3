"""Tells how long the steps of a program take."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class StepTime:
    """Tells how long one step of a program takes, and which kernel runs it.

    Attributes
    ----------
    step : int
        Number of the step in the program, from 0.
    layer : str
        Layer of the network that the step belongs to, or "".
    op : str
        Operator of the step, such as "dense".
    types : str
        Element types of its operands.
    kernel : str
        Kernel that runs it, with its set: "avx2/dense_f32".
    us : float
        Median time in microseconds. It includes reading the clock.
    on_gpu : bool
        Whether the GPU's clock measured it.
    roof_us : float or None
        Least possible time on this machine, by its arithmetic and its memory. None if it is not known.
    multiply_accumulates : int
        Multiply-accumulates of the step.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> program = nacre.Program(nacre.convert("tools/samples/digits.onnx"), kernels="reference")
    >>> program.profile(np.zeros((1, 1, 8, 8), np.float32)).steps[-1].kernel
    'reference/softmax_f32'
    """

    step: int
    layer: str
    op: str
    types: str
    kernel: str
    us: float
    on_gpu: bool
    roof_us: float | None
    multiply_accumulates: int


@dataclass(frozen=True)
class Profile:
    """Tells how long the runs of a program take, and each of its steps.

    Attributes
    ----------
    steps : tuple of StepTime
        Steps in the order in which they run.
    median_us : float
        Median time of a whole run in microseconds.
    first_us : float
        Time of the first run.
    runs : int
        Number of runs that were timed, after as many to warm up.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> program = nacre.Program(nacre.convert("tools/samples/digits.onnx"))
    >>> profile = program.profile(np.zeros((1, 1, 8, 8), np.float32), runs=5)
    >>> len(profile.steps) == program.info.steps, profile.runs
    (True, 5)
    """

    steps: tuple[StepTime, ...]
    median_us: float
    first_us: float
    runs: int


def profile_of(text: str) -> Profile:
    """Returns the profile that `nacre bench --profile --json` would print as this text."""
    about = json.loads(text)
    steps = tuple(
        StepTime(
            row["step"],
            row["layer"],
            row["op"],
            row["types"],
            row["kernel"],
            row["us"],
            row.get("clock") == "gpu",
            row.get("roof_us"),
            row.get("multiply_accumulates", 0),
        )
        for row in about["steps"]
    )
    return Profile(steps, about["median_us"], about["first_us"], about["runs"])
