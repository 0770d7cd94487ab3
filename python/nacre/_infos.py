"""Facts that a model file holds: its tensors, layers and programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# Names of ml_dtypes for the types that NumPy lacks; without that package their codes are unsigned integers.
SMALL_FLOATS = {
    "bfloat16": "bfloat16",
    "float8_e4m3": "float8_e4m3fn",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "float8_e4m3fnuz": "float8_e4m3fnuz",
    "float8_e5m2fnuz": "float8_e5m2fnuz",
    "float8_e8m0": "float8_e8m0fnu",
    "float8_e8m0fnu": "float8_e8m0fnu",
}
_CODES = ("int8", "int16")  # codes of real numbers, if the tensor has a scale
_PACKED = ("int4", "uint4", "float4_e2m1", "ternary")  # several elements in a byte


@dataclass(frozen=True)
class TensorInfo:
    """Describes an input, an output or a tensor of a training's state.

    Attributes
    ----------
    name : str
        Name of the tensor in the network's file.
    shape : tuple of int
        Sizes of its axes. If `rows` is true, axis 0 has the compiled batch.
    dtype : str
        Type of the elements as the file names it: float32, float16, bfloat16, float64, int8 and so on.
    rows : bool
        Whether axis 0 counts rows. A run then takes as many rows as the program was compiled for, or fewer.
    scale : float or None
        Factor of the codes: real = scale * (code - zero_point). None if the tensor holds numbers.
    zero_point : int or None
        The code of 0. None if the tensor holds numbers.

    Examples
    --------
    >>> import nacre
    >>> nacre.convert("tools/samples/digits.onnx", batch=8).inputs[0]
    TensorInfo(name='pixels', shape=(8, 1, 8, 8), dtype='float32', rows=True, scale=None, zero_point=None)
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    rows: bool
    scale: float | None = None
    zero_point: int | None = None

    @property
    def codes(self) -> bool:
        """Returns whether the elements are int8 or int16 codes of real numbers.

        Returns
        -------
        bool
            True if the tensor has a scale and the type int8 or int16.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> options = {"policy": "int8/static_from_float32", "calibrate": x[:64], "io_types": "policy"}
        >>> nacre.convert("tools/samples/digits.onnx", **options).inputs[0].codes
        True
        """
        return self.scale is not None and self.dtype in _CODES

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """Returns the type of the tensor's NumPy arrays.

        Returns
        -------
        numpy.dtype
            For bfloat16 and float8 the type of `ml_dtypes` if that package is installed, else uint16 and uint8. For
            elements below a byte uint8, with several elements in each.

        Examples
        --------
        >>> import nacre
        >>> nacre.convert("tools/samples/digits.onnx").inputs[0].numpy_dtype
        dtype('float32')
        """
        return numpy_dtype(self.dtype)


@dataclass(frozen=True)
class Layer:
    """Describes a layer of the network's file.

    Attributes
    ----------
    name : str
        Name of the layer in the file.
    op : str
        Operator of the layer in the file, such as "Conv".
    policy : str
        Numeric policy that the layer was compiled with.

    Examples
    --------
    >>> import nacre
    >>> nacre.convert("tools/samples/digits.onnx").layers[1]
    Layer(name='conv1', op='Conv', policy='float32')
    """

    name: str
    op: str
    policy: str


@dataclass(frozen=True)
class ProgramInfo:
    """Describes one compiled program of a model.

    Attributes
    ----------
    entry : str
        Purpose of the program: "infer", "gradients", "update" or "derive".
    target : str
        Machine that it was compiled for, such as "host" or "arm/m4".
    batch : int
        Rows of a run, at most.
    steps : int
        Number of steps that a run executes.
    inputs : tuple of TensorInfo
        Inputs in their order.
    outputs : tuple of TensorInfo
        Outputs in their order.

    Examples
    --------
    >>> import nacre
    >>> program = nacre.convert("tools/samples/digits.onnx", batch=8).programs[0]
    >>> program.entry, program.target, program.batch
    ('infer', 'host', 8)
    """

    entry: str
    target: str
    batch: int
    steps: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


def numpy_dtype(name: str) -> np.dtype[Any]:
    if name in SMALL_FLOATS:
        try:
            import ml_dtypes
        except ImportError:
            return np.dtype(np.uint16 if name == "bfloat16" else np.uint8)
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, SMALL_FLOATS[name]))
        return dtype
    return np.dtype(np.uint8) if name in _PACKED else np.dtype(name)


def tensor_info(entry: Mapping[str, Any]) -> TensorInfo:
    return TensorInfo(
        entry["name"], tuple(entry["shape"]), entry["dtype"], entry["rows"], entry["scale"], entry["zero_point"]
    )
