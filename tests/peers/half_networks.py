"""Random ONNX networks in float16 and bfloat16, casts, and files that onnxruntime's float16 converter wrote, in Nacre.

    half_networks.py NACRE [FIRST COUNT]      the program of a build; seeds

A network of random_networks.py gets constants, inputs and outputs of 16 bits. Beside it every operator runs by itself in
onnxruntime in float32, and its result is rounded to 16 bits by ml_dtypes: onnxruntime has few kernels of float16 and none of
bfloat16 on a processor, and both systems add up in float32. A result of n operators, each a sum of up to k terms, is at most
eps sqrt(n k) of the largest number that the network computes apart, eps = 2^-10 or 2^-7; 95% of all are equal, because both round at
the same places.

Casts between all types: equal to onnxruntime's, or to numpy's and ml_dtypes' where it has none. Converted files: as above, beside
onnxruntime itself.
"""
import copy
import itertools
import pathlib
import sys
import tempfile
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxconverter_common import float16

from random_networks import Network, Runner, answers, random_network

BF16 = np.dtype(ml_dtypes.bfloat16)
F16 = np.dtype(np.float16)
TYPES = {F16: TensorProto.FLOAT16, BF16: TensorProto.BFLOAT16, np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int8): TensorProto.INT8,
         np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int32): TensorProto.INT32, np.dtype(np.int64): TensorProto.INT64,
         np.dtype(np.bool_): TensorProto.BOOL, np.dtype(np.float64): TensorProto.DOUBLE}
EPSILON = {F16: 2.0**-10, BF16: 2.0**-7}


def in_type(model, dtype):
    """The float32 model with reals of `dtype`."""
    half = onnx.ModelProto()
    half.CopyFrom(model)
    for i, tensor in enumerate(half.graph.initializer):
        if tensor.data_type == TensorProto.FLOAT:
            numbers = numpy_helper.to_array(tensor).astype(dtype)
            raw = helper.make_tensor(tensor.name, TYPES[dtype], numbers.shape, numbers.tobytes(), raw=True)
            half.graph.initializer[i].CopyFrom(raw)
    for value in [*half.graph.input, *half.graph.output]:
        value.type.tensor_type.elem_type = TYPES[dtype]
    return half


def rounded_answers(model, x, dtype):
    """Returns every value of the network by name. Operators run in float32; their results are rounded to `dtype`."""
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    known = {n: v.astype(dtype).astype(np.float32) if v.dtype == np.float32 else v for n, v in known.items()}
    known["x"] = x.astype(np.float32)
    for node in model.graph.node:
        feeds = {n: known[n] for n in dict.fromkeys(node.input) if n}
        shapes = [helper.make_tensor_value_info(n, TYPES[v.dtype], v.shape) for n, v in feeds.items()]
        kind = TensorProto.BOOL if node.op_type.startswith("Greater") else TensorProto.FLOAT
        outputs = [helper.make_tensor_value_info(n, kind, None) for n in node.output]
        one = helper.make_model(helper.make_graph([node], "one", shapes, outputs), opset_imports=model.opset_import, ir_version=8)
        for name, y in zip(node.output, answers(one, feeds)):
            known[name] = y.astype(dtype).astype(np.float32) if y.dtype == np.float32 else y
    return known


def most_terms(model):
    return max([int(np.prod(t.dims[1:])) for t in model.graph.initializer if len(t.dims) > 1], default=1)


class HalfRunner(Runner):
    """.npy has no bfloat16: such tensors are float32 there."""

    def outputs(self, model, x):
        source, target, out = self.folder / "a.onnx", self.folder / "a.nacre", self.folder / "out"
        onnx.save(model, source)
        np.save(self.folder / "x.npy", x.astype(np.float32) if x.dtype == BF16 else x)
        for old in out.glob("*"):
            old.unlink()
        try:
            self.call("convert", source, "-o", target)
            self.call("run", target, "--cast-inputs", "--input", f"x={self.folder / 'x.npy'}", "--output", out)
        except RuntimeError as refused:
            return str(refused)
        return {o.name: np.load(out / f"{o.name}.npy") for o in model.graph.output}


def compare_networks(nacre, seeds, dtype):
    nodes, wrong, worst, equal = 0, [], 0.0, []
    for seed in seeds:
        n, model = random_network(seed)
        x = n.numbers.standard_normal(n.input_dims).astype(dtype)
        half = in_type(model, dtype)
        known = rounded_answers(model, x, dtype)
        ours = nacre.outputs(half, x)
        nodes += len(n.nodes)
        if isinstance(ours, str):
            wrong.append(f"seed {seed}: {ours}")
            continue
        reals = [np.abs(v).max() for v in known.values() if v.dtype == np.float32 and v.size]
        bound = EPSILON[dtype] * max(reals) * (len(n.nodes) * most_terms(model)) ** 0.5
        for output in half.graph.output:
            mine, theirs = ours[output.name], known[output.name]
            if mine.dtype != (np.float32 if dtype == BF16 else dtype) or mine.shape != theirs.shape:
                wrong.append(f"seed {seed}, {output.name}: {mine.dtype}{mine.shape}, not {dtype}{theirs.shape}")
                continue
            far = np.abs(mine.astype(np.float32) - theirs).max() / bound
            worst = max(worst, float(far))
            equal += list((mine.astype(np.float32) == theirs).flat)
            if not far <= 1:
                wrong.append(f"seed {seed}, {output.name}, opset {n.opset}, {far}: {' '.join(node.op_type for node in n.nodes)}")
    if np.mean(equal) < 0.95:
        wrong.append(f"{np.mean(equal):.1%} of the results in {dtype} have the bits of what is rounded after every operator")
    return nodes, wrong, f"at most {worst:.2f} of the bound, {np.mean(equal):.1%} equal"


def cast_model(a, b, saturate=None):
    attributes = {} if saturate is None else {"saturate": saturate}
    node = helper.make_node("Cast", ["x"], ["y"], to=TYPES[b], **attributes)
    graph = helper.make_graph([node], "cast", [helper.make_tensor_value_info("x", TYPES[a], [1, 16])],
                              [helper.make_tensor_value_info("y", TYPES[b], [1, 16])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def compare_casts(nacre):
    numbers = np.array([[0, 1, 2, 3, 5, 7, 100, 127, 0.25, 0.5, 1.5, 2.5, 33.3, 64.75, 99.99, 120]])
    pairs, wrong = 0, []
    for a, b in itertools.permutations(TYPES, 2):
        x = numbers.astype(np.float32).astype(a)
        theirs = x.astype(np.float32).astype(b) if a in (F16, BF16) else x.astype(b)
        ours = nacre.outputs(cast_model(a, b), x)
        pairs += 1
        if isinstance(ours, str):
            wrong.append(f"{a} to {b}: {ours}")
        elif ours["y"].tobytes() != (theirs.astype(np.float32) if b == BF16 else theirs).tobytes():
            wrong.append(f"{a} to {b}: {ours['y']}, not {theirs}")
    return pairs, wrong


def compare_converted(nacre, seeds):
    """Files of onnxruntime's converter, with float32 and with float16 at the ends."""
    files, wrong = 0, []
    for seed, keep in itertools.product(seeds, (True, False)):
        n, model = random_network(seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                half = float16.convert_float_to_float16(copy.deepcopy(model), keep_io_types=keep, disable_shape_infer=True)
            x = n.numbers.standard_normal(n.input_dims).astype(np.float32 if keep else np.float16)
            theirs = answers(half, {"x": x})
        except Exception:  # the converter or onnxruntime refuses it: there is no such file
            continue
        files += 1
        ours = nacre.outputs(half, x)
        if isinstance(ours, str):
            wrong.append(f"seed {seed}, keep_io_types={keep}: {ours}")
            continue
        known = rounded_answers(model, x, F16)
        reals = [np.abs(v).max() for v in known.values() if v.dtype == np.float32 and v.size]
        bound = EPSILON[F16] * max(reals) * (len(n.nodes) * most_terms(model)) ** 0.5
        for y, output in zip(theirs, half.graph.output):
            mine = ours[output.name]
            if mine.dtype != y.dtype or not np.abs(mine.astype(np.float32) - y.astype(np.float32)).max() <= bound:
                wrong.append(f"seed {seed}, keep_io_types={keep}, {output.name}: {mine.dtype}, {y.dtype}, "
                             f"{np.abs(mine.astype(np.float32) - y.astype(np.float32)).max() / bound}")
    return files, wrong


def main():
    first, count = (int(word) for word in sys.argv[2:4]) if len(sys.argv) > 3 else (1000, 60)
    with tempfile.TemporaryDirectory() as folder:
        nacre = HalfRunner(sys.argv[1], pathlib.Path(folder))
        seeds, wrong, parts = range(first, first + count), [], []
        for dtype in (F16, BF16):
            nodes, lines, worst = compare_networks(nacre, seeds, dtype)
            parts.append(f"{count} networks of {nodes} operators in {dtype} ({worst})")
            wrong += lines
        files, lines = compare_converted(nacre, seeds[: count // 3])
        wrong += lines
        pairs, lines = compare_casts(nacre)
        wrong += lines
    for line in wrong:
        print(line)
    print(f"CLAIM half_networks {'NOT SHOWN' if wrong else 'shown'}: {', '.join(parts)}, {files} files of the float16 converter, "
          f"{pairs} casts; {len(wrong)} differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
