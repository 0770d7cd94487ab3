"""A model file in memory, and what it says of itself."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from . import _checked, _native
from ._infos import Layer, ProgramInfo, TensorInfo, tensor_info
from ._model_reports import ModelReports
from ._model_runs import ModelRuns


class Model(ModelReports, ModelRuns):
    """A model file in memory, checked. It never changes.

    `nacre.convert` makes models, and `nacre.load` reads them.

    Parameters
    ----------
    data : bytes
        Bytes of a model file.
    name : str, default: "model.nacre"
        Name of the model in sentences and reports.

    Attributes
    ----------
    conversion : dict
        Output of `nacre convert --json` without the paths, if this process converted the model; else empty. Among its
        keys are "targets", "fallbacks" (layers whose policy was not possible), "log" and, for inference, "steps",
        "arena_bytes" and "multiply_accumulates".

    Raises
    ------
    Error
        The bytes are not a model that this version reads.

    Notes
    -----
    Two models are equal if their files are equal to the byte. A model can be hashed and pickled; a copy that was
    pickled has no `conversion`.

    Examples
    --------
    >>> import nacre
    >>> model = nacre.convert("tools/samples/digits.onnx")
    >>> nacre.Model(model.to_bytes()) == model
    True
    """

    def __init__(self, data: bytes, name: str = "model.nacre") -> None:
        self._name = name
        self._native = _native.Model(bytes(data), name)
        self.conversion: dict[str, Any] = {}

    def __reduce__(self) -> tuple[type[Model], tuple[bytes, str]]:
        return Model, (self.to_bytes(), self._name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self._native.same(other._native)

    def __hash__(self) -> int:
        return hash((self._native.size(), self.metadata.get("source_sha256"), self.metadata.get("converter_options")))

    @property
    def name(self) -> str:
        """Returns the name of the model.

        Returns
        -------
        str
            Name of the file that it was loaded from. After a conversion: the network's name with the ending ".nacre".

        Examples
        --------
        >>> import nacre
        >>> nacre.convert("tools/samples/digits.onnx").name
        'digits.nacre'
        """
        return self._name

    def to_bytes(self) -> bytes:
        """Returns the bytes of the model file, as `nacre convert` writes them.

        Returns
        -------
        bytes
            The whole file.

        Examples
        --------
        >>> import nacre
        >>> nacre.convert("tools/samples/digits.onnx").to_bytes()[:4]
        b'NACR'
        """
        return self._native.to_bytes()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file, completely or not at all.

        Parameters
        ----------
        path : str or path-like
            Path of the file. An existing file is replaced.

        Raises
        ------
        Error
            The file cannot be written (`exit_code` 5).
        TypeError
            `path` is no path.
        ValueError
            `path` is empty or has a null character.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx")
        >>> model.save("digits.nacre")
        >>> nacre.load("digits.nacre") == model
        True
        """
        self._native.save(_checked.path(path))

    @cached_property
    def _about(self) -> dict[str, Any]:
        made = json.loads(self._native.describe())
        assert isinstance(made, dict)
        return made

    @cached_property
    def programs(self) -> tuple[ProgramInfo, ...]:
        """Returns all programs, in the order of the file.

        Returns
        -------
        tuple of ProgramInfo
            One for inference on each target. A model that trains has more programs for each target.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", target=["host", "arm/m4"])
        >>> [(program.entry, program.target) for program in model.programs]
        [('infer', 'host'), ('infer', 'arm/m4')]
        """
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
        """Returns the inputs of the program that infers on this machine, or else of the first that infers.

        Returns
        -------
        tuple of TensorInfo
            Inputs in their order.

        Raises
        ------
        Error
            The model has no program that infers.

        Examples
        --------
        >>> import nacre
        >>> [(x.name, x.shape) for x in nacre.convert("tools/samples/digits.onnx").inputs]
        [('pixels', (1, 1, 8, 8))]
        """
        return self.programs[self._native.infer_program("")].inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Returns the outputs of the program that infers on this machine, or else of the first that infers.

        Returns
        -------
        tuple of TensorInfo
            Outputs in their order.

        Raises
        ------
        Error
            The model has no program that infers.

        Examples
        --------
        >>> import nacre
        >>> [(y.name, y.shape) for y in nacre.convert("tools/samples/digits.onnx").outputs]
        [('probabilities', (1, 10))]
        """
        return self.programs[self._native.infer_program("")].outputs

    @property
    def targets(self) -> tuple[str, ...]:
        """Returns the targets for which the model has programs.

        Returns
        -------
        tuple of str
            Each target once, in the order of the file.

        Examples
        --------
        >>> import nacre
        >>> nacre.convert("tools/samples/digits.onnx", target="arm/m4").targets
        ('arm/m4',)
        """
        return tuple(dict.fromkeys(program.target for program in self.programs))

    @property
    def trains(self) -> bool:
        """Returns whether `nacre.Trainer` takes the model.

        Returns
        -------
        bool
            True if the model was converted with `train=LOSS`.

        Examples
        --------
        >>> import nacre
        >>> nacre.convert("tools/samples/digits.onnx").trains
        False
        >>> nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy").trains
        True
        """
        return any(program.entry == "update" for program in self.programs)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Returns the network's layers with the policies that they were compiled with.

        Returns
        -------
        tuple of Layer
            Layers in the order of the network.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", set={"fc": "int8_from_float32"})
        >>> [layer.policy for layer in model.layers if layer.name == "fc"]
        ['int8_from_float32']
        """
        return tuple(Layer(layer["name"], layer["op"], layer["policy"]) for layer in self._about["layers"])

    @property
    def metadata(self) -> dict[str, str]:
        """Returns the origin of the model.

        Returns
        -------
        dict of str to str
            A copy of the file's entries: the converter, its options, the SHA-256 of the network, and entries that a
            training added.

        Examples
        --------
        >>> import nacre
        >>> nacre.convert("tools/samples/digits.onnx", batch=8).metadata["converter_options"]
        '--batch 8'
        """
        return dict(self._about["metadata"])

    def __repr__(self) -> str:
        policies = list(dict.fromkeys(layer.policy for layer in self.layers))
        shown = ", ".join(policies[:3]) + (", ..." if len(policies) > 3 else "")
        trains = ", trains" if self.trains else ""
        return (
            f"<nacre.Model {self._name}: {len(self.layers)} layers in {shown}; {', '.join(self.targets)}{trains}; "
            f"{self._native.size():,} bytes>"
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
        facts = f"{self._native.size():,} bytes; {html.escape(', '.join(self.targets))}"
        return (
            f"<p><b>{html.escape(self._name)}</b>: {facts}</p>"
            f"<table><tr><th></th><th>name</th><th>type</th><th>shape</th><th>scale</th></tr>{of_tensors}</table>"
            f"<table><tr><th>layer</th><th>operator</th><th>policy</th></tr>{of_layers}</table>"
            f"<details><summary>graph and memory</summary>{self.picture()}</details>"
        )
