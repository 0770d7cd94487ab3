"""The table of the claim dropout_trains, tests/claims/dropout_trains.txt: networks with dropout from Keras and both
exporters of torch, trained by `nacre tune` beside their source.

    python tests/peers/dropout_networks.py NACRE

Each of 12 networks begins with the same numbers in both. The masks and the order of rows are drawn anew by 8 seeds. The
loss of an epoch is the mean over its rows while the network learns, dropout on. In every epoch the means of both over
their 8 seeds must agree within 4 standard errors of their difference. Student's t of 14 degrees of freedom exceeds 4
once in 760 numbers: one run in nine has one among its 84. The seeds are fixed, and so is the output of the script. The
model that tune writes infers without dropout. Its loss on the rows is that of the training's own inference, and it
agrees in its mean with the source's evaluation of its trained network, by the same rule.
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import keras
import numpy as np
import torch
from keras import layers
from torch import nn

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
SEEDS, EPOCHS, ROWS, BATCH, RATE, CLASSES = 8, 6, 96, 16, 0.05, 3
# Axon's example under its own policy. A fixed loss scale leaves no step out, as a dynamic one does until it fits.
AXON = ["--policy", "axon(params=float32,compute=float16,output=float32)", "--loss-scale", "fixed=128"]


def data(shape):
    random = np.random.default_rng(1)
    y = random.integers(0, CLASSES, ROWS)
    x = random.normal(size=(ROWS, *shape)) + 0.8 * y.reshape(-1, *[1] * len(shape))
    return x.astype("float32"), y.astype("int32")


def keras_mlp():
    return [layers.Dense(16, activation="relu"), layers.Dropout(0.5), layers.Dense(CLASSES, activation="softmax")]


def keras_axon():
    return [layers.Dense(16, activation="relu"), layers.BatchNormalization(momentum=0.9), layers.Dropout(0.3),
            layers.Dense(CLASSES, activation="softmax")]


def keras_conv():
    return [layers.Conv2D(4, 3, activation="relu"), layers.Dropout(0.25), layers.Flatten(),
            layers.Dense(CLASSES, activation="softmax")]


def keras_deep():
    return [layers.Dropout(0.1), layers.Dense(16, activation="gelu"), layers.LayerNormalization(), layers.Dropout(0.4),
            layers.Dense(12, activation="tanh"), layers.Dropout(0.2), layers.Dense(CLASSES, activation="softmax")]


def torch_mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, CLASSES))


def torch_norm():
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, CLASSES))


def torch_conv():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Dropout(0.25), nn.Flatten(), nn.Linear(64, CLASSES))


def torch_deep():
    return nn.Sequential(nn.Dropout(0.1), nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.4),
                         nn.Linear(16, 12), nn.Tanh(), nn.Dropout(0.2), nn.Linear(12, CLASSES))


class TorchResidual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(8, 12), nn.Linear(12, 12), nn.Linear(12, CLASSES)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        h = torch.relu(self.first(x))
        return self.last(h + self.drop(torch.relu(self.inner(h))))


def keras_curves(make, shape, path):
    """Losses [seed, epoch] and losses after them [seed]; the file as it was before."""
    keras.utils.set_random_seed(7)
    network = keras.Sequential([keras.Input(shape, name="x"), *make()])
    x, y = data(shape)
    network.compile(keras.optimizers.SGD(RATE), keras.losses.SparseCategoricalCrossentropy())
    network.save(path)
    start, losses, after = network.get_weights(), [], []
    for seed in range(SEEDS):
        keras.utils.set_random_seed(100 + seed)
        network = keras.models.load_model(path)
        network.set_weights(start)
        fitted = network.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
        losses.append(fitted.history["loss"])
        after.append(network.evaluate(x, y, batch_size=ROWS, verbose=0))
    return np.array(losses), np.array(after)


def torch_curves(make, shape, path, newer):
    torch.manual_seed(7)
    network = make().train()
    start = {name: value.clone() for name, value in network.state_dict().items()}
    x, y = (torch.from_numpy(a) for a in data(shape))
    options = {"input_names": ["x"], "output_names": ["y"], "dynamo": newer}
    if newer:
        torch.onnx.export(network, (x[:4],), path, verbose=False, dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), **options)
    else:
        torch.onnx.export(network, (x[:4],), path, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, **options)
    losses, after = [], []
    for seed in range(SEEDS):
        torch.manual_seed(100 + seed)
        network.load_state_dict(start)
        network.train()
        optimizer = torch.optim.SGD(network.parameters(), RATE)
        epochs = []
        for _ in range(EPOCHS):
            total = 0.0
            for rows in torch.randperm(ROWS).split(BATCH):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(network(x[rows]), y[rows].long())
                loss.backward()
                optimizer.step()
                total += float(loss.detach()) * len(rows)
            epochs.append(total / ROWS)
        losses.append(epochs)
        network.eval()
        after.append(float(nn.functional.cross_entropy(network(x), y.long())))
    return np.array(losses), np.array(after)


def nacre_curves(tool, shape, path, options):
    x, y = data(shape)
    np.save("x.npy", x)
    np.save("y.npy", y)
    losses, after = [], []
    for seed in range(SEEDS):
        command = [tool, "tune", path, "--data", "x.npy", "--labels", "y.npy", "--loss", "softmax_cross_entropy", "--epochs",
                   str(EPOCHS), "--batch", str(BATCH), "--lr", str(RATE), "--optimizer", "sgd", "--seed", str(100 + seed),
                   "-o", "o.nacre", "--json", *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{path}: {done.returncode}: {done.stderr}")
        said = json.loads(done.stdout)
        losses.append([epoch["loss"] for epoch in said["epochs"]])
        after.append(said["written"]["loss"])
    return np.array(losses), np.array(after)


def apart(a, b):
    """Standard errors between the means over seeds."""
    error = np.sqrt((a.var(0, ddof=1) + b.var(0, ddof=1)) / SEEDS)
    return np.abs(a.mean(0) - b.mean(0)) / np.maximum(error, 1e-6)


def main(tool):
    flat, image, norm = (8,), (6, 6, 1), ["--batch-norm-momentum", "0.9"]
    networks = [("Keras", "mlp", keras_mlp, flat, []), ("Keras", "batch norm, axon(..)", keras_axon, flat, [*norm, *AXON]),
                ("Keras", "conv", keras_conv, image, []), ("Keras", "deep", keras_deep, flat, [])]
    image = (1, 6, 6)
    networks += [("torch, older", "mlp", torch_mlp, flat, []),
                 ("torch, older", "batch norm", torch_norm, flat, [*norm, "--unbiased-variance"]),
                 ("torch, older", "conv", torch_conv, image, []), ("torch, older", "deep", torch_deep, flat, [])]
    networks += [("torch, newer", "mlp", torch_mlp, flat, []), ("torch, newer", "residual", TorchResidual, flat, []),
                 ("torch, newer", "conv", torch_conv, image, []), ("torch, newer", "deep", torch_deep, flat, [])]
    print(f"keras {keras.__version__}, torch {torch.__version__}; {SEEDS} seeds, {EPOCHS} epochs of {ROWS} rows")
    print(f"{'':34} {'loss in epoch 1, source':>24} {'nacre':>8} {'in the last, source':>20} {'nacre':>8} "
          f"{'deployed, source':>17} {'nacre':>8} {'apart':>7}")
    shown = 0
    for source, name, make, shape, options in networks:
        path = "network.keras" if source == "Keras" else "network.onnx"
        theirs = keras_curves(make, shape, path) if source == "Keras" else torch_curves(make, shape, path, "newer" in source)
        ours = nacre_curves(tool, shape, path, options)
        most = max(apart(theirs[0], ours[0]).max(), apart(theirs[1], ours[1]))
        shown += most <= 4
        t, o = theirs[0].mean(0), ours[0].mean(0)
        print(f"{source + ': ' + name:34} {t[0]:24.4f} {o[0]:8.4f} {t[-1]:20.4f} {o[-1]:8.4f} {theirs[1].mean():17.4f} "
              f"{ours[1].mean():8.4f} {most:7.2f}")
    print(f"{shown} of {len(networks)} networks agree within 4 standard errors in every epoch and when deployed")
    return 0 if shown == len(networks) else 1


if __name__ == "__main__":
    nacre = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.exit(main(nacre))
