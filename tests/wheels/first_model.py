"""Converts, runs and saves a first model with the installed package, and reads what its other libraries read.

    first_model.py FOLDER [EXPECTED]

FOLDER: tools/samples and tests/fuzz of the checkout. Prints seconds, and the hash of numbers that are equal on every machine.
"""

import hashlib
import pathlib
import sys
import time

begun = time.monotonic()

import numpy as np  # noqa: E402

import nacre  # noqa: E402

root = pathlib.Path(sys.argv[1])
x = np.load(root / "tools/samples/digits_images.npy").astype(np.float32)
labels = np.load(root / "tools/samples/digits_labels.npy")
model = nacre.convert(str(root / "tools/samples/digits.onnx"), policy="int8/static_from_float32", calibrate=x[:64])
y = np.asarray(nacre.Program(model, kernels="reference")(x))
seconds = time.monotonic() - begun
right = float((y.argmax(1) == labels).mean())
assert right > 0.95, right

# HDF5, zlib and libzip: networks of Keras in both forms. re2 and FlatBuffers took part above.
for name in ("dense.h5", "dense.keras"):
    assert nacre.convert(str(root / "tests/fuzz/corpus/keras" / name)) is not None

trainer = nacre.Trainer(nacre.convert(str(root / "tools/samples/digits.onnx"), train="softmax_cross_entropy", optimizer="adam", batch=32))
assert trainer.step(16 - x[:32], labels[:32], lr=1e-3).applied
print(f"{nacre.version} first model {seconds:.2f} s, right {right:.4f}, codes {hashlib.sha256(y.tobytes()).hexdigest()[:16]}")
