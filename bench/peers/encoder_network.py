"""A transformer encoder of MiniLM's size (Wang et al. 2020) with random weights, as .onnx, as exporters write it.

It has 6 layers, hidden 384, 12 heads, 1536 in between, and 128 tokens. The input stands for the embedding's output. A
layer norm follows each sum, as in BERT, and Erf computes gelu. onnxruntime's quantize_dynamic makes the int8 network,
with a scale for each channel.
"""

import pathlib
import tempfile

import numpy as np

LAYERS, HIDDEN, HEADS, BETWEEN, TOKENS = 6, 384, 12, 1536, 128


class Writer:
    def __init__(self):
        self.random = np.random.default_rng(1)
        self.nodes, self.constants = [], []

    def constant(self, name, values):
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, op, name, *inputs, **attributes):
        from onnx import helper

        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def weights(self, name, *shape):
        return self.constant(name, self.random.normal(0, 0.05, shape).astype(np.float32))

    def dense(self, x, name, inputs, outputs):
        product = self.node("MatMul", f"{name}.product", x, self.weights(f"{name}.weight", inputs, outputs))
        return self.node("Add", name, self.weights(f"{name}.bias", outputs), product)

    def norm(self, x, name):
        scale = self.constant(f"{name}.scale", np.ones(HIDDEN, np.float32))
        return self.node("LayerNormalization", name, x, scale, self.weights(f"{name}.bias", HIDDEN), axis=-1)

    def heads(self, x, name, order):
        split = self.node("Reshape", f"{name}.split", x, "heads")
        return self.node("Transpose", f"{name}.heads", split, perm=order)

    def attention(self, x, name):
        query = self.heads(self.dense(x, f"{name}.query", HIDDEN, HIDDEN), f"{name}.query", [0, 2, 1, 3])
        key = self.heads(self.dense(x, f"{name}.key", HIDDEN, HIDDEN), f"{name}.key", [0, 2, 3, 1])
        value = self.heads(self.dense(x, f"{name}.value", HIDDEN, HIDDEN), f"{name}.value", [0, 2, 1, 3])
        scores = self.node("Div", f"{name}.scores", self.node("MatMul", f"{name}.products", query, key), "root")
        mixed = self.node("MatMul", f"{name}.mixed", self.node("Softmax", f"{name}.weights", scores, axis=-1), value)
        merged = self.node("Transpose", f"{name}.merged", mixed, perm=[0, 2, 1, 3])
        return self.dense(self.node("Reshape", f"{name}.joined", merged, "hidden"), f"{name}.out", HIDDEN, HIDDEN)

    def gelu(self, x, name):
        error = self.node("Erf", f"{name}.erf", self.node("Div", f"{name}.scaled", x, "root2"))
        return self.node("Mul", name, self.node("Mul", f"{name}.twice", x, self.node("Add", f"{name}.1", error, "one")),
                         "half")

    def layer(self, x, name):
        x = self.norm(self.node("Add", f"{name}.sum1", x, self.attention(x, name)), f"{name}.norm1")
        wide = self.gelu(self.dense(x, f"{name}.fc1", HIDDEN, BETWEEN), f"{name}.gelu")
        narrow = self.dense(wide, f"{name}.fc2", BETWEEN, HIDDEN)
        return self.norm(self.node("Add", f"{name}.sum2", x, narrow), f"{name}.norm2")

    def model(self):
        from onnx import TensorProto, helper

        self.constant("heads", np.array([0, TOKENS, HEADS, HIDDEN // HEADS], np.int64))
        self.constant("hidden", np.array([0, TOKENS, HIDDEN], np.int64))
        self.constant("root", np.float32((HIDDEN / HEADS) ** 0.5))
        self.constant("root2", np.float32(2 ** 0.5))
        self.constant("one", np.float32(1))
        self.constant("half", np.float32(0.5))
        last = "x"
        for i in range(LAYERS):
            last = self.layer(last, f"layer{i}")
        dims = ["batch", TOKENS, HIDDEN]
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in ("x", last)]
        graph = helper.make_graph(self.nodes, "encoder", values[:1], values[1:], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write_float(path):
    import onnx

    onnx.save(Writer().model(), str(path))


def write_int8(path):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory(prefix="nacre-peers-") as folder:
        real = pathlib.Path(folder) / "encoder.onnx"
        write_float(real)
        quantize_dynamic(str(real), str(path), per_channel=True, weight_type=QuantType.QInt8)
