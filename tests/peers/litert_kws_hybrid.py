"""Writes litert_kws_hybrid.json: every layer of kws_ref_model_float32.tflite as LiteRT's reference kernels compute it.

    litert_kws_hybrid.py MODEL [--output FILE]     writes the table (default: beside this script)
    litert_kws_hybrid.py MODEL --check             computes it again and compares with the committed one

Needs ai-edge-litert and numpy. The network is hybrid: float32 activations, int8 filters in its five CONV_2D. No delegate
runs (resolver BUILTIN_REF), and every tensor is kept.

Input of seed s, shape [1, 49, 10, 1], from a splitmix64 stream with state = s (tests elsewhere use the same stream):

    u[0 .. 59)    float32: the top 24 bits of the next number / 2^24 * 2 - 1, in [-1, 1)
    x[r, c]     = (u[r] + u[49 + c]) * 16        in float32, the sum rounded once

Rows and columns vary slowly against each other, so that seven of the twelve classes occur; with white noise two do.

The table, JSON:

    versions      of ai-edge-litert and numpy
    model_sha256  of the file
    argmax        100 integers: the class of seeds 1 .. 100
    layers        one per operator of the file, in order:
        op        operator's name          name, shape    of its output tensor
        stride    the step between sampled elements: element i * stride in memory order, i = 0, 1, ... while it is inside
        inputs    three records, for seeds 1, 2, 3:
            max_magnitude   max |y|           sum    of all elements, in float64
            samples         the sampled elements (at most 64), as the shortest decimal that reads back as the same float32
"""

import argparse
import hashlib
import json
import pathlib
import sys
from importlib import metadata

import numpy as np
from ai_edge_litert import interpreter as litert

ROWS, COLUMNS = 49, 10
SEEDS_OF_LAYERS = (1, 2, 3)
SEEDS_OF_ARGMAX = range(1, 101)
SAMPLES = 64


def splitmix64(seed, count):
    mask = (1 << 64) - 1
    state, numbers = seed, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        numbers.append(z ^ (z >> 31))
    return numbers


def make_input(seed):
    u = np.array([(z >> 40) / 2**24 * 2 - 1 for z in splitmix64(seed, ROWS + COLUMNS)], np.float32)
    x = (u[:ROWS, None] + u[None, ROWS:]) * np.float32(16)
    return x.reshape(1, ROWS, COLUMNS, 1)


def shortest(values):
    return [float(str(np.float32(v))) for v in values]


def make_table(model):
    network = litert.Interpreter(model_path=str(model), experimental_preserve_all_tensors=True,
                                 experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    network.allocate_tensors()
    tensors = {d["index"]: d for d in network.get_tensor_details()}
    source, result = network.get_input_details()[0]["index"], network.get_output_details()[0]["index"]
    layers = []
    for op in network._get_ops_details():  # there is no public list of operators
        tensor = tensors[op["outputs"][0]]
        count = int(np.prod(tensor["shape"]))
        layers.append({"op": op["op_name"], "name": tensor["name"], "shape": tensor["shape"].tolist(),
                       "stride": -(-count // SAMPLES), "inputs": [], "index": tensor["index"]})
    classes = []
    for seed in SEEDS_OF_ARGMAX:
        network.set_tensor(source, make_input(seed))
        network.invoke()
        classes.append(int(network.get_tensor(result).argmax()))
        if seed not in SEEDS_OF_LAYERS:
            continue
        for layer in layers:
            y = network.get_tensor(layer["index"]).reshape(-1)
            layer["inputs"].append({"max_magnitude": shortest([np.abs(y).max()])[0], "sum": float(y.astype(np.float64).sum()),
                                    "samples": shortest(y[::layer["stride"]])})
    for layer in layers:
        del layer["index"]
    return {"versions": {name: metadata.version(name) for name in ("ai-edge-litert", "numpy")},
            "model_sha256": hashlib.sha256(model.read_bytes()).hexdigest(), "argmax": classes, "layers": layers}


def main():
    table = pathlib.Path(__file__).with_suffix(".json")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, default=table)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    made = make_table(options.model)
    if not options.check:
        lines = ",\n  ".join(json.dumps(layer) for layer in made.pop("layers"))
        options.output.write_text(json.dumps(made)[:-1] + ',\n "layers": [\n  ' + lines + "\n]}\n")
        return
    kept = json.loads(table.read_text())
    differing = [name for name in ("model_sha256", "argmax", "layers") if kept[name] != made[name]]
    if differing:
        sys.exit(f"{table.name}: differs in {', '.join(differing)}; it was made with {kept['versions']}, this is {made['versions']}")
    print(f"{table.name}: {len(kept['layers'])} layers and {len(kept['argmax'])} classes are what LiteRT computes")


if __name__ == "__main__":
    main()
