"""Running a model."""

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

    model: a Model. target: which of its programs for inference; "" the one for this machine. program: its index in
    model.programs instead. kernels: auto, the fastest here; reference, the same numbers on every machine; or a tier such
    as avx2. threads: that share the work of large steps. quantize_inputs: calls take float32 where an input holds int8 or
    int16 codes, or a smaller float type. dequantize_outputs: calls give codes of outputs as float32. Both as `nacre run`.

    One run at a time: calls of several threads wait for each other. Python's lock is free while a run computes. A process
    that os.fork makes can call it where threads is 1 and no other thread was in a call; else that is an Error. Raises
    nacre.Error where the model has no such program or this machine cannot run it.
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
        """The set of kernels that runs it here, such as avx512_vnni."""
        return self._native.kernels()

    def __call__(self, *arrays: object) -> Any:
        """The outputs for these inputs: arrays in the order of `inputs`, or one dict by their names.

        An array is of NumPy or anything with DLPack (torch, jax), of the input's type, in its shape; where the input has
        rows, of any number of them, which are run as many at a time as the program takes. A list becomes an array.

        One output is an array, several are a tuple, and given a dict they are a dict. They are copies. What a stream
        keeps from run to run goes on: start() begins a new one. Raises TypeError for another type, ValueError for another
        shape, nacre.Error where the run is refused, such as for an index outside its table.
        """
        with self._calls:
            made = self._run_all(arrays)
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            return {info.name: array for info, array in zip(self.outputs, made)}
        return made[0] if len(made) == 1 else tuple(made)

    def input(self, i: int | str = 0) -> Array:
        """The memory of an input, to be written before run(): by index or by name. No copy, and it lives on by itself."""
        return self._input(_index(i, self.inputs))

    def output(self, i: int | str = 0) -> Array:
        """The memory of an output, to be read after run(), and valid until the next; it cannot be written."""
        array = self._output(_index(i, self.outputs))
        array.flags.writeable = False
        return array

    def run(self, rows: int = 0) -> None:
        """One run on what stands in the inputs; `rows`: the first of the compiled batch alone."""
        rows = _checked.whole("rows", rows, 0, self.info.batch)
        with self._calls:
            self._native.run(rows)

    def start(self) -> None:
        """A stream begins: what the model keeps from run to run becomes zero."""
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
