# Writes files of Keras whose layers are float8 from a 16-bit policy or from float32, trained a few steps so that their
# scales are no function of their kernels, and what Keras infers from them.
#
#   KERAS_BACKEND=torch python tests/peers/keras_float8_16bit.py tests/peers/keras_float8_16bit.json
#
# Each record: the .keras file, an input and Keras's output, base64; outputs are float32 of the 16-bit numbers.
import base64
import json
import os
import sys
import tempfile
import zipfile

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np


def layer_of(kind, dtype):
    if kind == "dense":
        return keras.layers.Dense(24, dtype=dtype)
    if kind == "dense_relu_no_bias":
        return keras.layers.Dense(24, activation="relu", use_bias=False, dtype=dtype)
    return keras.layers.EinsumDense("ab,bc->ac", output_shape=24, bias_axes="c", dtype=dtype)


def numbers(array):
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def record(kind, source, seed):
    random = np.random.default_rng(seed)
    keras.utils.set_random_seed(seed)
    dtype = keras.dtype_policies.QuantizedFloat8DTypePolicy("float8", source, amax_history_length=4)
    x = keras.Input((32,))
    network = keras.Model(x, layer_of(kind, dtype)(x))
    kernel = network.layers[-1].kernel
    kernel.assign(random.normal(size=kernel.shape) * 0.3)
    network.compile("sgd", "mse")
    rows = random.normal(size=(64, 32)).astype("float32") * 3
    network.fit(rows, random.normal(size=(64, 24)).astype("float32"), batch_size=8, epochs=1, verbose=0)
    kernel.assign(np.array(keras.ops.convert_to_numpy(kernel), "float32") * 1.3)  # past its scale: saturates
    asked = random.normal(size=(16, 32)).astype("float32") * 2
    given = network(asked)
    given = keras.ops.convert_to_numpy(keras.ops.cast(given, "float32"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "n.keras")
        network.save(path)
        small = os.path.join(folder, "small.keras")  # HDF5 is mostly zeros
        with zipfile.ZipFile(path) as whole, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
            for name in whole.namelist():
                out.writestr(name, whole.read(name))
        stored = open(small, "rb").read()
    scale = float(keras.ops.convert_to_numpy(network.layers[-1].kernel_scale))
    return {"kind": kind, "policy": network.layers[-1].dtype_policy.name, "kernel_scale": scale,
            "file": base64.b64encode(stored).decode(), "x": numbers(asked), "y": numbers(given)}


def main():
    records = []
    for source in ("mixed_bfloat16", "mixed_float16", "bfloat16", "float16", "float32"):
        for kind in ("dense", "dense_relu_no_bias", "einsum"):
            records.append(record(kind, source, len(records)))
    with open(sys.argv[1], "w") as out:
        json.dump({"keras": keras.__version__, "backend": keras.backend.backend(), "records": records}, out, indent=1)
        out.write("\n")


main()
