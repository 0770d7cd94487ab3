"""Compares two threads with one while busy loops run, right after the loops, and on an idle machine. All processes
have normal priority, and none is pinned.

    busy_machine.py --runner build/test/bench/peer_runner [--rounds N] [--seconds S] [--loops N] [--networks NAMES]

In each round the same processes of Nacre, with 1 and 2 threads, run in turns:

    busy    single runs for S seconds each while two loops a core are busy; the loops' processor time is printed beside
    after   runs together as soon as the loops have ended
    idle    the same a second later, in turns with LiteRT with 1 and 2 threads

Then KWS runs 30 times a second for 3 seconds. The outputs of both are compared to the byte. It needs NACRE_SHARED for
the networks, and ai-edge-litert. Exit code 1: a limit of claim busy_machine was missed.
"""

import argparse
import multiprocessing
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

from contender import Contender, Refused, peer_command, runner_command, seeded_input
from networks import NETWORKS, place_of
from other_load import OtherLoad

BUSY = ("kws/hybrid", "ic/float32", "mobilenet_v2/int8", "encoder/float32")
GAINS = ("kws/hybrid", "vww/int8", "vww/float32", "ic/float32", "mobilenet_v2/int8", "encoder/float32")
LIKE_LITERT = GAINS[:-1]  # LiteRT does not read the encoder
MOST_MEAN, MOST_P99, LEAST_GAIN, MOST_CPU = 1.15, 5.0, 1.0, 1.3
THREADS = (1, 2)


def spin(seconds, stop):
    begun = time.process_time()
    while not stop.is_set():
        for _ in range(10000):
            pass
        seconds.value = time.process_time() - begun


class Loops:
    """Keeps `count` processes of normal priority busy during the block. `seconds` returns their processor time."""

    def __init__(self, count):
        self._stop = multiprocessing.Event()
        self._seconds = [multiprocessing.Value("d", 0.0) for _ in range(count)]
        self._processes = [multiprocessing.Process(target=spin, args=(s, self._stop)) for s in self._seconds]

    def __enter__(self):
        for process in self._processes:
            process.start()
        time.sleep(0.2)
        return self

    def __exit__(self, *_):
        self._stop.set()
        for process in self._processes:
            process.join()

    @property
    def seconds(self):
        return sum(s.value for s in self._seconds)


def run_us(contender, count=1):
    return int(contender.ask(f"run {count}")) / 1000 / count


def singles(contender, seconds):
    """Returns the times of single runs."""
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end or len(times) < 20:
        times.append(run_us(contender))
    return times


def together(contender, milliseconds=50):
    """Runs as often as takes this long, after some warm-up runs. Returns the time of one run."""
    one = run_us(contender, 5)
    count = max(3, int(milliseconds * 1000 / one))
    run_us(contender, count)
    return run_us(contender, count)


def now_and_then(contender, hertz=30, seconds=3):
    """Returns the milliseconds of processor time that runs at this rate take."""
    begun, start = contender.cpu_ns(), time.monotonic()
    for i in range(int(hertz * seconds)):
        time.sleep(max(0.0, start + i / hertz - time.monotonic()))
        run_us(contender)
    time.sleep(0.1)
    return (contender.cpu_ns() - begun) / 1e6


class Subject:
    """One network in one process of Nacre per number of threads, and in two processes of LiteRT if it reads the
    file."""

    def __init__(self, network, options, scratch):
        self.network, self.path = network, network.path
        file = place_of(network, scratch)
        if file is None:
            raise Refused(f"{network.file} is not there", 77)
        cores = os.sched_getaffinity(0)
        self.nacre = {t: Contender("nacre", runner_command(options.runner, file, "auto", t), cores) for t in THREADS}
        self.litert = {}
        if self.path in LIKE_LITERT:
            self.litert = {t: Contender("litert", peer_command("litert", file, t), cores) for t in THREADS}
        self.busy = {t: [] for t in THREADS}
        self.gains = {name: [] for name in ("after", "idle", "litert")}
        self.times = {name: {t: [] for t in THREADS} for name in self.gains}
        data = seeded_input(self.nacre[1].about["input_bytes"], network.types, network.low, network.high)
        made = {t: contender.infer(data) for t, contender in self.nacre.items()}
        self.same = made[1] == made[2]
        for contender in self.litert.values():
            contender.infer(data)

    def compare(self, name, contenders):
        """Returns the gain of two threads over one, measured in turns."""
        times = {t: [] for t in THREADS}
        for turn in range(4):
            for t in THREADS if turn % 2 == 0 else reversed(THREADS):
                times[t].append(together(contenders[t]))
        for t in THREADS:
            self.times[name][t].append(statistics.median(times[t]))
        self.gains[name].append(self.times[name][1][-1] / self.times[name][2][-1])

    def end(self):
        for contender in [*self.nacre.values(), *self.litert.values()]:
            contender.end()


def measure(subject, options):
    if subject.path in BUSY:
        with Loops(options.loops) as loops:
            begun, wall = loops.seconds, time.monotonic()
            for turn in range(2):  # in turns, in the same minute
                for t in THREADS if turn % 2 == 0 else reversed(THREADS):
                    subject.busy[t] += singles(subject.nacre[t], options.seconds / 2)
            share = (loops.seconds - begun) / (time.monotonic() - wall)
        print(f"    {subject.path}: the {options.loops} loops had {share:.2f} cores", flush=True)
        subject.compare("after", subject.nacre)
    time.sleep(1)
    subject.compare("idle", subject.nacre)
    if subject.litert:
        subject.compare("litert", subject.litert)


def judge(subject):
    """Returns a row of the table, and the limits that it misses."""
    missed, row = [], f"{subject.path:20s}"
    if subject.busy[1]:
        mean = [statistics.fmean(subject.busy[t]) for t in THREADS]
        p99 = [float(np.quantile(subject.busy[t], 0.99)) for t in THREADS]
        row += f"  busy {mean[0]:9.0f} {mean[1]:9.0f}  {mean[1] / mean[0]:5.2f}  p99 {p99[0]:9.0f} {p99[1]:9.0f}"
        if mean[1] > MOST_MEAN * mean[0]:
            missed.append(f"{subject.path}: mean x {mean[1] / mean[0]:.2f}")
        if p99[1] > MOST_P99 * p99[0]:
            missed.append(f"{subject.path}: p99 x {p99[1] / p99[0]:.2f}")
    gain = {name: statistics.median(v) for name, v in subject.gains.items() if v}
    for name, value in gain.items():
        one, two = (statistics.median(subject.times[name][t]) for t in THREADS)
        row += f"  {name} {value:.2f} ({one:.0f} {two:.0f} us)"
    least = max(LEAST_GAIN, gain.get("litert", LEAST_GAIN))
    missed += [f"{subject.path}: gain {name} {gain[name]:.2f} of {least:.2f}"
               for name in ("after", "idle") if name in gain and gain[name] < least]
    if not subject.same:
        missed.append(f"{subject.path}: other bytes")
    return row, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runner", type=pathlib.Path, required=True, help="peer_runner of a build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="of single runs, for each number of threads")
    parser.add_argument("--loops", type=int, default=2 * (os.cpu_count() or 1), help="busy loops")
    parser.add_argument("--networks", default=",".join(GAINS))
    options = parser.parse_args()
    rows, missed = [], []
    with tempfile.TemporaryDirectory(prefix="nacre-busy-") as folder:
        for path in options.networks.split(","):
            network = next(n for n in NETWORKS if n.path == path)
            try:
                subject = Subject(network, options, pathlib.Path(folder))
            except Refused as refusal:
                sys.exit(f"{path}: {refusal}")
            try:
                others = OtherLoad()
                for _ in range(options.rounds):
                    measure(subject, options)
                row, found = judge(subject)
                rows.append(row)
                missed += found
                print(row, flush=True)
                if path == "kws/hybrid":
                    cpu = {t: now_and_then(subject.nacre[t]) for t in THREADS}
                    print(f"    KWS at 30 Hz for 3 s: {cpu[1]:.1f} ms of the processor with 1 thread, {cpu[2]:.1f} with 2")
                    if cpu[2] > MOST_CPU * cpu[1]:
                        missed.append(f"30 Hz: processor x {cpu[2] / cpu[1]:.2f}")
                print(f"    others had {others.cores():.2f} cores", flush=True)
            finally:
                subject.end()
    verdict = "shown" if not missed else "NOT SHOWN"
    print(f"CLAIM busy_machine {verdict}: {len(rows)} networks" + (": " + "; ".join(missed) if missed else
          ", two threads beside busy loops, behind them and alone; identical bytes"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
