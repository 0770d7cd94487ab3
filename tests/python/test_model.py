"""Converting, loading, saving, and what a model says of itself."""

import concurrent.futures
import os
import pickle
import xml.etree.ElementTree

import numpy as np
import pytest

import nacre


def test_a_model_survives_saving_and_pickling(model, tmp_path):
    path = tmp_path / "m.nacre"
    model.save(path)
    assert path.read_bytes() == model.to_bytes() and os.listdir(tmp_path) == ["m.nacre"]
    for again in (
        nacre.load(path),
        nacre.load(str(path)),
        nacre.load(model.to_bytes()),
        pickle.loads(pickle.dumps(model)),
    ):
        assert again == model and hash(again) == hash(model)


def test_saving_into_no_folder_is_refused_and_writes_nothing(model, tmp_path):
    with pytest.raises(nacre.Error) as refused:
        model.save(tmp_path / "nowhere" / "m.nacre")
    assert refused.value.exit_code == 5 and refused.value.code_name == "io" and os.listdir(tmp_path) == []


def test_inputs_outputs_layers_and_metadata_are_those_of_the_network(model):
    (x,), (y,) = model.inputs, model.outputs
    assert (x.name, x.shape, x.dtype, x.rows, x.scale) == ("pixels", (8, 1, 8, 8), "float32", True, None)
    assert (y.name, y.shape) == ("probabilities", (8, 10))
    assert model.layers[1].name == "conv1" and model.layers[1].op == "Conv" and model.layers[1].policy == "float32"
    assert model.metadata["converter_options"] == "--batch 8" and model.targets == ("host",) and not model.trains


def test_codes_have_scales(digits, images):
    model = nacre.convert(digits, policy="int8/static_from_float32", calibrate=images[:32], io_types="policy")
    assert model.inputs[0].dtype == "int8" and model.inputs[0].scale > 0


def test_a_network_is_a_path_bytes_or_a_proto(digits, model):
    onnx = pytest.importorskip("onnx")
    for network in (str(digits), digits.read_bytes(), memoryview(digits.read_bytes()), onnx.load(digits)):
        made = nacre.convert(network, batch=8)
        assert made.layers == model.layers and made.size()["programs"] == model.size()["programs"]
    with pytest.raises(TypeError, match="a network is a path, bytes"):
        nacre.convert(7)


def test_options_take_python_values(digits, images):
    by_dict = nacre.convert(digits, set={"fc.*": "int8_from_float32"}, target=["host", "arm/m4"])
    by_text = nacre.convert(digits, set="fc.*=int8_from_float32", target="host,arm/m4")
    assert by_dict == by_text and by_dict.targets == ("host", "arm/m4")
    maps = nacre.convert(digits, policy_file={"default": "float32", "layers": {"fc": "bfloat16"}})
    assert {layer.policy for layer in maps.layers if layer.name == "fc"} == {"bfloat16"}
    by_name = nacre.convert(digits, policy="int8/static_from_float32", calibrate={"pixels": images[:16]})
    assert by_name == nacre.convert(digits, policy="int8/static_from_float32", calibrate=images[:16])


@pytest.mark.parametrize(
    "options",
    [{"polcy": "int8"}, {"json": True}, {"output": "x"}, {"keep_inputs": 3}, {"batch": True}, {"policy": object()}],
)
def test_wrong_keywords_and_kinds_are_type_errors(digits, options):
    with pytest.raises(TypeError):
        nacre.convert(digits, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "int9"},
        {"batch": 0},
        {"batch": "x"},
        {"policy": "int8/static_from_float32", "calibrate": "/nowhere.npy"},
        {"golden": 1, "train": "huber"},
    ],
)
def test_what_the_tool_refuses_is_its_sentence(digits, options):
    with pytest.raises(nacre.Error) as refused:
        nacre.convert(digits, **options)
    assert (
        refused.value.code is None and refused.value.exit_code in (2, 3, 5) and "/tmp/nacre-" not in str(refused.value)
    )


def test_what_the_engine_refuses_has_code_table_and_index(model):
    broken = bytearray(model.to_bytes())
    broken[200] ^= 255
    with pytest.raises(nacre.Error) as refused:
        nacre.load(bytes(broken))
    assert refused.value.code_name == "Crc" and refused.value.exit_code == 3
    assert isinstance(refused.value.code, int) and isinstance(refused.value.index, int)
    again = pickle.loads(pickle.dumps(refused.value))
    assert str(again) == str(refused.value) and again.code == refused.value.code


def test_pictures_and_summaries(digits, model):
    assert xml.etree.ElementTree.fromstring(model.picture()).tag.endswith("svg")
    assert "<table>" in model._repr_html_() and "conv1" in model._repr_html_()
    assert (
        "digits.nacre" in repr(model)
        and "conv1" in model.summary()
        and model.inspect()["file_bytes"] == len(model.to_bytes())
    )
    assert "conv1" in nacre.graph(digits, stop_after="simplify") and "conv1" in nacre.graph(
        digits, rewrite="mixed_float16", explain=True
    )


def test_compare_and_evaluate(digits, images, labels, tmp_path):
    float32 = nacre.convert(digits)
    int8 = nacre.convert(digits, policy="int8/static_from_float32", calibrate=images[:64])
    for reference in (float32, digits):
        assert int8.compare(reference, images[:50])["samples"] == 50
    assert float32.compare(float32, images[:5])["outputs"][0]["equal"] is True
    said = nacre.evaluate([float32, int8], images[:300], labels[:300])
    assert [entry["total"] for entry in said["models"]] == [300, 300] and said["models"][0]["value"] > 0.95
    assert int8.evaluate(images[:300], labels[:300])["models"][0]["right"] == said["models"][1]["right"]
    nacre.report([float32, int8], tmp_path / "r.html", data=images[:20])
    assert "<html" in (tmp_path / "r.html").read_text()


def test_a_network_alone_is_reported_under_policies(digits, images, labels, tmp_path):
    nacre.report(digits, tmp_path / "r.html", policies=["float32", "bfloat16"], data=images[:40], labels=labels[:40])
    assert "bfloat16" in (tmp_path / "r.html").read_text()


def test_golden_pairs_are_checked(digits):
    assert nacre.convert(digits, golden=2).check()


def test_search_gives_a_map_that_converts(digits, images, labels):
    found = nacre.search(
        digits, images[:60], labels[:60], policies="float32,int8_from_float32", budget=20, max_drop=0.1
    )
    small = nacre.convert(digits, policy_file=found["map"])
    assert len(small.to_bytes()) < len(nacre.convert(digits).to_bytes())
    with pytest.raises(nacre.Error) as refused:
        nacre.search(digits, images[:60], labels[:60], policies="float32,int8_from_float32", budget=20, max_bytes=10)
    assert refused.value.code_name == "failed"


def test_policies():
    assert nacre.policies.resolve("mixed_bfloat16")["compute"] == "bfloat16"
    assert nacre.policies.resolve("source") == {} and "float32" in nacre.policies.names()
    with pytest.raises(nacre.Error, match="int9"):
        nacre.policies.resolve("int9")


def test_progress_is_told(digits, images, labels):
    told = []
    nacre.set_progress(lambda what, done, total: told.append((what, done, total)))
    try:
        nacre.search(digits, images[:60], labels[:60], policies="float32,int8_from_float32", budget=20, max_drop=1)
    finally:
        nacre.set_progress(None)
    assert {what for what, _, _ in told} >= {"search"} and all(done <= total for _, done, total in told)


def test_firmware_is_written(digits, images, tmp_path):
    model = nacre.convert(digits, policy="int8/static_from_float32", calibrate=images[:32], target="arm/m4")
    model.firmware(tmp_path / "out", name="digits")
    assert (tmp_path / "out" / "digits.h").exists()


def test_help_names_every_option():
    assert "range_method" in nacre.convert.__doc__ and "early_stop" in nacre.tune.__doc__


def test_arrays_of_other_kinds_calibrate(digits, images):
    wanted = nacre.convert(digits, policy="int8/static_from_float32", calibrate=images[:16])
    assert nacre.convert(digits, policy="int8/static_from_float32", calibrate=np.asfortranarray(images[:16])) == wanted


def test_threads_convert_at_the_same_time(digits, images):
    choices = [{"policy": "float32"}, {"policy": "int8_from_float32"}, {"policy": "mixed_bfloat16", "batch": 4}]
    choices.append({"policy": "int8/static_from_float32", "calibrate": images[:16]})
    wanted = [nacre.convert(digits, **options) for options in choices]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            made = list(pool.map(lambda options: nacre.convert(digits, **options), choices))
            assert made == wanted
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # one thread's error is not another's
        results = [pool.submit(nacre.policies.resolve, name) for name in ("int9", "float32") * 20]
        assert [result.exception() is not None for result in results] == [True, False] * 20


def test_lists_are_options_that_are_repeated(digits, images, labels):
    assert nacre.convert(digits, keep=["gelu", "bias"]) == nacre.convert(digits, keep="gelu,bias")
    some = nacre.convert(digits, policy="int8_from_float32", only=["Conv", "Gemm"])
    assert some.metadata["converter_options"].count("--only") == 2
    found = nacre.search(digits, images[:40], labels[:40], policies=["float32", "bfloat16"], budget=5, max_drop=1)
    assert set(found["map"]["layers"].values()) <= {"float32", "bfloat16"}
