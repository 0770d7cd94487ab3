"""A strategy of Flower that refuses replies which are not valid."""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord  # type: ignore[import-not-found, import-untyped, unused-ignore]
from flwr.app import Message, MetricRecord
from flwr.serverapp import Grid  # type: ignore[import-not-found, import-untyped, unused-ignore]
from flwr.serverapp.strategy import Strategy  # type: ignore[import-not-found, import-untyped, unused-ignore]

from . import updates
from ._error import Error
from ._flower_records import only_arrays, only_metrics, received, sent
from ._trainer import Trainer

_LOG = logging.getLogger("flwr")

# Flower sums weights as floats, which count exactly up to here. Far larger weights would make the sum infinite, and the
# average 0.
_MOST_SAMPLES = 2**53


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
_Form = tuple[tuple[str, str, str], ...]  # kind and name, and the length of a metric
_CLIENT: _Form = tuple(
    sorted(
        [("metric", name, "number") for name in ("num-examples", "loss", "refused-steps")]
        + [("record of metrics", "metrics", ""), ("record of arrays", "arrays", "")]
    )
)


def _form(reply: Message) -> _Form:
    made: list[tuple[str, str, str]] = [("record of arrays", name, "") for name in reply.content.array_records]
    for name, record in reply.content.metric_records.items():
        made.append(("record of metrics", name, ""))
        for key, value in record.items():
            made.append(("metric", key, f"list of {len(value)}" if isinstance(value, list) else "number"))
    return tuple(sorted(made))


def _difference(form: _Form, usual: _Form) -> str:
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
        for _, array in sorted(only_arrays(reply).items()):
            made.update(array.data)
    return made.digest()


@dataclass(frozen=True)
class Refusal:
    """A device's reply that was not taken.

    Attributes
    ----------
    round : int
        Number of the round, from 1.
    node : int
        Flower's number of the device; 0 for the aggregate.
    sentence : str
        Why the reply was refused. It begins with the name of the parameter or metric.

    Examples
    --------
    >>> import nacre
    >>> nacre.flower.Refusal(1, 7, "fc.bias: the update holds a NaN or an infinite value").node
    7
    """

    round: int
    node: int
    sentence: str


class Checked(Strategy):  # type: ignore[misc, unused-ignore]
    """A strategy of Flower that hands on only valid replies, and replies that report an error.

    Names and shapes must be the trainer's, and values real, finite and in the range of the trainer's type. Metrics must
    be finite, with the names and lengths that most replies have. An invalid aggregate is refused too, and the
    parameters do not change.

    Parameters
    ----------
    strategy : flwr.serverapp.strategy.Strategy
        FedAvg or any other.
    trainer : Trainer
        A trainer of the model that the devices have.
    most_samples : int, optional
        The largest weight that an update may claim; a larger claim is refused.

    Attributes
    ----------
    strategy : flwr.serverapp.strategy.Strategy
        The strategy that gets the valid replies.
    wanted : dict of str to ndarray
        The trainer's parameters, whose names, shapes and types replies must have.
    most_samples : int or None
        The largest weight that is taken.
    refused : list of Refusal
        Replies that were not taken. Flower's log has each as a warning; the round continues without them.

    Notes
    -----
    Replies reach the strategy in an order given by their contents, so its sums of floats do not depend on who answers
    first.

    Examples
    --------
    >>> from flwr.serverapp.strategy import FedAvg
    >>> import nacre
    >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1)
    >>> strategy = nacre.flower.Checked(FedAvg(), nacre.Trainer(model), most_samples=1000)
    >>> strategy.refused
    []
    """

    def __init__(self, strategy: Strategy, trainer: Trainer, *, most_samples: int | None = None) -> None:
        self.strategy = strategy
        self.wanted = trainer.parameters()
        self.most_samples = most_samples
        self.refused: list[Refusal] = []

    def summary(self) -> None:
        """Writes the settings of the strategy to Flower's log. Flower calls it.

        Examples
        --------
        >>> from flwr.serverapp.strategy import FedAvg
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1)
        >>> strategy = nacre.flower.Checked(FedAvg(), nacre.Trainer(model))
        >>> strategy.summary()
        """
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Makes the messages of a round of training. Flower calls it.

        Parameters
        ----------
        server_round : int
            Number of the round, from 1.
        arrays : flwr.app.ArrayRecord
            The parameters, to be sent.
        config : flwr.app.ConfigRecord
            Settings for the devices, to be sent.
        grid : flwr.serverapp.Grid
            The devices that are connected.

        Returns
        -------
        iterable of flwr.app.Message
            The messages that the wrapped strategy makes.

        Examples
        --------
        >>> from flwr.serverapp.strategy import FedAvg
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1)
        >>> strategy = nacre.flower.Checked(FedAvg(fraction_train=0), nacre.Trainer(model))
        >>> strategy.configure_train(1, strategy.wanted, {}, None)  # of fraction 0
        []
        """
        made: Iterable[Message] = self.strategy.configure_train(server_round, arrays, config, grid)
        return made

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregates the valid replies of a round of training. Flower calls it.

        Parameters
        ----------
        server_round : int
            Number of the round, from 1.
        replies : iterable of flwr.app.Message
            Replies of the devices. Refused ones are added to the list `refused`.

        Returns
        -------
        arrays : flwr.app.ArrayRecord or None
            The new parameters; None if there are none, or if the aggregate is refused.
        metrics : flwr.app.MetricRecord or None
            Aggregated metrics.

        Examples
        --------
        >>> from flwr.serverapp.strategy import FedAvg
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1)
        >>> strategy = nacre.flower.Checked(FedAvg(), nacre.Trainer(model))
        >>> strategy.aggregate_train(1, [])
        (None, None)
        """
        whole = self._alike(server_round, [reply for reply in replies if self._whole(server_round, reply)])
        made, metrics = self.strategy.aggregate_train(server_round, sorted(whole, key=_digest))
        if made is None:
            return made, metrics
        try:
            return sent(updates.check(received(made), self.wanted)), metrics
        except Error as error:
            self._note(server_round, 0, f"the aggregate: {error}")
            return None, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Makes the messages of a round of evaluation. Flower calls it.

        Parameters
        ----------
        server_round : int
            Number of the round, from 1.
        arrays : flwr.app.ArrayRecord
            The parameters, to be sent.
        config : flwr.app.ConfigRecord
            Settings for the devices, to be sent.
        grid : flwr.serverapp.Grid
            The devices that are connected.

        Returns
        -------
        iterable of flwr.app.Message
            The messages that the wrapped strategy makes.

        Examples
        --------
        >>> from flwr.serverapp.strategy import FedAvg
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1)
        >>> strategy = nacre.flower.Checked(FedAvg(fraction_evaluate=0), nacre.Trainer(model))
        >>> strategy.configure_evaluate(1, strategy.wanted, {}, None)  # of fraction 0
        []
        """
        made: Iterable[Message] = self.strategy.configure_evaluate(server_round, arrays, config, grid)
        return made

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Aggregates the valid replies of a round of evaluation. Flower calls it.

        Parameters
        ----------
        server_round : int
            Number of the round, from 1.
        replies : iterable of flwr.app.Message
            Replies of the devices. Refused ones are added to the list `refused`.

        Returns
        -------
        flwr.app.MetricRecord or None
            Aggregated metrics.

        Examples
        --------
        >>> from flwr.serverapp.strategy import FedAvg
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1)
        >>> strategy = nacre.flower.Checked(FedAvg(), nacre.Trainer(model))
        >>> strategy.aggregate_evaluate(1, []) is None
        True
        """
        whole = [reply for reply in replies if self._whole(server_round, reply, arrays=False)]
        return self.strategy.aggregate_evaluate(server_round, self._alike(server_round, whole))

    def _whole(self, server_round: int, reply: Message, arrays: bool = True) -> bool:
        if reply.has_error():  # the strategy counts and logs it
            return True
        try:
            if arrays:
                updates.check(received(only_arrays(reply)), self.wanted)
            self._check_metrics(only_metrics(reply))
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
