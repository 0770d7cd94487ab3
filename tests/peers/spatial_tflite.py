"""Operators that move or interpolate pixels, each alone in a TFLite file, in LiteRT's reference kernels and in Nacre.

    spatial_tflite.py NACRE [FIRST COUNT]      seeds; needs ai-edge-litert and numpy

RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR, TRANSPOSE_CONV (int8 with one scale per channel), DEPTH_TO_SPACE, SPACE_TO_DEPTH,
SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND and MIRROR_PAD, on float32 and on int8. int8 is equal to the bit, float32 within 2e-6 of the
largest magnitude.
"""
import pathlib
import random
import subprocess
import sys
import tempfile

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

TOLERANCE = 2e-6
CODE = schema.BuiltinOperator


class File:
    """x -> one operator -> y."""

    def __init__(self, coded):
        self.coded, self.tensors, self.buffers = coded, [], [schema.BufferT()]

    def tensor(self, name, shape, kind, data=None, scale=None, zero=None):
        t = schema.TensorT()
        t.name, t.shape, t.type = name, [int(d) for d in shape], kind
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(data.tobytes(), np.uint8)
            self.buffers.append(buffer)
            t.buffer = len(self.buffers) - 1
        if scale is not None:
            t.quantization = schema.QuantizationParametersT()
            t.quantization.scale, t.quantization.zeroPoint = scale, zero
        self.tensors.append(t)
        return len(self.tensors) - 1

    def activation(self, name, shape, scale=0.5, zero=-3):
        if not self.coded:
            return self.tensor(name, shape, schema.TensorType.FLOAT32)
        return self.tensor(name, shape, schema.TensorType.INT8, scale=[scale], zero=[zero])

    def integers(self, name, *numbers, shape=None):
        return self.tensor(name, shape or [len(numbers)], schema.TensorType.INT32, np.array(numbers, np.int32))

    def bytes(self, code, inputs, x, y, options=None):
        op, kind, graph, model = schema.OperatorT(), schema.OperatorCodeT(), schema.SubGraphT(), schema.ModelT()
        op.inputs, op.outputs = inputs, [y]
        if options is not None:
            op.builtinOptions = options
            op.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
        kind.builtinCode, kind.deprecatedBuiltinCode = code, code
        kind.version = 3 if code in (CODE.RESIZE_BILINEAR, CODE.RESIZE_NEAREST_NEIGHBOR, CODE.TRANSPOSE_CONV) else 1
        graph.tensors, graph.inputs, graph.outputs, graph.operators = self.tensors, [x], [y], [op]
        model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [kind], [graph], self.buffers
        builder = flatbuffers.Builder()
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def resize(r, f):
    x, y = f.activation("x", (2, r.randint(1, 7), r.randint(1, 7), r.randint(1, 40))), [r.randint(1, 15), r.randint(1, 15)]
    bilinear = r.random() < 0.6
    options = schema.ResizeBilinearOptionsT() if bilinear else schema.ResizeNearestNeighborOptionsT()
    options.alignCorners, options.halfPixelCenters = r.choice(((False, False), (True, False), (False, True)))
    shape = f.tensors[x].shape
    out = f.activation("y", (shape[0], *y, shape[3]))
    return f.bytes(CODE.RESIZE_BILINEAR if bilinear else CODE.RESIZE_NEAREST_NEIGHBOR, [x, f.integers("size", *y)], x, out, options)


def transpose_conv(r, f):
    numbers = np.random.default_rng(r.randrange(2**32))
    h, w, c, k = r.randint(1, 5), r.randint(1, 5), r.randint(1, 9), r.randint(1, 5)
    kernel, stride = (r.randint(1, 5), r.randint(1, 5)), (r.randint(1, 3), r.randint(1, 3))
    options = schema.TransposeConvOptionsT()
    options.padding, options.strideH, options.strideW = r.randint(0, 1), *stride
    if options.padding == schema.Padding.SAME:
        out = [n * s - r.randint(0, s - 1) for n, s in zip((h, w), stride)]
    else:
        out = [(n - 1) * s + m + r.randint(0, s - 1) for n, s, m in zip((h, w), stride, kernel)]
    dims, n, types = (k, *kernel, c), r.randint(1, 2), schema.TensorType
    if f.coded:
        scale = numbers.uniform(0.002, 0.02, k)
        weights = f.tensor("w", dims, types.INT8, numbers.integers(-127, 128, dims).astype(np.int8), list(scale), [0] * k)
        bias = f.tensor("b", [k], types.INT32, numbers.integers(-500, 500, k).astype(np.int32), list(scale * 0.5), [0] * k)
    else:
        weights = f.tensor("w", dims, types.FLOAT32, numbers.standard_normal(dims).astype(np.float32))
        bias = f.tensor("b", [k], types.FLOAT32, numbers.standard_normal(k).astype(np.float32))
    x, y = f.activation("x", (n, h, w, c)), f.activation("y", (n, *out, k), 0.9, 5)
    inputs = [f.integers("shape", n, *out, k), weights, x] + ([bias] if r.random() < 0.7 else [])
    return f.bytes(CODE.TRANSPOSE_CONV, inputs, x, y, options)


def depth_and_space(r, f):
    b, n, h, w, c = r.randint(1, 3), r.randint(1, 2), r.randint(1, 4), r.randint(1, 4), r.randint(1, 5)
    small, large = (n, h, w, c * b * b), (n, h * b, w * b, c)
    to_space = r.random() < 0.5
    x, y = f.activation("x", small if to_space else large), f.activation("y", large if to_space else small)
    options = schema.DepthToSpaceOptionsT() if to_space else schema.SpaceToDepthOptionsT()
    options.blockSize = b
    return f.bytes(CODE.DEPTH_TO_SPACE if to_space else CODE.SPACE_TO_DEPTH, [x], x, y, options)


def batch_and_space(r, f):
    m, n, c = r.randint(1, 2), r.randint(1, 2), r.randint(1, 5)
    block, ends = [r.randint(1, 3) for _ in range(m)], [r.randint(0, 2) for _ in range(2 * m)]
    cells = [(sum(ends[2 * i:2 * i + 2]) // b + r.randint(1, 3)) for i, b in enumerate(block)]
    space = [q * b - sum(ends[2 * i:2 * i + 2]) for i, (q, b) in enumerate(zip(cells, block))]
    whole, batches = (n, *space, c), (n * int(np.prod(block)), *cells, c)
    to_batch = r.random() < 0.5
    x, y = f.activation("x", whole if to_batch else batches), f.activation("y", batches if to_batch else whole)
    lists = [f.integers("block", *block), f.integers("ends", *ends, shape=[m, 2])]
    return f.bytes(CODE.SPACE_TO_BATCH_ND if to_batch else CODE.BATCH_TO_SPACE_ND, [x, *lists], x, y)


def mirror_pad(r, f):
    shape = [r.randint(2, 5) for _ in range(r.randint(1, 4))]
    options = schema.MirrorPadOptionsT()
    options.mode = r.randint(0, 1)
    pads = [r.randint(0, d - 1 + options.mode) for d in shape for _ in range(2)]
    x = f.activation("x", shape)
    y = f.activation("y", [d + pads[2 * i] + pads[2 * i + 1] for i, d in enumerate(shape)])
    return f.bytes(CODE.MIRROR_PAD, [x, f.integers("pads", *pads, shape=[len(shape), 2])], x, y, options)


OPERATORS = (resize, transpose_conv, depth_and_space, batch_and_space, mirror_pad)


def compare(program, folder, data, seed):
    """Returns a sentence on the fault, and an empty one if all is right. None: LiteRT does not take the file."""
    source, target, out = folder / "a.tflite", folder / "a.nacre", folder / "out"
    source.write_bytes(data)
    lite = Interpreter(str(source), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    try:
        lite.allocate_tensors()
    except RuntimeError:
        return None
    (given,), (asked,) = lite.get_input_details(), lite.get_output_details()
    numbers = np.random.default_rng(seed)
    coded = given["dtype"] == np.int8
    codes, reals = numbers.integers(-128, 128, given["shape"]).astype(np.int8), numbers.standard_normal(given["shape"])
    x = codes if coded else reals.astype(np.float32)
    lite.set_tensor(given["index"], x)
    lite.invoke()
    theirs = lite.get_tensor(asked["index"])
    np.save(folder / "x.npy", x)
    for old in out.glob("*"):
        old.unlink()
    for command in (["convert", source, "-o", target], ["run", target, "--input", f"x={folder / 'x.npy'}", "--output", out]):
        ran = subprocess.run([program, *command], capture_output=True, text=True)
        if ran.returncode != 0:
            return ran.stderr.strip().replace("\n", " | ")
    ours = np.load(out / "y.npy")
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype} {ours.shape} for {theirs.dtype} {theirs.shape}"
    far = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max()
    return "" if far <= (0 if coded else TOLERANCE * np.abs(theirs).max()) else f"differs by {far:g}"


def main():
    first, count = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 3 else (1, 30)
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        for operator in OPERATORS:
            for coded in (False, True):
                right = taken = 0
                for seed in range(first, first + count):
                    said = compare(sys.argv[1], pathlib.Path(name), operator(random.Random(seed), File(coded)), seed)
                    taken += said is not None
                    right += said == ""
                    if said:
                        wrong += 1
                        print(f"  seed {seed}: {said}")
                print(f"{operator.__name__}, {'int8' if coded else 'float32'}: {right} of {taken} equal", flush=True)
    print(f"seeds {first} to {first + count - 1}: {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
