"""Records of Flower's messages that hold an update."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from flwr.app import Array as FlowerArray  # type: ignore[import-not-found, import-untyped, unused-ignore]
from flwr.app import ArrayRecord, Message, MetricRecord

from . import updates
from ._tensors import Array


def sent(update: Mapping[str, Array]) -> ArrayRecord:
    """Returns the update as Flower sends it. 16-bit numbers become float32, because Flower sends NumPy arrays, and
    NumPy has no bfloat16."""
    return ArrayRecord(
        {
            name: FlowerArray(np.ascontiguousarray(array if array.dtype.itemsize != 2 else array.astype(np.float32)))
            for name, array in update.items()
        }
    )


def received(record: ArrayRecord) -> dict[str, Array]:
    made: dict[str, Array] = {}
    for name, array in record.items():
        try:
            made[name] = array.numpy()
        except Exception:  # any kind, because the bytes come from outside
            raise updates.refused(f"{name}: its bytes in the update are no array") from None
    return made


def only_arrays(message: Message) -> ArrayRecord:
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise updates.refused(f"update: the message has {len(records)} records of arrays, not one")
    return records[0]


def only_metrics(message: Message) -> MetricRecord:
    records = list(message.content.metric_records.values())
    if len(records) != 1:
        raise updates.refused(f"metrics: the message has {len(records)} records of metrics, not one")
    return records[0]
