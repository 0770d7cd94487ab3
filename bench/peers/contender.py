"""A process that runs one engine on one network, pinned to cores: peers.py serve, or Nacre's peer_runner.

Both speak the same lines, so that Nacre and its peers are measured by the same code.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

BURST_NS = 25_000_000  # how long one engine runs in a round
PROBE_NS = 5_000_000   # long enough to count how many runs make a burst

WORKER = pathlib.Path(__file__).with_name("peers.py")


class Refused(Exception):
    """Raised if a process ended or refused its input. Holds its last sentence and its exit code."""

    def __init__(self, sentence, code):
        super().__init__(sentence)
        self.code = code


def peer_command(peer, network, threads, batch=1, precision=""):
    return [sys.executable, str(WORKER), "serve", peer, str(network), "--threads", str(threads), "--batch", str(batch),
            *(["--precision", precision] if precision else [])]


def runner_command(runner, network, kernels, threads, rounding="double", batch=1, policy=""):
    return [str(runner), str(network), "--kernels", kernels, "--threads", str(threads), "--rounding", rounding,
            *(["--batch", str(batch)] if batch > 1 else []), *(["--policy", policy] if policy else [])]


class Contender:
    """Use it with `with`: the process ends with the block. `about` is what the process said of itself."""

    def __init__(self, name, command, cores):
        self.name, self.iterations = name, 0
        self._folder = tempfile.TemporaryDirectory(prefix="nacre-peers-")
        self._path = pathlib.Path(self._folder.name)
        with open(self._path / "stderr", "wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
                preexec_fn=lambda: os.sched_setaffinity(0, cores))
        try:
            self.about = json.loads(self._line())
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._folder.cleanup()

    def _line(self):
        line = self._process.stdout.readline()
        if line:
            return line.rstrip("\n")
        code = self._process.wait()
        # An engine may log on stderr too. The first line that begins with the engine's name is the sentence.
        said = (self._path / "stderr").read_text(errors="replace").strip().splitlines()
        own = [line for line in said if line.startswith((f"{self.name}: ", "peer_runner: "))]
        raise Refused((own or said or [f"ended with exit code {code}"])[-1], code)

    def ask(self, command):
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the sentence is on stderr, and _line raises it
        return self._line()

    def infer(self, data):
        """Returns the bytes of all outputs for these bytes of all inputs. Later runs use the same inputs."""
        if len(data) != self.about["input_bytes"]:
            raise Refused(f"{self.name}: takes {self.about['input_bytes']} bytes of input, not {len(data)}", 1)
        (self._path / "input").write_bytes(data)
        self.ask(f"input {self._path / 'input'}")
        self.ask("run 1")
        self.ask(f"output {self._path / 'output'}")
        return (self._path / "output").read_bytes()

    def cpu_ns(self):
        """Returns the nanoseconds of processor time of the process's threads, which are the threads that it started
        with."""
        tasks = pathlib.Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks)

    def choose_iterations(self):
        """Fixes how many runs a burst has, before the first round."""
        count, ns = 1, int(self.ask("run 1"))
        while ns < PROBE_NS:
            count *= 2
            ns = int(self.ask(f"run {count}"))
        self.iterations = max(1, round(BURST_NS * count / ns))

    def burst(self):
        """Returns the nanoseconds per run. A fifth of the burst runs first, untimed, because the caches hold the last
        engine's data and that engine's threads may still be spinning."""
        self.ask(f"run {max(1, self.iterations // 5)}")
        return int(self.ask(f"run {self.iterations}")) / self.iterations


def seeded_input(byte_count, types, low, high, seed=1):
    """Returns random inputs: for int8 any code, for float32 numbers in [low, high)."""
    rng = np.random.default_rng(seed)
    if types == "int8":
        return rng.integers(-128, 128, byte_count, np.int8).tobytes()
    return (rng.random(byte_count // 4, np.float32) * np.float32(high - low) + np.float32(low)).tobytes()
