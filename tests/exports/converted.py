"""Converts a file and runs it by the program nacre: shared by the comparisons of tests/exports/."""
import pathlib
import subprocess
import tempfile

import numpy as np


class Refused(Exception):
    pass


def call(*command, seconds=300):
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Refused(f"{command[1]} takes longer than {seconds} s")
    if done.returncode != 0:
        raise Refused(" ".join((done.stderr or done.stdout or f"exit code {done.returncode}").split()))


class Converted:
    """A file as a model; run() gives its outputs by their names."""

    def __init__(self, nacre, path, *options):
        self.nacre, self.scratch = nacre, tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        call(nacre, "convert", path, "-o", self.folder / "a.nacre", *options)

    def run(self, arrays):
        inputs = []
        for i, (name, array) in enumerate(arrays.items()):
            if name.startswith("in."):
                np.save(self.folder / f"{i}.npy", array)
                inputs += ["--input", f"{name[3:]}={self.folder / f'{i}.npy'}"]
        for old in (self.folder / "out").glob("*"):
            old.unlink()
        call(self.nacre, "run", self.folder / "a.nacre", *inputs, "--output", self.folder / "out")
        return {file.stem: np.load(file) for file in (self.folder / "out").glob("*.npy")}


def distance(mine, theirs):
    """Returns the largest difference, relative to the largest value; for integers 0 or infinity."""
    if mine.shape != theirs.shape:
        return float("inf")
    if theirs.dtype.kind in "iub":
        return 0.0 if (mine == theirs).all() else float("inf")
    mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
    far = np.abs(mine - theirs).max() / max(np.abs(theirs).max(), 1e-30)
    return float(far) if np.isfinite(far) else float("inf")
