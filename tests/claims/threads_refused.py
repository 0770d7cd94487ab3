"""Runs commands under limits, for threads_refused.sh: threads_refused.py TOOL SAMPLES."""

import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

THREADS, SECONDS, MIB = 64, 2.0, 1 << 20
NOBODY = 65534
REFUSED = re.compile(r"only (\d+) of 64 threads could be started")
MEMORY = re.compile(r"memory|MemoryError|allocate|failed to map|error while loading")  # also the loader's own sentences
IN_PYTHON = """
import os, resource, sys
import nacre  # other packages fail in their own ways: the limit begins behind their import
model = nacre.load(sys.argv[1])
kind, value = sys.argv[2], int(sys.argv[3])
if kind == "processes":
    os.setgroups([])
    os.setgid(65534)
    resource.setrlimit(resource.RLIMIT_NPROC, (value, value))
    os.setuid(65534)
elif kind != "none":  # beside the bytes that there are
    which, field = (resource.RLIMIT_AS, 0) if kind == "address space" else (resource.RLIMIT_DATA, 5)
    used = int(open("/proc/self/statm").read().split()[field]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(which, (used + (value << 20), used + (value << 20)))
try:
    nacre.Program(model, threads=64)
except nacre.Error as error:
    print(error)
    sys.exit(1)
"""


def limited(kind, value):
    def apply():
        if kind == "processes":  # root has no such limit
            os.setgroups([])
            os.setgid(NOBODY)
            resource.setrlimit(resource.RLIMIT_NPROC, (value, value))
            os.setuid(NOBODY)
        else:
            which = resource.RLIMIT_AS if kind == "address space" else resource.RLIMIT_DATA
            resource.setrlimit(which, (value * MIB, value * MIB))
    return apply


def run(command, folder, kind, value):
    """Returns the exit code, the output, and the seconds; on a busy machine, seconds of the processor."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60,
                              preexec_fn=limited(kind, value) if kind else None)
    except subprocess.TimeoutExpired:
        return None, "it hangs", 60.0
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if os.getloadavg()[0] > 0.75 * (os.cpu_count() or 1):
        wall = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, done.stdout + done.stderr, wall


def main():
    tool, samples = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="nacre-threads-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        network, data = samples / "digits.onnx", [samples / "digits_images.npy", samples / "digits_labels.npy"]
        model = folder / "digits.nacre"
        subprocess.run([tool, "convert", str(network), "-o", str(model)], check=True, capture_output=True)
        model.chmod(0o644)
        commands = {
            "run": [tool, "run", str(model), "--seed", "1", "--threads", "64"],
            "bench": [tool, "bench", str(model), "--threads", "64", "--runs", "1", "--min-ms", "1", "--warmup-ms", "0"],
            "tune": [tool, "tune", str(network), "--data", str(data[0]), "--labels", str(data[1]), "--cast-samples",
                     "--loss", "softmax_cross_entropy", "--train-last", "1", "--epochs", "1", "--batch", "512",
                     "--validate", "0.9", "--threads", "64", "-o", "tuned.nacre"],
        }
        python = os.environ.get("NACRE_PYTHON")
        if python:
            commands["python"] = [python, "-c", IN_PYTHON, str(model)]
        limits = [(None, 0)] + [("address space", v) for v in (60, 100, 150, 200, 293, 400, 550, 4000)]
        limits += [("data", v) for v in (4, 16, 64, 150, 300, 450)]
        if os.geteuid() == 0:
            limits += [("processes", v) for v in (1, 2, 3, 20, 63, 500)]
        count = {"refused": 0, "memory": 0, "done": 0}
        failures, longest = [], 0.0
        for what, command in commands.items():
            for kind, value in limits:
                if what == "python":
                    code, said, seconds = run([*command, kind or "none", str(value)], folder, None, 0)
                else:
                    code, said, seconds = run(command, folder, kind, value)
                wanted = 0 if kind is None else 1
                found = "done" if code == 0 else "refused" if REFUSED.search(said) else "memory"
                good = code == 0 or (wanted == 1 and code is not None and code > 0 and
                                     (found == "refused" or MEMORY.search(said)) and "internal error" not in said)
                if code == 0 and wanted == 0 and "64" not in said and what == "bench":
                    good = False
                if not good or (kind is not None and found != "done" and seconds > SECONDS):
                    failures.append(f"{what}, {kind} {value}: code {code}, {seconds:.1f} s: {said.strip()[-160:]!r}")
                count[found] += 1
                if found != "done":
                    longest = max(longest, seconds)
    none = "" if python else ", without Python (NACRE_PYTHON)"
    for failure in failures:
        print("   ", failure)
    verdict = "NOT SHOWN" if failures or count["refused"] < 3 * len(commands) else "shown"
    print(f"CLAIM threads_refused {verdict}: {len(commands)} commands under {len(limits) - 1} limits{none}: "
          f"{count['refused']} times fewer threads were a sentence, {count['memory']} times memory, "
          f"{count['done']} did their work; {longest:.1f} s at most, {len(failures)} otherwise")
    return 1 if verdict != "shown" else 0


if __name__ == "__main__":
    sys.exit(main())
