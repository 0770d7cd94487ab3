"""A long call shows a bar on a terminal, and nothing elsewhere."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

import nacre
from nacre import _progress

pytest.importorskip("tqdm")
SECONDS = 120  # no program below takes so long

SEARCH = """if True:
    import logging, sys
    import numpy as np
    import nacre
    from nacre import _progress
    {setup}
    digits, x, y = sys.argv[1:]
    options = dict(policies=["float32", "bfloat16", "int8_from_float32"], budget=12, max_drop=0.5)
    found = nacre.search(digits, np.load(x).astype(np.float32)[:600], np.load(y)[:600], **options)
    print("measured", found["measurements"])
"""


def opened_terminal():
    """Returns both ends of a terminal of 24 lines and 100 columns."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    return outer, inner


def read_all(terminal):
    """Returns all that comes out of a terminal until its last program ends."""
    seen = b""
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # EIO: nobody has the other end open
            return seen.decode()
        if not piece:
            return seen.decode()
        seen += piece
    raise TimeoutError("the program does not end")


def started(program, digits, **streams):
    data = [digits.parent / f"digits_{name}.npy" for name in ("images", "labels")]
    environment = {**os.environ, "TERM": "xterm", **streams.pop("environment", {})}
    return subprocess.Popen([sys.executable, "-c", program, digits, *data], env=environment, text=True, **streams)


def on_terminal(program, digits, environment=()):
    """Runs a program whose standard error is a terminal. Returns what the terminal shows, and standard output."""
    outer, inner = opened_terminal()
    ran = started(program, digits, stdout=subprocess.PIPE, stderr=inner, environment=dict(environment))
    os.close(inner)
    shown = read_all(outer)
    os.close(outer)
    printed, _ = ran.communicate(timeout=SECONDS)
    assert ran.returncode == 0, shown
    return shown, printed


def test_a_terminal_shows_a_bar_and_keeps_nothing_of_it(digits):
    shown, printed = on_terminal(SEARCH.format(setup="_progress.AFTER_SECONDS = 0"), digits)
    done = [int(count) for count in re.findall(r"search: +\d+%\|[^|]*\| (\d+)/12", shown)]
    assert len(done) > 2 and done == sorted(done) and printed == "measured 12\n"
    assert "\n" not in shown and shown.rpartition("\r")[2].strip() == ""  # the last line is empty
    assert shown.rpartition("\r")[0].rpartition("\r")[2].strip() == ""  # because it was overwritten with blanks


def test_a_short_call_shows_no_bar(digits):
    shown, _ = on_terminal(SEARCH.format(setup="_progress.AFTER_SECONDS = 1e6"), digits)
    assert shown == ""


def test_a_notice_has_a_line_without_a_bar(digits):
    setup = (
        "_progress.AFTER_SECONDS = 0; _progress.bar, made = (lambda: bar), _progress.bar; bar = made();"
        "logging.basicConfig(level='INFO', format='%(message)s'); bar('work', 1, 2); bar.hide(); logging.info('said');"
        "bar('work', 2, 2); bar.clear(); _progress.bar = lambda: None"
    )
    shown, _ = on_terminal(SEARCH.format(setup=setup), digits)
    line = next(line for line in shown.split("\n") if "said" in line)
    assert "work:" in line and line.rpartition("\r")[0].rpartition("\r")[2].strip() in ("said", "")
    assert line.rstrip("\r").rpartition("\r")[2] == "said"


@pytest.mark.parametrize(
    "setup, environment",
    [
        ("nacre.set_progress(lambda what, done, total: None)", {}),  # a function of the program's own
        ("sys.modules['tqdm'] = None", {}),  # tqdm is not installed
        ("", {"TERM": "dumb"}),
    ],
)
def test_no_bar_is_shown(digits, setup, environment):
    setup = f"_progress.AFTER_SECONDS = 0; {setup}"
    assert on_terminal(SEARCH.format(setup=setup), digits, environment) == ("", "measured 12\n")


def test_a_pipe_gets_nothing(digits):
    program = SEARCH.format(setup="_progress.AFTER_SECONDS = 0")
    ran = started(program, digits, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert ran.communicate(timeout=SECONDS) == ("measured 12\n", "")


def test_a_terminal_that_hangs_up_ends_no_call(digits):
    outer, inner = opened_terminal()
    setup = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); _progress.AFTER_SECONDS = 0"
    ran = started(SEARCH.format(setup=setup), digits, stdout=subprocess.PIPE, stderr=inner, start_new_session=True)
    os.close(inner)
    assert os.read(outer, 1)  # the bar is there
    os.close(outer)
    printed, _ = ran.communicate(timeout=SECONDS)
    assert (ran.returncode, printed) == (0, "measured 12\n")


def test_an_interrupt_clears_the_bar(digits):
    program = (
        SEARCH.format(setup="_progress.AFTER_SECONDS = 0").replace("budget=12", "budget=5000").replace("600", "1797")
    )
    outer, inner = opened_terminal()
    ran = started(program, digits, stdout=subprocess.PIPE, stderr=inner, start_new_session=True)
    os.close(inner)
    shown = ""
    while "| 3/5000" not in shown:
        shown += os.read(outer, 4096).decode()
    ran.send_signal(signal.SIGINT)
    shown += read_all(outer)
    os.close(outer)
    ran.communicate(timeout=SECONDS)
    assert "KeyboardInterrupt" in shown and re.search(r"\r +\r[^|]*Traceback", shown)


def test_bars_of_two_phases_follow_each_other(monkeypatch):
    class Terminal:
        text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(_progress, "AFTER_SECONDS", 0)
    monkeypatch.setenv("TERM", "xterm")
    bar = _progress.bar()
    for what in ("calibrate", "search"):
        for done in (1, 2):
            bar(what, done, 2)
    bar.clear()
    seen = re.findall(r"(calibrate|search): +\d+%\|[^|]*\| (\d)/2", sys.stderr.text)
    assert list(dict.fromkeys(seen)) == [("calibrate", "1"), ("calibrate", "2"), ("search", "1"), ("search", "2")]


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="progress is told to a function, not to int"):
        nacre.set_progress(3)
    assert _progress.chosen is None
