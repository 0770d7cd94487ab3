"""Makes the networks that training.py trains, as ONNX, from a seed, with only numpy and the onnx package.

    mlp           784 - 512 - 512 - 10, ReLU
    ds_cnn        MLPerf Tiny's keyword spotting: 49 x 10, a convolution and four depthwise separable ones of 64
                  channels, batch norms, 12 classes
    resnet8       MLPerf Tiny's image classification: 32 x 32 x 3, three stages of 16, 32 and 64 channels, batch norms
    transformer   one block as in BERT: 64 tokens, hidden 128, 4 heads, 512 in between; the mean of tokens, 10 classes

Every network ends in logits; its loss is the cross-entropy of their softmax, the mean over the batch.
"""

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


@dataclass
class Spec:
    input: tuple  # shape of one sample
    classes: int
    build: object


class Builder:
    def __init__(self, seed):
        self.rng, self.nodes, self.constants, self.count = np.random.default_rng(seed), [], [], 0

    def constant(self, values, name):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def weights(self, shape, fan_in, name):
        return self.constant((self.rng.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32), name)

    def node(self, op, inputs, **attributes):
        self.count += 1
        output = f"{op.lower()}{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def dense(self, x, c, k):
        n = self.count
        return self.node("Gemm", [x, self.weights((k, c), c, f"w{n}"),
                                  self.constant(np.zeros(k, np.float32), f"b{n}")], transB=1)

    def project(self, x, c, k):  # for tensors of more than two axes
        n = self.count
        y = self.node("MatMul", [x, self.weights((c, k), 2 * c, f"w{n}")])
        return self.node("Add", [y, self.constant(np.zeros(k, np.float32), f"b{n}")])

    def convolution(self, x, c, k, kernel, stride=(1, 1), pads=None, group=1, relu=True):
        n, (h, w) = self.count, kernel
        pads = pads or [h // 2, w // 2, h // 2, w // 2]
        y = self.node("Conv", [x, self.weights((k, c // group, h, w), h * w * c // group, f"w{n}")],
                      kernel_shape=list(kernel), strides=list(stride), pads=pads, group=group)
        values = [self.constant(np.full(k, v, np.float32), f"{name}{n}")
                  for name, v in (("scale", 1), ("shift", 0), ("mean", 0), ("variance", 1))]
        y = self.node("BatchNormalization", [y, *values], epsilon=1e-3)
        return self.node("Relu", [y]) if relu else y

    def pooled(self, x, c, classes):
        return self.dense(self.node("Flatten", [self.node("GlobalAveragePool", [x])]), c, classes)


def mlp(b, x):
    for c, k in ((784, 512), (512, 512)):
        x = b.node("Relu", [b.dense(x, c, k)])
    return b.dense(x, 512, 10)


def ds_cnn(b, x):
    x = b.convolution(x, 1, 64, (10, 4), (2, 2), [4, 1, 5, 1])
    for _ in range(4):
        x = b.convolution(x, 64, 64, (3, 3), group=64)
        x = b.convolution(x, 64, 64, (1, 1))
    return b.pooled(x, 64, 12)


def resnet8(b, x):
    x = b.convolution(x, 3, 16, (3, 3))
    c = 16
    for k in (16, 32, 64):
        stride = 1 if k == c else 2
        y = b.convolution(x, c, k, (3, 3), (stride, stride))
        y = b.convolution(y, k, k, (3, 3), relu=False)
        if k != c:
            x = b.convolution(x, c, k, (1, 1), (stride, stride), relu=False)
        x = b.node("Relu", [b.node("Add", [y, x])])
        c = k
    return b.pooled(x, 64, 10)


def transformer(b, x, tokens=64, hidden=128, heads=4, between=512):
    def norm(y):
        n = b.count
        return b.node("LayerNormalization", [y, b.constant(np.ones(hidden, np.float32), f"scale{n}"),
                                             b.constant(np.zeros(hidden, np.float32), f"shift{n}")],
                      axis=-1, epsilon=1e-5)

    width = hidden // heads
    shape = b.constant(np.array([-1, tokens, heads, width], np.int64), "heads")
    query, key, value = (b.node("Reshape", [b.project(x, hidden, hidden), shape]) for _ in range(3))
    query = b.node("Transpose", [query], perm=[0, 2, 1, 3])
    key = b.node("Transpose", [key], perm=[0, 2, 3, 1])
    value = b.node("Transpose", [value], perm=[0, 2, 1, 3])
    scores = b.node("Mul", [b.node("MatMul", [query, key]), b.constant(np.array(width**-0.5, np.float32), "root")])
    mixed = b.node("MatMul", [b.node("Softmax", [scores], axis=-1), value])
    mixed = b.node("Transpose", [mixed], perm=[0, 2, 1, 3])
    mixed = b.node("Reshape", [mixed, b.constant(np.array([-1, tokens, hidden], np.int64), "joined")])
    x = norm(b.node("Add", [x, b.project(mixed, hidden, hidden)]))
    wide = b.node("Gelu", [b.project(x, hidden, between)])
    x = norm(b.node("Add", [x, b.project(wide, between, hidden)]))
    mean = b.node("ReduceMean", [x, b.constant(np.array([1], np.int64), "axes")], keepdims=0)
    return b.dense(mean, hidden, 10)


NETWORKS = {"mlp": Spec((784,), 10, mlp), "ds_cnn": Spec((1, 49, 10), 12, ds_cnn),
            "resnet8": Spec((3, 32, 32), 10, resnet8), "transformer": Spec((64, 128), 10, transformer)}
# Constants that are numbers of the architecture and are not trained.
FIXED = ("heads", "joined", "root", "axes")


def write_onnx(name, path):
    spec, builder = NETWORKS[name], Builder(seed=1)
    logits = spec.build(builder, "x")
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *spec.input])
    result = helper.make_tensor_value_info(logits, TensorProto.FLOAT, ["batch", spec.classes])
    graph = helper.make_graph(builder.nodes, name, [given], [result], builder.constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), str(path))


def batch_of(name, rows, seed=2):
    """Returns the inputs and the labels that are trained on, as NCHW."""
    rng, spec = np.random.default_rng(seed), NETWORKS[name]
    return (rng.standard_normal((rows, *spec.input)).astype(np.float32),
            rng.integers(0, spec.classes, rows).astype(np.int32))
