"""Several streams: with one program in turns, and with several programs of one model."""

import threading

import numpy as np
import pytest

import nacre


def counting_network():
    """Returns a network that adds up its inputs: total_out = total + x, y = 2 * total_out."""
    from onnx import TensorProto, helper, numpy_helper

    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "total", "y", "total_out")]
    two = numpy_helper.from_array(np.array([2], np.float32), "two")
    nodes = [
        helper.make_node("Add", ["x", "total"], ["total_out"]),
        helper.make_node("Mul", ["total_out", "two"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "sum", infos[:2], infos[2:], [two])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def summing():
    return nacre.convert(counting_network(), state={"total": "total_out"})


def row(value):
    return np.full((1, 4), value, np.float32)


def test_streams_take_turns_on_one_program(summing):
    program = nacre.Program(summing)
    totals, streams = [0.0, 0.0, 0.0], [program.stream() for _ in range(3)]
    for step in range(1, 13):
        i = step % 3
        program.start(streams[i])
        totals[i] += step
        np.testing.assert_array_equal(program(row(step)), row(2 * totals[i]))
        streams[i] = program.stream()
    assert len(streams[0]) == 1
    np.testing.assert_array_equal(next(iter(streams[1].values())).reshape(1, 4), row(totals[1]))


def test_a_stream_is_a_copy(summing):
    program = nacre.Program(summing)
    program(row(1))
    stream = program.stream()
    program(row(1))
    np.testing.assert_array_equal(next(iter(stream.values())).reshape(1, 4), row(1))
    program.start(stream)
    next(iter(stream.values()))[...] = 100
    np.testing.assert_array_equal(program(row(1)), row(4))
    program.start()
    np.testing.assert_array_equal(program(row(1)), row(2))


def test_programs_of_one_model_have_streams_of_their_own(summing):
    programs = [nacre.Program(summing) for _ in range(3)]
    wrong = []

    def work(program, value):
        for step in range(1, 200):
            if (program(row(value)) != row(2 * value * step)).any():
                wrong.append(step)

    workers = [threading.Thread(target=work, args=(program, i + 1)) for i, program in enumerate(programs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_wrong_streams_change_nothing(summing):
    program = nacre.Program(summing)
    program(row(3))
    name, value = next(iter(program.stream().items()))
    for wrong, error in (
        ({}, ValueError),
        ({name: value, "more": value}, ValueError),
        ({name: value[..., :2]}, ValueError),
        ({name: value.astype(np.float64)}, TypeError),
        (value, TypeError),
        (b"bytes", TypeError),
    ):
        with pytest.raises(error):
            program.start(wrong)
    np.testing.assert_array_equal(program(row(1)), row(8))


def test_a_model_without_state_has_an_empty_stream(model, images):
    program = nacre.Program(model)
    assert program.stream() == {}
    program.start(program.stream())
    with pytest.raises(ValueError, match="unknown"):
        program.start({"h": np.zeros(1, np.float32)})


def test_a_speech_network_goes_on_where_it_stood(tiny):
    model = nacre.convert(tiny.parent / "silero" / "silero_vad_openvino_16k.onnx", state={"state": "stateN"})
    x = np.random.default_rng(1).standard_normal((4, 576)).astype(np.float32)
    program = nacre.Program(model)
    wanted = program(x)
    program.start()
    program(x[:2])
    stream = program.stream()
    assert set(stream) and all(value.dtype == np.float32 for value in stream.values())
    program(x[::-1])  # another stream
    program.start(stream)
    assert program(x[2:]).tobytes() == wanted[2:].tobytes()
