"""Commands of the tool that read one model, as methods of nacre.Model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Unpack

from . import _commands, _files
from . import _model  # is being imported: it imports this module for its base
from ._keywords import CompareOptions, EvalOptions, FirmwareOptions, InspectOptions
from ._result import Result


class ModelReports:
    """The base of nacre.Model."""

    if TYPE_CHECKING:

        @property
        def name(self) -> str: ...

        def to_bytes(self) -> bytes: ...

    def size(self, target: str = "host", *, train: bool = False) -> Result:
        """Counts the bytes that a run or a training takes on a machine, as `nacre size --json` prints them.

        Parameters
        ----------
        target : str, default: "host"
            Machine, such as "arm/m4". Pointers and objects are counted in its sizes.
        train : bool, default: False
            Counts the memory of training in place of the programs' runs.

        Returns
        -------
        Result
            Sizes in bytes. "file_bytes" and "weight_bytes" count the file; "programs" has for each program "entry",
            "arena", "blocks" and "total". "static_flash" is there if `nacre firmware` can write the model. With
            `train`: "bytes" by purpose, "state" (what a checkpoint holds) and "total".

        Raises
        ------
        Error
            `target` is no machine that Nacre knows, or `train` is true and the model does not train.

        Examples
        --------
        >>> import nacre
        >>> size = nacre.convert("tools/samples/digits.onnx").size("arm/m4")
        >>> size["machine"], size["programs"][0]["entry"]
        ('arm/m4', 'infer')
        """
        from ._reports import size  # imports Model, whose base this class is

        return size(self, target, train=train)  # type: ignore[arg-type]

    @_commands.documented("InspectOptions")
    def inspect(self, **options: Unpack[InspectOptions]) -> Result:
        """Returns the steps, kernels, tensors, layers and costs, as `nacre inspect --json` prints them.

        Parameters
        ----------
        **options
            Options of `nacre inspect` by keyword. An option that is None counts as not given.

        Returns
        -------
        Result
            Everything that the file says. Among the keys are "file_bytes", "layers" (each with its policy, bytes and
            multiply-accumulates) and "programs" (each with its steps and their kernels).

        Raises
        ------
        Error
            An option has a value that the command refuses.
        TypeError
            There is no option of this name.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx")
        >>> model.inspect()["file_bytes"] == len(model.to_bytes())
        True
        """
        from ._reports import inspect  # imports Model, whose base this class is

        return inspect(self, **options)  # type: ignore[arg-type]

    def summary(self, *, steps: bool = False) -> str:
        """Returns the text that `nacre inspect` prints: layers, types, policies, costs and memory.

        Parameters
        ----------
        steps : bool, default: False
            Adds a line for each step.

        Returns
        -------
        str
            Lines for a terminal.

        Examples
        --------
        >>> import nacre
        >>> "conv1" in nacre.convert("tools/samples/digits.onnx").summary()
        True
        """
        with _files.Folder() as folder:
            return _commands.run("inspect", [self._file(folder)], {}, folder, own={"steps": steps})

    def picture(self) -> str:
        """Returns a picture of the graph and of its memory plan.

        Returns
        -------
        str
            An SVG document. `nacre inspect --svg` writes the same.

        Examples
        --------
        >>> import nacre
        >>> nacre.convert("tools/samples/digits.onnx").picture().startswith("<svg")
        True
        """
        with _files.Folder() as folder:
            path = folder.path("picture.svg")
            _commands.run("inspect", [self._file(folder)], {}, folder, own={"svg": path})
            with open(path, encoding="utf-8") as file:
                return file.read()

    def check(self) -> Result:
        """Verifies structure, weights, memory plan and golden pairs, as `nacre check` does.

        Returns
        -------
        Result
            "ok" is True. "programs" has sizes, and "golden" the difference of each pair.

        Raises
        ------
        Error
            The weights are damaged, or an output differs from its golden pair (`exit_code` 1).

        Examples
        --------
        >>> import nacre
        >>> checked = nacre.convert("tools/samples/digits.onnx", golden=2).check()
        >>> checked["ok"], len(checked["golden"])
        (True, 2)
        """
        return self._json("check")

    @_commands.documented("CompareOptions")
    def compare(self, reference: _model.Model | _files.Network, x: object, **options: Unpack[CompareOptions]) -> Result:
        """Measures how far the layers and outputs are from a reference's, as `nacre compare --json` does.

        Parameters
        ----------
        reference : Model, path, bytes, onnx.ModelProto or keras.Model
            The model to compare with. A network is converted with the policies of its own file.
        x : array, dict of arrays, or path
            Samples, stacked on axis 0. An array for the only input, a dict with an array for each input, or a file .npy
            or .npz.
        **options
            Options of `nacre compare` by keyword. An option that is None counts as not given.

        Returns
        -------
        Result
            "samples" counts the samples. "tensors" and "outputs" have for each tensor "sqnr_db" (None if there is no
            error), "largest_error", "relative_error", "cosine" and "equal". "unmatched" lists tensors of one model
            alone.

        Raises
        ------
        Error
            The models or the samples do not fit each other.
        TypeError
            There is no option of this name, or `x` or `reference` is of another kind.
        OSError
            The file of `reference` cannot be read.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> small = nacre.convert("tools/samples/digits.onnx", policy="int8_from_float32")
        >>> small.compare("tools/samples/digits.onnx", x[:20])["outputs"][0]["sqnr_db"] > 20
        True
        """
        from ._reports import compare  # imports Model, whose base this class is

        return compare(reference, self, x, **options)  # type: ignore[arg-type]

    @_commands.documented("EvalOptions")
    def evaluate(self, x: object, y: object, **options: Unpack[EvalOptions]) -> Result:
        """Measures score, bytes and time on labelled samples, as `nacre eval --json` for one model.

        Parameters
        ----------
        x : array, dict of arrays, or path
            Samples, stacked on axis 0. An array for the only input, a dict with an array for each input, or a file .npy
            or .npz.
        y : array or path
            A label for each sample, or targets for `metric="mse"` and `"mae"`.
        **options
            Options of `nacre eval` by keyword. An option that is None counts as not given.

        Returns
        -------
        Result
            The result of `nacre.evaluate`; "models" has one entry.

        Raises
        ------
        Error
            The samples or labels do not fit the model, it exceeds a limit, or a value of an option is refused.
        TypeError
            There is no option of this name, or `x` or `y` is of another kind.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> labels = np.load("tools/samples/digits_labels.npy")
        >>> said = nacre.convert("tools/samples/digits.onnx").evaluate(x[:200], labels[:200])
        >>> said["models"][0]["right"]
        200
        """
        from ._convert import evaluate  # imports Model, whose base this class is

        return evaluate([self], x, y, **options)  # type: ignore[list-item]

    @_commands.documented("FirmwareOptions")
    def firmware(self, directory: str | os.PathLike[str], **options: Unpack[FirmwareOptions]) -> Result:
        """Writes the model as C++ that is bound already, for a microcontroller, as `nacre firmware` does.

        Parameters
        ----------
        directory : str or path-like
            Directory for the sources. It is made if it is not there.
        **options
            Options of `nacre firmware` by keyword. An option that is None counts as not given.

        Returns
        -------
        Result
            "files" lists the paths. "machine", "table_bytes", "weight_bytes", "ram_bytes" and "state_bytes" tell what
            the program takes, in bytes.

        Raises
        ------
        Error
            The model cannot be static, or a file cannot be written.
        TypeError
            There is no option of this name.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", target="arm/m4")
        >>> made = model.firmware("firmware", name="digits")
        >>> made["machine"], made["ram_bytes"] > 0
        ('arm/m4', True)
        """
        return self._json("firmware", options, own={"output": directory})

    def _file(self, folder: _files.Folder) -> str:
        path = folder.path(self.name)
        with open(path, "wb") as file:
            file.write(self.to_bytes())
        return path

    def _json(self, command: str, options: Any = None, **more: Any) -> Result:
        with _files.Folder() as folder:
            return _commands.run_json(command, [self._file(folder)], options or {}, folder, **more)
