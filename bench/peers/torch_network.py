"""Makes a torch module from an ONNX file. It knows the operators of the digits sample and of the encoder, and refuses
others."""

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional as F


def padding_of(attributes):
    pads = attributes.get("pads", [0, 0, 0, 0])
    if pads[:2] != pads[2:]:
        raise NotImplementedError(f"padding {pads} is not the same on both sides")
    return pads[:2]


def convolve(a, x, w, b=None):
    return F.conv2d(x, w, b, a.get("strides", 1), padding_of(a), a.get("dilations", 1), a.get("group", 1))


def normalize(a, x, scale, bias, mean, variance):
    return F.batch_norm(x, mean, variance, scale, bias, eps=a.get("epsilon", 1e-5))


def gemm(a, x, w, b):
    if a.get("alpha", 1) != 1 or a.get("beta", 1) != 1 or a.get("transA"):
        raise NotImplementedError("Gemm with alpha, beta or transA")
    return F.linear(x, w if a.get("transB") else w.T, b)


OPERATORS = {
    "Add": lambda a, x, y: x + y,
    "AveragePool": lambda a, x: F.avg_pool2d(x, a["kernel_shape"], a.get("strides", 1), padding_of(a)),
    "BatchNormalization": normalize,
    "Conv": convolve,
    "Div": lambda a, x, y: x / y,
    "Erf": lambda a, x: torch.erf(x),
    "Flatten": lambda a, x: torch.flatten(x, a.get("axis", 1)),
    "Gemm": gemm,
    "LayerNormalization": lambda a, x, scale, bias: F.layer_norm(x, scale.shape, scale, bias, a.get("epsilon", 1e-5)),
    "MatMul": lambda a, x, y: torch.matmul(x, y),
    "MaxPool": lambda a, x: F.max_pool2d(x, a["kernel_shape"], a.get("strides", 1), padding_of(a)),
    "Mul": lambda a, x, y: x * y,
    "Relu": lambda a, x: F.relu(x),
    "Reshape": lambda a, x, dims: x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(dims)]),
    "Softmax": lambda a, x: F.softmax(x, a.get("axis", -1)),
    "Transpose": lambda a, x: x.permute(a["perm"]),
}


class Network(torch.nn.Module):
    def __init__(self, path):
        super().__init__()
        graph = onnx.load(str(path)).graph
        arrays = {self._key(t.name): numpy_helper.to_array(t).copy() for t in graph.initializer}
        self.sizes = {name: a.tolist() for name, a in arrays.items() if a.dtype == np.int64}  # constants of Reshape
        self.constants = torch.nn.ParameterDict({name: torch.nn.Parameter(torch.from_numpy(a), False)
                                                 for name, a in arrays.items() if name not in self.sizes})
        unknown = {n.op_type for n in graph.node} - set(OPERATORS)
        if unknown:
            raise NotImplementedError(f"no torch function is given here for {', '.join(sorted(unknown))}")
        self.steps = [(OPERATORS[n.op_type], {a.name: helper.get_attribute_value(a) for a in n.attribute},
                       [self._key(i) for i in n.input], self._key(n.output[0])) for n in graph.node]
        given = [i for i in graph.input if self._key(i.name) not in arrays]
        self.input = self._key(given[0].name)
        self.dims = [d.dim_value or 1 for d in given[0].type.tensor_type.shape.dim]
        self.results = [self._key(o.name) for o in graph.output]

    @staticmethod
    def _key(name):
        return name.replace(".", "_") + "_"  # not a name that Module has already

    def forward(self, x):
        values = {self.input: x, **self.sizes, **self.constants}
        for function, attributes, inputs, output in self.steps:
            values[output] = function(attributes, *(values[i] for i in inputs))
        return [values[name] for name in self.results]


class Bfloat16(torch.nn.Module):
    """The network with parameters and activations in bfloat16, and with inputs and outputs in float32."""

    def __init__(self, network):
        super().__init__()
        self.network, self.dims = network.to(torch.bfloat16), network.dims

    def forward(self, x):
        return [y.float() for y in self.network(x.to(torch.bfloat16))]
