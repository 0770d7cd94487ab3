"""Random networks around constants that a converter computes, in onnxruntime and in Nacre.

    folded_networks.py NACRE [FIRST COUNT]      the program of a build; seeds

A network is a random graph of operators on constants (arithmetic, comparisons, indices, scatters, masks, reductions, If, in random
types) and on the shape of its input, its nodes in random order. The results meet the input in three operators of run
time: all numbers are added to it, and two shapes and a mask that were computed are used on it. Integers are equal,
reals differ by at most 1e-5 of the largest magnitude of their tensor. Networks that onnxruntime refuses are left out.
"""
import pathlib
import random
import sys
import tempfile

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from random_networks import Runner, answers

TOLERANCE = 1e-5
OPSETS = (14, 16, 17, 18, 20)
TYPES = (np.float32, np.float32, np.float64, np.int64, np.int64, np.int32, np.bool_)


class Constants:
    """Values by name that grow by one operator at a time, each with what onnxruntime says of it."""

    def __init__(self, seed):
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.opset = self.random.choice(OPSETS)
        self.nodes, self.initializers, self.values = [], [], {}
        for _ in range(4):
            self.stored(self.array())

    def array(self, dtype=None, dims=None):
        dtype = dtype or self.random.choice(TYPES)
        dims = dims if dims is not None else self.random.choice(((), (1,), (3,), (2, 3), (3, 1), (2, 3, 4), (2, 1, 4), (4, 4)))
        if dtype == np.bool_:
            return self.numbers.integers(0, 2, dims).astype(np.bool_)
        if np.issubdtype(dtype, np.integer):
            return self.numbers.integers(-9, 10, dims).astype(dtype)
        return (self.numbers.standard_normal(dims) * 3).astype(dtype)

    def stored(self, array):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        self.values[name] = np.asarray(array)
        return name

    def pick(self, fits=lambda v: True):
        names = [name for name, v in self.values.items() if fits(v)]
        return self.random.choice(names) if names else None

    def like(self, v):
        """A value of v's type whose shape goes together with v's."""
        if self.random.random() < 0.5 and (found := self.pick(lambda other: other.dtype == v.dtype and other.size <= 64)):
            return found
        return self.stored(self.array(v.dtype.type, self.random.choice((v.shape, (), v.shape[-1:]))))

    def add(self, op, *inputs, outputs=1, **attributes):
        """True if onnxruntime takes it; then its outputs are values."""
        names = [f"v{len(self.nodes)}.{i}" for i in range(outputs)]
        node = helper.make_node(op, inputs, names, **attributes)
        used = [numpy_helper.from_array(self.values[name], name) for name in dict.fromkeys(inputs) if name]
        one = helper.make_tensor_value_info("unused", TensorProto.FLOAT, [1])
        results = [helper.make_empty_tensor_value_info(name) for name in names]
        graph = helper.make_graph([node], "one", [one], results, used)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        try:
            found = answers(model, {"unused": np.zeros(1, np.float32)})
        except Exception:  # onnxruntime refuses it: the node is not made
            return False
        if any(v.size > 4096 or v.ndim > 6 for v in found):
            return False
        self.nodes.append(node)
        self.values.update(zip(names, found))
        return True


def reals(v):
    return v.dtype in (np.float32, np.float64)


def numbers(v):
    return v.dtype != np.bool_


def pairs(n):
    a = n.pick()
    v = n.values[a]
    ops = ("And", "Or", "Xor", "Equal") if v.dtype == np.bool_ else (
        "Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "Mean", "Pow", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
    op, b = n.random.choice(ops), n.like(v)
    if op in ("Div", "Mod") and not reals(v) and not np.all(n.values[b]):
        return
    if op == "Pow" and not reals(v) and np.any(n.values[b] < 0):
        return
    n.add(op, *n.random.sample((a, b), 2) if op != "Div" and op != "Pow" else (a, b))


def modulo(n):
    a = n.pick(numbers)
    if a is None:
        return
    v = n.values[a]
    b = n.stored(np.array(n.random.choice((-4, -3, 2, 5)), v.dtype))
    n.add("Mod", a, b, fmod=1 if reals(v) else n.random.randint(0, 1))


def singles(n):
    if a := n.pick(lambda v: v.dtype == np.bool_ or not reals(v) or np.all(np.isfinite(v))):
        v = n.values[a]
        ops = ("Not",) if v.dtype == np.bool_ else ("Neg", "Abs", "Sign") if not reals(v) else (
            "Neg", "Abs", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Reciprocal", "Exp", "Log", "Erf", "Sin", "Cos", "Tanh", "Sigmoid",
            "IsNaN", "IsInf", "Softplus", "Atan", "Relu")
        n.add(n.random.choice(ops), a)


def casts(n):
    if a := n.pick(lambda v: not reals(v) or (np.all(np.isfinite(v)) and np.all(np.abs(v) < 1e9))):
        to = n.random.choice((TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL))
        n.add("Cast", a, to=to)


def choices(n):
    a = n.pick()
    n.add("Where", n.like(np.zeros(n.values[a].shape, np.bool_)), a, n.like(n.values[a]))


def reductions(n):
    a = n.pick(lambda v: numbers(v) and v.ndim > 0 and v.size > 0)
    if a is None:
        return
    v = n.values[a]
    axes = n.random.sample(range(-v.ndim, 0), n.random.randint(1, v.ndim))
    op = n.random.choice(("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                          *(("ReduceLogSumExp",) if reals(v) else ())))  # integers can be rounded in several ways
    keep = n.random.randint(0, 1)
    if op == "ReduceSum" or n.opset >= 18:
        n.add(op, a, n.stored(np.array(axes, np.int64)), keepdims=keep)
    else:
        n.add(op, a, keepdims=keep, axes=axes)


def along_axes(n):
    a = n.pick(lambda v: numbers(v) and v.ndim > 0 and v.size > 0 and (not reals(v) or not np.any(np.isnan(v))))
    if a is None:
        return
    v = n.values[a]
    axis = n.random.randrange(-v.ndim, v.ndim)
    op = n.random.choice(("ArgMax", "ArgMin", "CumSum", "TopK"))
    if op == "CumSum":
        n.add(op, a, n.stored(np.array(axis, np.int64)), exclusive=n.random.randint(0, 1), reverse=n.random.randint(0, 1))
    elif op == "TopK":
        if np.unique(v).size == v.size:  # onnxruntime may order equal values otherwise
            n.add(op, a, n.stored(np.array([n.random.randint(1, v.shape[axis])], np.int64)), outputs=2, axis=axis,
                  largest=n.random.randint(0, 1))
    else:
        n.add(op, a, axis=axis, keepdims=n.random.randint(0, 1), select_last_index=n.random.randint(0, 1))


def moves(n):
    a = n.pick(lambda v: v.ndim > 0)
    if a is None:
        return
    v = n.values[a]
    axis = n.random.randrange(v.ndim)
    op = n.random.choice(("Transpose", "Reshape", "Slice", "Concat", "Gather", "Unsqueeze", "Tile", "Expand", "Split", "Pad", "Flatten"))
    if op == "Transpose":
        n.add(op, a, perm=n.random.sample(range(v.ndim), v.ndim))
    elif op == "Reshape":
        n.add(op, a, n.stored(np.array([-1, *v.shape[axis + 1:]], np.int64)))
    elif op == "Slice":
        step = n.random.choice((1, 1, 2, -1))
        ends = (n.random.randint(0, 1), 99) if step > 0 else (-1, -99)
        n.add(op, a, *(n.stored(np.array([x], np.int64)) for x in (*ends, axis, step)))
    elif op == "Concat":
        n.add(op, a, n.like(v), a, axis=axis)
    elif op == "Gather":
        if v.shape[axis]:
            n.add(op, a, n.stored(n.numbers.integers(-v.shape[axis], v.shape[axis], n.random.choice(((), (2,), (2, 2))))), axis=axis)
    elif op == "Unsqueeze":
        n.add(op, a, n.stored(np.array([axis], np.int64)))
    elif op == "Tile":
        n.add(op, a, n.stored(n.numbers.integers(1, 3, v.ndim)))
    elif op == "Expand":
        n.add(op, a, n.stored(np.array([2, *v.shape], np.int64)))
    elif op == "Split":
        if v.shape[axis] == 4:
            n.add(op, a, n.stored(np.array([1, 3], np.int64)), outputs=2, axis=axis)
    elif op == "Pad":
        mode = n.random.choice(("constant", "reflect", "edge"))
        pads = n.numbers.integers(0, 2, 2 * v.ndim)
        n.add(op, a, n.stored(pads), *((n.stored(np.array(3, v.dtype)),) if mode == "constant" else ()), mode=mode)
    else:
        n.add(op, a, axis=axis)


def indices(n):
    a = n.pick(lambda v: v.ndim > 0 and v.size > 0)
    if a is None:
        return
    v = n.values[a]
    axis = n.random.randrange(v.ndim)
    op = n.random.choice(("GatherElements", "ScatterElements", "GatherND", "ScatterND", "NonZero", "Compress"))
    if op == "NonZero":
        n.add(op, a)
    elif op == "Compress":
        n.add(op, a, n.stored(n.numbers.integers(0, 2, v.shape[axis]).astype(np.bool_)), axis=axis)
    elif op.endswith("Elements"):
        places = n.numbers.integers(-v.shape[axis], v.shape[axis], v.shape)
        if op == "GatherElements":
            n.add(op, a, n.stored(places), axis=axis)
        else:  # each place once, or added up
            places = np.argsort(n.numbers.standard_normal(v.shape), axis)
            adds = {"reduction": n.random.choice(("add", "mul"))} if n.opset >= 16 and numbers(v) else {}
            n.add(op, a, n.stored(places), n.stored(n.array(v.dtype.type, v.shape)), axis=axis, **adds)
    else:
        depth = n.random.randint(1, v.ndim)
        rows = np.stack(np.unravel_index(n.numbers.permutation(int(np.prod(v.shape[:depth])))[:2], v.shape[:depth]), -1)
        if op == "GatherND":
            n.add(op, a, n.stored(rows))
        else:
            n.add(op, a, n.stored(rows), n.stored(n.array(v.dtype.type, (len(rows), *v.shape[depth:]))))


def masks(n):
    op = n.random.choice(("Trilu", "EyeLike", "OneHot", "Range", "ConstantOfShape", "Clip", "MatMul", "Shape", "Size"))
    if op == "Trilu":
        if a := n.pick(lambda v: v.ndim >= 2):
            n.add(op, a, n.stored(np.array(n.random.randint(-2, 2), np.int64)), upper=n.random.randint(0, 1))
    elif op == "EyeLike":
        if a := n.pick(lambda v: v.ndim == 2):
            n.add(op, a, k=n.random.randint(-1, 1), dtype=n.random.choice((TensorProto.FLOAT, TensorProto.INT64)))
    elif op == "OneHot":
        if a := n.pick(lambda v: v.dtype == np.int64 and v.size <= 64):
            n.add(op, a, n.stored(np.array(5, np.int64)), n.stored(n.array(n.random.choice((np.float32, np.int64)), (2,))),
                  axis=n.random.choice((-1, 0)))
    elif op == "Range":
        kind = n.random.choice((np.int64, np.int32, np.float32, np.float64))
        n.add(op, *(n.stored(np.array(x, kind)) for x in ((-3, 9, 2) if n.random.random() < 0.5 else (7, -2, -3))))
    elif op == "ConstantOfShape":
        n.add(op, n.stored(n.numbers.integers(1, 4, 2)), value=numpy_helper.from_array(n.array(None, (1,))))
    elif op == "Clip":
        if a := n.pick(lambda v: numbers(v)):
            n.add(op, a, *(n.stored(np.array(x, n.values[a].dtype)) for x in (-2, 3)))
    elif op == "MatMul":
        if a := n.pick(lambda v: numbers(v) and v.ndim >= 1 and v.shape[-1] > 0 and (not reals(v) or np.all(np.isfinite(v)))):
            v = n.values[a]
            n.add(op, a, n.stored(n.array(v.dtype.type, n.random.choice(((v.shape[-1],), (v.shape[-1], 2))))))
    elif a := n.pick():
        n.add(op, a)


def branches(n):
    """Adds an If whose condition is a constant, with the branches Neg and Abs of one value."""
    condition = n.pick(lambda v: v.dtype == np.bool_ and v.size == 1 and v.ndim <= 1)
    a = n.pick(numbers)
    if condition is None or a is None:
        return
    name = f"v{len(n.nodes)}.0"
    taken = bool(n.values[condition].reshape(-1)[0])
    v = n.values[a]
    graphs = {}
    for key, op in (("then_branch", "Neg"), ("else_branch", "Abs")):
        inner = helper.make_node(op, [a], ["inner." + name])
        kind = helper.make_tensor_value_info("inner." + name, helper.np_dtype_to_tensor_dtype(v.dtype), None)
        graphs[key] = helper.make_graph([inner], key, [], [kind])
    n.nodes.append(helper.make_node("If", [condition], [name], **graphs))
    n.values[name] = -v if taken else np.abs(v)


GROWTH = (pairs, pairs, pairs, modulo, singles, singles, casts, choices, reductions, along_axes, moves, moves, indices, indices, masks, masks, branches)


def finish(n):
    """The model: x [2, 3, 4] beside all of the numbers, and through what was computed of its shape."""
    parts, nodes = [], n.nodes
    made = [output for node in nodes for output in node.output if n.values[output].size]

    def node(op, *inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [f"w{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    flat, seven, zero = n.stored(np.array([-1], np.int64)), n.stored(np.array(7, np.float32)), n.stored(np.array([0], np.int64))
    for name in made:
        real = node("Reshape", node("Cast", name, to=TensorProto.FLOAT), flat)
        parts.append(node("Where", node("IsNaN", real), seven, real))
    everything = node("Concat", *parts, axis=0)  # any number of them
    first = node("Reshape", node("Gather", node("Reshape", "x", flat), zero), flat)
    nodes.append(helper.make_node("Add", [first, everything], ["y"]))
    shape = node("Shape", "x")
    rows = node("Gather", shape, n.stored(np.array([0], np.int64)))
    columns = node("Div", node("ReduceProd", shape, keepdims=1), rows)
    square = node("Reshape", "x", node("Concat", rows, columns, axis=0))
    half = node("Mod", columns, n.stored(np.array([5], np.int64)))
    nodes.append(helper.make_node("Slice", [square, zero, half, n.stored(np.array([1], np.int64))], ["z"]))
    ones = node("ConstantOfShape", node("Concat", columns, columns, axis=0), value=helper.make_tensor("v", TensorProto.FLOAT, [1], [1]))
    mask = node("Where", node("Cast", node("Trilu", ones, upper=0), to=TensorProto.BOOL), n.stored(np.array(0, np.float32)),
                n.stored(np.array(-np.inf, np.float32)))
    scores = node("MatMul", node("Transpose", square, perm=[1, 0]), square)
    nodes.append(helper.make_node("Softmax", [node("Add", scores, mask)], ["s"], axis=-1))
    n.random.shuffle(nodes)
    graph = helper.make_graph(
        nodes, "folded", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 4))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z", "s")], n.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", n.opset)], ir_version=8), made


def in_order(model):
    """Returns a copy with sorted nodes. onnxruntime sorts nodes too, but not by what a graph inside a node reads."""
    ready = {"x"} | {t.name for t in model.graph.initializer}
    waiting, order = list(model.graph.node), []

    def reads(node):
        inner = {name for a in node.attribute for each in a.g.node for name in each.input}
        return {*node.input, *inner} - {""}

    while waiting:
        nexts = [node for node in waiting if reads(node) <= ready]
        waiting = [node for node in waiting if not reads(node) <= ready]
        order += nexts
        ready |= {output for node in nexts for output in node.output}
    copy = type(model)()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    copy.graph.node.extend(order)
    return copy


def far(ours, theirs):
    infinite = ~np.isfinite(theirs)
    if ours.shape != theirs.shape or not np.array_equal(ours[infinite], theirs[infinite]):
        return True
    return not np.allclose(ours[~infinite], theirs[~infinite], rtol=TOLERANCE, atol=TOLERANCE)


def compare(nacre, seeds):
    operators, wrong = 0, []
    for seed in seeds:
        n = Constants(seed)
        for _ in range(n.random.randint(10, 40)):
            n.random.choice(GROWTH)(n)
        model, made = finish(n)
        operators += len(model.graph.node)
        x = n.numbers.standard_normal((2, 3, 4)).astype(np.float32)
        x[0, 0, 0] = 0
        theirs, ours = answers(in_order(model), {"x": x}), nacre.outputs(model, x)
        if isinstance(ours, str):
            wrong.append(f"seed {seed}: {ours}")
            continue
        wrong += [f"seed {seed}: output {o.name} differs" for o, t in zip(model.graph.output, theirs) if far(ours[o.name], t)]
    return operators, wrong


def main():
    first, count = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 3 else (1, 200)
    with tempfile.TemporaryDirectory() as name:
        operators, wrong = compare(Runner(sys.argv[1], pathlib.Path(name)), range(first, first + count))
    for line in wrong:
        print("  " + line)
    facts = f"{count} networks of {operators} operators, {len(wrong)} wrong; onnxruntime {ort.__version__}"
    print(f"CLAIM folded_networks {'NOT SHOWN' if wrong else 'shown'}: {facts}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
