"""Writes litert_operators.json: networks of one operator on int16, int8 or uint8 codes, and what LiteRT makes of their inputs.

    litert_operators.py [--output FILE]     writes the table (default: beside this script)
    litert_operators.py --check             computes it again and compares with the committed one

Needs ai-edge-litert and numpy. These operators are not TensorFlow Lite Micro's arithmetic (NUMERICS.md sections 3, 4 and
8), or have no other oracle. Kernels are LiteRT's reference. What the table holds of each network:

    file      the .tflite, in hexadecimal
    inputs    codes by the inputs' places, row by row
    output    codes

tests/importers/tflite_litert_test.cc reads it.
"""
import argparse
import json
import pathlib
import sys

import numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from int8_kernels import tensor, written

I8, I16, I32, I64 = s.TensorType.INT8, s.TensorType.INT16, s.TensorType.INT32, s.TensorType.INT64
U8 = s.TensorType.UINT8
B = s.BuiltinOperator
OF_TYPE = {I8: np.int8, I16: np.int16}
numbers = np.random.default_rng(16)


def scale(exponent):
    """Some float32 within a factor of two."""
    return np.float32(numbers.uniform(0.5, 1) * 2.0**exponent)


def codes(shape, kind, exponent, zero=0):
    return tensor(shape, kind, scale(exponent), zero), None


def options(name, **fields):
    made = getattr(s, name + "T")()
    for field, value in fields.items():
        setattr(made, field, value)
    return getattr(s.BuiltinOptions, name), made


NONE = (s.BuiltinOptions.NONE, None)


def dense(rows, width, out, channels, bias):
    """A dense layer on int16 codes; y uses their whole range."""
    x, _ = codes((rows, width), I16, -14)
    w_scale = np.array([scale(-8) for _ in range(channels)])
    w = numbers.integers(-127, 128, (out, width)).astype(np.int8)
    inputs = [(x, None), (tensor(w.shape, I8, w_scale, [0] * channels), w)]
    if bias:
        b = numbers.integers(-2**20, 2**20, out).astype(np.int64)
        inputs.append((tensor(b.shape, I64, x.quantization.scale[0] * w_scale, [0] * channels), b))
    kind = options("FullyConnectedOptions", quantizedBiasType=I64)
    return B.FULLY_CONNECTED, kind, inputs, codes((rows, out), I16, -11)[0]


def pairs_of(w):
    """Two codes of 4 bits in a byte, the lower first."""
    nibbles = np.append(w.ravel(), np.zeros(w.size % 2, np.int8)) & 15
    return (nibbles[::2] | nibbles[1::2] << 4).astype(np.uint8)


def in_int4(code, kind, w_shape, x_shape, y_shape):
    """A layer on int8 codes, with weights of 4 bits and a scale for each channel."""
    x, _ = codes(x_shape, I8, -5, 3)
    w_scale = np.array([scale(-3) for _ in range(w_shape[0])])
    w = numbers.integers(-7, 8, w_shape).astype(np.int8)
    b = numbers.integers(-500, 500, w_shape[0]).astype(np.int32)
    zeros = [0] * w_shape[0]
    inputs = [(x, None), (tensor(w_shape, s.TensorType.INT4, w_scale, zeros), pairs_of(w)),
              (tensor(b.shape, I32, x.quantization.scale[0] * w_scale, zeros), b)]
    return code, kind, inputs, codes(y_shape, I8, -2, -4)[0]


def two(code, name, kind, exponents):
    zeros = [0, 0, 0] if kind == I16 else [3, -5, 7]
    a, b, y = (codes((24, 32), kind, e, z) for e, z in zip(exponents, zeros))
    return code, options(name), [a, b], y[0]


def one(code, kind, x_exponent, y_exponent):
    return code, kind, [codes((2, 300), I16, x_exponent)], codes((2, 300), I16, y_exponent)[0]


def resize(half, size):
    x = codes((1, 5, 4, 3), I16, -13)
    y = tensor((1, *size, 3), I16, x[0].quantization.scale)
    kind = options("ResizeBilinearOptions", halfPixelCenters=half)
    return B.RESIZE_BILINEAR, kind, [x, (tensor((2,), I32), np.array(size, np.int32))], y


def matmul(kind, adj):
    wide = kind == I16
    a = codes((2, 6, 9), kind, -14 if wide else -6, 0 if wide else 4)
    b = codes((2, 7, 9) if adj else (2, 9, 7), kind, -14 if wide else -6, 0 if wide else -9)
    y = codes((2, 6, 7), kind, -13 if wide else -4, 0 if wide else 11)
    return B.BATCH_MATMUL, options("BatchMatMulOptions", adjY=adj), [a, b], y[0]


def networks():
    gelu = options("GeluOptions", approximate=False)
    return {
        "dense": dense(6, 12, 16, 1, True),
        "dense_per_channel": dense(6, 12, 16, 16, True),
        "dense_without_bias": dense(6, 12, 16, 1, False),
        "dense_int4": in_int4(B.FULLY_CONNECTED, options("FullyConnectedOptions"), (5, 9), (4, 9), (4, 5)),
        "conv_int4": in_int4(B.CONV_2D, options("Conv2DOptions", strideH=1, strideW=1, padding=s.Padding.VALID),
                             (5, 3, 3, 3), (1, 6, 5, 3), (1, 4, 3, 5)),
        "mul_int16": two(B.MUL, "MulOptions", I16, (-14, -15, -14)),
        "mul_int8": two(B.MUL, "MulOptions", I8, (-6, -7, -6)),
        "sub_int8": two(B.SUB, "SubOptions", I8, (-6, -7, -6)),
        "squared_difference": two(B.SQUARED_DIFFERENCE, "SquaredDifferenceOptions", I8, (-6, -7, -5)),
        "exp": one(B.EXP, NONE, -13, -10),
        "log": one(B.LOG, NONE, -12, -12),
        "gelu": one(B.GELU, gelu, -13, -13),
        "resize": resize(False, (9, 7)),
        "resize_half_pixels": resize(True, (8, 3)),
        "matmul_int16": matmul(I16, False),
        "matmul_int8": matmul(I8, True),
    }


def in_uint8(code, kind, w_zero, w_shape, x_shape, y_shape, shape_of_y=False):
    """A layer as TensorFlow 1 made it: weights of uint8 with a zero point."""
    x, _ = codes(x_shape, U8, -5, 131)
    w_scale = scale(-7)
    w = numbers.integers(0, 256, w_shape).astype(np.uint8)
    inputs = [(x, None), (tensor(w_shape, U8, w_scale, w_zero), w)]
    if shape_of_y:
        shape = np.array(y_shape, np.int32)
        return code, kind, [(tensor((4,), I32), shape), inputs[1], inputs[0]], codes(y_shape, U8, 1, 117)[0]
    b = numbers.integers(-2000, 2000, y_shape[-1]).astype(np.int32)
    inputs.append((tensor(b.shape, I32, x.quantization.scale[0] * w_scale, 0), b))
    return code, kind, inputs, codes(y_shape, U8, 1, 117)[0]


def windowed(name, **fields):
    return options(name, strideH=1, strideW=1, padding=s.Padding.SAME, **fields)


def on_uint8(code, kind, x_shape, y_shape, *others):
    x, _ = codes(x_shape, U8, -5, 77)
    return code, kind, [(x, None), *others], tensor(y_shape, U8, x.quantization.scale, 77)


def uint8_networks():
    dilated = {"dilationHFactor": 2, "dilationWFactor": 1}
    plain = {"dilationHFactor": 1, "dilationWFactor": 1}
    depthwise = {"depthMultiplier": 2}
    pool = {"filterHeight": 2, "filterWidth": 3}
    conv, rows = windowed("Conv2DOptions", **plain), windowed("DepthwiseConv2DOptions", **plain, **depthwise)
    pixels = windowed("DepthwiseConv2DOptions", **dilated, **depthwise)
    size = (tensor((2,), I32), np.array((8, 10), np.int32))
    linear = options("ResizeBilinearOptions", halfPixelCenters=True)
    transposed = options("TransposeConvOptions", strideH=2, strideW=2, padding=s.Padding.SAME)
    return {
        "conv_uint8": in_uint8(B.CONV_2D, conv, 121, (5, 3, 3, 4), (1, 6, 5, 4), (1, 6, 5, 5)),
        "conv_uint8_of_zero": in_uint8(B.CONV_2D, conv, 0, (3, 1, 2, 4), (1, 6, 5, 4), (1, 6, 5, 3)),
        "depthwise_uint8": in_uint8(B.DEPTHWISE_CONV_2D, rows, 140, (1, 3, 2, 6), (1, 6, 5, 3), (1, 6, 5, 6)),
        "depthwise_uint8_dilated": in_uint8(B.DEPTHWISE_CONV_2D, pixels, 140, (1, 3, 2, 6), (1, 6, 5, 3), (1, 6, 5, 6)),
        "dense_uint8": in_uint8(B.FULLY_CONNECTED, options("FullyConnectedOptions"), 99, (7, 20), (3, 20), (3, 7)),
        "transposed_uint8": in_uint8(B.TRANSPOSE_CONV, transposed, 121, (5, 3, 3, 4), (1, 4, 4, 4), (1, 8, 8, 5), True),
        "average_uint8": on_uint8(B.AVERAGE_POOL_2D, windowed("Pool2DOptions", **pool), (1, 5, 6, 4), (1, 5, 6, 4)),
        "resize_uint8": on_uint8(B.RESIZE_BILINEAR, linear, (1, 4, 5, 3), (1, 8, 10, 3), size),
        "concat_uint8": (B.CONCATENATION, options("ConcatenationOptions", axis=1),
                         [codes((8, 64), U8, -5, 77), codes((8, 64), U8, -6, 128)], codes((8, 128), U8, -5, 90)[0]),
        "sqrt_int8": (B.SQRT, NONE, [codes((2, 150), I8, -6, -128)], codes((2, 150), I8, -7, -128)[0]),
    }


def answer(network):
    code, (kind, made), inputs, y = network
    file = written(code, kind, made, inputs, y)
    interpreter = Interpreter(model_content=file, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    fed = []
    for details in interpreter.get_input_details():
        limits = np.iinfo(details["dtype"])
        fed.append(numbers.integers(limits.min, limits.max + 1, details["shape"]).astype(details["dtype"]))
        interpreter.set_tensor(details["index"], fed[-1])
    interpreter.invoke()
    output = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return {"file": file.hex(), "inputs": [x.ravel().tolist() for x in fed], "output": output.ravel().tolist()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = pathlib.Path(__file__).with_suffix(".json")
    parser.add_argument("--output", type=pathlib.Path, default=beside)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    made = {}
    for some in (networks, uint8_networks):
        made |= {name: answer(network) for name, network in some().items()}
    if arguments.check:
        return 0 if made == json.loads(beside.read_text()) else 1
    lines = [f'"{name}": {json.dumps(network)}' for name, network in made.items()]
    arguments.output.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
