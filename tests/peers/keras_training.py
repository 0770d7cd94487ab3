"""Trainings that Keras began and Nacre goes on with, and files that go back to Keras.

    NACRE_TOOL=build/tools/nacre KERAS_BACKEND=jax python3 tests/peers/keras_training.py [FOLDER_OF_MODELS]

Every epoch has one step, on the same rows, so that the losses of `nacre tune`'s log are those of its steps; Keras goes on
from the same file. Both are the loss of the data alone, before the step. Nothing is said on the command line that the file
says. FOLDER_OF_MODELS (models/mlperf_tiny of the shared files): ResNet-8 goes on from its .h5, as it was left by Keras 2.4.
"""
import csv
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import zipfile

import h5py
import keras
import numpy as np
from keras import layers as L

TOOL = os.environ["NACRE_TOOL"]
STEPS, MOST = 20, 1e-4


def tool(*arguments):
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().replace("\n", " ")[:400])
    return done.stdout, done.stderr


def decay(model):
    """Returns the sum that the regularizers add to the loss."""
    return float(sum(np.sum(np.asarray(v)) for v in model.losses)) if model.losses else 0.0


def keras_losses(model, x, y, steps=STEPS):
    losses = []
    for _ in range(steps):
        more = decay(model)
        model.reset_metrics()
        losses.append(float(np.asarray(model.train_on_batch(x, y, return_dict=True)["loss"])) - more)
    return np.array(losses)


def nacre_losses(file, x, y, folder, *options):
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    tool("tune", file, "--data", folder / "x.npy", "--labels", folder / "y.npy", "--epochs", STEPS, "--batch", len(x),
         "--no-shuffle", "--csv", folder / "log.csv", *options)
    with open(folder / "log.csv") as log:
        rows = list(csv.DictReader(log))
    return np.array([float(row["loss"]) for row in rows])


def resnet(models, folder):
    path = models / "pretrainedResnet.h5"
    model = keras.models.load_model(path, compile=False)
    with h5py.File(path) as file:
        config = json.loads(file.attrs["training_config"])["optimizer_config"]["config"]
        model.compile(keras.optimizers.Adam(config["learning_rate"], config["beta_1"], config["beta_2"], config["epsilon"]),
                      "categorical_crossentropy")
        adam = model.optimizer
        adam.build(model.trainable_variables)
        kept = file["optimizer_weights"]
        adam.iterations.assign(int(kept["Adam/iter:0"][()]))
        for v, m, s in zip(model.trainable_variables, adam._momentums, adam._velocities, strict=True):
            m.assign(kept[f"Adam/{v.path}/m:0"][()])
            s.assign(kept[f"Adam/{v.path}/v:0"][()])
    rng = np.random.default_rng(3)
    x = rng.integers(0, 256, (32, 32, 32, 3)).astype("float32")
    y = np.eye(10, dtype="float32")[rng.integers(0, 10, 32)]
    expected = keras_losses(model, x, y)
    found = nacre_losses(path, x, y, folder, "-o", folder / "out.nacre")
    yield "ResNet-8 resumed from its .h5", found, expected


def network(penalty="l2"):
    # a network with what has an order of its own: kernels, statistics, gates
    x = keras.Input((6, 5, 2), name="image")
    y = L.Conv2D(4, 3, padding="same", use_bias=False, kernel_regularizer=penalty, name="conv")(x)
    y = L.ReLU()(L.BatchNormalization(momentum=0.9)(y))
    y = L.Conv2DTranspose(3, 3, strides=2, padding="same", kernel_regularizer=penalty)(y)
    y = L.Bidirectional(L.GRU(3, kernel_regularizer=penalty, recurrent_regularizer=penalty))(L.Reshape((12, 30))(y))
    return keras.Model(x, L.Dense(3, activation="softmax", kernel_regularizer=penalty, name="scores")(y))


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.02),
    "momentum": lambda: keras.optimizers.SGD(0.02, momentum=0.8),
    "nesterov": lambda: keras.optimizers.SGD(0.02, momentum=0.8, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.003),
    "adam with a loss scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.003)),
    "adamw": lambda: keras.optimizers.AdamW(0.003, weight_decay=0.02),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.003, rho=0.95),
    "adagrad": lambda: keras.optimizers.Adagrad(0.02),
}


def resumed(name, folder):
    keras.utils.set_random_seed(11)
    rng = np.random.default_rng(5)
    x, labels = rng.normal(size=(16, 6, 5, 2)).astype("float32"), rng.integers(0, 3, 16).astype("int32")
    model = network(None if name == "adamw" else "l2")  # which has a decay of its own
    model.compile(OPTIMIZERS[name](), "sparse_categorical_crossentropy")
    keras_losses(model, rng.normal(size=(16, 6, 5, 2)).astype("float32"), labels, 8)
    for form in ("keras", "h5"):
        model.save(folder / f"m.{form}")
    expected = keras_losses(model, x, labels)
    for form in ("keras", "h5"):
        found = nacre_losses(folder / f"m.{form}", x, labels, folder, "-o", folder / "out.nacre")
        yield f"{name} resumed from .{form}", found, expected
    yield from written_back(folder, x, labels, model, name)


def written_back(folder, x, labels, trained, name):
    """Writes Nacre's weights back to the file that Keras wrote; compares every weight and the other archive members."""
    for form in ("keras", "h5"):
        source, tuned, run = folder / f"m.{form}", folder / f"tuned.{form}", folder / f"run_{form}"
        said = tool("tune", source, "--data", folder / "x.npy", "--labels", folder / "y.npy", "--epochs", STEPS,
                    "--batch", len(x), "--no-shuffle", "--checkpoint", run)[1]
        line = next(line for line in said.splitlines() if line.startswith("training: --train "))
        words = shlex.split(line[len("training: "):line.rindex(" --lr ")])
        tool("convert", source, "-o", folder / "train.nacre", "--batch", len(x), *words)
        tool("export", folder / "train.nacre", "--checkpoint", run, "--network", source, "--keras", "-o", tuned)
        back = keras.models.load_model(tuned)
        most = max(float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in zip(back.get_weights(), trained.get_weights(), strict=True))
        yield f"{name}: weights of the .{form} that came back", np.array([most]), np.array([0.0])
        yield (f"{name}: Keras evaluates the .{form} that came back", np.array([back.evaluate(x, labels, verbose=0)]),
               np.array([trained.evaluate(x, labels, verbose=0)]))
        if form == "keras":
            with zipfile.ZipFile(source) as a, zipfile.ZipFile(tuned) as b:
                same = all(a.read(n) == b.read(n) for n in a.namelist() if n != "model.weights.h5") and b.testzip() is None
            yield f"{name}: other members of the archive", np.array([float(not same)]), np.array([0.0])


def main():
    right, wrong, worst = 0, [], 0.0

    def judge(rows):
        nonlocal right, worst
        for what, found, expected in rows:
            error = float(np.max(np.abs(found - expected)))
            print(f"keras_files: {what}: {len(expected)} numbers, off by {error:.1g}")
            worst = max(worst, error)
            if len(found) == len(expected) and error <= MOST:
                right += 1
            else:
                wrong.append(f"{what}: off by {error:.3g}: {found[:4]} instead of {expected[:4]}")

    with tempfile.TemporaryDirectory() as place:
        if len(sys.argv) > 1:
            judge(resnet(pathlib.Path(sys.argv[1]), pathlib.Path(place)))
    for name in OPTIMIZERS:
        with tempfile.TemporaryDirectory() as place:
            judge(resumed(name, pathlib.Path(place)))
    print(*wrong, sep="\n")
    print(f"keras_training: {right} right (worst {worst:.2g} of {MOST}), {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


main()
