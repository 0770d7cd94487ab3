"""Notices of the library are records of the logger "nacre"; warnings tell that something is wrong."""

import logging
import subprocess
import sys
import warnings

import pytest

import nacre


@pytest.fixture
def outlier(images):
    """Samples of which one spoils the ranges."""
    made = images[:32].copy()
    made[5] *= 1000
    return made


def test_notices_are_records_at_info_and_no_warnings(digits, caplog):
    caplog.set_level(logging.INFO, "nacre")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nacre.convert(digits, verbose=True)
    assert caplog.records and {(record.name, record.levelname) for record in caplog.records} == {("nacre", "INFO")}
    assert any("batch_norm" in record.getMessage() or "fold" in record.getMessage() for record in caplog.records)


def test_a_notice_before_a_refusal_is_told_too(digits, caplog):
    caplog.set_level(logging.INFO, "nacre")
    with pytest.raises(nacre.Error):
        nacre.convert(digits, verbose=True, train="softmax_cross_entropy", arena_limit=1)
    assert caplog.records


def test_nothing_is_printed_unless_logging_is_set_up(digits):
    for setup, shown in (("", False), ("logging.basicConfig(level='INFO')", True)):
        program = f"import logging, nacre\n{setup}\nnacre.convert({str(digits)!r}, verbose=True)"
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert ("INFO:nacre:" in ran.stderr) == shown and ran.stdout == "" and (shown or ran.stderr == "")


def test_a_damaged_layer_is_a_warning_in_keywords_at_the_callers_line(digits, outlier):
    with pytest.warns(nacre.Warning) as told:
        nacre.convert(digits, policy="int8/static_from_float32", calibrate=outlier)
    assert all(warning.filename == __file__ for warning in told)
    assert "dB from its float32 values" in str(told[0].message) and "set=" in str(told[0].message)


def test_a_warning_that_is_an_error_ends_the_call(digits, outlier):
    with warnings.catch_warnings():
        warnings.simplefilter("error", nacre.Warning)
        with pytest.raises(nacre.Warning, match="dB from its float32 values"):
            nacre.convert(digits, policy="int8/static_from_float32", calibrate=outlier)


def test_a_slot_that_is_not_whole_is_a_warning(training_model, images, labels, tmp_path):
    trainer = nacre.Trainer(training_model)
    for _ in range(2):
        trainer.step(images[:16], labels[:16], 0.01)
        trainer.save(tmp_path / "ck")
    newer = tmp_path / "ck" / "slot1.checkpoint"
    newer.write_bytes(newer.read_bytes()[:-1])
    with pytest.warns(nacre.Warning, match="not whole") as told:
        loaded = trainer.load(tmp_path / "ck")
    assert loaded["warnings"] == [str(warning.message) for warning in told] and told[0].filename == __file__


def test_a_loss_that_only_rises_is_a_warning(digits, images, labels):
    options = {"loss": "softmax_cross_entropy", "epochs": 3, "batch": 64, "lr": 0.3, "optimizer": "adam", "seed": 1}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tuned = nacre.tune(digits, images[:256], labels[:256], **options)
    assert [str(warning.message) for warning in told] == tuned.summary["warnings"]
