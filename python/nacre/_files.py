"""Writes Python values to files that a command reads: networks, models, arrays, tables."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from . import _tensors


class OnnxModel(Protocol):
    """An onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802

    @property
    def graph(self) -> Any: ...


class KerasModel(Protocol):
    """A keras.Model."""

    def save(self, filepath: Any, /) -> Any: ...

    def get_config(self) -> Any: ...


Network = str | os.PathLike[str] | bytes | bytearray | memoryview | OnnxModel | KerasModel


class Folder:
    """A temporary folder for the files of one call. It is made with the first file and deleted after the call.
    `without` removes its path from texts that the caller sees."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._names: set[str] = set()

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def without(self, text: str) -> str:
        """Returns the text with the names of its files in place of their paths."""
        return text if self._folder is None else text.replace(self._folder.name + os.sep, "")

    def path(self, name: str) -> str:
        """Returns the path of a new file of this name; if there is one already, of this name with a number."""
        name = os.path.basename(name) or "file"
        stem, dot, end = name.partition(".")
        count = 1
        while name in self._names:
            count += 1
            name = f"{stem}{count}{dot}{end}"
        self._names.add(name)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="nacre-")
        return os.path.join(self._folder.name, name)

    def write(self, name: str, data: bytes) -> str:
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def network(self, network: object) -> str:
        """Returns the path of a network: of a path, the bytes of a file, an onnx.ModelProto or a keras.Model."""
        if isinstance(network, (str, os.PathLike)):
            return os.fsdecode(network)
        if isinstance(network, (bytes, bytearray, memoryview)):
            return self.write("network", bytes(network))
        if hasattr(network, "SerializeToString") and hasattr(network, "graph"):
            return self.write("network.onnx", network.SerializeToString())
        keras = sys.modules.get("keras")
        if keras is not None and isinstance(network, keras.Model):
            path = self.path("network.keras")
            network.save(path)
            return path
        raise TypeError(
            f"a network is a path, bytes, an onnx.ModelProto or a keras.Model, not {type(network).__name__}"
        )

    def data(self, name: str, value: object) -> str:
        """Returns the text of an option that reads a file. A path or a number stands for itself. An array or a
        list is written as .npy, a dict of arrays as .npz, any other dict as JSON. Other values raise TypeError."""
        if isinstance(value, (str, os.PathLike)):
            return os.fsdecode(value)
        if isinstance(value, (bool, int, float, np.number)):
            return text_of(value)
        if isinstance(value, Mapping) and value and all(_tensors.is_array(each) for each in value.values()):
            path = self.path(name + ".npz")
            arrays: dict[str, Any] = {str(key): _tensors.numpy_of(each) for key, each in value.items()}
            with zipfile.ZipFile(path, "w") as file:  # np.savez takes no array named "file"
                for key, array in arrays.items():
                    with file.open(f"{key}.npy", "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, _storable(name, array), allow_pickle=False)
            return path
        if isinstance(value, Mapping):
            return self.write(name + ".json", json.dumps(value).encode())
        if _tensors.is_array(value) or isinstance(value, (list, tuple)):
            path = self.path(name + ".npy")
            np.save(path, np.ascontiguousarray(_storable(name, _tensors.numpy_of(value))), allow_pickle=False)
            return path
        raise TypeError(f"{name} is a path, an array or a dict of arrays, not {type(value).__name__}")


def is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def _storable(name: str, array: _tensors.Array) -> _tensors.Array:
    if array.dtype.hasobject:
        raise TypeError(f"{name} has Python objects in it, such as None or texts: give numbers")
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} takes no mask: give x.filled(...)")
    return array


def text_of(value: object) -> str:
    """Returns one value of an option as a user would type it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (str, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    raise TypeError(f"an option takes a text or a number, not {type(value).__name__}")


def texts_of(value: object) -> list[str]:
    """Returns all values of an option: each one of a list; "KEY=VALUE" of a dict, with a tuple of sizes as "1x3"."""
    if isinstance(value, Mapping):
        return [f"{key}={_sizes(each)}" for key, each in value.items()]
    if isinstance(value, (list, tuple)):
        return [text_of(each) for each in value]
    return [text_of(value)]


def _sizes(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "x".join(text_of(each) for each in value)
    return text_of(value)
