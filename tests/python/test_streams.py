"""A process whose standard streams are closed: no file that it opens gets their numbers."""

import os
import subprocess
import sys

import nacre

SCRIPT = """
import os, sys
import nacre
null = os.stat("/dev/null").st_rdev
if any(os.fstat(stream).st_rdev != null for stream in (0, 1, 2)):
    sys.exit(9)
nacre.convert(sys.argv[1]).save(sys.argv[2])
os.write(1, b"lost")
os.write(2, b"lost")
"""


def test_closed_streams_are_the_null_device(digits, tmp_path):
    def close_all():
        for stream in (0, 1, 2):
            os.close(stream)

    written = tmp_path / "m.nacre"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(digits), str(written)], preexec_fn=close_all, env=environment, check=False
    )
    assert ended.returncode == 0
    whole = tmp_path / "whole.nacre"
    nacre.convert(digits).save(whole)
    assert written.read_bytes() == whole.read_bytes()
