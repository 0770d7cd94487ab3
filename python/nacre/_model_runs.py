"""Commands of the tool that run one model, as methods of nacre.Model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from . import _commands, _files
from ._infos import SMALL_FLOATS, numpy_dtype
from ._keywords import BenchOptions, RunOptions
from ._result import Result
from ._tensors import Array


class ModelRuns:
    """A base of nacre.Model."""

    if TYPE_CHECKING:

        def _file(self, folder: _files.Folder) -> str: ...

    @_commands.documented("RunOptions")
    def run(self, x: object = None, **options: Unpack[RunOptions]) -> Result:
        """Runs the model on samples and times the runs, as `nacre run --json` does.

        `nacre.Program` is quicker for many calls: it binds the model once.

        Parameters
        ----------
        x : array, dict of arrays, or path, optional
            Samples, stacked on axis 0. An array or a file for the only input, a dict with one for each input. An input
            that is left out needs the option `seed`.
        **options
            Options of `nacre run` by keyword. An option that is None counts as not given.

        Returns
        -------
        Result
            "outputs" has "name", "type", "shape" and "array" for each output. "samples" and "runs" are counts,
            "median_us" is the median time of a run in microseconds. "top" and "profile" are there if options ask for
            them.

        Raises
        ------
        Error
            The samples do not fit the model, or an option is refused.
        TypeError
            There is no option of this name, or `x` is of another kind.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> ran = nacre.convert("tools/samples/digits.onnx").run(x[:5], top=1)
        >>> ran["outputs"][0]["array"].argmax(axis=1)
        array([0, 1, 2, 3, 4])
        >>> [row["class"] for row in ran.rows("top")]
        [0, 1, 2, 3, 4]
        """
        with _files.Folder() as folder:
            own: dict[str, object] = {"output": folder.path("outputs"), "input": _inputs(x, folder)}
            ran = _commands.run_json("run", [self._file(folder)], options, folder, own=own)
            for entry in ran["outputs"]:
                entry["array"] = _array(os.path.join(os.path.dirname(str(own["output"])), entry.pop("file")), entry)
        return ran

    @_commands.documented("BenchOptions")
    def bench(self, **options: Unpack[BenchOptions]) -> Result:
        """Measures how long a run takes on this machine, as `nacre bench --json` does.

        Parameters
        ----------
        **options
            Options of `nacre bench` by keyword. An option that is None counts as not given.

        Returns
        -------
        Result
            "median_us", "min_us", "p90_us" and others are times of a run in microseconds. "kernels" and "threads" say
            what ran. "profile" is there if the option asks for it: "ops" and "steps" with their times.

        Raises
        ------
        Error
            The model has no program for this machine, or an option is refused.
        TypeError
            There is no option of this name.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx")
        >>> timed = model.bench(runs=5, min_ms=10, warmup_runs=1, warmup_ms=1, profile=True)
        >>> timed["min_us"] <= timed["median_us"], timed.tables
        (True, ('times', 'ops', 'steps'))
        """
        with _files.Folder() as folder:
            return _commands.run_json("bench", [self._file(folder)], options, folder)

    def kernels_header(self) -> str:
        """Returns the header of C and C++ that names the kernels that the model needs, for firmware.

        Returns
        -------
        str
            Text of the header. `nacre kernels MODEL` writes the same.

        Raises
        ------
        Error
            The model has no program for a microcontroller that needs such a list.

        Examples
        --------
        >>> import nacre
        >>> "model_kernels" in nacre.convert("tools/samples/digits.onnx", target="arm/m4").kernels_header()
        True
        """
        with _files.Folder() as folder:
            return _commands.run("kernels", [self._file(folder)], {}, folder)


def _inputs(x: object, folder: _files.Folder) -> object:
    """Returns the texts of the option `input`: FILE, or NAME=FILE for each input of a dict."""
    if x is None:
        return None
    if isinstance(x, dict):
        return [f"{name}={folder.data('input', each)}" for name, each in x.items()]
    return [folder.data("input", x)]


def _array(path: str, entry: dict[str, Any]) -> Array:
    """Returns an array of a file that the command wrote, with the type of a Program's output."""
    array: Array = np.load(path)
    return array.view(numpy_dtype(entry["type"])) if entry["type"] in SMALL_FLOATS else array
