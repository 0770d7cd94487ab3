"""Random ONNX networks, and single operators on codes, in onnxruntime and in Nacre.

    random_networks.py NACRE [FIRST COUNT]      the program of a build; seeds

A network is a chain of operators with random attributes and constants, of a random opset, with one or two outputs, compared in
float32: at most 1e-5 of the largest magnitude of an output apart, or 2^-20 of the largest in the network, which a sum that cancels
keeps the rounding of. Networks that onnxruntime refuses are left out.

An operator on codes stands between DequantizeLinear and QuantizeLinear, with as fine, finer and coarser codes behind it as before
it: codes differ by at most 1.
"""
import pathlib
import random
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from onnxruntime_parity import Nacre

TOLERANCE = 1e-5
OPSETS = (7, 9, 11, 12, 13, 15, 17, 18, 21)


def answers(model, feeds):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)


class Network:
    """A chain that grows by one operator at a time: `x` is its last value, of shape `dims` (axis 0: the batch)."""

    def __init__(self, seed):
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.opset, self.batch = self.random.choice(OPSETS), self.random.choice((1, 1, 2))
        self.dims = (self.batch, self.random.choice((1, 2, 3, 4, 6)), self.random.choice((5, 7, 8, 11)), self.random.choice((6, 8, 9)))
        self.symbolic = self.batch == 1 and self.random.random() < 0.5
        self.input_dims, self.x = self.dims, "x"
        self.nodes, self.constants, self.values = [], [], [("x", self.dims)]

    def choose(self, *items):
        return self.random.choice(items)

    def whole(self, low, high):
        return self.random.randint(low, high)

    def stored(self, array):
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def reals(self, *dims):
        return self.stored(self.numbers.standard_normal(dims).astype(np.float32))

    def integers(self, *numbers):
        return self.stored(np.array(numbers, np.int64))

    def real(self, number):
        return self.stored(np.array(number, np.float32))

    def add(self, op, *inputs, outputs=1, take=0, **attributes):
        names = [f"v{len(self.nodes)}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs or (self.x,), names, **attributes))
        self.x = names[take]

    def model(self, names):
        first = ["batch" if self.symbolic else self.batch, *self.input_dims[1:]]
        graph = helper.make_graph(
            self.nodes, "random", [helper.make_tensor_value_info("x", TensorProto.FLOAT, first)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def grow(self, operator):
        """One operator more, if it applies here and onnxruntime takes it."""
        kept = self.x, list(self.nodes), list(self.constants)
        operator(self)
        try:
            if self.x == kept[0]:
                raise ValueError("does not apply")
            (y,) = answers(self.model([self.x]), {"x": np.zeros(self.input_dims, np.float32)})
            if y.size == 0 or y.ndim > 6:
                raise ValueError("no elements")
        except Exception:  # onnxruntime refuses it, or it does not apply: the network stays as it was
            self.x, self.nodes, self.constants = kept
            return
        self.dims = y.shape
        self.values.append((self.x, self.dims))


def convolution(n):
    if len(n.dims) != 4:
        return
    channels, groups = n.dims[1], n.choose(1, 1, 2, n.dims[1])
    if channels % groups:
        return
    out = groups * n.whole(1, 3)
    kernel = [n.whole(1, min(3, n.dims[2])), n.whole(1, min(4, n.dims[3]))]
    attributes = {"group": groups, "strides": [n.whole(1, 2), n.whole(1, 3)]}
    if n.random.random() < 0.3:
        attributes["auto_pad"] = n.choose("SAME_UPPER", "SAME_LOWER", "VALID")
    else:
        attributes.update(pads=[n.whole(0, 2) for _ in range(4)], dilations=[n.whole(1, 2), n.whole(1, 2)])
    bias = [n.reals(out)] if n.random.random() < 0.6 else []
    n.add("Conv", n.x, n.reals(out, channels // groups, *kernel), *bias, **attributes)


def pool(n):
    ceil = n.whole(0, 1) if n.opset >= 10 else 0
    if len(n.dims) != 4 or (min(n.dims[2:]) < 3 and not ceil):  # onnxruntime takes windows that do not fit: floor(-1 / 2) is 0 there
        return
    kernel = [n.whole(1, 3), n.whole(1, 2)]
    attributes = {"kernel_shape": kernel, "strides": [n.whole(1, 2), n.whole(1, 2)], "pads": [n.whole(0, k - 1) for k in kernel * 2]}
    if ceil:
        attributes["ceil_mode"] = ceil
    op = n.choose("AveragePool", "MaxPool")
    if op == "AveragePool":
        attributes["count_include_pad"] = n.whole(0, 1)
    n.add(op, **attributes)


def transposed_convolution(n):
    if len(n.dims) not in (3, 4):
        return
    space, channels, groups = len(n.dims) - 2, n.dims[1], n.choose(1, 1, 2, n.dims[1])
    if channels % groups:
        return
    k, kernel, strides = n.whole(1, 3), [n.whole(1, 4) for _ in range(space)], [n.whole(1, 3) for _ in range(space)]
    attributes = {"group": groups, "strides": strides}
    # onnxruntime gives less than in * stride, which the standard asks of SAME, for a kernel smaller than its stride.
    if n.random.random() < 0.3 and all(k >= s for k, s in zip(kernel, strides)):
        attributes["auto_pad"] = n.choose("SAME_UPPER", "SAME_LOWER", "VALID")
    else:
        attributes.update(pads=[n.whole(0, 1) for _ in range(2 * space)], dilations=[n.whole(1, 2) for _ in range(space)],
                          output_padding=[n.whole(0, s - 1) for s in strides])
    bias = [n.reals(groups * k)] if n.random.random() < 0.6 else []
    n.add("ConvTranspose", n.x, n.reals(channels, k, *kernel), *bias, **attributes)


def resize(n):
    if n.opset < 11 or len(n.dims) not in (3, 4):
        return
    space, mode = len(n.dims) - 2, n.choose("nearest", "linear", "cubic")
    if mode == "cubic" and space == 1:
        return
    attributes = {"mode": mode, "coordinate_transformation_mode": n.choose("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")}
    if mode == "nearest":  # else the rounding of a coordinate would choose between equally near neighbours
        attributes.update(coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    if mode == "cubic":
        attributes["exclude_outside"] = n.whole(0, 1)
    if n.random.random() < 0.5:
        n.add("Resize", n.x, "", n.stored(np.array([1, 1] + [n.choose(0.5, 2, 3) for _ in range(space)], np.float32)), **attributes)
    else:
        n.add("Resize", n.x, "", "", n.integers(*n.dims[:2], *(n.whole(1, 9) for _ in range(space))), **attributes)


def depth_to_space(n):
    if len(n.dims) == 4 and n.dims[1] % 4 == 0:
        n.add("DepthToSpace", blocksize=2, **({"mode": n.choose("DCR", "CRD")} if n.opset >= 11 else {}))
    elif len(n.dims) == 4 and n.dims[2] % 2 == 0 and n.dims[3] % 2 == 0:
        n.add("SpaceToDepth", blocksize=2)


def batch_normalization(n):
    c = n.dims[1]
    variance = n.stored(n.numbers.uniform(0.5, 1.5, c).astype(np.float32))
    n.add("BatchNormalization", n.x, n.reals(c), n.reals(c), n.reals(c), variance, epsilon=1e-3)


def with_constant(n):
    dims = [d if n.random.random() < 0.5 else 1 for d in n.dims[1:]]
    operands = [n.x, n.reals(*dims)]
    n.random.shuffle(operands)
    n.add(n.choose("Add", "Sub", "Mul"), *operands)


def with_earlier(n):
    same = [name for name, dims in n.values if dims == n.dims and name != n.x]
    if same:
        n.add(n.choose("Add", "Sub", "Mul", "Sum", "Min", "Max"), n.x, n.random.choice(same))


def concat(n):
    axis = n.whole(1, len(n.dims) - 1)
    fits = [name for name, dims in n.values if len(dims) == len(n.dims) and
            all(a == b for i, (a, b) in enumerate(zip(dims, n.dims)) if i != axis)]
    n.add("Concat", n.x, n.random.choice(fits), axis=axis)


def transpose(n):
    rest = list(range(1, len(n.dims)))
    n.random.shuffle(rest)
    n.add("Transpose", perm=[0, *rest])


def slice_(n):
    axis = n.whole(1, len(n.dims) - 1)
    first, last = n.choose((1, n.dims[axis]), (0, -1), (1, -1), (0, 1000))
    if n.opset >= 10:
        n.add("Slice", n.x, *(n.integers(i) for i in (first, last, axis, n.choose(1, 1, 2))))
    else:
        n.add("Slice", starts=[first], ends=[last], axes=[axis])


def pad(n):
    pads = [0, *(n.whole(0, 2) for _ in n.dims[1:]), 0, *(n.whole(0, 1) for _ in n.dims[1:])]
    if n.opset >= 11:
        n.add("Pad", n.x, n.integers(*pads), n.real(n.choose(0, 1.5)))
    else:
        n.add("Pad", pads=pads, value=0.5)


def over_axes(n, op, axes, since, **attributes):
    if n.opset >= since:
        n.add(op, n.x, n.integers(*axes), **attributes)
    else:
        n.add(op, axes=axes, **attributes)


def mean(n):
    axes = sorted(n.random.sample(range(1, len(n.dims)), n.whole(1, len(n.dims) - 1)))
    over_axes(n, "ReduceMean", axes, 18, keepdims=n.whole(0, 1))


def maximum(n):
    if len(n.dims) > 2:
        over_axes(n, "ReduceMax", list(range(2, len(n.dims))), 18, keepdims=n.whole(0, 1))


def reduction(n):
    axes = sorted(n.random.sample(range(1, len(n.dims)), n.whole(1, len(n.dims) - 1)))
    op = n.choose("ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
    over_axes(n, op, axes, 13 if op == "ReduceSum" else 18, keepdims=n.whole(0, 1))


def above_one(n):
    """A function of softplus(x) + 1, where none has a pole."""
    x = n.x
    n.add("Softplus")
    n.add("Add", n.x, n.real([1.0]))
    op = n.choose("Log", "Sqrt", "Reciprocal", "Pow", "Div")
    n.add(op, *{"Pow": (n.x, n.real([1.5])), "Div": (x, n.x)}.get(op, (n.x,)))


def where(n):
    """x where it is above 0, else x / 2: continuous, so that rounding does not choose."""
    x = n.x
    n.add(n.choose("Greater", "GreaterOrEqual"), x, n.real([0.0]))
    condition = n.x
    n.add("Mul", x, n.real([0.5]))
    n.add("Where", condition, x, n.x)


def clip(n):
    if n.opset >= 11:
        n.add("Clip", n.x, n.real(-0.7), n.real(1.2))
    else:
        n.add("Clip", min=-0.5, max=1.0)


def gemm(n):
    if len(n.dims) != 2:
        return
    out, transposed = n.whole(1, 6), n.whole(0, 1)
    w = n.reals(out, n.dims[1]) if transposed else n.reals(n.dims[1], out)
    n.add("Gemm", n.x, w, n.reals(out), transB=transposed, alpha=n.choose(1.0, 0.5), beta=n.choose(1.0, 2.0))


def reshape(n):
    n.add("Reshape", n.x, n.integers(*n.choose((0, -1), (0, 1, -1), (n.batch, int(np.prod(n.dims[1:]))))))


def split(n):
    sizes = [1, n.dims[1] - 1]
    if n.opset >= 13:
        n.add("Split", n.x, n.integers(*sizes), outputs=2, take=1, axis=1)
    else:
        n.add("Split", outputs=2, take=1, axis=1, split=sizes)


def squeeze(n):
    ones = [i for i, d in enumerate(n.dims) if d == 1 and i > 0]
    if ones:
        over_axes(n, "Squeeze", ones, 13)


OPERATORS = (
    convolution, convolution, convolution, pool, pool, batch_normalization, with_constant, with_earlier, concat, transpose,
    transposed_convolution, resize, resize, depth_to_space, slice_, pad, mean, maximum, reduction, above_one, where, clip, gemm, reshape, split, squeeze,
    lambda n: n.add("GlobalAveragePool"),
    lambda n: n.add("GlobalMaxPool"),
    lambda n: n.add(n.choose("Relu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Gelu", "Identity")),
    lambda n: n.add(n.choose("Softplus", "Elu", "Selu", "Erf", "Softsign", "Sin", "Cos", "Abs", "Neg")),
    lambda n: n.add("LeakyRelu", alpha=n.choose(0.1, 0.3)),
    lambda n: n.add("PRelu", n.x, n.reals(n.dims[1], *[1] * (len(n.dims) - 2))),
    lambda n: n.add("Div", n.x, n.real([n.choose(2.0, 3.0, 0.7)])),
    lambda n: n.add(n.choose("Min", "Max"), n.x, n.real([0.3])),
    lambda n: n.add(n.choose("Softmax", "LogSoftmax"), axis=n.whole(1, len(n.dims) - 1)),
    lambda n: n.add("MatMul", n.x, n.reals(n.dims[-1], n.whole(1, 5))),
    # LayerNormalization divides the rounding of numbers that are all alike by epsilon: 0.1 keeps the quotient small.
    lambda n: n.add("LayerNormalization", n.x, n.reals(n.dims[-1]), n.reals(n.dims[-1]), epsilon=0.1),
    lambda n: n.add("Flatten", axis=1),
    lambda n: over_axes(n, "Unsqueeze", [n.whole(1, len(n.dims))], 13),
)


def random_network(seed):
    n = Network(seed)
    while not n.nodes:
        for _ in range(n.whole(3, 9)):
            if len(n.dims) > 1:
                n.grow(n.random.choice(OPERATORS))
    names = [n.x]
    if len(n.values) > 2 and n.random.random() < 0.3:
        names.append(n.random.choice(n.values[1:-1])[0])
    return n, n.model(names)


class Runner(Nacre):
    def outputs(self, model, x):
        """Returns the outputs by name, or the sentence of a refusal."""
        source, target, out = self.folder / "a.onnx", self.folder / "a.nacre", self.folder / "out"
        onnx.save(model, source)
        np.save(self.folder / "x.npy", x)
        for old in out.glob("*"):
            old.unlink()
        try:
            self.call("convert", source, "-o", target)
            self.call("run", target, "--input", f"x={self.folder / 'x.npy'}", "--output", out)
        except RuntimeError as refused:
            return str(refused)
        return {o.name: np.load(out / f"{o.name}.npy") for o in model.graph.output}


def compare_networks(nacre, seeds):
    """How many operators ran, and lines that say what is wrong."""
    nodes, wrong = 0, []
    for seed in seeds:
        n, model = random_network(seed)
        x = n.numbers.standard_normal(n.input_dims).astype(np.float32)
        theirs, ours = answers(model, {"x": x}), nacre.outputs(model, x)
        largest = max(np.abs(v).max() for v in answers(n.model([name for name, _ in n.values[1:]]), {"x": x}))
        nodes += len(n.nodes)
        if isinstance(ours, str):
            wrong.append(f"seed {seed}: {ours}")
            continue
        for y, output in zip(theirs, model.graph.output):
            mine = ours[output.name]
            far = y.shape != mine.shape or not np.abs(mine - y).max() <= max(TOLERANCE * np.abs(y).max(), largest / 2**20)
            if far:
                wrong.append(f"seed {seed}, {output.name}, opset {n.opset}: {' '.join(node.op_type for node in n.nodes)}")
    return nodes, wrong


SHAPE = (1, 2, 6, 6)
CODED = (
    ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, ()),
    ("MaxPool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, ()),
    ("GlobalAveragePool", {}, ()),
    ("GlobalMaxPool", {}, ()),
    ("ReduceMean", {"axes": [1]}, ()),
    ("Softmax", {"axis": 3}, ()),
    ("Sigmoid", {}, ()),
    ("Tanh", {}, ()),
    ("LeakyRelu", {"alpha": 0.1}, ()),
    ("HardSwish", {}, ()),
    ("Relu", {}, ()),
    ("Clip", {}, (np.float32(-0.5), np.float32(0.7))),
    ("Max", {}, (np.float32(0.3),)),
    ("Pad", {}, (np.array([0, 0, 1, 2, 0, 0, 1, 0]), np.float32(1.5))),
    ("Transpose", {"perm": [0, 2, 3, 1]}, ()),
    ("Add", {}, (np.array([[[0.5]], [[-1.25]]], np.float32),)),
    ("Mul", {}, (np.array([[[0.5]], [[-1.25]]], np.float32),)),
    ("BatchNormalization", {}, tuple(np.array(v, np.float32) for v in ((1, 2), (0.1, -0.2), (0, 0.1), (1, 0.5)))),
)
SCALES = ((0.02, 0.02), (0.02, 0.001), (0.001, 0.02))


def coded_model(op, attributes, operands, scales, dtype):
    zero = dtype(128 if dtype == np.uint8 else 0)
    constants = {"sx": np.float32(scales[0]), "sy": np.float32(scales[1]), "zero": zero}
    constants.update({f"c{i}": c for i, c in enumerate(operands)})
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zero"], ["x.real"]),
        helper.make_node(op, ["x.real", *(f"c{i}" for i in range(len(operands)))], ["y.real"], **attributes),
        helper.make_node("QuantizeLinear", ["y.real", "sy", "zero"], ["y"]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes, op, [helper.make_tensor_value_info("x", kind, SHAPE)], [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compare_codes(nacre):
    """How many operators ran, and lines that say what is wrong."""
    count, wrong = 0, []
    for op, attributes, operands in CODED:
        for scales in SCALES:
            for dtype in (np.int8, np.uint8):
                model = coded_model(op, attributes, operands, scales, dtype)
                limits = np.iinfo(dtype)
                x = np.random.default_rng(count).integers(limits.min, limits.max + 1, SHAPE).astype(dtype)
                (theirs,), ours = answers(model, {"x": x}), nacre.outputs(model, x)
                count += 1
                if isinstance(ours, str):
                    wrong.append(f"{op} {scales} {dtype.__name__}: {ours}")
                elif (far := np.abs(theirs.astype(int) - ours["y"].astype(int)).max()) > 1:
                    wrong.append(f"{op} {scales} {dtype.__name__}: {far} codes apart")
    return count, wrong


def main():
    first, count = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 3 else (1, 500)
    with tempfile.TemporaryDirectory() as name:
        nacre = Runner(sys.argv[1], pathlib.Path(name))
        nodes, wrong = compare_networks(nacre, range(first, first + count))
        coded, wrong_codes = compare_codes(nacre)
    for line in wrong + wrong_codes:
        print("  " + line)
    facts = f"{count} networks of {nodes} operators, {len(wrong)} wrong; {coded} operators between codes, {len(wrong_codes)} over 1 code away; onnxruntime {ort.__version__}"
    failed = bool(wrong or wrong_codes)
    print(f"CLAIM random_networks {'NOT SHOWN' if failed else 'shown'}: {facts}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
