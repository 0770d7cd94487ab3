"""Runs a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np

from . import _checked, _native
from ._calls import Calls
from ._infos import ProgramInfo, TensorInfo
from ._model import Model
from ._program_details import ProgramDetails
from ._tensors import Array, Runner, views


class Program(ProgramDetails):
    """A program of a model, bound to kernels and to memory of its own, ready to run.

    Parameters
    ----------
    model : Model
        The model. It stays alive with the program.
    target : str, default: ""
        Target whose program for inference is taken. "" takes the one for this machine.
    program : int, optional
        Index in `model.programs` of the program to take, in place of `target`.
    kernels : str, default: "auto"
        Kernels that run it: "auto" the fastest here, "reference" those with the same numbers on every machine, or a
        tier such as "avx2".
    threads : int, default: 1
        Threads that share large steps, from 1 to 256.
    quantize_inputs : bool, default: False
        Whether calls take float32 for inputs of int8 or int16 codes, and for inputs of another float type. Codes are
        made by the input's scale, as by `nacre run --quantize-inputs`.
    dequantize_outputs : bool, default: False
        Whether calls give float32 for outputs of int8 or int16 codes, as `nacre run --dequantize-outputs`.

    Attributes
    ----------
    model : Model
        The model.
    index : int
        Index of the program in `model.programs`.

    Raises
    ------
    Error
        The model has no such program, or this machine cannot run it.
    TypeError
        An argument is of another type.
    ValueError
        `kernels` is no set of kernels, a number is out of range, or no output has codes to dequantize.

    Notes
    -----
    A program makes one run at a time: calls of several threads wait for each other. Python's lock is free while a run
    computes. A process that `os.fork` makes can call it if `threads` is 1 and no other thread was in a call; else a
    call raises Error.

    Ctrl-C, or another signal whose handler raises, ends a run of over 20 ms between two steps, and many runs between
    two of them. Outputs are then undefined, and a stream may be part of a run further: call `start`.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> program = nacre.Program(nacre.convert("tools/samples/digits.onnx"))
    >>> program(x[:3]).argmax(axis=1)
    array([0, 1, 2])
    """

    def __init__(
        self,
        model: Model,
        *,
        target: str = "",
        program: int | None = None,
        kernels: str = "auto",
        threads: int = 1,
        quantize_inputs: bool = False,
        dequantize_outputs: bool = False,
    ) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"a program is of a nacre.Model, not {type(model).__name__}: nacre.load or nacre.convert")
        _checked.one_of("kernels", kernels, _native.kernel_choices())
        if program is not None:
            program = _checked.whole("program", program, 0, len(model.programs) - 1)
        threads = _checked.whole("threads", threads, 1, 256)
        target = _checked.text("target", target)
        self.model = model
        self.index = model._native.infer_program(target) if program is None else program
        self._native = _native.Program(model._native, self.index, kernels, threads)
        self._calls = Calls(f"this Program of {model.name}", threads)
        self._inputs = views(self._native.input, self.inputs)
        self._outputs = views(self._native.output, self.outputs)
        for array in self._outputs:
            array.flags.writeable = False
        if dequantize_outputs and not any(info.codes for info in self.outputs):
            raise ValueError("dequantize_outputs: no output of the model is int8 or int16 codes")
        self._run_all = Runner(
            self.inputs,
            self.outputs,
            self.info.batch,
            self._outputs,
            self._native.run_all,
            quantize_inputs,
            dequantize_outputs,
        )
        # The shortest way through a call, for arrays that need no check: half of the time of a tiny network.
        whole = all(x.shape == info.shape for x, info in zip(self._inputs, self.inputs)) and not dequantize_outputs
        self._exact = tuple((x.shape, x.dtype, x[...]) for x in self._inputs) if whole else ()
        self._results = tuple(y[...] for y in self._outputs)
        self._names = [info.name for info in self.inputs]
        self._output_names = [info.name for info in self.outputs]
        self._run = self._native.run

    @property
    def info(self) -> ProgramInfo:
        """Returns what the file says of the program.

        Returns
        -------
        ProgramInfo
            The entry of `model.programs`.

        Examples
        --------
        >>> import nacre
        >>> nacre.Program(nacre.convert("tools/samples/digits.onnx", batch=8)).info.batch
        8
        """
        return self.model.programs[self.index]

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Returns the inputs.

        Returns
        -------
        tuple of TensorInfo
            Inputs in the order in which a call takes them.

        Examples
        --------
        >>> import nacre
        >>> [x.name for x in nacre.Program(nacre.convert("tools/samples/digits.onnx")).inputs]
        ['pixels']
        """
        return self.info.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Returns the outputs.

        Returns
        -------
        tuple of TensorInfo
            Outputs in the order in which a call returns them.

        Examples
        --------
        >>> import nacre
        >>> [y.name for y in nacre.Program(nacre.convert("tools/samples/digits.onnx")).outputs]
        ['probabilities']
        """
        return self.info.outputs

    @property
    def kernels(self) -> str:
        """Returns the name of the set of kernels that runs the program here.

        Returns
        -------
        str
            "reference", a tier such as "avx512_vnni", or several names joined by "+".

        Examples
        --------
        >>> import nacre
        >>> nacre.Program(nacre.convert("tools/samples/digits.onnx"), kernels="reference").kernels
        'reference'
        """
        return self._native.kernels()

    @overload
    def __call__(self, inputs: Mapping[str, object], /) -> dict[str, Array]: ...

    @overload
    def __call__(self, *arrays: object) -> Array | Any: ...

    def __call__(self, *arrays: object) -> Any:
        """Returns the outputs for these inputs.

        Parameters
        ----------
        *arrays : array_like, or one dict of str to array_like
            An array for each input in the order of `inputs`, or one dict with an array for each input's name. An array
            is NumPy's, or any object with DLPack on the CPU (torch, jax), with the input's type and shape; a list
            becomes an array. If `TensorInfo.rows` is true, axis 0 may have any size, else samples may be stacked on a
            new axis 0.

        Returns
        -------
        ndarray, tuple of ndarray, or dict of str to ndarray
            If the inputs are a dict: a dict of all outputs by name. Else the only output, or a tuple of several in the
            order of `outputs`. The arrays are copies.

        Raises
        ------
        Error
            The run is refused, for example for an index outside its table. Also for a number that has no code, with
            `quantize_inputs`, and for a call inside another call of the same thread.
        TypeError
            An array has another type, or a mask.
        ValueError
            An array has another shape, an input is missing or unknown, or the arrays have different numbers of rows.

        Notes
        -----
        Nothing is cast or scaled in silence. Each run takes as many rows as the program was compiled for, or fewer. A
        stream, which keeps values from run to run, goes on from call to call, until `start` begins a new one.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> program = nacre.Program(nacre.convert("tools/samples/digits.onnx"))
        >>> program(x[:20]).shape
        (20, 10)
        >>> outputs = program({"pixels": x[:20]})
        >>> outputs["probabilities"].shape
        (20, 10)
        """
        by_name = len(arrays) == 1 and isinstance(arrays[0], Mapping)
        if by_name and len(arrays[0]) == len(self._exact):  # type: ignore[arg-type]
            values = [arrays[0].get(name) for name in self._names]  # type: ignore[attr-defined]
        else:
            values = arrays  # type: ignore[assignment]
        with self._calls:
            made = self._run_exact(values) if self._takes_exactly(values) else self._run_all(arrays)
        if by_name:
            return dict(zip(self._output_names, made))
        return made[0] if len(made) == 1 else tuple(made)

    def _takes_exactly(self, values: Sequence[object]) -> bool:
        """Returns whether the values are arrays of exactly the inputs' types and shapes, for one run."""
        exact = self._exact
        if len(values) != len(exact) or not exact:
            return False
        for x, (shape, dtype, _) in zip(values, exact):
            if type(x) is not np.ndarray or x.dtype is not dtype or x.shape != shape:
                return False
        return True

    def _run_exact(self, arrays: Sequence[Any]) -> list[Array]:
        for x, (_, _, place) in zip(arrays, self._exact):
            place[...] = x
        self._run(0)
        return [result.copy() for result in self._results]

    def input(self, i: int | str = 0) -> Array:
        """Returns the program's own memory of an input, to write before `run`.

        Parameters
        ----------
        i : int or str, default: 0
            Index or name of the input.

        Returns
        -------
        ndarray
            The memory, not a copy, of the compiled batch: the same array each time. It keeps the memory alive.

        Raises
        ------
        IndexError
            There is no input of this index.
        KeyError
            There is no input of this name.
        TypeError
            `i` is neither.

        Examples
        --------
        >>> import nacre
        >>> program = nacre.Program(nacre.convert("tools/samples/digits.onnx", batch=8))
        >>> program.input("pixels")[...] = 1
        >>> program.input().shape
        (8, 1, 8, 8)
        """
        return self._inputs[_index(i, self.inputs)]

    def output(self, i: int | str = 0) -> Array:
        """Returns the program's own memory of an output, to read after `run`.

        Parameters
        ----------
        i : int or str, default: 0
            Index or name of the output.

        Returns
        -------
        ndarray
            The memory, not a copy, of the compiled batch: the same array each time. It is read-only, and the next run
            overwrites it.

        Raises
        ------
        IndexError
            There is no output of this index.
        KeyError
            There is no output of this name.
        TypeError
            `i` is neither.

        Examples
        --------
        >>> import nacre
        >>> program = nacre.Program(nacre.convert("tools/samples/digits.onnx"))
        >>> program.input()[...] = 0
        >>> program.run()
        >>> program.output("probabilities").shape
        (1, 10)
        """
        return self._outputs[_index(i, self.outputs)]

    def run(self, rows: int = 0) -> None:
        """Runs once on what stands in the inputs' memory.

        Parameters
        ----------
        rows : int, default: 0
            Number of first rows to run, at most the compiled batch. 0 runs all.

        Raises
        ------
        Error
            The run is refused, for example because the model takes whole batches only.
        TypeError
            `rows` is no whole number.
        ValueError
            `rows` is out of range.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> program = nacre.Program(nacre.convert("tools/samples/digits.onnx", batch=8))
        >>> program.input()[:3] = x[:3]
        >>> program.run(rows=3)
        >>> program.output()[:3].argmax(axis=1)
        array([0, 1, 2])
        """
        if type(rows) is not int or rows != 0:  # the check takes 0.3 us
            rows = _checked.whole("rows", rows, 0, self.info.batch)
        with self._calls:
            self._run(rows)

    def __repr__(self) -> str:
        return (
            f"<nacre.Program of {self.model.name}: {self.info.target}, batch {self.info.batch}, kernels {self.kernels}>"
        )


def _index(i: int | str, infos: tuple[TensorInfo, ...]) -> int:
    if type(i) is int and 0 <= i < len(infos):
        return i
    if isinstance(i, str):
        for index, info in enumerate(infos):
            if info.name == i:
                return index
        raise KeyError(f"{i!r} is not one of {', '.join(info.name for info in infos)}")
    try:
        return _checked.whole("an index", i, 0, len(infos) - 1)
    except ValueError as error:
        raise IndexError(str(error)) from None
