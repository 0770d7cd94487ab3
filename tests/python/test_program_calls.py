"""The ways from arrays to a program and back: arrays that need no check, others, batches, the memory itself."""

import threading

import numpy as np
import pytest

import nacre


@pytest.fixture(scope="module")
def program(model):
    return nacre.Program(model, kernels="reference")


@pytest.fixture(scope="module")
def wanted(digits, images):
    return nacre.Program(nacre.convert(digits), kernels="reference")(images[:40])


@pytest.mark.parametrize("form", ["in order", "reversed", "read-only", "one column apart", "big end first"])
def test_arrays_of_every_form_in_memory_give_the_same_bytes(program, images, wanted, form):
    x = images[:8]
    if form == "reversed":
        x = np.ascontiguousarray(x[::-1])[::-1]
    elif form == "read-only":
        x = x.copy()
        x.flags.writeable = False
    elif form == "one column apart":
        x = np.repeat(x, 2, axis=3)[..., ::2]
    elif form == "big end first":
        with pytest.raises(TypeError, match="float32, not >f4"):
            program(x.astype(">f4"))
        return
    for given in (x, {"pixels": x}, np.asarray(x).view(np.ndarray)):
        made = program(given)
        made = made["probabilities"] if isinstance(made, dict) else made
        assert made.tobytes() == wanted[:8].tobytes()
    many = np.concatenate([x, x, x[:3]])
    assert program(many).tobytes() == np.concatenate([wanted[:8], wanted[:8], wanted[:3]]).tobytes()


@pytest.mark.parametrize("rows", [8, 3, 24, 19])
def test_results_are_arrays_of_their_own(program, images, wanted, rows):
    first = program(images[:rows])
    assert first.flags.writeable and first.flags.owndata and first.flags.c_contiguous
    program(images[100 : 100 + rows])
    assert first.tobytes() == wanted[:rows].tobytes()
    first[...] = 0
    assert program.output().any()


def test_a_subclass_is_no_short_way(program, images):
    with pytest.raises(TypeError, match="no mask"):
        program(np.ma.masked_greater(images[:8], 3))
    with pytest.raises(ValueError, match="missing or unknown"):
        program({"pixel": images[:8]})
    with pytest.raises(ValueError, match="missing or unknown"):
        program({"pixels": images[:8], "more": images[:8]})


def test_memory_is_the_same_array_each_time(program, images, wanted):
    assert program.input() is program.input("pixels") and program.output(0) is program.output("probabilities")
    program.input()[...] = images[:8]
    program.run()
    assert program.output().tobytes() == wanted[:8].tobytes()
    for wrong in (True, 0.0, None, np.zeros(1)):
        with pytest.raises(TypeError):
            program.input(wrong)
    for wrong in (False, 0.0, None):
        with pytest.raises(TypeError, match="rows is a whole number"):
            program.run(wrong)


def test_samples_without_rows_are_stacked(tmp_path):
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "y", "sum", "product")]
    nodes = [helper.make_node("Add", ["x", "y"], ["sum"]), helper.make_node("Mul", ["x", "y"], ["product"])]
    graph = helper.make_graph(nodes, "two", values[:2], values[2:])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    program = nacre.Program(nacre.convert(network))
    x, y = np.random.default_rng(1).random((2, 5, 3), np.float32)
    for given in ((x[0], y[0]), (x, y)):
        total, product = program(*given)
        np.testing.assert_array_equal(total, given[0] + given[1])
        np.testing.assert_array_equal(product, given[0] * given[1])
    named = program({"y": y[0], "x": x[0]})  # in another order
    np.testing.assert_array_equal(named["product"], x[0] * y[0])
    with pytest.raises(ValueError, match="different numbers of rows"):
        program(x, y[0])


def test_calls_of_all_ways_wait_for_each_other(model, images, wanted):
    program = nacre.Program(model, kernels="reference")
    wrong = []

    def work(rows):
        for _ in range(200):
            if program(images[:rows]).tobytes() != wanted[:rows].tobytes():
                wrong.append(rows)

    workers = [threading.Thread(target=work, args=(rows,)) for rows in (8, 8, 3, 40)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
