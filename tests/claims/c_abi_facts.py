#!/usr/bin/env python3
"""Compares what tools/samples/installed/describe.c says about a model with the TFLite file that the model was made
from.

    c_abi_facts.py told.txt network.tflite

Prints how many facts of inputs and outputs (names, element types, shapes, scales, zero points) are equal, or which
one is not. It reads the file by the field ids of TensorFlow Lite's schema, without code of the project.
"""

import re
import struct
import sys

# Nacre's element types, by TensorType of the schema.
ELEMENTS = {0: 1, 1: 2, 2: 8, 3: 6, 4: 9, 6: 11, 7: 7, 9: 5}


class Table:
    def __init__(self, data, at):
        self.data, self.at = data, at
        self.vtable = at - struct.unpack_from("<i", data, at)[0]

    def field(self, index):
        """Returns the position of a field, or None."""
        if 4 + 2 * index >= struct.unpack_from("<H", self.data, self.vtable)[0]:
            return None
        offset = struct.unpack_from("<H", self.data, self.vtable + 4 + 2 * index)[0]
        return self.at + offset if offset else None

    def target(self, index):
        at = self.field(index)
        return None if at is None else at + struct.unpack_from("<I", self.data, at)[0]

    def numbers(self, index, code):
        at = self.target(index)
        if at is None:
            return []
        count = struct.unpack_from("<I", self.data, at)[0]
        return list(struct.unpack_from(f"<{count}{code}", self.data, at + 4))

    def tables(self, index):
        at = self.target(index)
        count = struct.unpack_from("<I", self.data, at)[0]
        places = [at + 4 + 4 * i for i in range(count)]
        return [Table(self.data, p + struct.unpack_from("<I", self.data, p)[0]) for p in places]

    def text(self, index):
        at = self.target(index)
        length = struct.unpack_from("<I", self.data, at)[0]
        return self.data[at + 4:at + 4 + length].decode()

    def number(self, index):
        at = self.field(index)
        return 0 if at is None else struct.unpack_from("<I", self.data, at)[0]

    def byte(self, index):
        at = self.field(index)
        return 0 if at is None else self.data[at]


def names_of(model, kind):
    """Returns by tensor what the file's signature, if any, calls the inputs (0) or the outputs (1)."""
    if model.target(7) is None:
        return {}
    maps = model.tables(7)[0].tables(kind)
    return {m.number(1): m.text(0) for m in maps}


def main():
    told, data = open(sys.argv[1]).read(), open(sys.argv[2], "rb").read()
    model = Table(data, struct.unpack_from("<I", data, 0)[0])
    graph = model.tables(2)[0]
    tensors, facts = graph.tables(0), 0
    for kind, ids, names in (("input", graph.numbers(1, "i"), names_of(model, 0)),
                             ("output", graph.numbers(2, "i"), names_of(model, 1))):
        lines = re.findall(rf"^{kind} (\d+) (\S+) element (\d+) \[([^]]*)\](.*)$", told, re.MULTILINE)
        if len(lines) != len(ids):
            sys.exit(f"{len(lines)} {kind}s are told, the file has {len(ids)}")
        for (index, name, element, shape, rest), id in zip(lines, ids):
            tensor = tensors[id]
            codes = tensor.target(4)
            quantization = None if codes is None else Table(data, codes)
            scales = quantization.numbers(2, "f") if quantization else []
            zeros = quantization.numbers(3, "q") if quantization else []
            scale = re.search(r" scale (\S+) zero (\S+)", rest)
            own = [name, int(element), [int(d) for d in shape.split(", ")], f"{scale[1]} {scale[2]}" if scale else ""]
            its = [names.get(id, tensor.text(3)), ELEMENTS[tensor.byte(1)], tensor.numbers(0, "i"),
                   f"{scales[0]:.9g} {zeros[0]}" if scales else ""]
            for one, other in zip(own, its):
                if one != other:
                    sys.exit(f"{kind} {index}: {one} is told, {other} is in the file")
                facts += 1
    print(facts)


main()
