"""Converts, loads, saves and describes models."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import _checked, _commands, _files, _native
from ._tensors import TensorInfo, tensor_info

if TYPE_CHECKING:
    from typing import Unpack

    from ._keywords import (
        CompareOptions,
        ConvertOptions,
        EvalOptions,
        FirmwareOptions,
        InspectOptions,
        ReportOptions,
    )

    Network = str | os.PathLike[str] | bytes | bytearray | memoryview | Any

_OF_TEXT = ("dump", "stop_after", "explain")  # options that nacre.graph alone takes


@dataclass(frozen=True)
class Layer:
    """A layer of the network's file: its name, its operator there, and its policy."""

    name: str
    op: str
    policy: str


@dataclass(frozen=True)
class ProgramInfo:
    """One compiled program of a model."""

    entry: str
    """infer, gradients, update or derive."""
    target: str
    batch: int
    """Rows of a run."""
    steps: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


class Model:
    """A model file in memory, checked: what nacre.convert makes and nacre.load reads. It never changes.

    Raises nacre.Error if the bytes are not a model that this version reads.
    """

    def __init__(self, data: bytes, name: str = "model.nacre") -> None:
        self._name = name
        self.native = _native.Model(bytes(data), name)
        self.conversion: dict[str, Any] = {}
        """Output of `nacre convert --json`, if this process made the model: targets, fallbacks, log, ..."""

    def __reduce__(self) -> tuple[type[Model], tuple[bytes, str]]:
        return Model, (self.to_bytes(), self._name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.native.same(other.native)

    def __hash__(self) -> int:
        return hash((self.native.size(), self.metadata.get("source_sha256"), self.metadata.get("converter_options")))

    @property
    def name(self) -> str:
        return self._name

    def to_bytes(self) -> bytes:
        """Returns the model file's bytes, as `nacre convert` writes them."""
        return self.native.to_bytes()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file completely or not at all. Raises nacre.Error if it cannot be written."""
        self.native.save(_checked.path(path))

    @cached_property
    def _about(self) -> dict[str, Any]:
        made = json.loads(self.native.describe())
        assert isinstance(made, dict)
        return made

    @cached_property
    def programs(self) -> tuple[ProgramInfo, ...]:
        """Returns all programs, in the order of the file."""
        return tuple(
            ProgramInfo(
                program["entry"],
                program["target"],
                program["batch"],
                program["steps"],
                tuple(map(tensor_info, program["inputs"])),
                tuple(map(tensor_info, program["outputs"])),
            )
            for program in self._about["programs"]
        )

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Returns the inputs of the program that infers on this machine, or else of the first that infers."""
        return self.programs[self.native.infer_program("")].inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Returns the outputs of the program that infers on this machine, or else of the first that infers."""
        return self.programs[self.native.infer_program("")].outputs

    @property
    def targets(self) -> tuple[str, ...]:
        """Returns the targets for which the model has programs."""
        return tuple(dict.fromkeys(program.target for program in self.programs))

    @property
    def trains(self) -> bool:
        """Returns whether nacre.Trainer takes the model: it must be converted with train=LOSS."""
        return any(program.entry == "update" for program in self.programs)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Returns the network's layers with the policies they were compiled with."""
        return tuple(Layer(layer["name"], layer["op"], layer["policy"]) for layer in self._about["layers"])

    @property
    def metadata(self) -> dict[str, str]:
        """Returns the origin of the model: converter, options, SHA-256 of the network, and added entries."""
        return dict(self._about["metadata"])

    def size(self, target: str = "host", *, train: bool = False) -> dict[str, Any]:
        """Counts the bytes that a run, or with train=True training, takes on a machine, as `nacre size --json`."""
        return self._json("size", own={"target": target, "train": train})

    def inspect(self, **options: Unpack[InspectOptions]) -> dict[str, Any]:
        """Returns what `nacre inspect --json` prints: programs, steps with kernels, tensors, layers, costs."""
        return self._json("inspect", options, without=("steps", "svg"))

    def summary(self, *, steps: bool = False) -> str:
        """Returns the text that `nacre inspect` prints: layers, types, policies, costs, memory."""
        with _files.Folder() as folder:
            return _commands.run("inspect", [self._file(folder)], {}, folder, own={"steps": steps})

    def picture(self) -> str:
        """Returns the graph and its memory plan, as SVG."""
        with _files.Folder() as folder:
            path = folder.path("picture.svg")
            _commands.run("inspect", [self._file(folder)], {}, folder, own={"svg": path})
            with open(path, encoding="utf-8") as file:
                return file.read()

    def check(self) -> dict[str, Any]:
        """Verifies structure, weights, plan and golden pairs. Raises nacre.Error if a pair differs."""
        return self._json("check")

    def compare(self, reference: Model | Network, x: object, **options: Unpack[CompareOptions]) -> dict[str, Any]:
        """Measures how far each layer and the outputs are from a reference's, on samples `x`, as `nacre compare
        --json`.

        reference: a Model, a model's file, or a network, which is converted with the policies of its file. x: an array
        of the only input's shape with samples stacked on axis 0, a dict of one per input, or a file.
        """
        with _files.Folder() as folder:
            first = _model_file(reference, folder)
            return _commands.run_json(
                "compare", [first, self._file(folder)], options, folder, own={"data": x}, without=("csv",)
            )

    def evaluate(self, x: object, y: object, **options: Unpack[EvalOptions]) -> dict[str, Any]:
        """Measures score, bytes and time on labelled samples, as `nacre eval --json` for one model.

        y: a label per sample, or targets for metric="mse". Raises nacre.Error if they do not fit.
        """
        return evaluate([self], x, y, **options)

    def firmware(self, directory: str | os.PathLike[str], **options: Unpack[FirmwareOptions]) -> dict[str, Any]:
        """Writes the model as C++ that is bound already, for a microcontroller, as `nacre firmware` does."""
        return self._json("firmware", options, own={"output": directory})

    def __repr__(self) -> str:
        policies = list(dict.fromkeys(layer.policy for layer in self.layers))
        shown = ", ".join(policies[:3]) + (", ..." if len(policies) > 3 else "")
        trains = ", trains" if self.trains else ""
        return (
            f"<nacre.Model {self._name}: {len(self.layers)} layers in {shown}; {', '.join(self.targets)}{trains}; "
            f"{self.native.size():,} bytes>"
        )

    def _repr_html_(self) -> str:
        def rows(entries: Sequence[Sequence[object]]) -> str:
            return "".join(
                "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in entry) + "</tr>" for entry in entries
            )

        tensors = [("input", info) for info in self.inputs] + [("output", info) for info in self.outputs]
        of_tensors = rows(
            [
                (kind, info.name, info.dtype, "x".join(map(str, info.shape)), "" if info.scale is None else info.scale)
                for kind, info in tensors
            ]
        )
        of_layers = rows([(layer.name, layer.op, layer.policy) for layer in self.layers])
        return (
            f"<p><b>{html.escape(self._name)}</b>: {self.native.size():,} bytes; {html.escape(', '.join(self.targets))}</p>"
            f"<table><tr><th></th><th>name</th><th>type</th><th>shape</th><th>scale</th></tr>{of_tensors}</table>"
            f"<table><tr><th>layer</th><th>operator</th><th>policy</th></tr>{of_layers}</table>"
            f"<details><summary>graph and memory</summary>{self.picture()}</details>"
        )

    def _file(self, folder: _files.Folder) -> str:
        path = folder.path(self._name)
        with open(path, "wb") as file:
            file.write(self.to_bytes())
        return path

    def _json(self, command: str, options: Any = None, **more: Any) -> dict[str, Any]:
        with _files.Folder() as folder:
            return _commands.run_json(command, [self._file(folder)], options or {}, folder, **more)


def load(model: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Model:
    """Loads a model from its file, or from the bytes of one.

    Raises nacre.Error if it is not a model that this version reads, and OSError if the file cannot be read.
    """
    if isinstance(model, (str, os.PathLike)):
        with open(model, "rb") as file:
            return Model(file.read(), os.path.basename(os.fsdecode(model)))
    if isinstance(model, (bytes, bytearray, memoryview)):
        return Model(bytes(model))
    raise TypeError(f"a model is a path or bytes, not {type(model).__name__}")


def convert(network: Network, **options: Unpack[ConvertOptions]) -> Model:
    """Compiles a network into a model, as `nacre convert NETWORK -o MODEL` with the same options.

    network: a path (ONNX, TFLite, Keras, told by content), the bytes of such a file, an onnx.ModelProto or a keras.Model.
    Options that name files also take arrays, or a dict of arrays by input: calibrate=x. set={"fc.*": "int8_from_float32"} and
    shape={"x": (1, 3)} stand for several PATTERN=POLICY and NAME=SIZES.

    Raises nacre.Error if the network or an option is refused, TypeError for an option that does not exist.
    """
    with _files.Folder() as folder:
        source, made = folder.network(network), folder.path("model.nacre")
        said = _commands.run_json("convert", [source], options, folder, own={"output": made}, without=_OF_TEXT)
        with open(made, "rb") as file:
            stem = os.path.splitext(os.path.basename(source))[0]
            model = Model(file.read(), f"{stem}.nacre")
    model.conversion = {key: value for key, value in said.items() if key not in ("network", "model")}
    return model


def graph(network: Network, **options: Unpack[ConvertOptions]) -> str:
    """Returns the graph as text, without writing a model: after the pass stop_after="simplify", or with explain=True
    what a rewrite does."""
    with _files.Folder() as folder:
        return _commands.run("convert", [folder.network(network)], options, folder, without=("json", "output"))


def evaluate(
    models: Sequence[Model | str | os.PathLike[str]], x: object, y: object, **options: Unpack[EvalOptions]
) -> dict[str, Any]:
    """Compares models on labelled samples, as `nacre eval --json`; drops are relative to the first."""
    with _files.Folder() as folder:
        paths = [_model_file(model, folder) for model in _several(models)]
        return _commands.run_json("eval", paths, options, folder, own={"data": x, "labels": y})


def report(
    models: Sequence[Model | str | os.PathLike[str]],
    output: str | os.PathLike[str],
    **options: Unpack[ReportOptions],
) -> None:
    """Compares models in one HTML page at `output`, as `nacre report`; the first is the reference."""
    with _files.Folder() as folder:
        paths = [_model_file(model, folder) for model in _several(models)]
        _commands.run("report", paths, options, folder, own={"output": output})


def _several(models: Sequence[Model | str | os.PathLike[str]]) -> Sequence[object]:
    """Returns a list of models; one model becomes a list of one."""
    return [models] if isinstance(models, (Model, str, bytes, os.PathLike)) else models


def _model_file(model: object, folder: _files.Folder) -> str:
    """Returns the path of a model file. A network is converted to one, with the policies of its own file."""
    if isinstance(model, Model):
        return model._file(folder)
    if isinstance(model, (str, os.PathLike)):
        with open(model, "rb") as file:
            if file.read(len(_native.MAGIC)) == _native.MAGIC:
                return os.fsdecode(model)
    return convert(model)._file(folder)
