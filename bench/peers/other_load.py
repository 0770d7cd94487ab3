"""Measures how much processor time other processes take while engines are timed. With two threads on two cores, a
third busy process makes every engine with a pool of threads several times slower, and not all of them by the same
factor.
"""

import os
import pathlib
import time

TICKS = os.sysconf("SC_CLK_TCK")


def processes():
    """Returns for every process its parent, and the seconds that it and its ended children have run."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()  # the name, in brackets, may hold anything
        except OSError:
            continue  # the process has ended
        found[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS
    return found


def is_own(pid, found):
    while pid in found:
        if pid == os.getpid():
            return True
        pid = found[pid][0]
    return False


class OtherLoad:
    """Measures from its construction on. Every process of one's own must live until `cores` is called."""

    def __init__(self):
        self._start, self._seconds = time.monotonic(), self._others()

    @staticmethod
    def _others():
        found = processes()
        return sum(seconds for pid, (_, seconds) in found.items() if not is_own(pid, found))

    def cores(self):
        """Returns how many cores other processes kept busy, on average."""
        # A process that ends adds its seconds to its parent's, so sums are compared, not processes.
        return max(0.0, (self._others() - self._seconds) / (time.monotonic() - self._start))
