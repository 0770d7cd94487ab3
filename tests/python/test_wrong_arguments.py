"""Arguments that are none, and calls where none can be: one sentence each, and never a crash or a wait without end."""

import os
import pathlib
import re
import signal

import numpy as np
import pytest

import nacre
from nacre import _commands


class Calling:
    """An array that calls back while it is read."""

    def __init__(self, call, array):
        self.call, self.array = call, array

    def __array__(self, dtype=None, copy=None):
        self.call()
        return self.array


def in_a_child(work):
    """The sentence of the nacre.Error that `work` raises in a process that os.fork made; "" where it raises none."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # one that waits for ever ends here
        said = b""
        try:
            work()
        except nacre.Error as error:
            said = str(error).encode()
        finally:
            os.write(writing, said)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    return said


def test_a_forked_process_runs_what_needs_no_other_thread(model, training_model, images, labels):
    program, trainer = nacre.Program(model), nacre.Trainer(training_model)
    assert in_a_child(lambda: program(images[:8])) == ""
    assert in_a_child(lambda: trainer.step(images[:16], labels[:16], 0.01)) == ""


def test_a_forked_process_is_told_that_threads_stayed_behind(model, training_model, images, labels):
    program, trainer = nacre.Program(model, threads=2), nacre.Trainer(training_model, threads=2)
    y = program(images[:8])
    assert "2 threads stayed behind" in in_a_child(lambda: program(images[:8]))
    assert "2 threads stayed behind" in in_a_child(lambda: trainer.step(images[:16], labels[:16], 0.01))
    assert in_a_child(lambda: nacre.Program(model, threads=2)(images[:8])) == ""
    np.testing.assert_array_equal(program(images[:8]), y)  # and here nothing has changed


def test_a_call_inside_of_a_call_is_refused(model, training_model, images, labels):
    program, trainer = nacre.Program(model), nacre.Trainer(training_model)
    for call in (lambda x: program(x), lambda x: trainer.step(x, labels[:8], 0.01)):
        with pytest.raises(nacre.Error, match="in the middle of a call of this thread"):
            call(Calling(lambda: call(images[:8]), images[:8]))
        call(images[:8])  # the outer call has let go


@pytest.mark.parametrize("wrong", [None, "0.1", b"1", [0.1], object()])
def test_a_rate_that_is_no_number_is_a_type_error(training_model, images, labels, wrong):
    trainer = nacre.Trainer(training_model)
    with pytest.raises(TypeError, match="^lr is a number, not "):
        trainer.step(images[:16], labels[:16], wrong)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), 1e39, 10**400])
def test_a_rate_that_no_step_can_have_is_said(training_model, images, labels, wrong):
    trainer = nacre.Trainer(training_model)
    before = {name: array.tobytes() for name, array in trainer.state_dict().items()}
    with pytest.raises(nacre.Error, match="the learning rate must be finite"):
        trainer.step(images[:16], labels[:16], wrong)
    assert {name: array.tobytes() for name, array in trainer.state_dict().items()} == before


def test_labels_are_not_cut_to_whole_numbers(training_model, images):
    trainer = nacre.Trainer(training_model)
    with pytest.raises(TypeError, match="not all of these numbers are"):
        trainer.accumulate(images[:2], [1.5, 2])
    trainer.accumulate(images[:2], [1.0, 2])


@pytest.mark.parametrize("wrong", [[[[[None] * 8] * 8]], [[[["1"] * 8] * 8]]])
def test_lists_hold_numbers(model, wrong):
    with pytest.raises(TypeError, match="pixels takes float32, and .* no numbers"):
        nacre.Program(model)(wrong)


def test_a_mask_is_refused(model, training_model, images, labels):
    masked = np.ma.masked_greater(images[:8], 3)
    for call in (lambda: nacre.Program(model)(masked), lambda: nacre.Trainer(training_model).accumulate(masked, labels[:8])):
        with pytest.raises(TypeError, match="no mask"):
            call()


@pytest.mark.parametrize("path", ["a\0b", "", b"a\0b"])
def test_a_path_with_a_null_character_writes_nothing(model, training_model, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    for save in (model.save, nacre.Trainer(training_model).save):
        with pytest.raises(ValueError, match="null character"):
            save(path)
    assert not list(pathlib.Path(".").iterdir())


@pytest.mark.parametrize("wrong", [0, 257, 1.0, "2", True, None])
def test_threads_are_a_whole_number(model, wrong):
    with pytest.raises((TypeError, ValueError), match="^threads is "):
        nacre.Program(model, threads=wrong)


def test_an_input_may_be_called_file(tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    w = np.random.default_rng(1).standard_normal((6, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["file", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("file", TensorProto.FLOAT, ["N", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(w, "w")],
    )
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    network.ir_version = 8
    onnx.checker.check_model(network)
    x = np.random.default_rng(2).standard_normal((12, 6)).astype(np.float32)
    y = np.arange(12, dtype=np.int64) % 3
    ends = []
    tuned = nacre.tune(
        network,
        {"file": x},
        y,
        loss="softmax_cross_entropy",
        epochs=5,
        batch=4,
        callback=lambda epoch: ends.append(epoch) or np.bool_(len(ends) < 2),
    )
    assert len(ends) == 2, "np.False_ ends a training as False does"
    assert tuned is not None


@pytest.mark.parametrize(
    "options, said",
    [
        ({"range_method": "percentile"}, r"^range_method: is about ranges, .*\n    add calibrate=DATA$"),
        ({"loss_scale": "none=3", "train": "softmax_cross_entropy"}, "^loss_scale: none takes no scale"),
        ({"seed": 1}, "^seed: .*add train=LOSS"),
        ({"train_codes": True, "lora": 4, "train": "softmax_cross_entropy"}, "cannot go with lora"),
        ({"hop": 4}, "add front_end=FILE"),
        ({"moments": "bfloat16"}, "^moments: .*add train=LOSS"),
    ],
)
def test_a_refusal_names_options_as_python_writes_them(digits, options, said):
    with pytest.raises(nacre.Error, match=re.compile(said, re.DOTALL)) as caught:
        nacre.convert(digits, **options)
    assert "--" not in str(caught.value)


def test_other_commands_refuse_in_keywords(training_model, images, labels):
    for call, said in (
        (lambda: nacre.tune(training_model, images, labels, cast_samples=True, least=-1, early_stop=2), "^least: "),
        (lambda: nacre.tune(training_model, images, labels, cast_samples=True, keep="best"), "add validate=FRACTION"),
        (lambda: nacre.tune(training_model, images, labels, cast_samples=True, least=0.1), "add early_stop=N"),
    ):
        with pytest.raises(nacre.Error, match=said) as caught:
            call()
        assert "--" not in str(caught.value)


@pytest.mark.parametrize(
    "command, spelled, written",
    [
        ("report", "add --labels FILE, or a second model", "add labels=FILE, or a second model"),
        ("report", "add --profile, or --data FILE", "add profile=True, or data=FILE"),
        ("report", "--profile: is about runs", "profile: is about runs"),
        ("run", "leave it out, or convert --state", "leave it out, or convert --state"),
        ("report", "a model of nacre convert --data", "a model of nacre convert --data"),
        ("report", "/tmp/--data: cannot be opened", "/tmp/--data: cannot be opened"),
        ("report", "the --data that was given", "the data that was given"),
        ("report", "--policies 'a b': is none", "policies='a b': is none"),
        ("report", "a--data or --no-such", "a--data or --no-such"),
        ("size", "write nacre convert NETWORK --train LOSS -o MODEL", "write nacre convert NETWORK --train LOSS -o MODEL"),
        ("export", "leave it out, or --keras and --onnx", "leave it out, or keras and onnx"),
        ("run", "convert the network with --target host", "convert the network with --target host"),
        ("tune", "nacre export T.nacre --network N --checkpoint run", "nacre export T.nacre --network N --checkpoint run"),
        ("convert", "give it: --optimizer adamw,weight_decay=0.01", "give it: optimizer=adamw,weight_decay=0.01"),
        ("tune", "with --lr 0.1 --schedule cosine", "with lr=0.1 schedule=cosine"),
        ("tune", "leave it out, or --no-shuffle", "leave it out, or no_shuffle"),
        ("tune", "add --keep best", "add keep=best"),
    ],
)
def test_sentences_in_keywords(command, spelled, written):
    assert _commands.in_keywords(command, spelled) == written
