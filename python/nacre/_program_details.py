"""Looks into the runs of a program: every tensor, the time of each step, the values of its stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _checked, _commands, _native, _progress
from ._calls import Calls
from ._infos import TensorInfo, tensor_info
from ._profile import Profile, profile_of
from ._tensors import Array, Runner, bytes_of, fitted, named, real, view, write


class ProgramDetails:
    """The methods of a Program that look into its runs."""

    index: int
    _native: _native.Program
    _calls: Calls
    _inputs: tuple[Array, ...]
    _run_all: Runner

    def intermediates(self, *arrays: object) -> dict[str, Array]:
        """Runs once and returns every tensor of the run by name.

        Parameters
        ----------
        *arrays : array_like, or one dict of str to array_like
            Inputs, as a call takes them, for one run of all rows that the program was compiled for.

        Returns
        -------
        dict of str to ndarray
            Copies of the inputs, of each step's results and of the outputs, in the order in which they are complete.
            With `dequantize_outputs` codes of int8 and int16 are float32. A second tensor of one name gets "#2" behind
            it, and so on.

        Raises
        ------
        Error
            The run is refused, for example for an index outside its table.
        TypeError
            An array has another type.
        ValueError
            An array has another shape, or other than the compiled number of rows.

        Notes
        -----
        These are the tensors of `nacre run --all-tensors`. Compilation joins layers, so a network's tensor that no step
        writes is not among them. A stream goes on by one run. All tensors are in memory at once.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> program = nacre.Program(nacre.convert("tools/samples/digits.onnx"))
        >>> tensors = program.intermediates(np.zeros((1, 1, 8, 8), np.float32))
        >>> list(tensors)[0], list(tensors)[-1], tensors["probabilities"].shape
        ('pixels', 'probabilities', (1, 10))
        """
        with self._calls:
            self._write_one_run(arrays)
            made = self._native.tensors_of_run()
        tensors: dict[str, Array] = {}
        for text, data in made:
            info = tensor_info(json.loads(text))
            array = np.frombuffer(data, info.numpy_dtype)
            if array.size == np.prod(info.shape, dtype=int):  # if not, an element is smaller than a byte
                array = array.reshape(info.shape)
            array = array.copy()
            tensors[_new_name(info.name, tensors)] = real(array, info) if self._run_all.dequantize_outputs else array
        return tensors

    def profile(self, *arrays: object, runs: int = 20) -> Profile:
        """Measures how long a run takes, and each of its steps.

        Parameters
        ----------
        *arrays : array_like, or one dict of str to array_like
            Inputs, as a call takes them, for one run of all rows that the program was compiled for.
        runs : int, default: 20
            Number of runs to time, after as many to warm up. Then as many run step by step.

        Returns
        -------
        Profile
            Times of the whole runs and of the steps, with the kernels' names.

        Raises
        ------
        Error
            The run is refused, for example for an index outside its table.
        TypeError
            An array has another type, or `runs` is no whole number.
        ValueError
            An array has another shape, or other than the compiled number of rows. Also if `runs` is out of range.

        Notes
        -----
        The numbers are those of `nacre bench --profile`. A stream goes on with each run: `start` begins a new one. Ctrl-C
        ends a profile between two runs.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> program = nacre.Program(nacre.convert("tools/samples/digits.onnx"))
        >>> profile = program.profile(np.zeros((1, 1, 8, 8), np.float32))
        >>> slowest = max(profile.steps, key=lambda step: step.us)
        >>> 0 < slowest.us and slowest.kernel != ""
        True
        """
        runs = _checked.whole("runs", runs, 1, 1_000_000)
        with self._calls:
            self._write_one_run(arrays)
            inputs = [bytes_of(memory).copy() for memory in self._inputs]  # which a run may overwrite
            text = self._native.profile(self.index, inputs, runs, _progress.chosen, _commands.tell)
        return profile_of(text)

    def stream(self) -> dict[str, Array]:
        """Returns what the model keeps from run to run, to go on there with `start` later.

        Returns
        -------
        dict of str to ndarray
            Copies of the values by name. Empty for a model that keeps nothing.

        Notes
        -----
        One program so serves many streams in turns, each with its own values and one copy of the weights. Streams that
        run at the same time need a Program each, which may be of one Model.

        Examples
        --------
        >>> import nacre
        >>> nacre.Program(nacre.convert("tools/samples/digits.onnx")).stream()
        {}
        """
        with self._calls:
            return {info.name: memory.copy() for info, memory in self._stream_memory()}

    def start(self, stream: Mapping[str, object] | None = None) -> None:
        """Begins a new stream, or goes on with another one.

        Parameters
        ----------
        stream : dict of str to ndarray, optional
            Values that `stream` returned, of a program of the same model. None sets what the model keeps from run to
            run to zero.

        Raises
        ------
        TypeError
            An array has another type.
        ValueError
            A value is missing or unknown, or has another shape. Nothing happens then.

        Notes
        -----
        A model without such state (`nacre.convert(..., state=...)`, recurrences) is not changed by it.

        Examples
        --------
        >>> import nacre
        >>> program = nacre.Program(nacre.convert("tools/samples/digits.onnx"))
        >>> program.start()
        >>> program.start(program.stream())
        """
        if stream is not None and not isinstance(stream, Mapping):
            raise TypeError(f"a stream is the dict that Program.stream returned, not {type(stream).__name__}")
        with self._calls:
            if stream is None:
                return self._native.start()
            tensors = self._stream_memory()
            infos = [info for info, _ in tensors]
            arrays = [fitted(value, info) for value, info in zip(named([stream], infos, "values of the stream"), infos)]
            for array, (info, memory) in zip(arrays, tensors):
                if array.shape != memory.shape:
                    raise ValueError(f"{info.name} takes {list(memory.shape)}, not {list(array.shape)}")
            for array, (_, memory) in zip(arrays, tensors):
                memory[...] = array

    def _write_one_run(self, values: tuple[object, ...]) -> None:
        arrays = self._run_all.arrays_of_one_run(values)
        for memory, array, info in zip(self._inputs, arrays, self._run_all.inputs):
            write(memory, array, info, 0, self._run_all.batch)

    def _stream_memory(self) -> list[tuple[TensorInfo, Array]]:
        """Returns the tensors that keep values from run to run, each with its memory."""
        entries: list[dict[str, Any]] = json.loads(self._native.stream_tensors())
        infos = [tensor_info(entry) for entry in entries]
        return [
            (info, view(self._native.stream_tensor(entry["tensor"]), info)) for info, entry in zip(infos, entries)
        ]


def _new_name(name: str, names: Mapping[str, object]) -> str:
    number, new = 1, name
    while new in names:
        number += 1
        new = f"{name}#{number}"
    return new
