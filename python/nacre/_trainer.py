"""Trains a model step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, overload

from . import _checked, _native
from ._calls import Calls
from ._infos import tensor_info
from ._learned_state import LearnedState
from ._model import Model
from ._shared_sums import SharedSums
from ._step_report import StepReport
from ._tensors import Array, Runner, fitted, named, runs_of, view, views, write


class Trainer(LearnedState, SharedSums):
    """The programs that train a model, with memory of their own. A step commits as a whole or not at all.

    Parameters
    ----------
    model : Model
        A model that was converted with `train=LOSS`.
    kernels : str, default: "auto"
        Kernels that train it: "auto" the fastest here, "reference" those with the same numbers on every machine, or a
        tier such as "avx2".
    threads : int, default: 1
        Threads that share large steps, from 1 to 256.
    target : str, default: ""
        Target whose programs train. "" takes the one for this machine.

    Attributes
    ----------
    model : Model
        The model.
    batch : int
        Rows of a micro-batch, at most.
    loss : str
        Name of the loss, such as "softmax_cross_entropy".
    target : str
        Target of the programs.
    kernels : str
        Name of the set of kernels that trains it here, such as "avx512".
    inputs : tuple of TensorInfo
        Inputs of a micro-batch: data, then labels.

    Raises
    ------
    Error
        The model does not train, or this machine cannot run it.
    TypeError
        An argument is of another type.
    ValueError
        `kernels` is no set of kernels, or `threads` is out of range.

    Notes
    -----
    A trainer makes one call at a time, as `nacre.Program` does.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> labels = np.load("tools/samples/digits_labels.npy")
    >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", optimizer="adam", batch=32)
    >>> trainer = nacre.Trainer(model)
    >>> reports = [trainer.step(16 - x[:32], labels[:32], lr=1e-2) for _ in range(20)]
    >>> reports[-1].loss < reports[0].loss
    True
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
        self._native = _native.Trainer(model._native, kernels, threads, target)
        self._calls = Calls(f"this Trainer of {model.name}", threads)
        about = json.loads(self._native.describe())
        self._label: str = about["label"]
        self._immediate: bool = about["immediate"]
        self.batch: int = about["batch"]
        self.loss: str = about["loss"]
        self.target: str = about["target"]
        self.kernels: str = about["kernels"]
        self.inputs = tuple(map(tensor_info, about["inputs"]))
        self._data = tuple(info for info in self.inputs if info.name != self._label)
        self._state = [(tensor_info(entry), entry["tensor"], entry["trainable"]) for entry in about["state"]]
        inputs, outputs = (tuple(map(tensor_info, about[key])) for key in ("infer_inputs", "infer_outputs"))
        self._infer = Runner(
            inputs,
            outputs,
            about["infer_batch"],
            views(self._native.infer_output, outputs),
            self._native.run_all,
        )

    def accumulate(self, x: object, y: object) -> None:
        """Adds the gradients of these rows to those of the step.

        Parameters
        ----------
        x : array, tuple of arrays, or dict of arrays
            Rows of the only input; for several inputs a tuple in their order, or a dict by name. More rows than `batch`
            make several micro-batches, each summed from zero, as `nacre tune` does.
        y : array
            Labels, or targets, with as many rows. Labels may be integers of any type, if none changes by the cast.

        Raises
        ------
        Error
            A label is out of range: all that was accumulated since the last commit is discarded. Or the model takes
            whole batches only, and there are fewer rows.
        TypeError
            An array has another type, or a label is no whole number.
        ValueError
            An array has another shape or number of rows. Also, with `update="immediate"`, for more rows than `batch`.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> labels = np.load("tools/samples/digits_labels.npy")
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", batch=16)
        >>> trainer = nacre.Trainer(model)
        >>> trainer.accumulate(x[:16], labels[:16])
        >>> trainer.accumulate({"pixels": x[16:40]}, labels[16:40])
        >>> trainer.commit(lr=1e-3).samples
        40.0
        """
        with self._calls:
            self._accumulate(self._arrays(x, y))

    def commit(self, lr: float) -> StepReport:
        """Makes one step with the accumulated gradients.

        Parameters
        ----------
        lr : float
            Learning rate, not negative.

        Returns
        -------
        StepReport
            How the step went. If a gradient is not finite, no exception is raised, and `applied` is False.

        Raises
        ------
        Error
            Nothing was accumulated, or `lr` is negative or not finite in float32. Nothing happens.
        TypeError
            `lr` is no number.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> labels = np.load("tools/samples/digits_labels.npy")
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", batch=16)
        >>> trainer = nacre.Trainer(model)
        >>> trainer.accumulate(x[:16], labels[:16])
        >>> trainer.commit(lr=1e-3).applied
        True
        """
        rate = _checked.rate(lr)
        with self._calls:
            return StepReport(**self._native.commit(rate))

    def step(self, x: object, y: object, lr: float) -> StepReport:
        """Accumulates these rows and commits.

        Parameters
        ----------
        x : array, tuple of arrays, or dict of arrays
            Rows, as for `accumulate`.
        y : array
            Labels or targets, as for `accumulate`.
        lr : float
            Learning rate, as for `commit`.

        Returns
        -------
        StepReport
            How the step went. Gradients that were accumulated before count too.

        Raises
        ------
        Error
            A label is out of range, or `lr` is refused, as in `accumulate` and `commit`.
        TypeError
            An array has another type, or `lr` is no number.
        ValueError
            An array has another shape or number of rows.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> labels = np.load("tools/samples/digits_labels.npy")
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", batch=16)
        >>> nacre.Trainer(model).step(x[:40], labels[:40], lr=1e-3).samples
        40.0
        """
        rate = _checked.rate(lr)
        with self._calls:
            arrays = self._arrays(x, y)
            runs, last_rows = runs_of(arrays, self.inputs, self.batch)
            if runs > 1:
                self._accumulate(arrays)
                return StepReport(**self._native.commit(rate))
            self._write(arrays, 0)
            return StepReport(**self._native.step(rate, last_rows))

    def discard(self) -> None:
        """Discards what was accumulated since the last commit.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> nacre.Trainer(model).discard()
        """
        with self._calls:
            self._native.discard()

    def start(self) -> None:
        """Begins the training again: sets the state to the model's initial values.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> trainer = nacre.Trainer(model)
        >>> first = trainer.parameters()["fc.bias"]
        >>> report = trainer.step(np.ones((1, 1, 8, 8), np.float32), [3], lr=0.1)
        >>> trainer.start()
        >>> np.array_equal(trainer.parameters()["fc.bias"], first)
        True
        """
        with self._calls:
            self._native.start()

    @overload
    def infer(self, inputs: Mapping[str, object], /) -> dict[str, Array]: ...

    @overload
    def infer(self, *arrays: object) -> Array | Any: ...

    def infer(self, *arrays: object) -> Any:
        """Returns the network's outputs with the learned values.

        Parameters
        ----------
        *arrays : array_like, or one dict of str to array_like
            Inputs of the network, as for a call of `nacre.Program`.

        Returns
        -------
        ndarray, tuple of ndarray, or dict of str to ndarray
            Outputs, as of a call of `nacre.Program`: by name if the inputs are a dict.

        Raises
        ------
        Error
            The run is refused, for example for an index outside its table.
        TypeError
            An array has another type.
        ValueError
            An array has another shape, or an input is missing or unknown.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> nacre.Trainer(model).infer(x[:3]).argmax(axis=1)
        array([0, 1, 2])
        """
        with self._calls:
            made = self._infer(arrays)
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            return {info.name: array for info, array in zip(self._infer.outputs, made)}
        return made[0] if len(made) == 1 else tuple(made)

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
