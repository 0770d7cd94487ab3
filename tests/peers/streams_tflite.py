"""Writes streams_litert.json: TensorFlow Lite Micro's example networks with variables, run by run, as LiteRT's
reference kernels compute them (resolver BUILTIN_REF, no delegate).

    streams_tflite.py FOLDER [--output FILE]     of the networks in FOLDER; the table stands beside this script
    streams_tflite.py FOLDER --check             computes it again and compares with the committed one

Needs ai-edge-litert and numpy. Run r of a network reads element i of s_i, s_0 = r + 1,
s_i+1 = 1664525 s_i + 1013904223 mod 2^32: a code is the top byte of s_i+1 less 128, a real number its top byte / 256.

The table, JSON: versions, and per network

    file, sha256
    runs          the outputs of runs 0, 1, ..., one after another in one interpreter: variables are kept
    sums          of the output y of the last LSTM, of codes alone, per run: sum_i (i mod 997 + 1) y_i
"""

import argparse
import hashlib
import json
import pathlib
import sys
from importlib import metadata

import numpy as np
from ai_edge_litert import interpreter as litert

NETWORKS = ("trained_lstm", "trained_lstm_int8", "micro_speech_lstm", "dtln_noise_suppression")
RUNS = 6


def drawn(run, shape, dtype):
    state, tops = run + 1, []
    for _ in range(int(np.prod(shape))):
        state = (1664525 * state + 1013904223) % 2**32
        tops.append(state >> 24)
    tops = np.array(tops, np.int32).reshape(shape)
    return (tops - 128).astype(np.int8) if dtype == np.int8 else (tops / 256).astype(np.float32)


def run_network(path):
    interpreter = litert.Interpreter(
        str(path),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    given, output = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    lstm = [op for op in interpreter._get_ops_details() if op["op_name"] == "UNIDIRECTIONAL_SEQUENCE_LSTM"][-1]
    runs, sums = [], []
    for run in range(RUNS):
        interpreter.set_tensor(given["index"], drawn(run, given["shape"], given["dtype"]))
        interpreter.invoke()
        y = interpreter.get_tensor(output["index"]).ravel()
        runs.append([float(str(v)) if y.dtype == np.float32 else int(v) for v in y])
        if y.dtype == np.float32:
            continue
        inner = interpreter.get_tensor(lstm["outputs"][0]).ravel().astype(np.int64)
        sums.append(int(np.sum((np.arange(inner.size) % 997 + 1) * inner)))
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"file": path.name, "sha256": sha, "runs": runs, "sums": sums}


def main():
    beside = pathlib.Path(__file__).with_name("streams_litert.json")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, default=beside)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    table = {
        "versions": {name: metadata.version(name) for name in ("ai-edge-litert", "numpy")},
        "networks": [run_network(arguments.folder / f"{name}.tflite") for name in NETWORKS],
    }
    if arguments.check:
        same = json.loads(beside.read_text())["networks"] == table["networks"]
        print("streams_tflite: the same numbers" if same else "streams_tflite: other numbers")
        sys.exit(0 if same else 1)
    lines = ",\n".join(json.dumps(network) for network in table["networks"])
    arguments.output.write_text('{"versions": %s,\n"networks": [\n%s\n]}\n' % (json.dumps(table["versions"]), lines))


if __name__ == "__main__":
    main()
