"""Callbacks for Keras, which must be installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ._error import Error
from ._model import Model, convert

if TYPE_CHECKING:
    from typing import Unpack

    from ._keywords import ConvertOptions


class DeployedSize(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Converts the network after every epoch as it would be deployed, and adds to Keras's logs:

        deployed_bytes       bytes of the model file
        deployed_ram_bytes   bytes of RAM that a run takes on `machine`: the largest of the model's programs
        deployed_accuracy    value of `metric` on x and y, if they are given

    x, y: samples and labels. machine: one that `nacre size` knows. metric: as for Model.evaluate. Other options are
    those of nacre.convert: policy="int8/static_from_float32", calibrate=x. `deployed` is the last model that was made.
    If an epoch's network is refused, `error` says why, and nothing is added to the logs.
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
        try:
            self.deployed = convert(self.model, **self.options)
            self.error = None
        except Error as error:
            self.error = error
            if not self.quiet:
                print(f"not deployed: {error}")
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
            print(
                "deployed: " + ", ".join(f"{name.removeprefix('deployed_')} {value}" for name, value in found.items())
            )
