"""Arrays of a program's inputs and outputs: checks, conversions, and the runs that they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._infos import SMALL_FLOATS, TensorInfo

Array = NDArray[Any]


def views(get: Callable[[int], Array], infos: Sequence[TensorInfo]) -> Callable[[int], Array]:
    """Returns `get`, changed to return arrays of the elements' type."""
    return lambda i: view(get(i), infos[i])


def is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "__dlpack__") or hasattr(value, "__array__")


def numpy_of(value: object) -> Array:
    """Returns the array itself, a view of an object with DLPack, or else a new array."""
    if isinstance(value, np.ndarray):
        return value
    if not hasattr(value, "__dlpack__") or isinstance(value, np.generic):
        return np.asarray(value)
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError):
        pass
    try:
        return _native.codes_of(value)  # a type that NumPy lacks
    except TypeError:
        raise TypeError(
            f"this {type(value).__name__} cannot be read as it is: give an array on the CPU, in one piece (of torch:"
            " x.detach().cpu().contiguous())"
        ) from None


def view(array: Array, info: TensorInfo) -> Array:
    """Returns the memory of `array` as an array of the tensor's element type."""
    dtype = info.numpy_dtype
    return array if array.dtype == dtype else array.view(dtype)


def fitted(value: object, info: TensorInfo, *, lossless_cast: bool = False, quantize: bool = False) -> Array:
    """Returns `value` as an array of the tensor's type. A list becomes one. An array of another type is refused,
    with three exceptions. A tensor of a small float type (bfloat16, float8) takes its bits as unsigned integers of the
    same size. `lossless_cast` casts integers if none changes. `quantize` turns float32 into codes or rounds it.

    Raises TypeError, and nacre.Error for a number that has no code.
    """
    dtype = info.numpy_dtype
    quantizes = quantize and info.dtype != "float32" and (info.codes or dtype.kind in "fV" or info.dtype == "bfloat16")
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{info.name} takes no mask: give x.filled(...)")
    array = numpy_of(value) if is_array(value) else _of_list(value, np.dtype(np.float32) if quantizes else dtype, info)
    if quantizes and array.dtype == np.float32:
        made = _native.from_float32(array.tobytes(), info.dtype, info.scale or 1.0, info.zero_point or 0, info.name)
        return np.frombuffer(made, dtype).reshape(array.shape)
    if array.dtype == dtype:
        return array
    if array.dtype.itemsize == dtype.itemsize and array.dtype.kind == "u" and info.dtype in SMALL_FLOATS:
        return array.view(dtype)
    if lossless_cast and array.dtype.kind in "iub" and dtype.kind in "iu":
        cast = array.astype(dtype)
        if np.array_equal(cast, array):
            return cast
    raise TypeError(f"{info.name} takes {info.dtype}, not {array.dtype}: give x.astype({str(dtype)!r})")


def _of_list(value: object, dtype: np.dtype[Any], info: TensorInfo) -> Array:
    """Returns numbers as an array of this type. Raises TypeError if one is not a number, or would lose its fraction."""
    array = np.asarray(value)
    if array.dtype != dtype and array.dtype.kind not in "iufb":
        raise TypeError(f"{info.name} takes {info.dtype}, and what this list holds are no numbers")
    cast = array.astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(cast, array):
        raise TypeError(f"{info.name} takes {info.dtype}, which not all of these numbers are")
    return cast


def real(array: Array, info: TensorInfo) -> Array:
    """Returns codes as float32; an array of numbers is returned unchanged."""
    if not info.codes:
        return array
    made = _native.to_float32(array.tobytes(), info.dtype, info.scale or 1.0, info.zero_point or 0)
    return np.frombuffer(made, np.float32).reshape(array.shape).copy()


def named(values: Sequence[object], infos: Sequence[TensorInfo], what: str) -> list[object]:
    """Returns one value for each tensor, from a sequence in their order, or from one dict by their names.

    Raises ValueError if one is missing or too many.
    """
    if len(values) == 1 and isinstance(values[0], Mapping):
        given = dict(values[0])
        missing = [info.name for info in infos if info.name not in given]
        unknown = [name for name in given if name not in {info.name for info in infos}]
        if missing or unknown:
            names = ", ".join(info.name for info in infos)
            raise ValueError(f"the {what} are {names}: {', '.join(map(str, missing + unknown))} is missing or unknown")
        return [given[info.name] for info in infos]
    if len(values) != len(infos):
        names = ", ".join(info.name for info in infos)
        raise ValueError(f"{len(values)} arrays for {len(infos)} {what}: {names}")
    return list(values)


def runs_of(arrays: Sequence[Array], infos: Sequence[TensorInfo], batch: int) -> tuple[int, int]:
    """Returns how many runs the arrays need, and the rows of the last run (0: all that the program takes).

    Raises ValueError if a shape does not fit, or if two arrays have different numbers of rows.
    """
    counts = []
    for array, info in zip(arrays, infos):
        if info.rows and array.shape[1:] == info.shape[1:] and array.ndim == len(info.shape):
            rows = array.shape[0]
            counts.append((-(-rows // batch), rows % batch))
        elif array.shape == info.shape:
            counts.append((1, 0))
        elif array.shape[1:] == info.shape and array.ndim == len(info.shape) + 1:
            counts.append((array.shape[0], 0))
        else:
            raise ValueError(f"{info.name} takes {list(info.shape)}, not {list(array.shape)}")
    if not counts or counts[0][0] == 0:
        raise ValueError("there are no rows to run on" if counts else "the program has no inputs")
    if any(count != counts[0] for count in counts):
        shapes = ", ".join(f"{info.name} {list(array.shape)}" for array, info in zip(arrays, infos))
        raise ValueError(f"the arrays are of different numbers of rows: {shapes}")
    return counts[0]


@dataclass
class Runner:
    """The memory of a program's tensors, and the call that runs it. run(0) takes the rows that it was compiled for."""

    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    batch: int
    input: Callable[[int], Array]
    output: Callable[[int], Array]
    run: Callable[[int], None]
    quantize_inputs: bool = False
    dequantize_outputs: bool = False

    def __call__(self, values: Sequence[object]) -> list[Array]:
        arrays = [
            fitted(value, info, quantize=self.quantize_inputs)
            for value, info in zip(named(values, self.inputs, "inputs"), self.inputs)
        ]
        runs, last_rows = runs_of(arrays, self.inputs, self.batch)
        places = [self.input(i) for i in range(len(self.inputs))]
        results = [self.output(i) for i in range(len(self.outputs))]
        made: list[list[Array]] = [[] for _ in self.outputs]
        for run in range(runs):
            rows = last_rows if run == runs - 1 else 0
            for place, array, info in zip(places, arrays, self.inputs):
                write(place, array, info, run, self.batch)
            self.run(rows)
            for parts, result, info in zip(made, results, self.outputs):
                parts.append(np.array(result[:rows] if rows and info.rows else result))
        joined = [self._joined(parts, info) for parts, info in zip(made, self.outputs)]
        return [real(array, info) for array, info in zip(joined, self.outputs)] if self.dequantize_outputs else joined

    @staticmethod
    def _joined(parts: list[Array], info: TensorInfo) -> Array:
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if info.rows else np.stack(parts)


def write(place: Array, array: Array, info: TensorInfo, run: int, batch: int) -> None:
    """Writes the part of an array that one run reads into the input's memory."""
    if info.rows and array.ndim == len(info.shape):
        rows = array[run * batch : (run + 1) * batch]
        place[: len(rows)] = rows
    elif array.ndim == len(info.shape) + 1:
        place[...] = array[run]
    else:
        place[...] = array
