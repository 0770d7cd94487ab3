"""Commands of the tool as functions of files: each takes a Model, the path of a model, or a network."""

from __future__ import annotations

import os
from typing import Unpack

from . import _commands, _files
from ._convert import model_file
from ._files import Network
from ._keywords import CheckpointOptions, CompareOptions, InspectFileOptions, KernelsOptions, NetworkFileOptions
from ._model import Model
from ._result import Result

_KERAS = (b"PK\x03\x04", b"\x89HDF", b"{")  # first bytes of a file of Keras: a zip, HDF5, or JSON


@_commands.documented("CompareOptions")
def compare(reference: Model | Network, model: Model | Network, x: object, **options: Unpack[CompareOptions]) -> Result:
    """Measures how far a model's layers and outputs are from a reference's, as `nacre compare --json` does.

    Parameters
    ----------
    reference : Model, path or network
        The model to compare with. A network is converted with the policies of its own file.
    model : Model, path or network
        The model to judge.
    x : array, dict of arrays, or path
        Samples, stacked on axis 0. An array for the only input, a dict with an array for each input, or a file .npy or
        .npz.
    **options
        Options of `nacre compare` by keyword. An option that is None counts as not given.

    Returns
    -------
    Result
        The result of `Model.compare`.

    Raises
    ------
    Error
        The models or the samples do not fit each other.
    TypeError
        There is no option of this name, or an argument is of another kind.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> small = nacre.convert("tools/samples/digits.onnx", policy="int8_from_float32")
    >>> worst = nacre.compare("tools/samples/digits.onnx", small, x[:20]).rows("tensors")[0]
    >>> worst["policy_b"], worst["sqnr_db"] > 20
    ('int8_from_float32', True)
    """
    with _files.Folder() as folder:
        paths = [model_file(reference, folder), model_file(model, folder)]
        return _commands.run_json("compare", paths, options, folder, own={"data": x})


def size(model: Model | Network, target: str = "host", *, train: bool = False) -> Result:
    """Counts the bytes that a run or a training takes on a machine, as `nacre size --json` prints them.

    Parameters
    ----------
    model : Model, path or network
        The model. A network is converted with the policies of its own file.
    target : str, default: "host"
        Machine, such as "arm/m4". Pointers and objects are counted in its sizes.
    train : bool, default: False
        Counts the memory of training in place of the programs' runs.

    Returns
    -------
    Result
        The result of `Model.size`.

    Raises
    ------
    Error
        `target` is no machine that Nacre knows, or `train` is true and the model does not train.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import nacre
    >>> nacre.size("tools/samples/digits.onnx", "arm/m4")["machine"]
    'arm/m4'
    """
    with _files.Folder() as folder:
        own = {"target": target, "train": train}
        return _commands.run_json("size", [model_file(model, folder)], {}, folder, own=own)


@_commands.documented("InspectFileOptions")
def inspect(model: Model | Network, **options: Unpack[InspectFileOptions]) -> Result:
    """Tells what is in a model or in a network's file, as `nacre inspect --json` does.

    Parameters
    ----------
    model : Model, path or network
        A model, or a network: all in it that is not supported is told, and nothing is written.
    **options
        Options of `nacre inspect` by keyword. An option that is None counts as not given.

    Returns
    -------
    Result
        For a model the result of `Model.inspect`. For a network "converts", "operators" with their counts,
        "unsupported", "inputs", "outputs" and "parameters".

    Raises
    ------
    Error
        The file is broken, or the network does not convert (`exit_code` 4); or an option is refused.
    TypeError
        There is no option of this name, or `model` is of another kind.

    Examples
    --------
    >>> import nacre
    >>> told = nacre.inspect("tools/samples/digits.onnx")
    >>> told["converts"], told["operators"]["Conv"], told.tables[0]
    (True, 5, 'operators')
    """
    with _files.Folder() as folder:
        path = model._file(folder) if isinstance(model, Model) else folder.network(model)
        return _commands.run_json("inspect", [path], options, folder, without=("steps", "svg"))


@_commands.documented("KernelsOptions")
def kernels(**options: Unpack[KernelsOptions]) -> Result:
    """Lists the sets of kernels, or the kernels of one set, as `nacre kernels --json` does.

    Parameters
    ----------
    **options
        Options of `nacre kernels` by keyword. An option that is None counts as not given.

    Returns
    -------
    Result
        "sets" has "set", "kernels" (their number), "runs_here" and "auto" for each set. With `set`: "kernels" has
        "op", "kernel" and "operands" for each kernel.

    Raises
    ------
    Error
        There is no such set.
    TypeError
        There is no option of this name.

    Examples
    --------
    >>> import nacre
    >>> nacre.kernels().rows()[0]["set"]
    'reference'
    >>> nacre.kernels(set="m4")["set"]
    'm4'
    """
    with _files.Folder() as folder:
        return _commands.run_json("kernels", [], options, folder)


@_commands.documented("CheckpointOptions")
def export(
    model: Model | str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    **options: Unpack[CheckpointOptions],
) -> Model:
    """Returns what a checkpoint holds as a model for inference, as `nacre export` writes it.

    Parameters
    ----------
    model : Model or path
        The training model that the checkpoint belongs to.
    checkpoint : str or path-like
        Directory of checkpoints, which `nacre.tune` or `Trainer.save` made.
    **options
        Options of `nacre export` by keyword. An option that is None counts as not given. With `network` that network
        is compiled anew: batch norms are folded, adapters merged, and any policy is possible.

    Returns
    -------
    Model
        A model without programs that train. Its `conversion` has what the command says.

    Raises
    ------
    Error
        The checkpoint is not whole or of another training, or an option is refused.
    TypeError
        There is no option of this name.

    Warns
    -----
    Warning
        A slot of the checkpoint is not whole.

    Examples
    --------
    >>> import nacre
    >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
    >>> nacre.Trainer(model).save("checkpoint")
    >>> nacre.export(model, "checkpoint", network="tools/samples/digits.onnx", policy="float16").layers[1].policy
    'float16'
    """
    with _files.Folder() as folder:
        source, made = model_file(model, folder), folder.path("exported.nacre")
        given: dict[str, object] = dict(options)
        if given.get("network") is not None:
            given["network"] = folder.network(given["network"])
        own = {"checkpoint": checkpoint, "output": made}
        said = _commands.run_json("export", [source], given, folder, own=own, without=("keras", "onnx"))
        with open(made, "rb") as file:
            exported = Model(file.read(), os.path.basename(source))
    exported.conversion = {key: value for key, value in said.items() if key not in ("model", "output")}
    return exported


@_commands.documented("NetworkFileOptions")
def export_network(
    model: Model | str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    network: Network,
    output: str | os.PathLike[str],
    **options: Unpack[NetworkFileOptions],
) -> Result:
    """Writes a network's own ONNX or Keras file with the numbers that were learned, as `nacre export` does.

    Parameters
    ----------
    model : Model or path
        The training model that the checkpoint belongs to.
    checkpoint : str or path-like
        Directory of checkpoints, which `nacre.tune` or `Trainer.save` made.
    network : str, path-like, bytes-like, onnx.ModelProto or keras.Model
        The network that was trained. Its format is that of the file which is written.
    output : str or path-like
        Path of the file to write.
    **options
        Options of `nacre export` by keyword. An option that is None counts as not given.

    Returns
    -------
    Result
        "tensors" and "numbers" count what was written, "parameters" and "adapters" what was learned. "file_bytes" is
        the size of the file.

    Raises
    ------
    Error
        The checkpoint is not whole or of another training, the network is not the one that was trained, or an option is
        refused.
    TypeError
        There is no option of this name.

    Examples
    --------
    >>> import nacre
    >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
    >>> nacre.Trainer(model).save("checkpoint")
    >>> nacre.export_network(model, "checkpoint", "tools/samples/digits.onnx", "tuned.onnx")["tensors"]
    24
    """
    with _files.Folder() as folder:
        path = folder.network(network)
        with open(path, "rb") as file:
            keras = file.read(4).startswith(_KERAS)
        own = {"checkpoint": checkpoint, "network": path, "output": output, "keras" if keras else "onnx": True}
        return _commands.run_json("export", [model_file(model, folder)], options, folder, own=own)
