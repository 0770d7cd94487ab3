"""Single ONNX operators that Nacre computes by others, in onnxruntime (or, where it lacks one, in ONNX's reference) and in Nacre.

    operators.py NACRE      the program of a build

Shapes, axes and attributes are other than those of ONNX's own tests. Compared in float32: at most 1e-5 of the largest magnitude of an
output apart; integers are equal.
"""
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnxruntime_parity import Nacre

TOLERANCE = 1e-5
RNG = np.random.default_rng(17)


def reals(*dims):
    return RNG.standard_normal(dims).astype(np.float32)


def whole(high, *dims):
    return RNG.integers(0, high, dims)


class Stored:
    """An operand that stands in the file."""

    def __init__(self, array, dtype=None):
        self.array = np.asarray(array, dtype)


def ints(*numbers):
    return Stored(numbers, np.int64)


def at(number):
    return Stored(np.int64(number))


def bools(*dims):
    return RNG.random(dims) < 0.6


def distinct(*dims):
    return RNG.permutation(int(np.prod(dims))).reshape(dims).astype(np.float32)


def cases():
    """(operator, opset, operands, attributes, outputs)"""
    for op in ("Mish", "Sinh", "Cosh", "Tan"):
        yield op, 18, [reals(2, 3, 5)], {}, 1
    yield "Celu", 12, [reals(3, 4)], {"alpha": 0.7}, 1
    yield "Celu", 12, [reals(7)], {}, 1
    yield "Swish", 24, [reals(2, 5)], {"alpha": 1.7}, 1
    yield "Shrink", 9, [reals(2, 3, 4)], {"lambd": 0.4, "bias": 0.3}, 1
    yield "ThresholdedRelu", 10, [reals(4, 5)], {"alpha": 0.2}, 1
    odd = np.array([[1, np.inf, -np.inf], [np.nan, 0, -2]], np.float32)
    yield "IsNaN", 13, [odd], {}, 1
    yield "IsInf", 10, [odd], {}, 1
    yield "IsInf", 10, [odd], {"detect_negative": 0}, 1
    yield "IsInf", 10, [odd], {"detect_positive": 0}, 1
    yield "IsInf", 10, [odd], {"detect_positive": 0, "detect_negative": 0}, 1
    yield "Xor", 7, [bools(3, 1, 4), bools(2, 1)], {}, 1
    yield "Mean", 13, [reals(3, 4), reals(4), reals(3, 1)], {}, 1
    yield "Mod", 13, [reals(3, 5) * 3, np.abs(reals(5)) + 0.3], {"fmod": 1}, 1
    yield "Hardmax", 13, [distinct(3, 4, 5)], {"axis": 1}, 1
    yield "Hardmax", 11, [distinct(3, 4, 5)], {"axis": 1}, 1
    yield "OneHot", 11, [whole(5, 2, 3) - 2, at(5), Stored([0.5, 2], np.float32)], {"axis": 1}, 1
    yield "OneHot", 11, [whole(5, 4), at(4), reals(2)], {}, 1
    yield "InstanceNormalization", 6, [reals(2, 3, 7), Stored(reals(3)), Stored(reals(3))], {"epsilon": 1e-3}, 1
    yield "InstanceNormalization", 6, [reals(1, 4, 3, 5, 2), reals(4), reals(4)], {}, 1
    yield "GroupNormalization", 21, [reals(2, 6, 5), Stored(reals(6)), Stored(reals(6))], {"num_groups": 3}, 1
    yield "GroupNormalization", 18, [reals(2, 6, 3, 2), Stored(reals(2)), Stored(reals(2))], {"num_groups": 2, "epsilon": 0.1}, 1
    yield "RMSNormalization", 23, [reals(2, 3, 4, 5), Stored(reals(4, 5))], {"axis": 2}, 1
    yield "RMSNormalization", 23, [reals(6, 3), reals(3)], {"epsilon": 0.01}, 1
    yield "LRN", 13, [reals(2, 7, 3, 1)], {"size": 5, "alpha": 0.3, "beta": 0.6, "bias": 2.0}, 1
    yield "LRN", 13, [reals(1, 5, 2, 3)], {"size": 3}, 1
    yield "LpNormalization", 15, [reals(3, 4, 5)], {"axis": 1, "p": 1}, 1
    yield "LpNormalization", 15, [reals(3, 4)], {"p": 2}, 1
    yield "MeanVarianceNormalization", 13, [reals(2, 3, 4, 5)], {"axes": [0, 2, 3]}, 1
    yield "MeanVarianceNormalization", 13, [reals(4, 6)], {"axes": [1]}, 1
    yield "BatchNormalization", 15, [reals(3, 2, 5), reals(2), reals(2), reals(2), np.abs(reals(2))], {"training_mode": 1, "momentum": 0.7}, 3
    for reduction in ("none", "sum", "mean"):
        logs = np.log(np.abs(reals(4, 5, 3)) + 0.1)
        yield "NegativeLogLikelihoodLoss", 13, [logs, whole(5, 4, 3)], {"reduction": reduction}, 1
        yield "NegativeLogLikelihoodLoss", 13, [logs, whole(5, 4, 3), Stored(np.abs(reals(5)))], {"reduction": reduction, "ignore_index": 2}, 1
        yield "SoftmaxCrossEntropyLoss", 13, [reals(6, 4), whole(4, 6), np.abs(reals(4))], {"reduction": reduction}, 2
    yield from attention_cases()
    yield from place_cases()
    yield from sample_cases()
    yield from opset_28_cases()


def opset_28_cases():
    for attributes in ({}, {"alpha": 1.7}):
        yield "SwiGLU", 28, [reals(2, 5), reals(2, 5)], attributes, 1
    divisors = np.abs(reals(5)) + 0.3
    for sign in (1, -1):
        yield "Mod", 28, [reals(3, 5) * 3, sign * divisors], {}, 1
        yield "Mod", 28, [reals(3, 5) * 3, sign * divisors], {"fmod": 1}, 1
    for mode in ("DCR", "CRD"):
        yield "SpaceToDepth", 28, [reals(2, 3, 4, 6)], {"blocksize": 2, "mode": mode}, 1
    for kind in (np.int8, np.int32, np.int64):
        numbers = RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max, (3, 7), kind)
        bits = np.array([0, 1, 5, 7, 40, 64, -1], kind)
        for direction in ("RIGHT", "LEFT"):
            yield "BitShift", 28, [numbers, bits], {"direction": direction}, 1
            yield "BitShift", 28, [Stored(numbers), bits], {"direction": direction}, 1


def attention_cases():
    q, k, v = reals(2, 6, 3, 8), reals(2, 2, 5, 8), reals(2, 2, 5, 4)
    yield "Attention", 23, [q, k, v], {}, 1
    yield "Attention", 23, [q, k, v, reals(3, 5)], {"softcap": 1.5, "scale": 0.4}, 1
    yield "Attention", 23, [q, k, v, bools(2, 1, 3, 5) | (np.arange(5) == 0)], {"is_causal": 1}, 1
    yield "Attention", 23, [q, k, v, None, reals(2, 2, 4, 8), reals(2, 2, 4, 4)], {"is_causal": 1}, 4
    yield "Attention", 23, [reals(1, 4, 12), reals(1, 7, 6), reals(1, 7, 4)], {"q_num_heads": 4, "kv_num_heads": 2}, 1
    positions = whole(9, 2, 5)
    for interleaved in (0, 1):
        yield "RotaryEmbedding", 23, [reals(2, 3, 5, 8), Stored(reals(9, 4)), Stored(reals(9, 4)), positions], {"interleaved": interleaved}, 1
        yield "RotaryEmbedding", 23, [reals(2, 5, 24), reals(2, 5, 2), reals(2, 5, 2)], {"interleaved": interleaved, "num_heads": 3, "rotary_embedding_dim": 4}, 1
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        weights = [Stored(reals(count, 4, 3)), Stored(reals(count, 4, 4)), Stored(reals(count, 8)), None, reals(count, 2, 4)]
        yield "RNN", 14, [reals(6, 2, 3), *weights], {"hidden_size": 4, "direction": direction, "activations": ["Relu", "Tanh"][:count]}, 2
    yield "RNN", 14, [reals(5, 1, 3), *weights[:2]], {"hidden_size": 4, "direction": "bidirectional", "clip": 0.8}, 2
    for equation, shapes in (("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))), ("...ij,jk", ((2, 3, 4), (4, 5))), ("iij->ji", ((3, 3, 2),)),
                             ("bhd,bgd,g->hb", ((2, 3, 4), (2, 5, 4), (5,))), ("ij,kl->lijk", ((2, 3), (4, 2))), ("ijk->j", ((2, 3, 4),)),
                             ("bhwc,bhkc->bhwk", ((2, 3, 4, 5), (2, 3, 6, 5))), ("ii", ((4, 4),))):
        yield "Einsum", 12, [reals(*s) for s in shapes], {"equation": equation}, 1


def place_cases():
    yield "GatherElements", 13, [reals(3, 4, 5), Stored(whole(4, 3, 2, 5) - 2)], {"axis": 1}, 1
    yield "GatherElements", 13, [reals(3, 4, 5), whole(4, 3, 2, 5) - 2], {"axis": 1}, 1
    yield "GatherND", 13, [reals(3, 4, 5, 2), Stored(whole(3, 2, 6, 2))], {}, 1
    yield "GatherND", 13, [reals(3, 4, 5), Stored(whole(4, 3, 2, 1))], {"batch_dims": 1}, 1
    yield "ScatterElements", 18, [reals(3, 4), Stored(np.array([[2, 0], [1, 3], [0, 1]])), reals(3, 2)], {"axis": 1}, 1
    for reduction in ("add", "mul", "max", "min"):
        yield "ScatterElements", 18, [reals(4, 3), Stored(whole(4, 6, 3)), reals(6, 3)], {"axis": 0, "reduction": reduction}, 1
        yield "ScatterND", 18, [reals(4, 3, 2), Stored(whole(3, 5, 2)), reals(5, 2)], {"reduction": reduction}, 1
    yield "ScatterND", 18, [reals(5, 4, 3), ints_of([[3], [0]]), reals(2, 4, 3)], {}, 1
    yield "Gather", 13, [reals(3, 4, 5), whole(8, 2, 3) - 4], {"axis": 1}, 1
    yield "Gather", 13, [Stored(reals(4, 5, 2)), whole(2, 3)], {"axis": -1}, 1
    yield "GatherND", 13, [reals(4, 3), whole(4, 2, 5, 1)], {}, 1
    yield "ScatterElements", 18, [reals(3, 4, 2), whole(4, 3, 6, 2), reals(3, 6, 2)], {"axis": 1, "reduction": "add"}, 1
    yield "ScatterND", 18, [reals(4, 3, 2), whole(3, 5, 2), reals(5, 2)], {"reduction": "add"}, 1
    for op in ("Add", "Sub", "Mul"):
        yield op, 14, [whole(1 << 60, 3, 1, 4), whole(1 << 60, 2, 4)], {}, 1
    for op in ("Equal", "Less", "GreaterOrEqual"):
        yield op, 16, [whole(3, 3, 4) + (1 << 55), whole(3, 4) + (1 << 55)], {}, 1
    yield "Where", 16, [bools(3, 4), whole(1 << 60, 4), whole(1 << 60, 3, 1)], {}, 1
    yield "Expand", 13, [whole(9, 2, 1), ints(3, 2, 5)], {}, 1
    yield "GatherND", 13, [reals(4, 3, 2), whole(3, 5, 2)], {}, 1
    for op in ("Neg", "Abs"):
        yield op, 13, [whole(9, 3, 4) - 4], {}, 1
    for op in ("Min", "Max"):
        yield op, 13, [whole(9, 3, 4), whole(9, 4), Stored(whole(9, 3, 1))], {}, 1
    yield "Clip", 13, [whole(9, 3, 4), at(2), at(6)], {}, 1
    yield "ReduceSum", 13, [whole(1 << 40, 3, 7, 2), ints(1, -1)], {"keepdims": 0}, 1
    for op in ("ReduceMax", "ReduceMin"):
        yield op, 18, [whole(1 << 40, 3, 7, 2), ints(1)], {}, 1
    for op in ("ArgMax", "ArgMin"):
        yield op, 13, [whole(4, 3, 7)], {"axis": 1}, 1
    for attributes in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
        yield "CumSum", 14, [whole(1 << 40, 2, 7, 3), at(1)], attributes, 1
    yield "Tile", 13, [reals(2, 3), ints(1, 70)], {}, 1
    yield "Compress", 11, [reals(2, 4, 3), Stored([True, False, True])], {"axis": 1}, 1
    yield "Compress", 11, [reals(3, 4), Stored([False, True, True, False, True])], {}, 1
    yield "ReverseSequence", 10, [reals(5, 3, 2), ints(5, 1, 3)], {}, 1
    yield "ReverseSequence", 10, [reals(3, 5, 2), ints(5, 1, 3)], {"batch_axis": 0, "time_axis": 1}, 1
    yield "TopK", 11, [distinct(3, 7, 2), ints(3)], {"axis": 1}, 2
    yield "TopK", 11, [distinct(4, 5), ints(5)], {"largest": 0}, 2
    yield "TopK", 11, [distinct(3, 7, 2).astype(np.int64) - 20, ints(3)], {"axis": 1}, 2
    for attributes in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
        yield "CumSum", 14, [reals(2, 7, 3), at(1)], attributes, 1
    yield "CumSum", 14, [reals(5), at(-1)], {}, 1
    yield "Trilu", 14, [reals(2, 4, 6), at(1)], {}, 1
    yield "Trilu", 14, [reals(5, 3), at(-1)], {"upper": 0}, 1
    yield "EyeLike", 9, [reals(3, 5)], {"k": 1}, 1


def ints_of(rows):
    return Stored(rows, np.int64)


def sample_cases():
    for corners in (0, 1):
        yield "AffineGrid", 20, [reals(2, 2, 3), ints(2, 3, 4, 5)], {"align_corners": corners}, 1
        yield "AffineGrid", 20, [reals(1, 3, 4), ints(1, 2, 2, 3, 4)], {"align_corners": corners}, 1
        for padding in ("zeros", "border", "reflection"):
            for mode in ("linear", "nearest", "cubic"):
                grid = Stored(RNG.uniform(-1.4, 1.4, (2, 3, 4, 2)).astype(np.float32))
                attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
                yield "GridSample", 20, [reals(2, 3, 5, 6), grid], attributes, 1
                if mode != "cubic":
                    yield "GridSample", 20, [reals(2, 3, 5, 6), grid.array], attributes, 1
            grid = Stored(RNG.uniform(-1.4, 1.4, (1, 2, 3, 2, 3)).astype(np.float32))
            yield "GridSample", 20, [reals(1, 2, 3, 4, 5), grid], {"padding_mode": padding, "align_corners": corners}, 1
    yield "Col2Im", 18, [reals(2, 12, 6), ints(4, 5), ints(2, 3)], {"pads": [0, 0, 0, 0], "strides": [1, 2], "dilations": [1, 1]}, 1
    yield "LpPool", 18, [reals(2, 3, 7, 6)], {"kernel_shape": [3, 2], "p": 3, "pads": [1, 0, 1, 1], "strides": [2, 1]}, 1
    yield "GlobalLpPool", 15, [reals(2, 3, 5)], {"p": 1}, 1
    yield "CenterCropPad", 18, [reals(3, 7, 4), ints(6, 4)], {"axes": [0, 1]}, 1
    yield "Conv", 11, [reals(2, 4, 5, 6, 4), Stored(reals(6, 2, 2, 3, 2)), Stored(reals(6))], {"group": 2, "strides": [2, 1, 1], "pads": [1, 1, 0, 0, 1, 1]}, 1
    yield "Conv", 11, [reals(1, 3, 6, 5, 4), Stored(reals(2, 3, 3, 2, 2))], {"dilations": [2, 1, 1], "auto_pad": "SAME_UPPER"}, 1
    yield "Conv", 11, [reals(2, 4, 7, 6), reals(6, 2, 3, 2), reals(6)], {"group": 2, "strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 2, 1]}, 1
    yield "Conv", 11, [reals(1, 3, 9), reals(2, 3, 4)], {"auto_pad": "SAME_LOWER"}, 1
    for op, gates in (("LSTM", 4), ("GRU", 3)):
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            weights = [Stored(reals(count, 5 * gates, 4)), Stored(reals(count, 5 * gates, 5)), Stored(reals(count, 10 * gates))]
            for lengths in (np.array([6, 2, 4], np.int32), Stored([3, 6, 1], np.int32)):
                yield op, 14, [reals(6, 3, 4), *weights, lengths, reals(count, 3, 5)], {"hidden_size": 5, "direction": direction}, 2
    for op in ("AveragePool", "MaxPool"):
        for ceil in (0, 1):
            attributes = {"kernel_shape": [3, 2, 2], "strides": [2, 1, 2], "pads": [1, 0, 0, 1, 1, 0], "ceil_mode": ceil}
            yield op, 12, [reals(2, 3, 7, 5, 6)], attributes, 1
    for length in (8, 11):
        yield "DFT", 20, [reals(2, 9, 3, 1), at(length), at(1)], {"onesided": 1}, 1
        yield "DFT", 20, [reals(2, 9, 2), at(length), at(-2)], {"inverse": 1}, 1
    window = Stored(np.hanning(8).astype(np.float32))
    for onesided in (0, 1):
        yield "STFT", 17, [reals(2, 40, 1), at(5), window, at(8)], {"onesided": onesided}, 1


def model_of(op, opset, operands, attributes, outputs):
    inputs, constants, names = [], [], []
    for i, operand in enumerate(operands):
        names.append("" if operand is None else f"x{i}")
        if isinstance(operand, Stored):
            constants.append(numpy_helper.from_array(operand.array, names[-1]))
        elif operand is not None:
            kind = helper.np_dtype_to_tensor_dtype(operand.dtype)
            inputs.append(helper.make_tensor_value_info(names[-1], kind, operand.shape))
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)

    def with_types(kinds):
        values = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(results, kinds)]
        graph = helper.make_graph([node], op, inputs, values, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)

    return with_types, {name: x for name, x in zip(names, operands) if isinstance(x, np.ndarray)}


def expected(with_types, feeds, outputs):
    """Returns the outputs, and which system computed them."""
    guess = [onnx.TensorProto.FLOAT] * outputs
    for kinds in (guess, [onnx.TensorProto.BOOL], [onnx.TensorProto.INT64] * outputs, [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64]):
        try:
            options = ort.SessionOptions()
            options.log_severity_level = 4
            session = ort.InferenceSession(with_types(kinds).SerializeToString(), options, providers=["CPUExecutionProvider"])
            return session.run(None, feeds), "onnxruntime"
        except Exception:  # onnxruntime lacks the operator, or has it for other types
            continue
    return ReferenceEvaluator(with_types(guess)).run(None, feeds), "reference"


class Runner(Nacre):
    def outputs(self, model, feeds):
        source, target, out = self.folder / "a.onnx", self.folder / "a.nacre", self.folder / "out"
        onnx.save(model, source)
        given = []
        for name, x in feeds.items():
            np.save(self.folder / f"{name}.npy", x)
            given += ["--input", f"{name}={self.folder / name}.npy"]
        self.call("convert", source, "-o", target)
        self.call("run", target, *given, "--output", out)
        return [np.load(out / f"{output.name}.npy") for output in model.graph.output]


def difference(mine, theirs):
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return f"{mine.dtype}{mine.shape} instead of {theirs.dtype}{theirs.shape}"
    if theirs.dtype != np.float32:
        return "" if np.array_equal(mine, theirs) else "integers differ"
    far = np.abs(mine - theirs).max()
    return "" if far <= TOLERANCE * max(1, np.abs(theirs).max()) else f"{far:.3g} apart of {np.abs(theirs).max():.3g}"


def main():
    count, by, wrong = 0, {"onnxruntime": 0, "reference": 0}, []
    with tempfile.TemporaryDirectory() as folder:
        nacre = Runner(sys.argv[1], pathlib.Path(folder))
        for op, opset, operands, attributes, outputs in cases():
            with_types, feeds = model_of(op, opset, operands, attributes, outputs)
            theirs, who = expected(with_types, feeds, outputs)
            count, by[who] = count + 1, by[who] + 1
            model = with_types([helper.np_dtype_to_tensor_dtype(np.asarray(y).dtype) for y in theirs])
            try:
                ours = nacre.outputs(model, feeds)
            except RuntimeError as refused:
                wrong.append(f"{op} {attributes}: {refused}")
                continue
            for i, (mine, y) in enumerate(zip(ours, theirs)):
                if what := difference(mine, np.asarray(y)):
                    wrong.append(f"{op} {attributes}, output {i} ({who}): {what}")
    for line in wrong:
        print("  " + line)
    facts = f"{count} operators, {by['onnxruntime']} beside onnxruntime {ort.__version__}, {by['reference']} beside ONNX's reference, {len(wrong)} wrong"
    print(f"CLAIM onnx_operators {'NOT SHOWN' if wrong else 'shown'}: {facts}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
