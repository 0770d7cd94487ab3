"""Single operators of ai.onnx.ml, and random forests, in onnxruntime and in Nacre.

    ml_operators.py NACRE [FORESTS]      the program of a build; how many random forests

A forest has random trees of random depth, of every mode of a node and with missing values, several weights in a leaf, every aggregate
function and post_transform. Compared in float32: at most 2e-6 of the largest magnitude of an output apart; integers are equal. Features
are multiples of 1/4, as thresholds are, so that they are often equal.
"""
import pathlib
import random
import sys
import tempfile

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from operators import Runner

TOLERANCE = 2e-6
RNG = np.random.default_rng(23)
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
AGGREGATES = ("SUM", "AVERAGE", "MIN", "MAX")


def reals(*dims):
    return RNG.standard_normal(dims).astype(np.float32)


def floats(*dims):
    return reals(*dims).reshape(-1).tolist()


def quarters(random_, rows, features, missing):
    x = np.array([[random_.randint(-4, 4) / 4 for _ in range(features)] for _ in range(rows)], np.float32)
    if missing:
        x[np.array([[random_.random() < 0.15 for _ in range(features)] for _ in range(rows)])] = np.nan
    return x


def cases():
    """(operator, opset, operands, attributes, types of the outputs)"""
    x = reals(5, 4)
    odd = np.array([[1, np.nan, 3], [np.nan, -1, 0], [7, 7, 7]], np.float32)
    real, label = [TensorProto.FLOAT], [TensorProto.INT64, TensorProto.FLOAT]
    yield "Scaler", 1, [x], {"offset": floats(4), "scale": floats(4)}, real
    yield "Scaler", 1, [np.arange(6).reshape(2, 3)], {"offset": [1.5], "scale": [0.25]}, real
    yield "Scaler", 1, [x.astype(np.float64)], {"offset": [1.5], "scale": [0.25]}, real
    for norm in ("MAX", "L1", "L2"):
        yield "Normalizer", 1, [np.concatenate([x, np.zeros((1, 4), np.float32)])], {"norm": norm}, real
    yield "Binarizer", 1, [x], {"threshold": 0.3}, real
    yield "Imputer", 1, [odd], {"imputed_value_floats": floats(3), "replaced_value_float": float("nan")}, real
    yield "Imputer", 1, [odd], {"imputed_value_floats": [0.5], "replaced_value_float": 7.0}, real
    yield "Imputer", 1, [np.array([[1, 2], [-1, 4]])], {"imputed_value_int64s": [9, 8], "replaced_value_int64": -1}, [TensorProto.INT64]
    yield "OneHotEncoder", 1, [np.array([3, 5, 4, 5])], {"cats_int64s": [5, 3, 9], "zeros": 1}, real
    yield "OneHotEncoder", 1, [np.array([[3.2, 5], [9, -1]], np.float32)], {"cats_int64s": [5, 3, 9], "zeros": 1}, real
    yield "LabelEncoder", 2, [np.array([[3, 5], [8, 3]])], {"keys_int64s": [3, 5], "values_int64s": [30, -50], "default_int64": 7}, [TensorProto.INT64]
    yield "LabelEncoder", 2, [np.array([3, 5, 8])], {"keys_int64s": [3, 5], "values_floats": [0.5, 2.5], "default_float": -1.0}, real
    yield "LabelEncoder", 2, [np.array([0.5, 2, 8], np.float32)], {"keys_floats": [0.5, 2.0], "values_int64s": [4, 5]}, [TensorProto.INT64]
    yield "FeatureVectorizer", 1, [x, reals(5, 2)], {"inputdimensions": [4, 2]}, real
    yield "ArrayFeatureExtractor", 1, [x, np.array([[2, 0]])], {}, real
    yield "LinearRegressor", 1, [x], {"coefficients": floats(3, 4), "intercepts": floats(3), "targets": 3}, real
    yield "LinearRegressor", 1, [x], {"coefficients": floats(4), "targets": 1}, real
    for transform in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        yield "LinearClassifier", 1, [x], {"coefficients": floats(3, 4), "intercepts": floats(3), "classlabels_ints": [7, -2, 4],
                                           "post_transform": transform}, label
    kernels = {"LINEAR": [], "POLY": [0.3, 1.5, 3.0], "RBF": [0.4, 0.0, 0.0], "SIGMOID": [0.2, 0.1, 0.0]}
    for kernel, parameters in kernels.items():
        shared = {"kernel_type": kernel, "kernel_params": parameters or [0.0, 0.0, 0.0]}
        yield "SVMRegressor", 1, [x], {"coefficients": floats(6), "rho": floats(1), "support_vectors": floats(6, 4), "n_supports": 6, **shared}, real
        for classes in (2, 4):
            yield "SVMClassifier", 1, [x], {"coefficients": floats(classes - 1, 2 * classes), "rho": floats(classes * (classes - 1) // 2),
                                            "support_vectors": floats(2 * classes, 4), "vectors_per_class": [2] * classes,
                                            "classlabels_ints": list(range(3, 3 + classes)), **shared}, label
    for classes in (2, 3, 5):
        pairs = classes * (classes - 1) // 2
        yield "SVMClassifier", 1, [x], {"coefficients": floats(classes - 1, 2 * classes), "rho": floats(pairs), "kernel_type": "RBF",
                                        "kernel_params": kernels["RBF"], "support_vectors": floats(2 * classes, 4), "prob_a": floats(pairs),
                                        "prob_b": floats(pairs), "vectors_per_class": [2] * classes, "classlabels_ints": list(range(classes))}, label
    yield "SVMRegressor", 1, [x], {"coefficients": floats(4), "rho": floats(1), "n_supports": 0, "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}, real
    yield "SVMRegressor", 1, [x], {"coefficients": floats(6), "rho": floats(1), "support_vectors": floats(6, 4), "n_supports": 6,
                                   "one_class": 1, "kernel_type": "RBF", "kernel_params": [0.3, 0.0, 0.0]}, real


class Forest:
    """Trees in the attributes of TreeEnsembleClassifier and -Regressor."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.features, self.classifies = self.random.randint(1, 5), self.random.random() < 0.5
        self.targets = self.random.choice((2, 2, 3, 5)) if self.classifies else self.random.choice((1, 1, 2, 4))
        self.one = self.classifies and self.targets == 2
        self.lists = {key: [] for key in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
                                          "missing_value_tracks_true")}
        self.leaves = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
        self.negative = self.random.random() < 0.6
        self.base = self.random.random() < 0.5  # onnxruntime adds base values only to targets that a leaf names
        self.one_mode = self.random.choice(MODES) if self.random.random() < 0.5 else None
        for tree in range(self.random.randint(1, 12)):
            self.count = 0
            self.grow(tree, self.random.randint(0, 5))

    def grow(self, tree, depth):
        node, self.count = self.count, self.count + 1
        row = len(self.lists["modes"])
        leaf = depth == 0 or self.random.random() < 0.15
        mode = "LEAF" if leaf else self.one_mode or self.random.choice(MODES)
        facts = (tree, node, self.random.randrange(self.features), mode, self.random.randint(-4, 4) / 4, 0, 0, self.random.randint(0, 1))
        for key, fact in zip(self.lists, facts):
            self.lists[key].append(fact)
        if leaf:
            return self.weigh(tree, node)
        self.lists["truenodeids"][row] = self.grow(tree, depth - 1)
        self.lists["falsenodeids"][row] = self.grow(tree, depth - 1)
        return node

    def weigh(self, tree, node):
        targets = [0] if self.one else self.random.sample(range(self.targets), self.random.randint(1, self.targets))
        if not self.one and (self.classifies or self.base):
            targets = range(self.targets)
        for target in targets:
            weight = self.random.uniform(-1 if self.negative else 0, 1)
            for key, fact in zip(self.leaves, (tree, node, target, weight)):
                self.leaves[key].append(fact)
        return node

    def case(self):
        attributes = {f"nodes_{key}": numbers for key, numbers in self.lists.items()}
        prefix = "class" if self.classifies else "target"
        attributes |= {f"{prefix}_{key}": numbers for key, numbers in self.leaves.items()}
        several = self.targets > 2 or (not self.classifies and self.targets > 1)
        transforms = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO") if several else ("NONE", "LOGISTIC") if self.one and self.negative else ("NONE",)
        attributes["post_transform"] = self.random.choice(transforms)
        scores = 1 if self.one else self.targets
        if self.base:
            attributes["base_values"] = [self.random.uniform(-0.5, 0.5) for _ in range(scores)]
        if self.classifies:
            attributes["classlabels_int64s"] = self.random.sample(range(-9, 9), self.targets)
        else:
            attributes |= {"n_targets": self.targets, "aggregate_function": self.random.choice(AGGREGATES)}
        x = quarters(self.random, 30, self.features, missing=True)
        op, kinds = ("TreeEnsembleClassifier", [TensorProto.INT64, TensorProto.FLOAT]) if self.classifies else ("TreeEnsembleRegressor", [TensorProto.FLOAT])
        return op, 3, [x], attributes, kinds


def splits(seed):
    """Trees as attributes of TreeEnsemble, some nodes with sets. Splits are whole: onnxruntime has no other sets."""
    random_ = random.Random(seed)
    features, targets = random_.randint(1, 4), random_.randint(1, 3)
    nodes = {key: [] for key in ("featureids", "modes", "splits", "truenodeids", "trueleafs", "falsenodeids", "falseleafs", "missing_value_tracks_true")}
    leaves, members, roots = [], {}, []

    def leaf():
        leaves.append((random_.randrange(targets), random_.uniform(-1, 1)))
        return len(leaves) - 1, 1

    def grow(depth):
        node, mode = len(nodes["modes"]), random_.choice((0, 1, 2, 3, 4, 5, 6, 6))
        for key, fact in zip(nodes, (random_.randrange(features), mode, random_.randint(1, 9), 0, 0, 0, 0, random_.randint(0, 1))):
            nodes[key].append(fact)
        if mode == 6:
            members[node] = random_.sample(range(1, 10), random_.randint(1, 5))
        for side in ("true", "false"):
            to = grow(depth - 1) if depth and random_.random() < 0.8 else leaf()
            nodes[f"{side}nodeids"][node], nodes[f"{side}leafs"][node] = to
        return node, 0

    for _ in range(random_.randint(1, 6)):
        roots.append(grow(random_.randint(0, 4))[0])
    attributes = {f"nodes_{key}": numbers for key, numbers in nodes.items()}
    attributes["nodes_modes"] = numpy_helper.from_array(np.array(nodes["modes"], np.uint8))
    attributes["nodes_splits"] = numpy_helper.from_array(np.array(nodes["splits"], np.float32))
    attributes["leaf_targetids"] = [target for target, _ in leaves]
    attributes["leaf_weights"] = numpy_helper.from_array(np.array([weight for _, weight in leaves], np.float32))
    if members:
        attributes["membership_values"] = numpy_helper.from_array(
            np.array([m for node in sorted(members) for m in [*members[node], np.nan]], np.float32))
    attributes |= {"tree_roots": roots, "n_targets": targets, "aggregate_function": random_.randrange(4)}
    return "TreeEnsemble", 5, [quarters(random_, 30, features, missing=True) * 4 + 5], attributes, [TensorProto.FLOAT]


def model_of(op, opset, operands, attributes, kinds):
    names = [f"x{i}" for i in range(len(operands))]
    stored = [numpy_helper.from_array(operands[1], "x1")] if op == "ArrayFeatureExtractor" else []
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in zip(names, operands)]
    outputs = [helper.make_tensor_value_info(f"y{i}", kind, None) for i, kind in enumerate(kinds)]
    node = helper.make_node(op, names, [o.name for o in outputs], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "one", inputs[:1] if stored else inputs, outputs, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", opset)]
    feeds = {name: x for name, x in zip(names, operands) if not (stored and name == "x1")}
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


def difference(mine, theirs):
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return f"{mine.dtype}{mine.shape} instead of {theirs.dtype}{theirs.shape}"
    if theirs.dtype != np.float32:
        return "" if np.array_equal(mine, theirs) else f"{(mine != theirs).sum()} integers differ"
    if not np.array_equal(np.isnan(mine), np.isnan(theirs)):
        return "other numbers are none"
    far = np.abs(np.nan_to_num(mine - theirs)).max()
    return "" if far <= TOLERANCE * max(1, np.nanmax(np.abs(theirs))) else f"{far:.3g} apart of {np.nanmax(np.abs(theirs)):.3g}"


def main():
    forests = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    every, wrong = [*cases(), *(Forest(seed).case() for seed in range(forests)), *(splits(seed) for seed in range(forests // 2))], []
    with tempfile.TemporaryDirectory() as folder:
        nacre = Runner(sys.argv[1], pathlib.Path(folder))
        for number, (op, *rest) in enumerate(every):
            model, feeds = model_of(op, *rest)
            theirs = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
            try:
                ours = nacre.outputs(model, feeds)
            except RuntimeError as refused:
                wrong.append(f"{number} {op}: {refused}")
                continue
            wrong += [f"{number} {op}, output {i}: {what}" for i, (mine, y) in enumerate(zip(ours, theirs)) if (what := difference(mine, y))]
    for line in wrong:
        print("  " + line)
    facts = f"{len(every)} operators, of them {forests + forests // 2} random forests, beside onnxruntime {ort.__version__}, {len(wrong)} wrong"
    print(f"CLAIM ml_operators {'NOT SHOWN' if wrong else 'shown'}: {facts}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
