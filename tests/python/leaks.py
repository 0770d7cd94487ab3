#!/usr/bin/env python3
"""Measures how memory grows over 10,000 calls of each main function: leaks.py [CALLS]

Prints one JSON object: per function the bytes that the process has grown by between the first tenth of the calls and the
last, which a leak of one object a call would make at least 16 * 9 / 10 * CALLS. Exit code 1 where one grows by more than
that plus 1 MiB, which malloc's own arenas and Python's caches take.
"""

import gc
import json
import pathlib
import sys

import numpy as np

import nacre

CALLS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "tools" / "samples"


def resident_bytes() -> int:
    """Returns the bytes of anonymous memory that are resident, so without pages of files."""
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Anonymous:"))


def refused(work):
    try:
        work()
    except (nacre.Error, TypeError, ValueError):
        return
    raise SystemExit("leaks: a wrong call was not refused")


def main() -> int:
    x = np.load(SAMPLES / "digits_images.npy")[:16].astype(np.float32)
    y = np.load(SAMPLES / "digits_labels.npy")[:16]
    small = nacre.convert(SAMPLES / "digits.onnx")
    data = small.to_bytes()
    trains = nacre.convert(SAMPLES / "digits.onnx", train="softmax_cross_entropy", train_last=1, batch=1)
    program, trainer = nacre.Program(small), nacre.Trainer(trains)
    state = trainer.state_dict()
    functions = {
        "load": lambda: nacre.load(data).layers,
        "to_bytes": small.to_bytes,
        "Program": lambda: nacre.Program(small),
        "Program()": lambda: program(x[:1]),
        "Program() of rows": lambda: program(x[:3]),
        "intermediates": lambda: program.intermediates(x[:1]),
        "profile": lambda: program.profile(x[:1], runs=1),
        "stream, start": lambda: program.start(program.stream()),
        "input, output": lambda: (program.input(0), program.output(0)),
        "Trainer": lambda: nacre.Trainer(trains),
        "accumulate, commit": lambda: (trainer.accumulate(x[:1], y[:1]), trainer.commit(1e-6)),
        "step": lambda: trainer.step(x[:1], y[:1], 1e-6),
        "infer": lambda: trainer.infer(x[:1]),
        "state_dict": trainer.state_dict,
        "load_state_dict": lambda: trainer.load_state_dict(state),
        "export": trainer.export,
        "convert": lambda: nacre.convert(SAMPLES / "digits.onnx"),
        "size": lambda: small.size("arm/m4"),
        "policies.resolve": lambda: nacre.policies.resolve("mixed_bfloat16"),
        "refused file": lambda: refused(lambda: nacre.load(data[:-1])),
        "refused option": lambda: refused(lambda: nacre.convert(SAMPLES / "digits.onnx", policy="int9")),
        "refused type": lambda: refused(lambda: program(x[:1].astype(np.float64))),
    }
    grown, leaking = {}, []
    for name, work in functions.items():
        for call in range(CALLS):
            work()
            if call == CALLS // 10:
                gc.collect()
                before = resident_bytes()
        gc.collect()
        grown[name] = resident_bytes() - before
        if grown[name] > 16 * 9 / 10 * CALLS + (1 << 20):
            leaking.append(name)
    print(json.dumps({"calls": CALLS, "grown_bytes": grown, "leaking": leaking}))
    return 1 if leaking else 0


if __name__ == "__main__":
    sys.exit(main())
