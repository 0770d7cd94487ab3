"""Runs a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _checked, _native
from ._calls import Calls
from ._model import Model, ProgramInfo
from ._tensors import Array, Runner, TensorInfo, views


class Program:
    """A program of a model, bound to kernels and to memory of its own, ready to run.

        y = nacre.Program(model)(x)

    model: a Model. target: which of its programs for inference; "" is the one for this machine. program: instead of
    target, the index in model.programs. kernels: auto, the fastest here; reference, the same numbers on every machine;
    or a tier such as avx2. threads: the number that share large steps. quantize_inputs: calls take float32 if an input
    holds int8 or int16 codes, or another float type. dequantize_outputs: calls give codes of outputs as float32.
    Both as `nacre run`.

    One run at a time: calls of several threads wait for each other. Python's lock is free while a run computes. A process
    that os.fork makes can call it if threads is 1 and no other thread was in a call; else that is an Error. Raises
    nacre.Error if the model has no such program or this machine cannot run it.
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
        self.index = model.native.infer_program(target) if program is None else program
        self._native = _native.Program(model.native, self.index, kernels, threads)
        self._calls = Calls(f"this Program of {model.name}", threads)
        self._input = views(self._native.input, self.inputs)
        self._output = views(self._native.output, self.outputs)
        if dequantize_outputs and not any(info.codes for info in self.outputs):
            raise ValueError("dequantize_outputs: no output of the model is int8 or int16 codes")
        self._run_all = Runner(
            self.inputs,
            self.outputs,
            self.info.batch,
            self._input,
            self._output,
            self._native.run,
            quantize_inputs,
            dequantize_outputs,
        )

    @property
    def info(self) -> ProgramInfo:
        return self.model.programs[self.index]

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        return self.info.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        return self.info.outputs

    @property
    def kernels(self) -> str:
        """Returns the name of the set of kernels that runs it here, such as avx512_vnni."""
        return self._native.kernels()

    def __call__(self, *arrays: object) -> Any:
        """Returns the outputs for these inputs: arrays in the order of `inputs`, or one dict by their names.

        An array is NumPy's, or any object with DLPack (torch, jax), with the input's type and shape. If the input has
        rows, the array may have any number of them; each run takes as many as the program allows. A list becomes an
        array.

        One output is an array, several are a tuple; if inputs are a dict, outputs are a dict. They are copies. A stream
        continues from run to run; start() begins a new one. Raises TypeError for another type, ValueError for another
        shape, nacre.Error if the run is refused, for example for an index outside its table.
        """
        with self._calls:
            made = self._run_all(arrays)
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            return {info.name: array for info, array in zip(self.outputs, made)}
        return made[0] if len(made) == 1 else tuple(made)

    def input(self, i: int | str = 0) -> Array:
        """Returns the memory of an input (index or name), to write before run(). The array keeps it alive."""
        return self._input(_index(i, self.inputs))

    def output(self, i: int | str = 0) -> Array:
        """Returns the memory of an output, to read after run(). It is read-only and valid until the next run."""
        array = self._output(_index(i, self.outputs))
        array.flags.writeable = False
        return array

    def run(self, rows: int = 0) -> None:
        """Runs once on the inputs' memory. `rows`: runs only the first rows of the compiled batch; 0: all."""
        rows = _checked.whole("rows", rows, 0, self.info.batch)
        with self._calls:
            self._native.run(rows)

    def start(self) -> None:
        """Begins a stream: values that the model keeps from run to run become zero."""
        with self._calls:
            self._native.start()

    def __repr__(self) -> str:
        return (
            f"<nacre.Program of {self.model.name}: {self.info.target}, batch {self.info.batch}, kernels {self.kernels}>"
        )


def _index(i: int | str, infos: tuple[TensorInfo, ...]) -> int:
    if isinstance(i, str):
        for index, info in enumerate(infos):
            if info.name == i:
                return index
        raise KeyError(f"{i!r} is not one of {', '.join(info.name for info in infos)}")
    try:
        return _checked.whole("an index", i, 0, len(infos) - 1)
    except ValueError as error:
        raise IndexError(str(error)) from None
