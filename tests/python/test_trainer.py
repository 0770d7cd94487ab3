"""Training step by step, and whole trainings."""

import _thread
import threading

import numpy as np
import pytest

import nacre


def bytes_of(state):
    return {name: array.tobytes() for name, array in state.items()}


def test_a_step_learns_and_micro_batches_add(training_model, images, labels):
    one, two = nacre.Trainer(training_model, kernels="reference"), nacre.Trainer(training_model, kernels="reference")
    before = one.parameters()
    one.accumulate(images[:40], labels[:40])
    report = one.commit(lr=1e-3)
    assert report.applied and report.samples == 40 and report.loss > 0 and report.norm > 0
    assert any((before[name] != array).any() for name, array in one.parameters().items())
    for first in (0, 16, 32):
        two.accumulate(images[first : min(first + 16, 40)], labels[first : min(first + 16, 40)])
    two.commit(lr=1e-3)
    assert bytes_of(one.state_dict()) == bytes_of(two.state_dict())


def test_step_is_accumulate_and_commit(training_model, images, labels):
    one, two = nacre.Trainer(training_model), nacre.Trainer(training_model)
    for rows in (16, 9, 40):
        one.accumulate(images[:rows], labels[:rows])
        report = one.commit(0.01)
        assert two.step({"pixels": images[:rows]}, labels[:rows], 0.01) == report
    assert bytes_of(one.state_dict()) == bytes_of(two.state_dict())


def test_machines_that_share_a_step_have_the_state_of_one(training_model, images, labels):
    parts = [slice(0, 16), slice(16, 32), slice(32, 39)]
    machines = [nacre.Trainer(training_model) for _ in parts]
    one = nacre.Trainer(training_model)
    for _ in range(2):
        for i, (machine, part) in enumerate(zip(machines, parts)):
            machine.begin_at(i)
            machine.accumulate(images[part], labels[part])
        all_sums = machines[0].sums().copy()
        for machine in machines[1:]:
            machine.join(all_sums, machine.sums())
        for machine in machines:
            machine.sums()[:] = all_sums
            machine.merged(len(machines))
            machine.commit(0.01)
        one.accumulate(images[:39], labels[:39])
        one.commit(0.01)
    assert all(bytes_of(machine.state_dict()) == bytes_of(one.state_dict()) for machine in machines)
    with pytest.raises(nacre.Error):
        one.join(all_sums, all_sums[:-1].copy())
    with pytest.raises(TypeError):
        one.join(all_sums, all_sums[::2])
    with pytest.raises(nacre.Error):
        one.merged(0)


def test_discard_forgets_and_start_begins_again(training_model, images, labels):
    trainer = nacre.Trainer(training_model)
    first = bytes_of(trainer.state_dict())
    trainer.accumulate(images[:16], labels[:16])
    trainer.discard()
    with pytest.raises(nacre.Error) as refused:
        trainer.commit(0.1)
    assert refused.value.code_name == "NothingAccumulated" and bytes_of(trainer.state_dict()) == first
    trainer.step(images[:16], labels[:16], 0.1)
    assert bytes_of(trainer.state_dict()) != first
    trainer.start()
    assert bytes_of(trainer.state_dict()) == first


def test_wrong_rates_labels_and_shapes(training_model, images, labels):
    trainer = nacre.Trainer(training_model)
    first = bytes_of(trainer.state_dict())
    trainer.accumulate(images[:16], labels[:16].astype(np.int64))
    for commit in (trainer.commit, trainer._native.commit):  # the package says what the engine would
        with pytest.raises(nacre.Error) as refused:
            commit(float("nan"))
        assert (refused.value.code, refused.value.code_name) == (100, "LearningRate")
    with pytest.raises(nacre.Error) as refused:
        trainer.accumulate(images[:16], np.full(16, 10, np.int32))
    assert refused.value.code_name == "Index"
    for x, y, error in (
        (images[:16], labels[:15], ValueError),
        (images[:16, :, :4], labels[:16], ValueError),
        (images[:16].astype(np.float64), labels[:16], TypeError),
        (images[:16], labels[:16] + 0.5, TypeError),
        (images[:16], labels[:16].astype(np.int64) + 2**40, TypeError),
        ({"pixel": images[:16]}, labels[:16], ValueError),
    ):
        with pytest.raises(error):
            trainer.accumulate(x, y)
    assert bytes_of(trainer.state_dict()) == first


def test_inference_uses_what_was_learned_and_export_is_it(training_model, images, labels):
    trainer = nacre.Trainer(training_model, kernels="reference")
    before = trainer.infer(images[:20])
    for _ in range(3):
        trainer.step(images[:16], labels[:16], 0.01)
    after = trainer.infer(images[:20])
    assert (before != after).any()
    exported = nacre.Program(trainer.export(), kernels="reference")
    assert exported(images[:20]).tobytes() == after.tobytes()


def test_states_load_by_name_whole_or_not_at_all(training_model, images, labels):
    one, two = nacre.Trainer(training_model), nacre.Trainer(training_model)
    one.step(images[:16], labels[:16], 0.01)
    state = one.state_dict()
    two.load_state_dict(state)
    assert bytes_of(two.state_dict()) == bytes_of(state)
    assert one.infer(images[:16]).tobytes() == two.infer(images[:16]).tobytes()
    name = next(iter(state))
    for wrong, error in (
        ({**state, "x": state[name]}, ValueError),
        ({name: state[name]}, ValueError),
        ({**state, name: state[name][:1]}, ValueError),
        ({**state, name: state[name].astype(np.float64)}, TypeError),
    ):
        with pytest.raises(error):
            two.load_state_dict(wrong)
    assert bytes_of(two.state_dict()) == bytes_of(state)
    two.load_state_dict({name: np.zeros_like(state[name])}, strict=False)
    assert not two.state_dict()[name].any() and set(one.parameters()) < set(state)


def test_checkpoints_of_another_training_are_refused(digits, training_model, images, labels, tmp_path):
    trainer = nacre.Trainer(training_model)
    trainer.step(images[:16], labels[:16], 0.01)
    trainer.save(tmp_path / "ck")
    other = nacre.Trainer(nacre.convert(digits, train="softmax_cross_entropy", optimizer="sgd", batch=16))
    first = bytes_of(other.state_dict())
    with pytest.raises(nacre.Error, match="another training"):
        other.load(tmp_path / "ck")
    with pytest.raises(nacre.Error):
        other.load(tmp_path / "nowhere")
    assert bytes_of(other.state_dict()) == first
    assert other.load(tmp_path / "ck", any_training=True)["taken"] > 0
    assert other.parameters()["fc.weight"].tobytes() == trainer.parameters()["fc.weight"].tobytes()


def test_a_model_that_only_infers_is_refused(model):
    with pytest.raises(nacre.Error, match="no program that trains"):
        nacre.Trainer(model)
    with pytest.raises(TypeError):
        nacre.Trainer("digits.onnx")


def test_a_callback_sees_every_epoch_and_ends_the_training(digits, images, labels):
    seen = []

    def callback(epoch):
        seen.append(epoch)
        return len(seen) < 3

    tuned = nacre.tune(
        digits, images[:128], labels[:128], loss="softmax_cross_entropy", epochs=9, batch=32, lr=0.01, callback=callback
    )
    assert seen == tuned.epochs and [epoch["epoch"] for epoch in seen] == [1, 2, 3] and tuned.summary["stopped_early"]
    assert tuned.model.evaluate(images[:128], labels[:128])["models"][0]["value"] > 0.9

    def fails(epoch):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        nacre.tune(digits, images[:64], labels[:64], loss="softmax_cross_entropy", epochs=9, batch=32, callback=fails)


def test_an_interrupted_training_goes_on_to_the_same_bytes(digits, images, labels, tmp_path):
    def train(folder, callback=None):
        return nacre.tune(
            digits,
            images[:256],
            labels[:256],
            loss="softmax_cross_entropy",
            epochs=6,
            batch=32,
            lr=0.01,
            checkpoint=folder,
            kernels="reference",
            callback=callback,
        )

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", lambda epoch: _thread.interrupt_main() if epoch["epoch"] == 2 else None)
    cut = train(tmp_path / "cut")
    whole = train(tmp_path / "whole")
    assert cut.model == whole.model and cut.epochs == whole.epochs and len(whole.epochs) == 6


def test_ctrl_c_ends_long_calls(digits, images, labels):
    for work in (
        lambda: nacre.tune(digits, images, labels, loss="softmax_cross_entropy", epochs=10000),
        lambda: nacre.search(digits, images, labels, budget=100000),
    ):
        timer = threading.Timer(0.5, _thread.interrupt_main)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            work()
        timer.join()


def test_a_model_that_updates_as_it_goes_takes_one_micro_batch_a_step(digits, images, labels):
    model = nacre.convert(digits, train="softmax_cross_entropy", optimizer="sgd", batch=16, update="immediate")
    trainer, other = nacre.Trainer(model), nacre.Trainer(model)
    first = bytes_of(trainer.parameters())
    assert trainer.step(images[:16], labels[:16], 0.01).applied and bytes_of(trainer.parameters()) != first
    other.accumulate(images[:16], labels[:16])
    other.commit(0.01)
    assert bytes_of(trainer.state_dict()) == bytes_of(other.state_dict()) and trainer.sums().size == 0
    with pytest.raises(ValueError, match="at most 16"):
        trainer.accumulate(images[:17], labels[:17])
    assert trainer.export().check()


def test_other_losses_take_targets(digits, images):
    trainer = nacre.Trainer(nacre.convert(digits, train="squared_error", optimizer="sgd", batch=8))
    targets = np.eye(10, dtype=np.float32)[np.arange(8)]
    assert trainer.step(images[:8], targets, 0.01).applied
    with pytest.raises((TypeError, ValueError)):
        trainer.step(images[:8], np.arange(8), 0.01)
