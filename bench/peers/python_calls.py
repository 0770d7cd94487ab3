"""Compares the time of one call of a nacre.Program with one call of an onnxruntime session, in one process of Python.

    python_calls.py [--rounds N] [--before FOLDER] [--write results/python_calls.txt]

Needs the packages nacre and onnxruntime in this Python, and NACRE_SHARED for silero. FOLDER holds an older package
nacre (pip install --target FOLDER): its calls are measured too, in a process of its own, in turns with this package.
Each process measures all calls of both libraries in turns, with one thread. The table has the least and the median
time of all rounds. onnxruntime reads no .tflite, so the networks are the .onnx files. Exit code 1: a call of p(x) on
one run's rows takes longer than onnxruntime's, or outputs differ.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from call_network import write_onnx
from other_load import OtherLoad

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS, SECONDS = 7, 0.1  # rounds of a process, and the time of one measurement
BATCHES = (1, 32, 256)


def one_time(call):
    """Returns the microseconds of one call, as the mean over SECONDS."""
    count, spent = 1, 0.0
    while spent < SECONDS:
        begun = time.perf_counter()
        for _ in range(count):
            call()
        spent = time.perf_counter() - begun
        if spent < SECONDS:
            count = max(2 * count, int(1.1 * count * SECONDS / max(spent, 1e-6)))
    return spent / count * 1e6


def networks(folder):
    """Returns the networks that are here: name, file, and whether it takes any number of rows."""
    write_onnx(folder / "relu.onnx")
    found = [("one Relu", folder / "relu.onnx", False), ("digits", ROOT / "tools/samples/digits.onnx", True)]
    silero = pathlib.Path(os.environ.get("NACRE_SHARED", "/nowhere")) / "models/silero/silero_vad_openvino_16k.onnx"
    return found + ([("silero", silero, False)] if silero.is_file() else [])


def session_of(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def steps_of(program, feed):
    """Returns a call that writes the program's memory, runs, and reads it."""

    def call():
        for i, x in enumerate(feed.values()):
            program.input(i)[...] = x
        program.run()
        return program.output(0).copy()

    return call


def binding_of(session, feed):
    """Returns a call of onnxruntime with arrays that are bound once."""
    binding = session.io_binding()
    for name, x in feed.items():
        binding.bind_cpu_input(name, x)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def call():
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()[0]

    return call


def calls_of(path, rows):
    """Returns pairs of calls, of Nacre and of onnxruntime, by what they are. Each pair does the same work."""
    import nacre

    session = session_of(path)
    program = nacre.Program(nacre.convert(path))
    random = np.random.default_rng(1)
    feed = {x.name: random.random((rows, *x.shape[1:]) if x.rows else x.shape, np.float32) for x in program.inputs}
    arrays = tuple(feed.values())
    theirs = lambda: session.run(None, feed)  # noqa: E731
    if rows == 1:
        return {
            "p(x)": (lambda: program(*arrays), theirs),
            "p({name: x})": (lambda: program(feed), theirs),
            "input, run, output": (steps_of(program, feed), binding_of(session, feed)),
        }
    batched = nacre.Program(nacre.convert(path, batch=32))
    return {
        "p(x)": (lambda: program(*arrays), theirs),
        "p(x), batch=32": (lambda: batched(*arrays), theirs),
    }


def first(made):
    return made[0] if isinstance(made, (list, tuple)) else next(iter(made.values())) if isinstance(made, dict) else made


def measure(rounds):
    """Prints one JSON object: for each row of the table, the times of both libraries in each round."""
    times, versions = {}, {}
    with tempfile.TemporaryDirectory(prefix="nacre-calls-") as folder:
        calls = {}
        for name, path, any_rows in networks(pathlib.Path(folder)):
            for rows in BATCHES if any_rows else (1,):
                for what, pair in calls_of(path, rows).items():
                    calls[f"{name}|{rows}|{what}"] = pair
        for key, (ours, theirs) in calls.items():
            if not np.allclose(first(ours()), first(theirs()), rtol=1e-4, atol=1e-5):
                sys.exit(f"{key}: other outputs than onnxruntime's")
            times[key] = ([], [])
        for turn in range(rounds):
            for key, pair in calls.items():
                for side in (0, 1) if turn % 2 == 0 else (1, 0):
                    times[key][side].append(one_time(pair[side]))
    import nacre
    import onnxruntime

    versions = {"nacre": nacre.version, "onnxruntime": onnxruntime.__version__, "numpy": np.__version__}
    json.dump({"times": times, "versions": versions}, sys.stdout)


def measured(rounds, package):
    """Returns what a process with this package nacre measures; None: the package of this Python."""
    environment = dict(os.environ)
    if package is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(package), environment.get("PYTHONPATH", "")])
    command = [sys.executable, __file__, "--measure", "--rounds", str(rounds)]
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def joined(parts):
    """Joins the times of several processes: for each row, a list of each library's times."""
    return {key: [sum((part["times"][key][side] for part in parts), []) for side in (0, 1)] for key in parts[0]["times"]}


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.machine()


def table(now, before):
    """Returns the lines of the table, and the rows in which p(x) takes longer than onnxruntime."""
    cell = lambda times: f"{min(times):8.2f} {statistics.median(times):8.2f}"  # noqa: E731
    lines = [f"{'network':10}{'rows':>5}  {'call':20}{'nacre':>17}{'onnxruntime':>18}  ratio" + ("   nacre before" if before else "")]
    lines.append(f"{'':37}{'least':>8} {'median':>8}{'least':>9} {'median':>8}")
    slower = []
    for key, (ours, theirs) in now.items():
        name, rows, what = key.split("|")
        line = f"{name:10}{rows:>5}  {what:20}{cell(ours)} {cell(theirs)}  {min(ours) / min(theirs):5.2f}"
        lines.append(line + (f"  {cell(before[key][0])}" if before else ""))
        if what == "p(x)" and rows == "1" and min(ours) > min(theirs):
            slower.append(f"{name}: {min(ours):.2f} us beside {min(theirs):.2f}")
    return lines, slower


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--before", type=pathlib.Path, help="folder of an older package nacre")
    parser.add_argument("--write", type=pathlib.Path, help="file to write the table to, besides standard output")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(options.rounds)
    others = OtherLoad()
    parts = {"now": [], "before": []}
    for _ in range(2):
        parts["now"].append(measured(options.rounds, None))
        if options.before:
            parts["before"].append(measured(options.rounds, options.before.resolve()))
    load = others.cores()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout
    versions = ", ".join(f"{name} {version}" for name, version in parts["now"][0]["versions"].items())
    lines, slower = table(joined(parts["now"]), joined(parts["before"]) if options.before else None)
    head = [
        f"{datetime.date.today()}, commit {commit.strip()}, machine: {os.cpu_count()} processors of {processor()};"
        f" other processes had {load:.2f} of them" + (": the machine was busy" if load > 0.1 else ""),
        f"Python {platform.python_version()}, {versions}; one thread each; microseconds of one call",
        "",
        "$ bench/peers/python_calls.py" + (" --before FOLDER" if options.before else ""),
    ]
    text = "\n".join(head + lines) + "\n"
    print(text, end="")
    if options.write:
        options.write.write_text(text)
    print("p(x) takes at most onnxruntime's time" if not slower else "SLOWER: " + "; ".join(slower))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
