"""Makes models of networks and files, and compares models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from . import _commands, _files, _native
from ._files import Network
from ._keywords import ConvertOptions, EvalOptions, GraphOptions, ReportOptions
from ._model import Model
from ._result import Result

_OF_TEXT = ("dump", "stop_after", "explain")  # options that nacre.graph alone takes
_OF_NETWORK = ("policies", "calibrate", "shape", "ignore_setting")  # options of nacre report about a network


def load(model: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Model:
    """Loads a model from its file, or from the bytes of one.

    Parameters
    ----------
    model : str, path-like or bytes-like
        Path of a model file, or its bytes.

    Returns
    -------
    Model
        The model, checked.

    Raises
    ------
    Error
        It is not a model that this version reads.
    OSError
        The file cannot be read.
    TypeError
        `model` is of another kind.

    Examples
    --------
    >>> import nacre
    >>> nacre.convert("tools/samples/digits.onnx").save("digits.nacre")
    >>> nacre.load("digits.nacre").outputs[0].name
    'probabilities'
    """
    if isinstance(model, (str, os.PathLike)):
        with open(model, "rb") as file:
            return Model(file.read(), os.path.basename(os.fsdecode(model)))
    if isinstance(model, (bytes, bytearray, memoryview)):
        return Model(bytes(model))
    raise TypeError(f"a model is a path or bytes, not {type(model).__name__}")


@_commands.documented("ConvertOptions")
def convert(network: Network, **options: Unpack[ConvertOptions]) -> Model:
    """Compiles a network into a model, as `nacre convert NETWORK -o MODEL` with the same options.

    Parameters
    ----------
    network : str, path-like, bytes-like, onnx.ModelProto or keras.Model
        The network: a file of ONNX, TFLite or Keras, told by its content; the bytes of such a file; or a model in
        memory.
    **options
        Options of `nacre convert` by keyword. None counts as not given. Options that read files also take an array
        (`calibrate=x`), a dict of arrays by input, or a dict that is written as JSON. Options that may be repeated take
        a list, and those of the form NAME=VALUE a dict: `set={"fc.*": "int8_from_float32"}`, `shape={"x": (1, 3)}`.
        `help(nacre.convert)` and the manual page of the command list them all.

    Returns
    -------
    Model
        The model for inference, or with `train=LOSS` the model that `nacre.Trainer` takes. Its `conversion` has what
        the converter says.

    Raises
    ------
    Error
        The network, or the value of an option, is refused.
    TypeError
        There is no option of this name, or `network` or a value is of another kind.

    Warns
    -----
    Warning
        Codes of int8 damage a layer.

    Notes
    -----
    Other notices, such as a layer whose policy is not possible, are records of the logger "nacre" at INFO.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> model = nacre.convert("tools/samples/digits.onnx", policy="int8/static_from_float32", calibrate=x[:64])
    >>> nacre.Program(model)(x[:5]).argmax(axis=1)
    array([0, 1, 2, 3, 4])
    """
    with _files.Folder() as folder:
        source, made = folder.network(network), folder.path("model.nacre")
        said = _commands.run_json("convert", [source], options, folder, own={"output": made}, without=_OF_TEXT)
        with open(made, "rb") as file:
            stem = os.path.splitext(os.path.basename(source))[0]
            model = Model(file.read(), f"{stem}.nacre")
    model.conversion = {key: value for key, value in said.items() if key not in ("network", "model")}
    return model


@_commands.documented("GraphOptions")
def graph(network: Network, **options: Unpack[GraphOptions]) -> str:
    """Returns a network's graph as text, without writing a model.

    Parameters
    ----------
    network : str, path-like, bytes-like, onnx.ModelProto or keras.Model
        The network, as for `nacre.convert`.
    **options
        Options of `nacre.convert`, and those below. One of those below is needed.

    Returns
    -------
    str
        The graph after a pass, or the decisions of a rewrite.

    Raises
    ------
    Error
        The network or an option is refused, or no option asks for text.
    TypeError
        There is no option of this name, or `network` or a value is of another kind.

    Examples
    --------
    >>> import nacre
    >>> "conv1" in nacre.graph("tools/samples/digits.onnx", stop_after="simplify")
    True
    """
    with _files.Folder() as folder:
        return _commands.run("convert", [folder.network(network)], options, folder, without=("json", "output"))


@_commands.documented("EvalOptions")
def evaluate(
    models: Model | Network | Sequence[Model | Network],
    x: object,
    y: object,
    **options: Unpack[EvalOptions],
) -> Result:
    """Compares models on labelled samples, as `nacre eval --json` does.

    Parameters
    ----------
    models : Model, path or network, or sequence of these
        Models or their files; networks are converted with the policies of their files. The first is the reference.
    x : array, dict of arrays, or path
        Samples, stacked on axis 0. An array for the only input, a dict with an array for each input, or a file .npy or
        .npz.
    y : array or path
        A label for each sample, or targets for `metric="mse"` and `"mae"`.
    **options
        Options of `nacre eval` by keyword. An option that is None counts as not given.

    Returns
    -------
    Result
        "models" has one entry for each model. "value" is the metric's, "right" and "total" are there if it counts, and
        "drop" is the loss against the first model. "file_bytes" and "arena_bytes" are sizes, and "median_us" is the
        median time of a sample in microseconds.

    Raises
    ------
    Error
        The samples or labels do not fit a model, or a model exceeds a limit: `max_drop`, `max_bytes` or `max_time_us`.
    TypeError
        There is no option of this name, or an argument is of another kind.
    OSError
        A file of `models` cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> labels = np.load("tools/samples/digits_labels.npy")
    >>> models = [nacre.convert("tools/samples/digits.onnx", policy=policy) for policy in ("float32", "bfloat16")]
    >>> said = nacre.evaluate(models, x[:100], labels[:100])
    >>> [model["right"] for model in said["models"]]
    [100, 100]
    """
    with _files.Folder() as folder:
        paths = [model_file(model, folder) for model in _several(models)]
        return _commands.run_json("eval", paths, options, folder, own={"data": x, "labels": y})


@_commands.documented("ReportOptions")
def report(
    models: Model | Network | Sequence[Model | Network],
    output: str | os.PathLike[str],
    **options: Unpack[ReportOptions],
) -> Result:
    """Compares models in one HTML page, as `nacre report` writes it.

    Parameters
    ----------
    models : Model, path or network, or sequence of these
        Models or their files; networks are converted with the policies of their files. The first is the reference. A
        network alone, with one of the options `policies`, `calibrate`, `shape` and `ignore_setting`, is compiled under
        each policy of `policies`.
    output : str or path-like
        Path of the page.
    **options
        Options of `nacre report` by keyword. An option that is None counts as not given.

    Returns
    -------
    Result
        "page" is the path of the page. "models" has the bytes of each model, its "profile", and its "comparison" with the
        first model, which is the result of `nacre.compare`. "evaluation" is that of `nacre.evaluate`.

    Raises
    ------
    Error
        A model or an option is refused, or the page cannot be written.
    TypeError
        There is no option of this name, or an argument is of another kind.
    OSError
        A file of `models` cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> models = [nacre.convert("tools/samples/digits.onnx", policy=policy) for policy in ("float32", "bfloat16")]
    >>> made = nacre.report(models, "report.html", data=x[:10])
    >>> open("report.html").read(15), [row["weight_bytes"] for row in made.rows()]
    ('<!DOCTYPE html>', [82616, 41316])
    """
    listed = _several(models)
    with _files.Folder() as folder:
        if len(listed) == 1 and any(options.get(name) is not None for name in _OF_NETWORK):
            paths = [folder.network(listed[0])]
        else:
            paths = [model_file(model, folder) for model in listed]
        return _commands.run_json("report", paths, options, folder, own={"output": output})


def _several(models: Model | Network | Iterable[Model | Network]) -> list[Any]:
    """Returns a list of models; one model becomes a list of one."""
    several = isinstance(models, Iterable) and not isinstance(models, (str, bytes, bytearray, memoryview))
    return list(models) if several else [models]  # type: ignore[arg-type]


def model_file(model: object, folder: _files.Folder) -> str:
    """Returns the path of a model file. A network is converted to one, with the policies of its own file."""
    if isinstance(model, Model):
        return model._file(folder)
    if isinstance(model, (str, os.PathLike)):
        with open(model, "rb") as file:
            if file.read(len(_native.MAGIC)) == _native.MAGIC:
                return os.fsdecode(model)
    return convert(model)._file(folder)  # type: ignore[arg-type]
