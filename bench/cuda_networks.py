"""Writes the multilayer perceptrons that cuda.sh times, as ONNX files, with Python's standard library alone.

    cuda_networks.py FOLDER [NARROWER]     mlp10.onnx and mlp3.onnx; widths divided by NARROWER [1]

    mlp10     10 layers, 256 to 1024 wide, ReLU between them
    mlp3      784 - 1024 - 1024 - 10, ReLU between them

Weights are uniform and follow from a seed; their variance is 2 / (input width). cuda_torch.py makes networks of the
same shapes, with weights of its own.
"""

import array
import pathlib
import random
import sys

WIDTHS = {"mlp10": (256, 512, 512, 512, 1024, 1024, 1024, 1024, 512, 512, 256), "mlp3": (784, 1024, 1024, 10)}
FLOAT = 1  # TensorProto.DataType


def narrowed(name, narrower):
    return [max(4, width // narrower) for width in WIDTHS[name]]


# A field of a protocol buffer is a key (number << 3 | kind), then a varint, or a length and bytes.


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def tensor(name, dims, values):
    return b"".join(number(1, d) for d in dims) + number(2, FLOAT) + data(8, name) + data(9, values.tobytes())


def node(op, inputs, output, attributes=b""):
    return b"".join(data(1, i) for i in inputs) + data(2, output) + data(3, output) + data(4, op) + attributes


def rows_of(name, width):  # the reader chooses the batch
    shape = data(1, data(2, "batch")) + data(1, number(1, width))
    return data(1, name) + data(2, data(1, number(1, FLOAT) + data(2, shape)))


def transposed():  # the attribute transB = 1
    return data(5, data(1, "transB") + number(3, 1) + number(20, 2))


def weights(rng, fan_in, count):
    """A block of random numbers, repeated. The block's length is a prime, so that it is no width."""
    limit = (6 / fan_in) ** 0.5
    block = array.array("f", (rng.uniform(-limit, limit) for _ in range(min(count, 65521))))
    return (block * (count // len(block) + 1))[:count]


def onnx_of(name, widths):
    rng, nodes, constants, x = random.Random(name), [], [], "x"
    for i, (fan_in, fan_out) in enumerate(zip(widths, widths[1:])):
        constants += [tensor(f"w{i}", (fan_out, fan_in), weights(rng, fan_in, fan_out * fan_in)),
                      tensor(f"b{i}", (fan_out,), array.array("f", [0] * fan_out))]
        nodes.append(node("Gemm", [x, f"w{i}", f"b{i}"], f"dense{i}", transposed()))
        x = f"dense{i}"
        if i + 2 < len(widths):
            nodes.append(node("Relu", [x], f"relu{i}"))
            x = f"relu{i}"
    graph = (b"".join(data(1, n) for n in nodes) + data(2, name) + b"".join(data(5, c) for c in constants)
             + data(11, rows_of("x", widths[0])) + data(12, rows_of(x, widths[-1])))
    return number(1, 8) + data(7, graph) + data(8, data(1, "") + number(2, 13))


def main():
    folder, narrower = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for name in WIDTHS:
        partial = folder / f"{name}.onnx.partial"
        partial.write_bytes(onnx_of(name, narrowed(name, narrower)))
        partial.rename(folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
