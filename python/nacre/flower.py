"""Federated training with Flower (flwr, which must be installed): devices send trained parameters by name, and no data.

A device runs `client` as its ClientApp. The server wraps a strategy of Flower in `Checked`, in its ServerApp:

    app = nacre.flower.client(device, lr=0.02)                # device(context) -> trainer, x, y

    server = flwr.serverapp.ServerApp()
    @server.main()
    def main(grid, context):
        trainer = nacre.Trainer(model)
        strategy = nacre.flower.Checked(FedAvg(fraction_evaluate=0), trainer)
        result = strategy.start(grid, nacre.flower.arrays(trainer), num_rounds=20)
        nacre.flower.load(trainer, result.arrays)
        trainer.export().save("tuned.nacre")

Attributes
----------
Device : type
    Type of a function of Flower's Context that returns (trainer, x, y).
Evaluate : type
    Type of a function of (trainer, x, y) that returns metrics by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import ArrayRecord, Context  # type: ignore[import-not-found, import-untyped, unused-ignore]
from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp  # type: ignore[import-not-found, import-untyped, unused-ignore]

from . import updates
from ._flower_records import only_arrays, received, sent
from ._flower_strategy import Checked, Refusal
from ._trainer import Trainer

__all__ = ["Checked", "Device", "Evaluate", "Refusal", "arrays", "client", "load"]

Device = Callable[[Context], tuple[Trainer, Any, Any]]
Evaluate = Callable[[Trainer, Any, Any], Mapping[str, float]]


def arrays(trainer: Trainer) -> ArrayRecord:
    """Returns the trained parameters by name, as Flower sends them.

    Parameters
    ----------
    trainer : Trainer
        The trainer.

    Returns
    -------
    flwr.app.ArrayRecord
        The `initial_arrays` of a strategy. Numbers of 16 bits become float32.

    Examples
    --------
    >>> import nacre
    >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1)
    >>> sorted(nacre.flower.arrays(nacre.Trainer(model)))
    ['fc.bias', 'fc.weight']
    """
    return sent(trainer.parameters())


def load(trainer: Trainer, record: ArrayRecord) -> None:
    """Loads parameters from Flower into a trainer.

    Parameters
    ----------
    trainer : Trainer
        The trainer.
    record : flwr.app.ArrayRecord
        Parameters by name, such as `result.arrays` of a strategy.

    Raises
    ------
    Error
        The parameters are refused, as by `nacre.updates.check`. Nothing changes.

    Examples
    --------
    >>> import nacre
    >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1)
    >>> trainer = nacre.Trainer(model)
    >>> nacre.flower.load(trainer, nacre.flower.arrays(trainer))
    """
    trainer.load_state_dict(updates.check(received(record), trainer.parameters()), strict=False)


def client(
    trainer: Trainer | Device,
    data: tuple[Any, Any] | None = None,
    *,
    lr: float = 0.01,
    epochs: int = 1,
    evaluate: Evaluate | None = None,
    mods: list[Any] | None = None,
) -> ClientApp:
    """Returns a ClientApp that trains as `nacre.updates.train_round` does, and sends the trained parameters alone.

    Parameters
    ----------
    trainer : Trainer or callable
        The trainer of a device that is one process. In a simulation one program is all devices: then a function that
        takes Flower's Context (`context.node_config["partition-id"]`) and returns (trainer, x, y). Flower pickles the
        function, and a Trainer cannot be pickled, so make the Trainer inside it.
    data : tuple, optional
        (x, y) of the device, with a Trainer. A function brings its own.
    lr : float, default: 0.01
        Learning rate, unless the server's `train_config` has "lr".
    epochs : int, default: 1
        Passes over the data in a round, unless the server's `train_config` has "local-epochs".
    evaluate : callable, optional
        Called as `evaluate(trainer, x, y)` with the server's parameters loaded; returns metrics by name. Without it the
        strategy takes `fraction_evaluate=0`.
    mods : list, optional
        Mods of Flower's ClientApp.

    Returns
    -------
    flwr.clientapp.ClientApp
        The app. Its metrics of training are "num-examples", "loss" and "refused-steps".

    Raises
    ------
    TypeError
        A Trainer comes without data, a function with data, or `trainer` is neither.

    Notes
    -----
    The server's parameters are checked by name, shape and value. If they are refused, or if training leaves a value
    that is not finite, the device raises `nacre.Error` and the server gets a failed reply: the round goes on without
    it.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> labels = np.load("tools/samples/digits_labels.npy")
    >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1)
    >>> app = nacre.flower.client(nacre.Trainer(model), (x[:40], labels[:40]), lr=0.02)
    >>> type(app).__name__
    'ClientApp'
    """
    if isinstance(trainer, Trainer):
        if data is None:
            raise TypeError("client(trainer, data) needs the data (x, y) of this device")
        own = (trainer, *data)
        device: Device = lambda context: own
    elif data is not None or not callable(trainer):
        raise TypeError("client takes a nacre.Trainer and (x, y), or a function of Flower's Context alone")
    else:
        device = trainer
    app = ClientApp(mods=mods)

    @app.train()  # type: ignore[untyped-decorator, unused-ignore]
    def train(message: Message, context: Context) -> Message:
        mine, x, y = device(context)
        config: Any = next(iter(message.content.config_records.values()), {})
        made = updates.train_round(
            mine,
            received(only_arrays(message)),
            x,
            y,
            lr=float(config.get("lr", lr)),
            epochs=int(config.get("local-epochs", epochs)),
        )
        metrics: dict[str, Any] = {"num-examples": made.samples, "loss": made.loss, "refused-steps": made.refused_steps}
        return Message(RecordDict({"arrays": sent(made.update), "metrics": MetricRecord(metrics)}), reply_to=message)

    if evaluate is not None:

        @app.evaluate()  # type: ignore[untyped-decorator, unused-ignore]
        def evaluated(message: Message, context: Context) -> Message:
            mine, x, y = device(context)
            load(mine, only_arrays(message))
            metrics: dict[str, Any] = {"num-examples": len(y)} | {
                name: float(value) for name, value in evaluate(mine, x, y).items()
            }
            return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)

    return app
