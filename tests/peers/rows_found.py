"""Networks whose batch leaves axis 0 on its way, tuned beside PyTorch and Keras.

    NACRE_TOOL=build/tools/nacre KERAS_BACKEND=torch python3 tests/peers/rows_found.py > results/rows_found.txt

Each network is written untrained, trained by `nacre tune` and by its own framework: plain SGD, 2 steps an epoch over 64
rows in their order, 3 epochs. Compared are the mean loss of each epoch and the outputs of what was written. TIME stands
for a network that takes its rows on axis 1. Both numbers are of float32: an output is off by a few roundings of 6 steps,
MOST is 100 of them at size 1.
"""
import csv
import datetime
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np
import torch
from keras import layers as L
from torch import nn

TOOL = os.environ["NACRE_TOOL"]
ROWS, BATCH, EPOCHS, RATE, CLASSES = 64, 32, 3, 0.1, 3
MOST = 100 * 2.0**-23
warnings.filterwarnings("ignore")
torch.set_num_threads(1)


def tool(*arguments):
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().replace("\n", " ")[:300])
    return done.stdout + done.stderr


def tuned(file, x, y, axis, folder):
    """Returns the losses of nacre's epochs, the file of the tuned model, and what the tool printed."""
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    made = folder / "tuned.nacre"
    said = tool("tune", file, "--loss", "softmax_cross_entropy", "--data", folder / "x.npy", "--labels", folder / "y.npy",
                "--optimizer", "sgd", "--lr", RATE, "--batch", BATCH, "--epochs", EPOCHS, "--no-shuffle", "-o", made,
                "--csv", folder / "log.csv")
    with open(folder / "log.csv") as log:
        losses = [float(row["loss"]) for row in csv.DictReader(log)]
    return np.array(losses), made, said


def outputs(made, x, axis, rows_at_once, folder):
    given = []
    for first in range(0, 4, rows_at_once):
        np.save(folder / "in.npy", np.take(x, range(first, first + rows_at_once), axis))
        tool("run", made, "--input", folder / "in.npy", "--output", folder / "out")
        file = next(iter(sorted((folder / "out").glob("*.npy"))))
        given.append(np.load(file))
        file.unlink()
    return given


def case(run):
    return lambda name, *a, **more: (name, lambda: run(name, *a, **more))


# ---- PyTorch ----

@case
def torch_case(name, module, shape, axis=0, exporter="legacy", dynamic=True, sequence=False, flat=False):
    torch.manual_seed(1)
    net = module()
    for _, value in net.named_parameters():
        # no two begin with the same numbers: dynamo writes those as one constant (the claim literals_stay)
        with torch.no_grad():
            value.add_(torch.rand_like(value) * 0.1)
    rng = np.random.default_rng(3)
    size = list(shape)
    size.insert(axis, ROWS)
    x = rng.normal(size=size).astype("float32")
    time = shape[0]
    labels = [ROWS] if not sequence else [ROWS, time] if axis == 0 else [time, ROWS]
    y = rng.integers(0, CLASSES, labels).astype("int32")
    fixed = 4
    with tempfile.TemporaryDirectory() as at:
        folder = pathlib.Path(at)
        file = folder / "net.onnx"
        example = torch.from_numpy(np.take(x, range(fixed), axis))
        net.eval()
        if exporter == "legacy":
            torch.onnx.export(net, (example,), str(file), input_names=["x"], output_names=["y"], dynamo=False,
                              opset_version=17, dynamic_axes={"x": {axis: "batch"}} if dynamic else None)
        else:
            shapes = ({axis: torch.export.Dim("batch", min=1, max=512)},) if dynamic else None
            torch.onnx.export(net, (example,), input_names=["x"], output_names=["y"], dynamo=True, verbose=False,
                              dynamic_shapes=shapes).save(str(file))
        found, made, _ = tuned(file, x, y.reshape(-1) if flat else y, axis, folder)
        optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], RATE)
        expected = []
        for _ in range(EPOCHS):
            losses = []
            for first in range(0, ROWS, BATCH):
                rows = range(first, first + BATCH)
                logits = net(torch.from_numpy(np.take(x, rows, axis)))
                of = torch.from_numpy(np.take(y, rows, axis if sequence else 0)).long()
                loss = nn.functional.cross_entropy(logits.reshape(-1, CLASSES), of.reshape(-1))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(float(loss.detach()))
            expected.append(np.mean(losses))
        at_once = 1 if dynamic else fixed
        with torch.no_grad():
            wanted = [net(torch.from_numpy(np.take(x, range(i, i + at_once), axis))).numpy() for i in range(0, 4, at_once)]
        given = outputs(made, x, axis, at_once, folder)
    return judge(name, found, np.array(expected), given, wanted)


def judge(name, found, expected, given, wanted):
    loss = float(np.max(np.abs(found - expected)))
    output = max(float(np.max(np.abs(a.reshape(b.shape) - b))) for a, b in zip(given, wanted, strict=True))
    return name, expected[0], expected[-1], loss, output


class Recurrent(nn.Module):
    def __init__(self, kind, batch_first, sequence, **more):
        super().__init__()
        self.recurrence = kind(5, 6, batch_first=batch_first, **more)
        self.head = nn.Linear(12 if more.get("bidirectional") else 6, CLASSES)
        self.batch_first, self.sequence = batch_first, sequence

    def forward(self, x):
        y, _ = self.recurrence(x)
        if not self.sequence:
            y = y[:, -1] if self.batch_first else y[-1]
        return self.head(y)


class Attention(nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=batch_first), nn.Linear(8, CLASSES)
        self.time = 1 if batch_first else 0

    def forward(self, x):
        return self.head(self.attention(x, x, x, need_weights=False)[0].mean(self.time))


class Encoder(nn.Module):
    def __init__(self, batch_first, layers):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False) if layers else layer
        for p in self.encoder.parameters():  # layers that begin with the same numbers are one in some exports
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        self.head, self.time = nn.Linear(8, CLASSES), 1 if batch_first else 0

    def forward(self, x):
        return self.head(self.encoder(x).mean(self.time))


class MergesTime(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.gru = nn.Conv2d(2, 4, 3), nn.GRU(4, 5, batch_first=True, bias=False)
        self.head = nn.Linear(5, CLASSES)

    def forward(self, x):
        n, t = x.shape[:2]
        y = torch.relu(self.conv(x.reshape(n * t, *x.shape[2:]))).mean((2, 3)).reshape(n, t, 4)
        return self.head(self.gru(y)[0][:, -1])


class Flat(nn.Module):
    """Returns [rows * time, classes]."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(5, 8), nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.head(torch.relu(self.first(x))).reshape(-1, CLASSES)


class Volume(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv3d(2, 4, 3), nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean((2, 3, 4)))


# ---- Keras ----

@case
def keras_case(name, shape, *layers, sequence=False, attention=False):
    keras.utils.set_random_seed(1)
    x = keras.Input(shape, name="x")
    y = x
    for layer in layers:
        y = layer(y)
    model = keras.Model(x, y)
    model.compile(keras.optimizers.SGD(RATE), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    rng = np.random.default_rng(3)
    data = rng.normal(size=(ROWS, *shape)).astype("float32")
    labels = rng.integers(0, CLASSES, (ROWS, shape[0]) if sequence else ROWS).astype("int32")
    with tempfile.TemporaryDirectory() as at:
        folder = pathlib.Path(at)
        file = folder / "net.keras"
        model.save(file)
        found, made, _ = tuned(file, data, labels, 0, folder)
        expected = model.fit(data, labels, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0).history["loss"]
        given = outputs(made, data, 0, 1, folder)
    wanted = [np.asarray(model.predict(data[i:i + 1], verbose=0)) for i in range(4)]
    return judge(name, found, np.array(expected), given, wanted)


class Rows(nn.Module):
    """A parameter for each row of the batch: a class token, learned queries or memory, a bias of keys and values, positions, states."""

    def __init__(self, kind, repeat):
        super().__init__()
        self.kind, self.repeat = kind, repeat
        if kind not in ("bias of keys", "positions", "states"):
            self.learned = nn.Parameter(torch.randn(1, 1 if kind == "class token" else 4, 8))
        if kind == "positions":
            self.table = nn.Embedding(7, 8)
        if kind == "states":
            self.h, self.c = nn.Parameter(torch.zeros(1, 1, 8)), nn.Parameter(torch.randn(1, 1, 8))
        if kind == "memory":
            self.block = nn.TransformerDecoderLayer(8, 2, 16, dropout=0, batch_first=True)
        elif kind == "states":
            self.block = nn.LSTM(8, 8, batch_first=True)
        elif kind in ("class token", "positions"):
            self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True)
        else:
            self.block = nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=kind == "bias of keys")
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        if self.kind == "positions":
            ids = torch.arange(x.shape[1])[None]
            ids = ids.repeat(x.shape[0], 1) if self.repeat else ids.expand(x.shape[0], -1)
            return self.head(self.block(x + self.table(ids)).mean(1))
        if self.kind == "states":
            y, _ = self.block(x, (self.h.repeat(1, x.shape[0], 1), self.c.repeat(1, x.shape[0], 1)))
            return self.head(y[:, -1])
        if self.kind != "bias of keys":
            of = self.learned.repeat(x.shape[0], 1, 1) if self.repeat else self.learned.expand(x.shape[0], -1, -1)
        if self.kind == "memory":
            y = self.block(x, of)
        elif self.kind == "class token":
            y = self.block(torch.cat([of, x], 1))[:, :1]
        else:
            y, _ = self.block(x if self.kind == "bias of keys" else of, x, x, need_weights=False)
        return self.head(y.mean(1))


def cases():
    yield keras_case("Keras TimeDistributed(Dense)", (6, 5), L.Dense(8, activation="tanh"),
                             L.TimeDistributed(L.Dense(CLASSES)), sequence=True)
    yield keras_case("Keras TimeDistributed(Conv2D), LSTM", (4, 8, 8, 2),
                             L.TimeDistributed(L.Conv2D(4, 3, activation="relu")),
                             L.TimeDistributed(L.GlobalAveragePooling2D()), L.LSTM(5), L.Dense(CLASSES))
    yield keras_case("Keras Bidirectional(LSTM), TimeDistributed(Dense)", (6, 5),
                             L.Bidirectional(L.LSTM(4, return_sequences=True)), L.TimeDistributed(L.Dense(CLASSES)),
                             sequence=True)
    yield keras_case("Keras Conv3D", (4, 6, 6, 2), L.Conv3D(4, 3, activation="relu"), L.GlobalAveragePooling3D(),
                             L.Dense(CLASSES))
    yield keras_case("Keras Conv3D, MaxPooling3D, Flatten", (6, 6, 6, 2),
                             L.Conv3D(4, 3, padding="same", activation="relu"), L.MaxPooling3D(2), L.Flatten(),
                             L.Dense(CLASSES))
    yield keras_case("Keras ConvLSTM2D", (4, 6, 6, 2), L.ConvLSTM2D(3, 3, padding="same"),
                             L.GlobalAveragePooling2D(), L.Dense(CLASSES))
    yield keras_case("Keras ConvLSTM2D, TimeDistributed(Flatten)", (4, 6, 6, 2),
                             L.ConvLSTM2D(3, 3, padding="same", return_sequences=True), L.TimeDistributed(L.Flatten()),
                             L.Dense(CLASSES), sequence=True)
    for exporter in ("legacy", "dynamo"):
        for dynamic in (True, False):
            of = dict(exporter=exporter, dynamic=dynamic)
            how = f"{exporter}, {'open' if dynamic else 'fixed'} batch"
            for first in (True, False):
                axis, at = (0, "") if first else (1, " TIME")
                yield torch_case(f"nn.MultiheadAttention{at} ({how})", lambda: Attention(first), (7, 8), axis, **of)
                yield torch_case(f"nn.TransformerEncoderLayer{at} ({how})", lambda: Encoder(first, 0), (7, 8), axis, **of)
                yield torch_case(f"nn.TransformerEncoder{at} ({how})", lambda: Encoder(first, 2), (7, 8), axis, **of)
                recurrences = ((nn.LSTM, {}), (nn.GRU, {"bias": False}), (nn.RNN, {}))
                # dynamo writes the zeros that nn.RNN begins with as a constant: the claim literals_stay is about those
                for kind, more in recurrences[:2 if exporter == "dynamo" else 3]:
                    for sequence in (False, True):
                        yield torch_case(f"nn.{kind.__name__}{', each step' if sequence else ''}{at} ({how})",
                                                 lambda: Recurrent(kind, first, sequence, **more), (7, 5), axis,
                                                 sequence=sequence, **of)
            for kind, repeat in (("class token", True), ("class token", False), ("queries", False), ("memory", False),
                                 ("bias of keys", False), ("positions", True), ("positions", False)) if dynamic else ():
                yield torch_case(f"{kind}{' by repeat' if repeat else ''} ({how})", lambda: Rows(kind, repeat), (7, 8), **of)
            if dynamic and exporter == "dynamo":  # the older exporter makes constants of states
                yield torch_case(f"states of an LSTM ({how})", lambda: Rows("states", True), (7, 8), **of)
            yield torch_case(f"Conv2d of rows and times, GRU ({how})", MergesTime, (5, 2, 6, 6), **of)
            yield torch_case(f"Linear, output of rows and times ({how})", Flat, (7, 5), sequence=True, **of)
            yield torch_case(f"Linear, labels of rows and times ({how})", Flat, (7, 5), sequence=True, flat=True, **of)
            yield torch_case(f"nn.Conv3d ({how})", Volume, (2, 5, 6, 6), **of)


if __name__ == "__main__":
    print(f"python3 tests/peers/rows_found.py    {datetime.date.today()}    keras {keras.__version__}, torch {torch.__version__}, torch exporters legacy (opset 17) and dynamo")
    print(f"{ROWS} rows, {EPOCHS} epochs of {ROWS // BATCH} steps of SGD at {RATE}; losses of the first and the last epoch in the source,\n"
          f"and how far nacre's losses and the outputs of its model are from the source's (at most {MOST:.1e} wanted)\n")
    right = wrong = 0
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, run in cases():
        if only not in name:
            continue
        try:
            name, first, last, loss, output = run()
            fine = max(loss, output) <= MOST
            print(f"{'' if fine else 'WRONG '}{name:72} {first:.4f} {last:.4f}   {loss:.1e} {output:.1e}", flush=True)
        except RuntimeError as error:
            fine = False
            print(f"WRONG {name}: {error}", flush=True)
        right, wrong = right + fine, wrong + (not fine)
    shown = wrong == 0 and right >= 20
    print(f"\nCLAIM rows_found {'shown' if shown else 'NOT SHOWN'}: {right} of {right + wrong} networks train as their source does")
    sys.exit(0 if shown else 1)
