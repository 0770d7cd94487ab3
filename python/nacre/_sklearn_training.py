"""The training of an estimator of nacre.sklearn: a Trainer that can be pickled, and the program of what it learned."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from . import _commands
from ._error import Error
from ._model import Model
from ._program import Program
from ._sklearn_network import gives_probabilities
from ._tensors import Array
from ._trainer import Trainer

_MOST_REFUSED = 10  # steps in a row without finite gradients, as for nacre tune


class Training:
    """A trainer and the program of its last export. A copy that was pickled goes on with the same bytes.

    `trained` is the model that trains, `exported` the tuned model for inference, or None before `export`.
    """

    def __init__(self, trained: Model, kernels: str, threads: int) -> None:
        self.trained = trained
        self.kernels = kernels
        self.threads = threads
        self.exported: Model | None = None
        self._state: dict[str, Array] | None = None

    def __getstate__(self) -> dict[str, Any]:
        kept = {key: value for key, value in vars(self).items() if key not in ("trainer", "program")}
        return {**kept, "_state": self.trainer.state_dict() if self._state is None else self._state}

    @cached_property
    def trainer(self) -> Trainer:
        """Returns the trainer. After unpickling it is made on first use, with the state that was pickled."""
        made = Trainer(self.trained, kernels=self.kernels, threads=self.threads)
        if self._state is not None:
            made.load_state_dict(self._state)
            self._state = None
        return made

    @cached_property
    def program(self) -> Program:
        assert self.exported is not None
        return Program(self.exported, kernels=self.kernels, threads=self.threads)

    @cached_property
    def gives_probabilities(self) -> bool:
        return gives_probabilities(self.trained)

    def seed(self, random: np.random.RandomState) -> None:
        """Seeds what the network draws, such as dropout. A network that draws nothing has no seed."""
        seed = self.trainer.state_dict().get("seed")
        if seed is not None:
            drawn = random.randint(0, 2**31 - 1, seed.shape).astype(seed.dtype)
            self.trainer.load_state_dict({"seed": drawn}, strict=False)

    def epoch(self, x: Array, y: Array, batch: int, rate: float) -> float:
        """Trains once on all rows in their order. Returns the mean loss of the steps that were applied.

        Raises nacre.Error if the training diverges.
        """
        total = samples = 0.0
        for first in range(0, len(x), batch):
            report = self.trainer.step(x[first : first + batch], y[first : first + batch], rate)
            if report.applied:
                total += report.loss * report.samples
                samples += report.samples
            elif report.overflow_at_floor or report.refused_in_row >= _MOST_REFUSED:
                raise Error(
                    f"the training diverges: {report.refused_in_row} steps in a row have no finite gradient; scale X"
                    " (StandardScaler), or lower learning_rate_init"
                )
        return total / samples if samples else float("nan")

    def export(self) -> Model:
        """Exports what was learned. `program` is of this model from now on."""
        self.exported = self.trainer.export()
        self.__dict__.pop("program", None)
        return self.exported


class Stopping:
    """Tells when a training has stopped to become better: `patience` values in a row not above the best by `least`."""

    def __init__(self, least: float, patience: int) -> None:
        self._least = least
        self._patience = patience
        self._best = -np.inf
        self._without = 0

    def better(self, value: float) -> bool:
        """Takes the value of an epoch, larger is better. Returns whether it is the best so far."""
        self._without = 0 if value > self._best + self._least else self._without + 1
        best = value > self._best
        self._best = max(value, self._best)
        return best

    @property
    def reached(self) -> bool:
        return self._without >= self._patience


def told(epoch: int, loss: float, score: float | None) -> None:
    """Logs an epoch to the logger "nacre", at INFO."""
    validation = "" if score is None else f", validation score {score:.4f}"
    _commands.LOG.info("epoch %d: loss %.6g%s", epoch, loss, validation)
