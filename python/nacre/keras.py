"""Callbacks for Keras, which must be installed."""

from __future__ import annotations

from typing import Any, Unpack

import keras  # type: ignore[import-not-found, import-untyped, unused-ignore]

from . import _commands
from ._convert import convert
from ._error import Error
from ._keywords import ConvertOptions
from ._model import Model


class DeployedSize(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Converts the network after every epoch as it would be deployed, and adds to Keras's logs.

    The logs get "deployed_bytes", the bytes of the model file, and "deployed_ram_bytes", the bytes of RAM that a run
    takes on `machine`. If `x` and `y` are given, they also get "deployed_accuracy", the value of `metric` on them.

    Parameters
    ----------
    x : array, dict of arrays, or path, optional
        Samples to judge the deployed network on, as for `nacre.Model.evaluate`.
    y : array or path, optional
        Labels of the samples.
    machine : str, default: "host"
        Machine that `nacre.Model.size` knows, such as "arm/m4".
    metric : str, default: "top1"
        Metric of "deployed_accuracy", as for `nacre.Model.evaluate`.
    quiet : bool, default: False
        Whether nothing is told after an epoch. Else the sizes are a record of the logger "nacre" at INFO, and a refusal
        a Warning.
    **options
        Options of `nacre.convert`: `policy="int8/static_from_float32"`, `calibrate=x`.

    Attributes
    ----------
    samples : tuple
        `x` and `y`.
    machine, metric, quiet
        The arguments of these names.
    options : dict
        Options of `nacre.convert`.
    deployed : Model or None
        The last model that was made.
    error : Error or None
        The refusal of the last epoch's network; None if it was converted. A refused network adds nothing to the logs,
        and the training goes on.

    Examples
    --------
    >>> import numpy as np
    >>> import keras
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32).reshape(-1, 64) / 16
    >>> labels = np.load("tools/samples/digits_labels.npy")
    >>> network = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(10, activation="softmax")])
    >>> network.compile("adam", "sparse_categorical_crossentropy")
    >>> deployed = nacre.keras.DeployedSize(x[:100], labels[:100], policy="int8_from_float32", quiet=True)
    >>> history = network.fit(x[:200], labels[:200], epochs=2, verbose=0, callbacks=[deployed]).history
    >>> len(history["deployed_bytes"]), deployed.error
    (2, None)
    """

    def __init__(
        self,
        x: object = None,
        y: object = None,
        *,
        machine: str = "host",
        metric: str = "top1",
        quiet: bool = False,
        **options: Unpack[ConvertOptions],
    ) -> None:
        super().__init__()
        self.samples = (x, y)
        self.machine = machine
        self.metric = metric
        self.quiet = quiet
        self.options: Any = options
        self.deployed: Model | None = None
        self.error: Error | None = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Converts and measures the network. Keras calls it after every epoch.

        Parameters
        ----------
        epoch : int
            Number of the epoch, which is not used.
        logs : dict, optional
            Keras's logs, which get the sizes.

        Raises
        ------
        Error
            The samples do not fit the deployed network.

        Warns
        -----
        Warning
            The network was refused, and `quiet` is false.

        Examples
        --------
        >>> import keras
        >>> import nacre
        >>> deployed = nacre.keras.DeployedSize(quiet=True)
        >>> deployed.set_model(keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)]))
        >>> logs = {}
        >>> deployed.on_epoch_end(0, logs)
        >>> sorted(logs)
        ['deployed_bytes', 'deployed_ram_bytes']
        """
        try:
            self.deployed = convert(self.model, **self.options)
            self.error = None
        except Error as error:
            self.error = error
            if not self.quiet:
                _commands.warn(f"not deployed: {error}")
            return
        size = self.deployed.size(self.machine)
        found: dict[str, Any] = {
            "deployed_bytes": size["file_bytes"],
            "deployed_ram_bytes": max(program["total"] for program in size["programs"]),
        }
        x, y = self.samples
        if x is not None and y is not None:
            found["deployed_accuracy"] = self.deployed.evaluate(x, y, metric=self.metric)["models"][0]["value"]
        if logs is not None:
            logs.update(found)
        if not self.quiet:
            facts = ", ".join(f"{name.removeprefix('deployed_')} {value}" for name, value in found.items())
            _commands.LOG.info("deployed: %s", facts)
