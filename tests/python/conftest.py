import os
import pathlib
import signal

import numpy as np
import pytest

import nacre

# A shell without job control, such as a script, starts what it runs in the background with SIGINT ignored. Python then
# raises no KeyboardInterrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "tools" / "samples"


@pytest.fixture(scope="session")
def digits() -> pathlib.Path:
    return SAMPLES / "digits.onnx"


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    return np.load(SAMPLES / "digits_images.npy").astype(np.float32)


@pytest.fixture(scope="session")
def labels() -> np.ndarray:
    return np.load(SAMPLES / "digits_labels.npy")


@pytest.fixture(scope="session")
def model(digits: pathlib.Path) -> nacre.Model:
    return nacre.convert(digits, batch=8)


@pytest.fixture(scope="session")
def training_model(digits: pathlib.Path) -> nacre.Model:
    return nacre.convert(digits, train="softmax_cross_entropy", optimizer="adam", batch=16)


@pytest.fixture(scope="session")
def tiny() -> pathlib.Path:
    folder = pathlib.Path(os.environ.get("NACRE_SHARED", "/nowhere")) / "models" / "mlperf_tiny"
    if not folder.is_dir():
        pytest.skip("no trained networks: NACRE_SHARED")
    return folder
