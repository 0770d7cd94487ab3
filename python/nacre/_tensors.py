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


def views(get: Callable[[int], Array], infos: Sequence[TensorInfo]) -> tuple[Array, ...]:
    """Returns the array get(i) of each tensor, as one of the elements' type."""
    return tuple(view(get(i), info) for i, info in enumerate(infos))


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


def bytes_of(array: Array) -> NDArray[np.uint8]:
    """Returns the bytes of an array in row-major order, without a copy if they lie so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


@dataclass
class Runner:
    """The tensors of a program, and the call that runs it over whole arrays.

    results: the memory of each output. run_all(inputs, outputs, runs, last_rows): takes and fills arrays of bytes.
    """

    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    batch: int
    results: Sequence[Array]
    run_all: Callable[[list[NDArray[np.uint8]], list[NDArray[np.uint8]], int, int], None]
    quantize_inputs: bool = False
    dequantize_outputs: bool = False

    def __call__(self, values: Sequence[object]) -> list[Array]:
        arrays = self.arrays(values)
        runs, last_rows = runs_of(arrays, self.inputs, self.batch)
        made = [
            np.empty(_shape(result, info, runs, last_rows), result.dtype)
            for result, info in zip(self.results, self.outputs)
        ]
        self.run_all(list(map(bytes_of, arrays)), list(map(bytes_of, made)), runs, last_rows)
        return [real(array, info) for array, info in zip(made, self.outputs)] if self.dequantize_outputs else made

    def arrays(self, values: Sequence[object]) -> list[Array]:
        """Returns an array of the input's type for each input, from `values` in their order or one dict by name."""
        return [
            fitted(value, info, quantize=self.quantize_inputs)
            for value, info in zip(named(values, self.inputs, "inputs"), self.inputs)
        ]

    def arrays_of_one_run(self, values: Sequence[object]) -> list[Array]:
        """Does as `arrays`. Raises ValueError if the arrays are not for one run of all compiled rows."""
        arrays = self.arrays(values)
        runs, last_rows = runs_of(arrays, self.inputs, self.batch)
        if runs != 1 or last_rows:
            rows = (runs - 1) * self.batch + (last_rows or self.batch)
            raise ValueError(f"one run takes {self.batch} rows, not {rows}")
        return arrays


def _shape(result: Array, info: TensorInfo, runs: int, last_rows: int) -> tuple[int, ...]:
    """Returns the shape that the results of all runs have together: joined by rows, or one after the other."""
    if info.rows:
        batch, *row = result.shape
        return ((runs - 1) * batch + (last_rows or batch), *row)
    return result.shape if runs == 1 else (runs, *result.shape)


def write(place: Array, array: Array, info: TensorInfo, run: int, batch: int) -> None:
    """Writes the part of an array that one run reads into the input's memory."""
    if info.rows and array.ndim == len(info.shape):
        rows = array[run * batch : (run + 1) * batch]
        place[: len(rows)] = rows
    elif array.ndim == len(info.shape) + 1:
        place[...] = array[run]
    else:
        place[...] = array
