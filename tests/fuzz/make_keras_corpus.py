"""Makes the kept corpus of fuzz_keras: small networks, each with other layers, as the configurations and variables that
fuzz_keras.cc reads, and one of each whole file.

    KERAS_BACKEND=jax python3 tests/fuzz/make_keras_corpus.py tests/fuzz/corpus/keras     (tests/peers/keras_requirements.txt)
"""
import json
import pathlib
import sys
import tempfile
import zipfile

import h5py
import keras
from keras import layers as L


def sequential(shape, *stack):
    return keras.Sequential([keras.Input(shape), *stack])


def branches():
    x = keras.Input((4, 4, 2), name="x")
    y = L.Conv2D(2, 3, padding="same", name="c")(x)
    return keras.Model(x, [L.Add()([x, y]), L.Concatenate()([y, y])])


def attention():
    x = keras.Input((4, 6), name="x")
    return keras.Model(x, L.LayerNormalization()(x + L.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)))


def quantized():
    model = sequential((6,), L.Dense(4), L.Dense(2))
    model.quantize("int8")
    return model


MODELS = {
    "dense": lambda: sequential((6,), L.Dense(4, activation="relu"), L.BatchNormalization(), L.Dense(3, activation="softmax")),
    "conv": lambda: sequential((8, 7, 2), L.Conv2D(3, 3, strides=2, padding="same"), L.ReLU(), L.DepthwiseConv2D(3), L.GlobalAveragePooling2D()),
    "transposed": lambda: sequential((5, 4, 2), L.Conv2DTranspose(3, 3, strides=2, padding="same"), L.UpSampling2D(2)),
    "separable": lambda: sequential((9, 4), L.SeparableConv1D(3, 3), L.MaxPooling1D(2), L.Flatten()),
    "recurrent": lambda: sequential((5, 3), L.Bidirectional(L.LSTM(2, return_sequences=True)), L.GRU(2), L.Dense(1)),
    "unrolled": lambda: sequential((3, 2), L.SimpleRNN(2, return_sequences=True), L.TimeDistributed(L.Dense(2))),
    "moves": lambda: sequential((4, 4, 2), L.ZeroPadding2D(1), L.Cropping2D(1), L.Permute((3, 1, 2)), L.Reshape((8, -1)), L.Dropout(0.5)),
    "branches": branches,
    "attention": attention,
    "quantized": quantized,
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in MODELS.items():
        keras.utils.clear_session()
        keras.utils.set_random_seed(1)
        model = make()
        if name not in ("quantized", "branches"):
            model.compile("adam", "mse")
            model.optimizer.build(model.trainable_variables)
        with tempfile.TemporaryDirectory() as place:
            file = pathlib.Path(place) / "m.keras"
            model.save(file)
            if name == "dense":
                (folder / "dense.keras").write_bytes(file.read_bytes())
                model.save(pathlib.Path(place) / "m.h5")
                (folder / "dense.h5").write_bytes((pathlib.Path(place) / "m.h5").read_bytes())
            with zipfile.ZipFile(file) as archive:
                config = json.dumps(json.loads(archive.read("config.json")), separators=(",", ":"))
                archive.extract("model.weights.h5", place)
            variables = []
            with h5py.File(pathlib.Path(place) / "model.weights.h5") as weights:
                weights.visititems(lambda path, d: variables.append((path, d.shape)) if isinstance(d, h5py.Dataset) else None)
            tail = b"".join(path.encode() + b"\0" + bytes([len(shape), *shape]) for path, shape in variables)
            (folder / name).write_bytes(config.encode() + b"\0" + tail)


main()
