"""Makes models that nacre.sklearn trains: of a small dense network, or of a network that the user gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _files
from ._convert import convert
from ._files import Network
from ._infos import SMALL_FLOATS
from ._model import Model
from ._reports import export_network
from ._trainer import Trainer

# Names of scikit-learn's MLPClassifier first, each with the operator of ONNX; "identity" needs none.
ACTIVATIONS = {
    "relu": "Relu",
    "tanh": "Tanh",
    "logistic": "Sigmoid",
    "identity": None,
    "elu": "Elu",
    "gelu": "Gelu",
    "softplus": "Softplus",
}
_OPSET, _IR_VERSION = 20, 9  # Gelu is an operator since opset 20


def dense_network(widths: Sequence[int], activation: str, last: str | None, random: np.random.RandomState) -> bytes:
    """Returns the ONNX file of a dense network from widths[0] inputs to widths[-1] outputs. Its last operator is
    `last`, such as "Softmax".

    Weights are uniform in [-a, a], a = sqrt(6 / (inputs + outputs)) of the layer (Glorot and Bengio 2010, equation 16).
    For the logistic function 6 becomes 2, as in scikit-learn's MLPClassifier. Biases are 0.
    """
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, value = [], [], "x"
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        most = np.sqrt((2 if activation == "logistic" else 6) / (inputs + outputs))
        weight = random.uniform(-most, most, (inputs, outputs)).astype(np.float32)
        bias = np.zeros(outputs, np.float32)
        ends = i == len(widths) - 2
        operator = last if ends else ACTIVATIONS[activation]
        names = [f"dense{i}.weight", f"dense{i}.bias"]
        constants += [numpy_helper.from_array(array, name) for array, name in zip((weight, bias), names)]
        made = "y" if ends and operator is None else f"dense{i}"
        nodes.append(helper.make_node("Gemm", [value, *names], [made], name=f"dense{i}"))
        value = made
        if operator is not None:
            made = "y" if ends else f"activation{i}"
            nodes.append(helper.make_node(operator, [value], [made], name=f"activation{i}"))
            value = made
    ends_of = {"x": widths[0], "y": widths[-1]}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", n]) for name, n in ends_of.items())
    graph = helper.make_graph(nodes, "dense", [x], [y], constants)
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    return bytes(file.SerializeToString())


def training_model(network: Any, *, loss: str, **options: Any) -> Model:
    """Returns a model that trains: a nacre.Model as it is, another network converted with these options.

    Raises ValueError if the model does not fit the estimator, and nacre.Error.
    """
    model = network if isinstance(network, Model) else convert(network, train=loss, **options)
    if not model.trains:
        raise ValueError(f"network is {model.name}, which does not train: nacre.convert(..., train={loss!r})")
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise ValueError(
            f"network has {len(model.inputs)} inputs and {len(model.outputs)} outputs: an estimator takes one of each"
        )
    if not (model.inputs[0].rows and model.outputs[0].rows):
        raise ValueError(f"network fixes the number of rows: axis 0 of {model.inputs[0].name} must count them")
    for info in (model.inputs[0], model.outputs[0]):
        if info.scale is not None or info.dtype in SMALL_FLOATS:
            raise ValueError(f"network: {info.name} is {info.dtype}, and an estimator takes and gives real numbers")
    return model


def gives_probabilities(model: Model) -> bool:
    """Returns whether the network ends in a softmax; else its outputs are scores, or logarithms of probabilities."""
    infer = next(program for program in model.inspect()["programs"] if program["entry"] == "infer")
    ops = [step["op"] for step in infer["steps"] if step["op"] not in ("cast", "quantize", "dequantize", "reshape")]
    return bool(ops) and ops[-1] == "softmax"


def trained_file(trainer: Trainer, network: Network) -> bytes:
    """Returns the network's own file, ONNX or Keras, with the numbers that the trainer has learned."""
    with _files.Folder() as folder:
        checkpoint, made = folder.path("checkpoint"), folder.path("trained")
        trainer.save(checkpoint)
        export_network(trainer.model, checkpoint, network, made)
        with open(made, "rb") as file:
            return file.read()
