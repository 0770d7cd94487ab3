"""Says whether the outputs in two folders are near: python3 tests/old_files/near.py A B, with equal .npy files in each.

Kernels of a tier may add the terms of a sum in another order than the reference, and later versions in yet another one. So
their outputs are near, to 1/64 of the largest magnitude, and not the same bytes. Exits with 0 or 1; needs no NumPy.
"""
import ast
import pathlib
import struct
import sys

TYPES = {"<f4": "f", "<f8": "d", "<f2": "e", "|i1": "b", "|u1": "B", "<i2": "h", "<i4": "i", "<i8": "q"}


def numbers(path):
    data = path.read_bytes()
    size = struct.unpack("<H", data[8:10])[0] if data[6] == 1 else struct.unpack("<I", data[8:12])[0]
    start = (10 if data[6] == 1 else 12) + size
    header = ast.literal_eval(data[start - size:start].decode())
    code = TYPES[header["descr"]]
    count = (len(data) - start) // struct.calcsize(code)
    return header["shape"], struct.unpack(f"<{count}{code}", data[start:])


def near(a, b):
    (shape, left), (other, right) = numbers(a), numbers(b)
    bound = max(map(abs, left), default=0) / 64
    return shape == other and all(abs(x - y) <= bound for x, y in zip(left, right))


def main():
    a, b = map(pathlib.Path, sys.argv[1:])
    names = sorted(path.name for path in a.glob("*.npy"))
    sys.exit(not (names and names == sorted(path.name for path in b.glob("*.npy")) and all(near(a / n, b / n) for n in names)))


main()
