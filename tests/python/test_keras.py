"""Tests of nacre.keras. They need Keras, which the environment of tests/python/requirements.txt lacks."""

import numpy as np
import pytest

import nacre

keras = pytest.importorskip("keras")


def network():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.layers.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax", name="fc")]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def test_a_keras_model_converts(tmp_path):
    model = network()
    model.save(tmp_path / "m.keras")
    x = np.random.default_rng(1).standard_normal((5, 8, 8, 1)).astype(np.float32)
    np.testing.assert_allclose(
        nacre.Program(nacre.convert(model))(x), keras.ops.convert_to_numpy(model(x)), rtol=1e-5, atol=1e-6
    )
    assert nacre.convert(model).layers == nacre.convert(tmp_path / "m.keras").layers


def test_the_callback_reports_the_deployed_network_after_every_epoch(images, labels):
    x = images.transpose(0, 2, 3, 1) / 16
    deployed = nacre.keras.DeployedSize(
        x[:200], labels[:200], machine="arm/m4", policy="int8/static_from_float32", calibrate=x[:50], quiet=True
    )
    model = network()
    history = model.fit(x[:1000], labels[:1000], epochs=2, verbose=0, callbacks=[deployed]).history
    last = nacre.convert(model, policy="int8/static_from_float32", calibrate=x[:50])
    assert (
        deployed.error is None
        and history["deployed_bytes"][-1] == last.size()["file_bytes"]
        and len(history["deployed_bytes"]) == 2
    )
    assert history["deployed_accuracy"][-1] == last.evaluate(x[:200], labels[:200])["models"][0]["value"]
    assert history["deployed_ram_bytes"][-1] == last.size("arm/m4")["programs"][0]["total"]


def test_an_epoch_that_is_refused_says_why(images, labels):
    x = images.transpose(0, 2, 3, 1) / 16
    deployed = nacre.keras.DeployedSize(policy="int8/static_from_float32", quiet=True)
    history = network().fit(x[:100], labels[:100], epochs=1, verbose=0, callbacks=[deployed]).history
    assert "deployed_bytes" not in history and isinstance(deployed.error, nacre.Error)
