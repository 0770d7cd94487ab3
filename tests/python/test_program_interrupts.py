"""Ctrl-C ends a long run between two of its steps."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import nacre

SIDE = 256  # a step takes tens of milliseconds with the reference's kernels


def deep_network(steps):
    """Returns a network of so many products with one matrix, and of a sum that it keeps from run to run."""
    from onnx import TensorProto, helper, numpy_helper

    shape = [SIDE, SIDE]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "kept", "y", "kept_out")]
    w = np.random.default_rng(1).standard_normal(shape).astype(np.float32) / SIDE**0.5
    nodes = [helper.make_node("Add", ["x", "kept"], ["kept_out"])]
    for i in range(steps):
        nodes.append(helper.make_node("MatMul", [f"h{i}" if i else "kept_out", "w"], [f"h{i + 1}" if i + 1 < steps else "y"]))
    graph = helper.make_graph(nodes, "deep", infos[:2], infos[2:], [numpy_helper.from_array(w, "w")])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return nacre.convert(network, state={"kept": "kept_out"})


class Interrupt:
    """Sends this process SIGINT after these seconds. `seconds` is how long ago that was."""

    def __init__(self, after):
        self._sent = 0.0
        self._timer = threading.Timer(after, self._send)
        self._timer.start()

    def _send(self):
        self._sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    @property
    def seconds(self):
        assert self._sent > 0
        return time.monotonic() - self._sent


@pytest.mark.parametrize("threads", [1, 2])
def test_a_long_run_ends_within_a_second(threads):
    model = deep_network(100)
    program = nacre.Program(model, kernels="reference", threads=threads)
    x = np.random.default_rng(2).standard_normal((SIDE, SIDE)).astype(np.float32)
    begun = time.monotonic()
    wanted = program(x)
    whole = time.monotonic() - begun
    program.start()
    program.input()[...] = x
    for call in (lambda: program(x), program.run, lambda: program.intermediates(x)):
        interrupt = Interrupt(whole / 8)
        with pytest.raises(KeyboardInterrupt):
            call()
        assert interrupt.seconds < min(1.0, whole / 2)  # so it did not go on to the end
    program.start()
    assert program(x).tobytes() == wanted.tobytes()


def test_many_short_runs_end_within_a_second(model, images):
    program = nacre.Program(model, kernels="reference")
    many = np.repeat(images, 200, axis=0)  # 45,000 runs of 8 rows
    interrupt = Interrupt(0.2)
    with pytest.raises(KeyboardInterrupt):
        program(many)
    assert interrupt.seconds < 1
    assert program(images[:8]).shape == (8, 10)


def test_a_handler_that_returns_lets_the_run_go_on(model, images):
    program = nacre.Program(model, kernels="reference")
    many = np.repeat(images, 20, axis=0)
    wanted = program(many)
    seen, refused = [], []

    def handler(number, frame):
        seen.append(number)
        try:
            program(images[:8])
        except nacre.Error as error:
            refused.append(str(error))

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.06, 0.06)
    try:
        made = program(many)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert made.tobytes() == wanted.tobytes()
    assert seen and any("in the middle of a call" in sentence for sentence in refused)
