"""Runs whole trainings and searches, as the commands `nacre tune` and `nacre search`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from . import _commands, _files
from ._files import Network
from ._keywords import SearchOptions, TuneOptions
from ._model import Model
from ._result import Axes, DataFrame, Result

Epoch = dict[str, Any]


@dataclass(frozen=True)
class Tuned:
    """The result of a training.

    Attributes
    ----------
    model : Model
        The tuned network for inference: the file that `nacre tune -o` writes.
    epochs : list of dict
        One entry for each epoch. Its keys are "epoch" (from 1), "steps", "refused", "learning_rate", "loss_scale",
        "loss", "accuracy", "validation_loss" and "validation_accuracy". A number that is not there is None.
    summary : Result
        Everything that `nacre tune --json` prints. Among the keys are "rows", "batch", "steps", "kept_epoch",
        "stopped_early" and "warnings".

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> labels = np.load("tools/samples/digits_labels.npy")
    >>> options = {"loss": "softmax_cross_entropy", "epochs": 2, "lr": 1e-3}
    >>> tuned = nacre.tune("tools/samples/digits.onnx", x[:128], labels[:128], **options)
    >>> [epoch["epoch"] for epoch in tuned.epochs], tuned.summary["rows"]
    ([1, 2], 128)
    """

    model: Model
    epochs: list[Epoch]
    summary: Result

    def to_pandas(self, table: str | None = None) -> DataFrame:
        """Returns a table of `summary` as a DataFrame of pandas.

        Parameters
        ----------
        table : str, optional
            "epochs", or "trained", the tensors that were trained. If left out, the epochs.

        Returns
        -------
        pandas.DataFrame
            A row for each epoch or tensor.

        Raises
        ------
        ImportError
            pandas is not installed.
        ValueError
            There is no table of this name.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> labels = np.load("tools/samples/digits_labels.npy")
        >>> options = {"loss": "softmax_cross_entropy", "epochs": 2, "lr": 1e-3}
        >>> nacre.tune("tools/samples/digits.onnx", 16 - x[:64], labels[:64], **options).to_pandas()["epoch"].tolist()
        [1, 2]
        """
        return self.summary.to_pandas(table)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draws the loss of training and validation by epoch.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Axes to draw in. If left out, those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            matplotlib is not installed.

        Examples
        --------
        >>> import matplotlib
        >>> import numpy as np
        >>> import nacre
        >>> matplotlib.use("agg")
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> labels = np.load("tools/samples/digits_labels.npy")
        >>> options = {"loss": "softmax_cross_entropy", "epochs": 2, "lr": 1e-3}
        >>> nacre.tune("tools/samples/digits.onnx", 16 - x[:64], labels[:64], **options).plot().get_xlabel()
        'epoch'
        """
        return self.summary.plot(axes)

    def _repr_html_(self) -> str:
        return self.summary._repr_html_()


@_commands.documented("TuneOptions")
def tune(
    model: Model | Network,
    x: object,
    y: object = None,
    *,
    callback: Callable[[Epoch], object] | None = None,
    **options: Unpack[TuneOptions],
) -> Tuned:
    """Trains on labelled data, as `nacre tune` with the same options: shuffles, validates, and stops early.

    Parameters
    ----------
    model : Model, path, bytes, onnx.ModelProto or keras.Model
        A model of `nacre.convert(..., train=LOSS)`, or a network. A network needs the option `loss`, unless its Keras
        file was compiled with a loss.
    x : array, dict of arrays, or path
        Rows to train on: an array for the only input, a dict with an array for each input, or a file.
    y : array or path, optional
        Labels or targets. If left out, `x` has them, as the option `labels` of the command finds them.
    callback : callable, optional
        Called after every epoch with its entry of `Tuned.epochs`. If it returns False, the training ends with that
        epoch. An exception that it raises ends the training and is raised by `tune`.
    **options
        Options of `nacre tune` by keyword. An option that is None counts as not given. With `checkpoint=DIR` the
        training is saved there, and the same call continues from it.

    Returns
    -------
    Tuned
        The tuned model, and what each epoch measured.

    Raises
    ------
    Error
        The training diverges, or data or an option is refused.
    TypeError
        There is no option of this name, or an argument is of another kind.
    KeyboardInterrupt
        Ctrl-C was pressed. With `checkpoint` the training is saved first.

    Warns
    -----
    Warning
        The loss only rose, a checkpoint is not whole, or a log could not be written.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> labels = np.load("tools/samples/digits_labels.npy")
    >>> options = {"loss": "softmax_cross_entropy", "epochs": 5, "optimizer": "adam", "lr": 1e-3, "validate": 0.25}
    >>> tuned = nacre.tune("tools/samples/digits.onnx", 16 - x[:512], labels[:512], **options)
    >>> tuned.epochs[-1]["validation_loss"] < tuned.epochs[0]["validation_loss"]
    True
    >>> tuned.model.save("tuned.nacre")
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


@_commands.documented("SearchOptions")
def search(network: Network, x: object, y: object, **options: Unpack[SearchOptions]) -> Result:
    """Finds, by measuring, the policies of layers that make a network smallest within limits.

    Parameters
    ----------
    network : str, path-like, bytes-like, onnx.ModelProto or keras.Model
        The network, as for `nacre.convert`.
    x : array, dict of arrays, or path
        Samples, stacked on axis 0. An array for the only input, a dict with an array for each input, or a file .npy or
        .npz.
    y : array or path
        A label for each sample, or targets for `metric="mse"` and `"mae"`.
    **options
        Options of `nacre search` by keyword. An option that is None counts as not given.

    Returns
    -------
    Result
        "map" has the policy of each layer, for `nacre.convert(network, policy_file=map)`. The other keys are those of
        `nacre search --json`: "rows" has each map that was measured, "sensitivity" each layer alone, "reference" the
        first policy.

    Raises
    ------
    Error
        No map that was measured meets the limits (`exit_code` 1), or the network, data or an option is refused.
    TypeError
        There is no option of this name, or an argument is of another kind.
    KeyboardInterrupt
        Ctrl-C was pressed.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> labels = np.load("tools/samples/digits_labels.npy")
    >>> options = {"policies": ["float32", "int8_from_float32"], "budget": 10, "max_drop": 0.1}
    >>> found = nacre.search("tools/samples/digits.onnx", x[:40], labels[:40], **options)
    >>> small = nacre.convert("tools/samples/digits.onnx", policy_file=found["map"])
    >>> len(small.to_bytes()) < len(nacre.convert("tools/samples/digits.onnx").to_bytes())
    True
    """
    with _files.Folder() as folder:
        made = folder.path("map.json")
        own = {"data": x, "labels": y, "output": made}
        found = _commands.run_json("search", [folder.network(network)], options, folder, own=own)
        with open(made, encoding="utf-8") as file:
            found["map"] = json.load(file)
    return found
