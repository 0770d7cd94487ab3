"""The build backend of meson-python, which also tells a terminal how far the compilation is.

pip shows nothing that a build prints unless it has -v, and the compilation takes minutes. While ninja runs, its lines
`[n/m]` are followed here, and one line for each tenth part goes to the terminal that pip was started from, if there is one.
"""

import contextlib
import os
import re
import threading
import time

import mesonpy
from mesonpy import *  # the hooks of PEP 517 that are not below  # noqa: F403

_STEP = re.compile(rb"\[(\d+)/(\d+)\] ")


def _follow(reader, output, terminal):
    """Copies what the build prints, and tells the terminal each tenth part of the steps."""
    began, told, line = time.monotonic(), 0, b""
    while data := os.read(reader, 65536):
        view = data
        while view:
            view = view[os.write(output, view) :]
        *lines, line = (line + data).split(b"\n")
        for step in filter(None, map(_STEP.search, lines)):
            done, steps = int(step[1]), int(step[2])
            # Generated sources come in runs of a few steps, which need no line.
            if steps >= 20 and done * 10 // steps > told:
                told = done * 10 // steps
                with contextlib.suppress(OSError):
                    os.write(terminal, b"\r  nacre: %d of %d steps compiled, %.0f s\r\n" % (done, steps, time.monotonic() - began))


@contextlib.contextmanager
def _progress():
    """Runs a build whose standard output is followed; without a terminal it runs as it is."""
    try:
        terminal = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        yield
        return
    output = os.dup(1)
    reader, writer = os.pipe()
    os.dup2(writer, 1)
    os.close(writer)
    follower = threading.Thread(target=_follow, args=(reader, output, terminal))
    follower.start()
    try:
        yield
    finally:
        os.dup2(output, 1)  # closes the pipe's last end, so the follower sees its end
        follower.join()
        for file in (reader, output, terminal):
            os.close(file)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds a wheel, as meson-python does."""
    with _progress():
        return mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds an editable installation, as meson-python does."""
    with _progress():
        return mesonpy.build_editable(wheel_directory, config_settings, metadata_directory)
