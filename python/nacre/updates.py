"""Updates of federated training: checks the trained parameters, by name, and converts them to the bytes that devices
exchange.

`docs/many_machines.md` has the format. `nacre.flower` sends the same parameters through Flower.

Attributes
----------
MAGIC : bytes
    First bytes of an update.

Examples
--------
>>> import numpy as np
>>> import nacre
>>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
>>> labels = np.load("tools/samples/digits_labels.npy")
>>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1, batch=16)
>>> made = nacre.updates.train_round(nacre.Trainer(model), None, x[:40], labels[:40], lr=0.01)
>>> data = nacre.updates.to_bytes(made.update, samples=made.samples)
>>> update, samples = nacre.updates.from_bytes(data)
>>> samples
40
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._error import Error
from ._tensors import Array
from ._trainer import Trainer

MAGIC = b"nacreupd"
_HEADER = struct.Struct("<8sIIII")  # magic, version, samples, parameters, CRC-32 of what follows
_ENTRY = struct.Struct("<HBB")  # bytes of the name, element type, rank
_TYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 5: np.dtype("i1")}  # numbers of ElementType (schema/FORMAT.md)
_SENT = ("float32", "float16", "bfloat16", "float64", "int8", "int16", "int32")


@dataclass(frozen=True)
class Round:
    """The result of a device's training in one round.

    Attributes
    ----------
    update : dict of str to ndarray
        The trained parameters afterwards, by name.
    samples : int
        Number of the device's samples, by which a strategy weighs the update.
    loss : float
        Mean loss of the last epoch over the samples of the applied steps; NaN if no step was applied.
    refused_steps : int
        Number of steps whose gradients were not finite.

    Examples
    --------
    >>> import nacre
    >>> nacre.updates.Round({}, samples=40, loss=0.5, refused_steps=0).samples
    40
    """

    update: dict[str, Array]
    samples: int
    loss: float
    refused_steps: int


def refused(sentence: str) -> Error:
    """Returns the exception for an update that is refused.

    Parameters
    ----------
    sentence : str
        Text of the exception. It begins with the name of the parameter.

    Returns
    -------
    Error
        An exception with `exit_code` 3, to raise.

    Examples
    --------
    >>> import nacre
    >>> nacre.updates.refused("fc.bias: it is too large").code_name
    'bad_input'
    """
    return Error(sentence, exit_code=3, code_name="bad_input")


def check(update: Mapping[str, object], wanted: Mapping[str, Array]) -> dict[str, Array]:
    """Checks an update, and returns it in the types of the model's parameters.

    Parameters
    ----------
    update : mapping of str to array
        Parameters by name. Averages of codes are rounded to codes.
    wanted : mapping of str to ndarray
        The model's own parameters, from `nacre.Trainer.parameters`.

    Returns
    -------
    dict of str to ndarray
        The update, in the order and the types of `wanted`.

    Raises
    ------
    Error
        A parameter is unknown or missing, or has another shape, or a type that holds no real numbers. Also if a value
        is NaN, infinite, or too large for the parameter's type. The sentence begins with the parameter's name.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> wanted = {"fc.bias": np.zeros(2, np.float32)}
    >>> nacre.updates.check({"fc.bias": np.array([1, 2])}, wanted)
    {'fc.bias': array([1., 2.], dtype=float32)}
    """
    for name in update:
        if name not in wanted:
            raise refused(
                f"{name}: no trained parameter of this model has this name; send those of the same model file"
            )
    for name in wanted:
        if name not in update:
            raise refused(f"{name}: the update lacks this parameter; send all that are trained")
    return {name: _checked(name, update[name], mine) for name, mine in wanted.items()}


def _checked(name: str, value: object, mine: Array) -> Array:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        raise refused(f"{name}: its value in the update is no array; send an array of {mine.dtype}") from None
    if array.dtype != mine.dtype and array.dtype.kind not in "fiu":
        raise refused(
            f"{name}: its type in the update is {array.dtype}, which holds no real numbers; send {mine.dtype}"
        )
    if array.shape != mine.shape:
        raise refused(f"{name}: its shape in the update is {list(array.shape)}; the model's is {list(mine.shape)}")
    if mine.dtype.name not in _SENT:
        raise refused(f"{name}: parameters of {mine.dtype} cannot be sent; train in float32 or in codes of int8")
    if array.dtype.kind not in "iu" and not np.isfinite(array.astype(np.float64)).all():
        raise refused(f"{name}: the update holds a NaN or an infinite value")
    if mine.dtype.kind == "i":
        limits = np.iinfo(mine.dtype)
        if array.dtype != mine.dtype:
            array = np.clip(np.rint(array), limits.min, limits.max)
        return array.astype(mine.dtype)
    with np.errstate(over="ignore"):
        made = array.astype(mine.dtype)
    if not np.isfinite(made.astype(np.float64)).all():
        raise refused(f"{name}: the update holds a value too large for {mine.dtype}")
    return made


def train_round(
    trainer: Trainer, update: Mapping[str, object] | None, x: object, y: object, *, lr: float, epochs: int = 1
) -> Round:
    """Does a device's part of a round: takes an update, trains on all rows, and returns its own update.

    Parameters
    ----------
    trainer : Trainer
        The device's trainer. Its state begins anew, with the parameters of `update`.
    update : mapping of str to array, or None
        Parameters by name from the server; None takes the model's own values.
    x : array, tuple of arrays, or dict of arrays
        Rows of the device, as for `nacre.Trainer.accumulate`. They are taken in their order, a micro-batch a step.
    y : array
        Labels or targets of the rows.
    lr : float
        Learning rate of each step.
    epochs : int, default: 1
        Passes over the rows, at least 1.

    Returns
    -------
    Round
        The trained parameters, and how the training went.

    Raises
    ------
    Error
        `update` is refused as in `check`, before anything changes; there are no rows; a step is refused as in
        `nacre.Trainer.step`; or training leaves a value that is not finite.
    TypeError
        An array has another type.
    ValueError
        An array has another shape, or `epochs` is below 1.

    Notes
    -----
    The optimizer begins anew each round, and so does all state that is not a trained parameter: running statistics of
    batch norms are not exchanged.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> labels = np.load("tools/samples/digits_labels.npy")
    >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1, batch=16)
    >>> made = nacre.updates.train_round(nacre.Trainer(model), None, x[:40], labels[:40], lr=0.01, epochs=2)
    >>> made.samples, made.refused_steps, sorted(made.update)
    (40, 0, ['fc.bias', 'fc.weight'])
    """
    if epochs < 1:
        raise ValueError(f"epochs is {epochs}, not at least 1")
    taken = None if update is None else check(update, trainer.parameters())
    rows = len(y)  # type: ignore[arg-type]
    if rows == 0:
        raise refused("samples: there are none; a device without data has no update")
    trainer.start()
    if taken is not None:
        trainer.load_state_dict(taken, strict=False)
    loss, seen, skipped = 0.0, 0.0, 0
    for epoch in range(epochs):
        if epoch == epochs - 1:
            loss = seen = 0.0
        for first in range(0, rows, trainer.batch):
            part = slice(first, first + trainer.batch)
            report = trainer.step(_rows(x, part), y[part], lr)  # type: ignore[index]
            skipped += not report.applied
            if report.applied:
                loss, seen = loss + report.loss * report.samples, seen + report.samples
    mine = trainer.parameters()
    return Round(check(mine, mine), rows, loss / seen if seen else math.nan, skipped)


def _rows(x: Any, part: slice) -> object:
    """Returns the rows `part` of an array, or of each array of several inputs: a tuple, or a dict by name."""
    if isinstance(x, Mapping):
        return {name: each[part] for name, each in x.items()}
    return tuple(each[part] for each in x) if isinstance(x, tuple) else x[part]


def to_bytes(update: Mapping[str, Array], samples: int) -> bytes:
    """Returns the bytes of an update, as devices read and write them.

    Parameters
    ----------
    update : mapping of str to array
        Parameters by name, of float32 or int8. Numbers of float16 and bfloat16 are sent as float32, which is exact.
    samples : int
        Number of samples that the device trained on, from 0 to 2^32 - 1.

    Returns
    -------
    bytes
        The update.

    Raises
    ------
    Error
        A parameter has no name, a name over 255 bytes, over 8 dimensions, or a type that is not sent. Or `samples` is
        out of range or no whole number.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> nacre.updates.to_bytes({"fc.bias": np.zeros(2, np.float32)}, samples=40)[:8]
    b'nacreupd'
    """
    if not isinstance(samples, (int, np.integer)) or not 0 <= samples < 2**32:
        raise refused(f"samples: the update has {samples!r}, which is no number of samples from 0 to 4294967295")
    body = bytearray()
    for name, value in update.items():
        array = np.asarray(value)
        if array.dtype.name in ("float16", "bfloat16"):
            array = array.astype(np.float32)
        element = next((number for number, dtype in _TYPES.items() if dtype == array.dtype), None)
        text = name.encode()
        if element is None or not 0 < len(text) < 256 or array.ndim > 8:
            raise refused(f"{name}: sent as bytes are parameters of float32 and int8 with a name of 1 to 255 bytes")
        body += _ENTRY.pack(len(text), element, array.ndim) + text
        body += struct.pack(f"<{array.ndim}I", *array.shape) + np.ascontiguousarray(array, _TYPES[element]).tobytes()
    return _HEADER.pack(MAGIC, 1, samples, len(update), zlib.crc32(body)) + bytes(body)


def from_bytes(data: bytes) -> tuple[dict[str, Array], int]:
    """Reads the bytes of an update.

    Parameters
    ----------
    data : bytes-like
        Bytes that `to_bytes` or a device made.

    Returns
    -------
    update : dict of str to ndarray
        Parameters by name, read-only. `check` tells whether they fit a model.
    samples : int
        Number of samples that the device trained on.

    Raises
    ------
    Error
        The bytes are not a whole update.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> data = nacre.updates.to_bytes({"fc.bias": np.zeros(2, np.float32)}, samples=40)
    >>> nacre.updates.from_bytes(data)
    ({'fc.bias': array([0., 0.], dtype=float32)}, 40)
    """
    data = bytes(data)
    if len(data) < _HEADER.size or data[: len(MAGIC)] != MAGIC:
        raise refused("update: these bytes do not begin as an update does, with nacreupd")
    _, version, samples, count, crc = _HEADER.unpack_from(data)
    if version != 1:
        raise refused(f"update: its version is {version}, not 1")
    if zlib.crc32(data[_HEADER.size :]) != crc:
        raise refused("update: its CRC is not that of its bytes; send it again")
    made: dict[str, Array] = {}
    at = _HEADER.size
    for _ in range(count):
        try:
            name_bytes, element, rank = _ENTRY.unpack_from(data, at)
            name = data[at + _ENTRY.size : at + _ENTRY.size + name_bytes].decode()
            shape = struct.unpack_from(f"<{rank}I", data, at + _ENTRY.size + name_bytes)
        except (struct.error, UnicodeDecodeError):
            raise refused("update: it ends within a parameter, or a name is not UTF-8; send it again") from None
        at += _ENTRY.size + name_bytes + 4 * rank
        if element not in _TYPES or rank > 8:
            raise refused(f"{name}: its element type is {element} and its rank {rank}; 1, 5 and at most 8 are sent")
        if not 0 < name_bytes < 256 or "\0" in name:
            raise refused(f"update: a parameter's name has {name_bytes} bytes or holds a 0; names have 1 to 255 bytes")
        if name in made:
            raise refused(f"{name}: is in the update twice")
        size = math.prod(shape)
        if size == 0 and math.prod(max(d, 1) for d in shape) > 2**60:
            raise refused(f"{name}: its shape is {list(shape)}, which no array has")
        if size * _TYPES[element].itemsize > len(data) - at:
            raise refused(f"{name}: the update ends within its values")
        made[name] = np.frombuffer(data, _TYPES[element], size, at).reshape(shape)
        at += size * _TYPES[element].itemsize
    if at != len(data):
        raise refused("update: it goes on behind its last parameter")
    return made, samples
