"""Checks that the build backend tells a terminal how far a build is, and that its output stays whole.

    progress.py CHECKOUT

A child with a terminal of its own runs a build that prints forty steps into a file, as pip has it.
"""

import os
import pty
import subprocess
import sys
import tempfile

sys.path.insert(0, sys.argv[1] + "/python")
import build_backend  # noqa: E402

with tempfile.NamedTemporaryFile() as kept:
    child, terminal = pty.fork()
    if child == 0:
        os.dup2(kept.fileno(), 1)
        with build_backend._progress():
            subprocess.run(["sh", "-c", 'for n in $(seq 40); do echo "[$n/40] Compiling"; done'], check=True)
        os._exit(0)
    shown = b""
    try:
        while data := os.read(terminal, 4096):
            shown += data
    except OSError:
        pass  # the child has closed the terminal
    assert os.waitpid(child, 0)[1] == 0
    lines = [line for line in shown.decode().split("\n") if "of 40 steps compiled" in line]
    assert len(lines) == 10, shown
    with open(kept.name) as file:
        assert len(file.readlines()) == 40
print(f"{len(lines)} lines of progress")
