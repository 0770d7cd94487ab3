"""Runs whole trainings and searches, as the commands `nacre tune` and `nacre search`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _commands, _files
from ._model import Model

if TYPE_CHECKING:
    from typing import Unpack

    from ._keywords import SearchOptions, TuneOptions
    from ._model import Network

Epoch = dict[str, Any]


@dataclass(frozen=True)
class Tuned:
    """Result of a training."""

    model: Model
    """The tuned network, for inference: what `nacre tune -o` writes."""
    epochs: list[Epoch]
    """One per epoch: epoch, steps, refused, learning_rate, loss_scale, loss, accuracy, validation_loss, ..."""
    summary: dict[str, Any]
    """All that `nacre tune --json` says."""


def tune(
    model: Model | Network,
    x: object,
    y: object = None,
    *,
    callback: Callable[[Epoch], object] | None = None,
    **options: Unpack[TuneOptions],
) -> Tuned:
    """Trains on labelled data, as `nacre tune` with the same options: shuffles, validates, stops early.

    model: a Model of convert(..., train=LOSS), a path, or a network with loss=LOSS. x: rows, an array, a dict of one per
    input, or a file. y: labels; None means that x has them. callback: called after every epoch; if it returns
    False, the training ends with that epoch. Ctrl-C ends it with KeyboardInterrupt. With checkpoint=DIR the learned
    state is saved there, and the same call continues from it.

    Raises nacre.Error if the training diverges, or if data or an option is refused.
    """

    def told(record: str) -> object:
        assert callback is not None
        answer = callback(json.loads(record))
        return False if isinstance(answer, np.bool_) and not answer else answer

    if callback is not None and not callable(callback):
        raise TypeError(f"callback is a function of an epoch, not {type(callback).__name__}")

    with _files.Folder() as folder:
        source = folder.write(model.name, model.to_bytes()) if isinstance(model, Model) else folder.network(model)
        made = folder.path("tuned.nacre")
        own = {"data": x, "labels": y, "output": made}
        said = _commands.run_json("tune", [source], options, folder, own=own, epoch=told if callback else None)
        with open(made, "rb") as file:
            return Tuned(Model(file.read(), "tuned.nacre"), said["epochs"], said)


def search(network: Network, x: object, y: object, **options: Unpack[SearchOptions]) -> dict[str, Any]:
    """Finds, by measuring, the policy map that makes a network smallest within limits, as `nacre search --json`.

    ["map"] is for convert(network, policy_file=map). Raises nacre.Error if no measured map meets the limits.
    """
    with _files.Folder() as folder:
        made = folder.path("map.json")
        own = {"data": x, "labels": y, "output": made}
        found = _commands.run_json("search", [folder.network(network)], options, folder, own=own)
        with open(made, encoding="utf-8") as file:
            return {**found, "map": json.load(file)}
