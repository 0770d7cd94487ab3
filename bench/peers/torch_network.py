"""An ONNX file as a torch module, for the operators of the digits sample; any other is refused."""

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
    "Flatten": lambda a, x: torch.flatten(x, a.get("axis", 1)),
    "Gemm": gemm,
    "MaxPool": lambda a, x: F.max_pool2d(x, a["kernel_shape"], a.get("strides", 1), padding_of(a)),
    "Mul": lambda a, x, y: x * y,
    "Relu": lambda a, x: F.relu(x),
    "Softmax": lambda a, x: F.softmax(x, a.get("axis", -1)),
}


class Network(torch.nn.Module):
    def __init__(self, path):
        super().__init__()
        graph = onnx.load(str(path)).graph
        self.constants = torch.nn.ParameterDict(
            {self._key(t.name): torch.nn.Parameter(torch.from_numpy(numpy_helper.to_array(t).copy()), False)
             for t in graph.initializer})
        unknown = {n.op_type for n in graph.node} - set(OPERATORS)
        if unknown:
            raise NotImplementedError(f"no torch function is given here for {', '.join(sorted(unknown))}")
        self.steps = [(OPERATORS[n.op_type], {a.name: helper.get_attribute_value(a) for a in n.attribute},
                       [self._key(i) for i in n.input], self._key(n.output[0])) for n in graph.node]
        given = [i for i in graph.input if self._key(i.name) not in self.constants]
        self.input = self._key(given[0].name)
        self.dims = [d.dim_value or 1 for d in given[0].type.tensor_type.shape.dim]
        self.results = [self._key(o.name) for o in graph.output]

    @staticmethod
    def _key(name):
        return name.replace(".", "_")

    def forward(self, x):
        values = {self.input: x}
        for function, attributes, inputs, output in self.steps:
            values[output] = function(attributes, *(values[i] if i in values else self.constants[i] for i in inputs))
        return [values[name] for name in self.results]
