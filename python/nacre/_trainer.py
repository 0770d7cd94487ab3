"""Trains a model step by step."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _checked, _commands, _files, _native
from ._calls import Calls
from ._error import Error
from ._model import Model
from ._tensors import Array, Runner, fitted, named, runs_of, tensor_info, view, views, write

if TYPE_CHECKING:
    from typing import Unpack

    from ._keywords import ExportOptions


@dataclass(frozen=True)
class StepReport:
    """Result of a training step."""

    applied: bool
    """False: the gradients were not finite; nothing changed but the loss scale and its counters."""
    loss: float
    """Mean over the samples."""
    norm: float
    """2-norm of the mean gradient before clipping; 0 for training in integers (int8/full)."""
    loss_scale: float
    """Loss scale that the gradients were made with."""
    samples: float
    """Samples that the loss counted."""
    refused_in_row: int
    overflow_at_floor: bool
    """Refused at the lowest loss scale: a lower one cannot cure it."""


class Trainer:
    """The programs that train a model, with memory of their own. A step commits as a whole or not at all.

        trainer = nacre.Trainer(nacre.convert("net.onnx", train="softmax_cross_entropy", optimizer="adam"))
        trainer.accumulate(x, y)
        report = trainer.commit(lr=1e-3)

    model: converted with train=LOSS. kernels, threads and target: as for Program. Raises nacre.Error if the model does
    not train.
    """

    def __init__(self, model: Model, *, kernels: str = "auto", threads: int = 1, target: str = "") -> None:
        if not isinstance(model, Model):
            raise TypeError(
                f"a trainer is of a nacre.Model, not {type(model).__name__}: nacre.convert(..., train=LOSS)"
            )
        _checked.one_of("kernels", kernels, _native.kernel_choices())
        threads = _checked.whole("threads", threads, 1, 256)
        target = _checked.text("target", target)
        self.model = model
        self._native = _native.Trainer(model.native, kernels, threads, target)
        self._calls = Calls(f"this Trainer of {model.name}", threads)
        about = json.loads(self._native.describe())
        self._label: str = about["label"]
        self._immediate: bool = about["immediate"]
        self.batch: int = about["batch"]
        """Rows of a micro-batch, at most."""
        self.loss: str = about["loss"]
        self.target: str = about["target"]
        self.kernels: str = about["kernels"]
        """The set of kernels that trains it here, such as avx512."""
        self.inputs = tuple(map(tensor_info, about["inputs"]))
        """Inputs of a micro-batch: data, then labels."""
        self._data = tuple(info for info in self.inputs if info.name != self._label)
        self._state = [(tensor_info(entry), entry["tensor"], entry["trainable"]) for entry in about["state"]]
        inputs, outputs = (tuple(map(tensor_info, about[key])) for key in ("infer_inputs", "infer_outputs"))
        self._infer = Runner(
            inputs,
            outputs,
            about["infer_batch"],
            views(self._native.infer_input, inputs),
            views(self._native.infer_output, outputs),
            self._native.run_infer,
        )

    def accumulate(self, x: object, y: object) -> None:
        """Adds the gradients of these rows. More rows than `batch` become several micro-batches, each summed from
        zero, as `nacre tune` does.

        x: an array; for several inputs a tuple in their order or a dict by name. y: labels or targets; integers of
        another type are cast if none changes. Raises TypeError and ValueError for other types and shapes, and
        nacre.Error if a label is out of range: then everything accumulated since the last commit is discarded.
        """
        with self._calls:
            self._accumulate(self._arrays(x, y))

    def commit(self, lr: float) -> StepReport:
        """Makes one step with the accumulated gradients. If one of them is not finite, no error is raised;
        report.applied is False.

        Raises nacre.Error if nothing was accumulated, or if lr is negative or not finite: then nothing happened.
        """
        rate = _checked.rate(lr)
        with self._calls:
            return StepReport(**self._native.commit(rate))

    def step(self, x: object, y: object, lr: float) -> StepReport:
        """Does accumulate, then commit."""
        rate = _checked.rate(lr)
        with self._calls:
            arrays = self._arrays(x, y)
            runs, last_rows = runs_of(arrays, self.inputs, self.batch)
            if runs > 1:
                self._accumulate(arrays)
                return StepReport(**self._native.commit(rate))
            self._write(arrays, 0)
            return StepReport(**self._native.step(rate, last_rows))

    def sums(self) -> NDArray[np.uint8]:
        """Returns the accumulated sums, in the trainer's own memory: the bytes that machines exchange between
        accumulate and commit. Empty if there are none to share: for a model with update="immediate", or one on a GPU.

            trainer.begin_at(machine)                 # which micro-batch of the step this machine takes
            trainer.accumulate(x, y)
            blocks = sent_around(trainer.sums().copy())                 # of all machines, in their order
            for other in blocks[1:]:
                trainer.join(blocks[0], other)
            trainer.sums()[:] = blocks[0]
            trainer.merged(len(blocks))
            trainer.commit(lr)                        # on every machine: the same state, to the byte

        Over MPI nacre.mpi.Ranks does it.
        """
        return self._native.sums()

    def begin_at(self, index: int) -> None:
        """Discards what was accumulated. The next accumulate takes micro-batch `index` of its step, counted from 0."""
        index = _checked.whole("index", index, 0, 2**32 - 1)
        with self._calls:
            self._native.begin_at(index)

    def join(self, into: NDArray[np.uint8], other: NDArray[np.uint8]) -> None:
        """Computes into = into + other for whole blocks of sums, in the order of the micro-batches. Raises nacre.Error
        if one is too short, and TypeError if one is not a contiguous array of uint8."""
        for array in (into, other):
            if not (isinstance(array, np.ndarray) and array.dtype == np.uint8 and array.ndim == 1 and array.flags.c_contiguous):
                raise TypeError("blocks of sums are arrays of uint8 in one piece, as sums() and its copies are")
        if not into.flags.writeable:
            raise TypeError("into cannot be written")
        if into.size < self.sums().size or other.size < self.sums().size:
            raise Error(f"a block of sums has {self.sums().size} bytes, not {min(into.size, other.size)}", 2)
        self._native.join(into, other)

    def merged(self, micro_batches: int) -> None:
        """Says that sums() was written, and now holds the sums of so many micro-batches."""
        micro_batches = _checked.whole("micro_batches", micro_batches, 0, 2**32 - 1)
        with self._calls:
            self._native.merged(micro_batches)

    def discard(self) -> None:
        """Discards what was accumulated."""
        with self._calls:
            self._native.discard()

    def start(self) -> None:
        """Begins again: sets the state to the model's initial values."""
        with self._calls:
            self._native.start()

    def infer(self, *arrays: object) -> Any:
        """Returns the network's outputs with the learned values. Arrays and results are as for Program."""
        with self._calls:
            made = self._infer(arrays)
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            return {info.name: array for info, array in zip(self._infer.outputs, made)}
        return made[0] if len(made) == 1 else tuple(made)

    def state_dict(self) -> dict[str, Array]:
        """Returns copies of all that training has learned, by name: parameters, moments, statistics, counters."""
        with self._calls:
            return {info.name: np.array(view(self._native.state_tensor(i), info)) for info, i, _ in self._state}

    def parameters(self) -> dict[str, Array]:
        """Returns copies of the trained parameters alone, by name."""
        with self._calls:
            return {
                info.name: np.array(view(self._native.state_tensor(i), info))
                for info, i, trains in self._state
                if trains
            }

    def load_state_dict(self, state: Mapping[str, object], *, strict: bool = True) -> None:
        """Loads values that state_dict() or parameters() returned, or a part of them with strict=False.

        Raises ValueError if a name is unknown, if (with strict) a name is missing, or if a shape differs, and TypeError
        if a type differs: then nothing changes.
        """
        if not isinstance(state, Mapping):
            raise TypeError(f"a state is a dict of arrays by name, not {type(state).__name__}")
        known = {info.name: (info, i) for info, i, _ in self._state}
        unknown = [str(name) for name in state if name not in known]
        missing = [name for name in known if name not in state] if strict else []
        if unknown or missing:
            raise ValueError(f"unknown: {', '.join(unknown) or 'none'}; missing: {', '.join(missing) or 'none'}")
        arrays = {name: fitted(value, known[name][0]) for name, value in state.items()}
        with self._calls:
            places = {name: view(self._native.state_tensor(known[name][1]), known[name][0]) for name in arrays}
            for name, array in arrays.items():
                if array.shape != places[name].shape:
                    raise ValueError(f"{name} has the shape {list(places[name].shape)}, not {list(array.shape)}")
            for name, array in arrays.items():
                places[name][...] = array
            self._native.restored()

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Saves a checkpoint in this directory, as `nacre tune --checkpoint` and a device do. Two slots are written in
        turn, so a loss of power at any byte leaves the one before. Raises nacre.Error if it cannot be written."""
        with self._calls:
            self._native.save(_checked.path(directory))

    def load(self, directory: str | os.PathLike[str], *, any_training: bool = False) -> dict[str, Any]:
        """Loads the newest checkpoint there, also one of `nacre tune`. Returns {"taken": tensors that have its values,
        "kept": others, "file": its slot, "where": "epoch 3" of nacre tune, else "", "same_model": whether it was saved
        with this very model file, "warnings": sentences}. If a slot is not whole, a warning says so, and the other
        slot, which may be older, is loaded.

        any_training: also loads another training's checkpoint, as far as name, type and size match. Raises nacre.Error
        if there is none, or if it is another training's: then nothing changes.
        """
        with self._calls:
            loaded: dict[str, Any] = self._native.load(_checked.path(directory), bool(any_training))
        for sentence in loaded["warnings"]:
            _commands.warn(sentence)
        return loaded

    def export(self, **options: Unpack[ExportOptions]) -> Model:
        """Returns the trained network as a model that infers, as `nacre export` writes it.

        Without options the model gives the outputs of infer(), to the bit. network=FILE compiles that network anew,
        with batch norms folded, adapters merged and any policy. Raises nacre.Error if a weight is not finite.
        """
        if not options:
            with self._calls:
                return Model(self._native.tuned_model(), self.model.name)
        with _files.Folder() as folder:
            made, checkpoint = folder.path("tuned.nacre"), folder.path("checkpoint")
            self.save(checkpoint)
            source = folder.write(self.model.name, self.model.to_bytes())
            given: dict[str, object] = dict(options)
            if given.get("network") is not None:
                given["network"] = folder.network(given["network"])
            own = {"checkpoint": checkpoint, "output": made}
            _commands.run_json("export", [source], given, folder, own=own, without=("keras", "onnx", "best"))
            with open(made, "rb") as file:
                return Model(file.read(), self.model.name)

    def __repr__(self) -> str:
        return f"<nacre.Trainer of {self.model.name}: {self.loss}, {self.target}, batch {self.batch}>"

    def _arrays(self, x: object, y: object) -> list[Array]:
        values = x if isinstance(x, tuple) else (x,)
        of_data = dict(zip((info.name for info in self._data), named(values, self._data, "inputs")))
        return [
            fitted(y, info, lossless_cast=True) if info.name == self._label else fitted(of_data[info.name], info)
            for info in self.inputs
        ]

    def _write(self, arrays: list[Array], run: int) -> None:
        for i, (array, info) in enumerate(zip(arrays, self.inputs)):
            write(view(self._native.input(i), info), array, info, run, self.batch)

    def _accumulate(self, arrays: list[Array]) -> None:
        runs, last_rows = runs_of(arrays, self.inputs, self.batch)
        if runs > 1 and self._immediate:
            raise ValueError(f"this model updates as it goes: give at most {self.batch} rows")
        for run in range(runs):
            self._write(arrays, run)
            self._native.accumulate(last_rows if run == runs - 1 else 0)
