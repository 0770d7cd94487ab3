"""Federated training with Flower (flwr, which must be installed): devices send trained parameters by name, and no data.

app = nacre.flower.client(device, lr=0.02)                    # a flwr ClientApp; device(context) -> trainer, x, y

server = flwr.serverapp.ServerApp()
@server.main()
def main(grid, context):
    trainer = nacre.Trainer(model)
    strategy = nacre.flower.Checked(FedAvg(fraction_evaluate=0), trainer)
    result = strategy.start(grid, nacre.flower.arrays(trainer), num_rounds=20)
    nacre.flower.load(trainer, result.arrays)
    trainer.export().save("tuned.nacre")
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array as FlowerArray  # type: ignore[import-not-found, import-untyped, unused-ignore]
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp  # type: ignore[import-not-found, import-untyped, unused-ignore]
from flwr.serverapp import Grid  # type: ignore[import-not-found, import-untyped, unused-ignore]
from flwr.serverapp.strategy import Strategy  # type: ignore[import-not-found, import-untyped, unused-ignore]

from . import updates
from ._error import Error
from ._tensors import Array
from ._trainer import Trainer

_LOG = logging.getLogger("flwr")

# Flower sums weights as floats, which count exactly up to here. Far larger weights would make the sum infinite, and the
# average 0.
_MOST_SAMPLES = 2**53

Device = Callable[[Context], tuple[Trainer, Any, Any]]
Evaluate = Callable[[Trainer, Any, Any], Mapping[str, float]]


def _sent(update: Mapping[str, Array]) -> ArrayRecord:
    """Returns the update as Flower sends it. 16-bit numbers become float32, because Flower sends NumPy arrays, and
    NumPy has no bfloat16."""
    return ArrayRecord(
        {
            name: FlowerArray(np.ascontiguousarray(array if array.dtype.itemsize != 2 else array.astype(np.float32)))
            for name, array in update.items()
        }
    )


def _received(record: ArrayRecord) -> dict[str, Array]:
    made: dict[str, Array] = {}
    for name, array in record.items():
        try:
            made[name] = array.numpy()
        except Exception:  # any kind, because the bytes come from outside
            raise updates.refused(f"{name}: its bytes in the update are no array") from None
    return made


def arrays(trainer: Trainer) -> ArrayRecord:
    """Returns the trained parameters by name, as Flower sends them: initial_arrays of a strategy."""
    return _sent(trainer.parameters())


def load(trainer: Trainer, record: ArrayRecord) -> None:
    """Loads parameters from Flower into the trainer. Raises nacre.Error as nacre.updates.check does: then nothing
    changes."""
    trainer.load_state_dict(updates.check(_received(record), trainer.parameters()), strict=False)


def client(
    trainer: Trainer | Device,
    data: tuple[Any, Any] | None = None,
    *,
    lr: float = 0.01,
    epochs: int = 1,
    evaluate: Evaluate | None = None,
    mods: list[Any] | None = None,
) -> ClientApp:
    """Returns a ClientApp that trains as nacre.updates.train_round does and sends back the trained parameters alone.

    trainer, data: a Trainer and (x, y), for a device that is one process. For a simulation, in which one program is
    all devices, `trainer` is a function that takes Flower's Context (context.node_config["partition-id"]) and returns
    (trainer, x, y). Flower pickles the function, and a Trainer cannot be pickled, so make the Trainer inside it. lr,
    epochs: used unless the server's train_config has "lr" and "local-epochs". evaluate(trainer, x, y): metrics of the
    server's parameters on this device's data; without it the strategy takes fraction_evaluate=0.

    The server's parameters are checked by name, shape and value. If they are refused, or if training leaves a value
    that is not finite, this device raises a nacre.Error and the server gets a failed reply: the round goes on without
    it. Metrics of training: num-examples, loss and refused-steps.
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
            _received(_only_arrays(message)),
            x,
            y,
            lr=float(config.get("lr", lr)),
            epochs=int(config.get("local-epochs", epochs)),
        )
        metrics: dict[str, Any] = {"num-examples": made.samples, "loss": made.loss, "refused-steps": made.refused_steps}
        return Message(RecordDict({"arrays": _sent(made.update), "metrics": MetricRecord(metrics)}), reply_to=message)

    if evaluate is not None:

        @app.evaluate()  # type: ignore[untyped-decorator, unused-ignore]
        def evaluated(message: Message, context: Context) -> Message:
            mine, x, y = device(context)
            load(mine, _only_arrays(message))
            metrics: dict[str, Any] = {"num-examples": len(y)} | {
                name: float(value) for name, value in evaluate(mine, x, y).items()
            }
            return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)

    return app


def _only_arrays(message: Message) -> ArrayRecord:
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise updates.refused(f"update: the message has {len(records)} records of arrays, not one")
    return records[0]


def _only_metrics(message: Message) -> MetricRecord:
    records = list(message.content.metric_records.values())
    if len(records) != 1:
        raise updates.refused(f"metrics: the message has {len(records)} records of metrics, not one")
    return records[0]


def _real(value: object) -> bool:
    """Returns whether a value is a finite real number. An integer too large for a float is not."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


# Flower's strategies require that all replies have the same records, the same metrics, and the same lengths of
# metrics.
Form = tuple[tuple[str, str, str], ...]  # kind and name, and the length of a metric
_CLIENT: Form = tuple(
    sorted(
        [("metric", name, "number") for name in ("num-examples", "loss", "refused-steps")]
        + [("record of metrics", "metrics", ""), ("record of arrays", "arrays", "")]
    )
)


def _form(reply: Message) -> Form:
    made: list[tuple[str, str, str]] = [("record of arrays", name, "") for name in reply.content.array_records]
    for name, record in reply.content.metric_records.items():
        made.append(("record of metrics", name, ""))
        for key, value in record.items():
            made.append(("metric", key, f"list of {len(value)}" if isinstance(value, list) else "number"))
    return tuple(sorted(made))


def _difference(form: Form, usual: Form) -> str:
    """Returns the first difference between a reply's form and the usual one."""
    mine, theirs = ({(kind, name): size for kind, name, size in each} for each in (form, usual))
    kind, name = min(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))
    if (kind, name) not in theirs:
        return f"{name}: most replies of the round have no {kind} of this name; leave it out"
    if (kind, name) not in mine:
        return f"{name}: the reply lacks this {kind}, which most replies of the round have; send it"
    return f"{name}: the metric is a {mine[kind, name]}, in most replies of the round a {theirs[kind, name]}"


def _digest(reply: Message) -> bytes:
    made = hashlib.sha256()
    if not reply.has_error():
        for _, array in sorted(_only_arrays(reply).items()):
            made.update(array.data)
    return made.digest()


@dataclass(frozen=True)
class Refusal:
    """A device's reply that was not taken."""

    round: int
    node: int
    sentence: str


class Checked(Strategy):  # type: ignore[misc, unused-ignore]
    """A Flower strategy that sees only valid replies, and replies that report an error. Names and shapes must be the
    trainer's, and values real, finite and in the range of the trainer's type. Metrics must be finite, with the names
    and lengths that most replies have.

    strategy: FedAvg or any other. trainer: one of the model that the devices have. most_samples: the largest weight
    that an update may claim; a larger claim is refused. Refused replies are in `refused`, and in Flower's log as a
    warning; the round continues without them. The others reach the strategy in an order given by their contents, so
    that its float sums do not depend on who answers first. An invalid aggregate is refused too, and the parameters do
    not change.
    """

    def __init__(self, strategy: Strategy, trainer: Trainer, *, most_samples: int | None = None) -> None:
        self.strategy = strategy
        self.wanted = trainer.parameters()
        self.most_samples = most_samples
        self.refused: list[Refusal] = []

    def summary(self) -> None:
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        made: Iterable[Message] = self.strategy.configure_train(server_round, arrays, config, grid)
        return made

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        whole = self._alike(server_round, [reply for reply in replies if self._whole(server_round, reply)])
        made, metrics = self.strategy.aggregate_train(server_round, sorted(whole, key=_digest))
        if made is None:
            return made, metrics
        try:
            return _sent(updates.check(_received(made), self.wanted)), metrics
        except Error as error:
            self._note(server_round, 0, f"the aggregate: {error}")
            return None, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        made: Iterable[Message] = self.strategy.configure_evaluate(server_round, arrays, config, grid)
        return made

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        whole = [reply for reply in replies if self._whole(server_round, reply, arrays=False)]
        return self.strategy.aggregate_evaluate(server_round, self._alike(server_round, whole))

    def _whole(self, server_round: int, reply: Message, arrays: bool = True) -> bool:
        if reply.has_error():  # the strategy counts and logs it
            return True
        try:
            if arrays:
                updates.check(_received(_only_arrays(reply)), self.wanted)
            self._check_metrics(_only_metrics(reply))
        except Error as error:
            self._note(server_round, reply.metadata.src_node_id, str(error))
            return False
        return True

    def _check_metrics(self, metrics: MetricRecord) -> None:
        """Refuses a weight or a metric that is not finite: it would spoil an average, as such a parameter would."""
        key = getattr(self.strategy, "weighted_by_key", "num-examples")
        if key not in metrics:
            raise updates.refused(f"{key}: the reply lacks this metric, by which the update is weighed")
        weight: Any = metrics[key]
        if not _real(weight) or weight <= 0:
            raise updates.refused(f"{key}: the update weighs {_shown(weight)}, which is no positive number")
        if weight > _MOST_SAMPLES:
            raise updates.refused(f"{key}: the update weighs {_shown(weight)}, more than 2^53, the most that is taken")
        if self.most_samples is not None and weight > self.most_samples:
            raise updates.refused(f"{key}: the update claims {weight} samples; at most {self.most_samples} are taken")
        values: Any = metrics.items()
        for name, value in values:
            for each in value if isinstance(value, list) else [value]:
                if not _real(each):
                    raise updates.refused(f"{name}: the metric is {_shown(each)}, which is no finite number")

    def _alike(self, server_round: int, replies: list[Message]) -> list[Message]:
        """Returns the replies of the most frequent form, because Flower's strategies end a round whose replies differ
        in form. If several forms are equally frequent, the form of nacre.flower.client goes first."""
        count = Counter(_form(reply) for reply in replies if not reply.has_error())
        usual = min(count, key=lambda form: (-count[form], form != _CLIENT, form), default=_CLIENT)
        kept = []
        for reply in replies:
            if reply.has_error() or _form(reply) == usual:
                kept.append(reply)
            else:
                self._note(server_round, reply.metadata.src_node_id, _difference(_form(reply), usual))
        return kept

    def _note(self, server_round: int, node: int, sentence: str) -> None:
        self.refused.append(Refusal(server_round, node, sentence))
        _LOG.warning("round %d: the reply of node %d is refused: %s", server_round, node, sentence)
