"""Every tensor of a run, and the time of each step: the same as the tool's."""

import dataclasses
import json
import os

import numpy as np
import pytest

import nacre
from nacre import _native


@pytest.fixture(scope="module")
def program(model):
    return nacre.Program(model, kernels="reference")


def test_intermediates_are_the_tensors_that_the_tool_writes(model, tmp_path, program):
    model.save(tmp_path / "m.nacre")
    words = ["run", tmp_path / "m.nacre", "--seed=1", "--kernels=reference", f"--all-tensors={tmp_path / 'all'}"]
    _native.run([os.fsencode(word) for word in words], None, None, lambda line, wrong: None)
    written = json.loads((tmp_path / "all" / "index.json").read_text())["tensors"]
    arrays = [np.load(tmp_path / "all" / entry["file"]) for entry in written]
    tensors = program.intermediates(arrays[0])
    assert list(tensors) == [entry["name"] for entry in written]
    for entry, array in zip(written, arrays):
        assert tensors[entry["name"]].shape == array.shape
        assert tensors[entry["name"]].tobytes() == array.tobytes()


def test_intermediates_are_copies_in_the_order_of_the_steps(images, program):
    x = images[:8]
    tensors = program.intermediates(x)
    assert list(tensors)[0] == "pixels" and list(tensors)[-1] == "probabilities"
    assert len(tensors) > program.info.steps
    np.testing.assert_array_equal(tensors["pixels"], x)
    assert tensors["probabilities"].tobytes() == program(x).tobytes()
    assert all(array.flags.owndata and array.flags.writeable for array in tensors.values())
    other = program.intermediates({"pixels": images[8:16]})
    assert list(other) == list(tensors)
    for name, array in tensors.items():
        assert array.shape == other[name].shape and array.tobytes() != other[name].tobytes()


def test_intermediates_of_a_network_that_is_computed_by_hand():
    from onnx import TensorProto, helper, numpy_helper

    w = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    x_info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y_info = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["products"]), helper.make_node("Softmax", ["products"], ["y"])]
    graph = helper.make_graph(nodes, "two", [x_info], [y_info], [numpy_helper.from_array(w, "w")])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.array([[1, 2, 3], [0, 1, 0]], np.float32)
    tensors = nacre.Program(nacre.convert(network)).intermediates(x)
    np.testing.assert_array_equal(tensors["products"], x @ w)
    np.testing.assert_allclose(tensors["y"].sum(axis=1), 1, rtol=1e-6)


def test_intermediates_of_codes_are_codes_or_real_numbers(digits, images):
    model = nacre.convert(digits, policy="int8/static_from_float32", calibrate=images[:64], io_types="policy")
    codes = nacre.Program(model, quantize_inputs=True).intermediates(images[:1])
    reals = nacre.Program(model, quantize_inputs=True, dequantize_outputs=True).intermediates(images[:1])
    assert list(codes) == list(reals)
    first = next(iter(codes))
    assert {array.dtype for array in codes.values()} == {np.dtype(np.int8)}
    assert {array.dtype for array in reals.values()} == {np.dtype(np.float32)}
    info = model.inputs[0]
    np.testing.assert_allclose(reals[first], (codes[first].astype(np.float32) - info.zero_point) * info.scale)
    np.testing.assert_allclose(reals[first], images[:1], atol=info.scale)


def test_one_run_is_of_the_compiled_rows(program, images):
    for call in (program.intermediates, program.profile):
        for rows in (7, 9, 16):
            with pytest.raises(ValueError, match=f"one run takes 8 rows, not {rows}"):
                call(images[:rows])
        with pytest.raises(TypeError, match="float32"):
            call(images[:8].astype(np.float64))
    for wrong, error in ((0, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="runs is"):
            program.profile(images[:8], runs=wrong)


def test_a_profile_has_the_steps_of_the_program(model, images, program):
    profile = program.profile(images[:8], runs=7)
    assert profile.runs == 7 and [step.step for step in profile.steps] == list(range(program.info.steps))
    names = {layer.name for layer in model.layers} | {""}
    for step in profile.steps:
        assert step.layer in names and step.kernel.startswith("reference/") and step.us > 0 and not step.on_gpu
    assert {"conv1", "fc"} <= {step.layer for step in profile.steps}
    assert profile.median_us > 0 and profile.first_us > 0
    assert sum(step.multiply_accumulates for step in profile.steps) > 8 * 1000
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile.steps[0].us = 1.0
    fast = nacre.Program(model).profile(images[:8])
    assert any(not step.kernel.startswith("reference/") for step in fast.steps) == (
        nacre.Program(model).kernels != "reference"
    )


def test_a_profile_tells_its_progress_and_ends_by_it(program, images):
    seen = []
    nacre.set_progress(lambda what, done, total: seen.append((what, total)))
    try:
        program.profile(images[:8], runs=3)
        assert ("profile", 9) in seen

        def ends(what, done, total):
            raise RuntimeError("enough")

        nacre.set_progress(ends)
        with pytest.raises(RuntimeError, match="enough"):
            program.profile(images[:8], runs=1000)
    finally:
        nacre.set_progress(None)
    assert program(images[:8]).shape == (8, 10)  # the program takes calls again
