"""Writes frozen_layers.json: how Keras trains files with frozen layers, and with recurrent ones, for claim frozen_stays.

    KERAS_BACKEND=torch python3 tests/peers/frozen_layers.py            writes the table beside this script
    KERAS_BACKEND=torch python3 tests/peers/frozen_layers.py --check    computes it again and compares with the committed one

Needs keras_requirements.txt. Every network is made twice: in float32 for its configuration, as model.save() writes it, and in float64,
which train_on_batch steps 20 times on one batch. Variables begin as multiples of 2^-10, which both types hold. A splitmix64 stream with
state = seed gives u = (next number >> 48) / 2^15 - 1; of network k = 1.. the inputs are u, or (next number >> 33) mod `ids`, seed 1000 k,
the targets u, seed 1000 k + 1. If `masked`, steps 2.. of the first 2 rows and steps ..1 of the next 2 are zeros.
The loss is the mean squared error.

For each network the table holds

    config      the member config.json of the .keras file
    variables   by their paths in model.weights.h5: shape, 2^10 times the first numbers, and those after 20 steps; none where they stayed
    trained     how many numbers Keras trains
    losses      of 20 steps, each before its update
"""
import argparse
import io
import itertools
import json
import os
import pathlib
import sys
import tempfile
import zipfile

os.environ.setdefault("KERAS_BACKEND", "torch")
import h5py
import keras
import numpy as np
from keras import layers as L

PATH = pathlib.Path(__file__).with_suffix(".json")
STEPS, BATCH = 20, 8
MASK = (1 << 64) - 1
# Nacre's hyperparameters are float32. These have equal float64 values; 1 - 0.999 would differ by 5e-5 of itself.
# Keras adds epsilon before it corrects the second moment, Nacre after that. Here epsilon is too small to matter.
OPTIMIZERS = {"sgd": lambda: keras.optimizers.SGD(2**-4), "adam": lambda: keras.optimizers.Adam(2**-7, 1 - 2**-3, 1 - 2**-5, 2**-40)}


def splitmix64(seed):
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def uniform(seed, dims):
    numbers = itertools.islice(splitmix64(seed), int(np.prod(dims)))
    return np.array([(z >> 48) / 2**15 - 1 for z in numbers]).reshape(dims)


def integers(seed, dims, below):
    numbers = itertools.islice(splitmix64(seed), int(np.prod(dims)))
    return np.array([(z >> 33) % below for z in numbers], dtype="int32").reshape(dims)


def stack(shape, *layers, **options):
    return keras.Sequential([keras.Input(shape, name="x"), *layers], **options)


def with_base(base, head=2, shape=(3,), **call):
    x = keras.Input(shape, name="x")
    return keras.Model(x, L.Dense(head, name="head")(base(x, **call)))


def small_base(kind):
    layers = [L.Dense(4, activation="relu", name="dense"), L.BatchNormalization(momentum=0.9, name="norm")]
    if kind == "sequential":
        return stack((3,), *layers, name="base")
    x = keras.Input((3,), name="inside")
    return keras.Model(x, layers[1](layers[0](x)), name="base")


def frozen(what):
    what.trainable = False
    return what


def frozen_base(kind, back=()):
    base = frozen(small_base(kind))
    for name in back:
        base.get_layer(name).trainable = True
    return with_base(base)


def partly(kind, names):
    base = small_base(kind)
    for name in names:
        base.get_layer(name).trainable = False
    return with_base(base)


def transfer(layers):
    """A backbone for images, of which the first layers are frozen."""
    base = stack((5, 5, 1), L.Conv2D(2, 3, use_bias=False, name="conv1"), L.BatchNormalization(momentum=0.9, name="norm1"), L.ReLU(),
                 L.DepthwiseConv2D(2, name="conv2"), L.BatchNormalization(momentum=0.9, name="norm2"), L.ReLU(),
                 L.GlobalAveragePooling2D(), name="backbone")
    for layer in base.layers[:layers or 0]:
        layer.trainable = False
    return with_base(frozen(base) if layers is None else base, shape=(5, 5, 1))


def nested_twice():
    x = keras.Input((3,), name="middle")
    return with_base(frozen(keras.Model(x, L.Dense(3, activation="tanh", name="outer")(small_base("sequential")(x)), name="whole")))


def attention():
    x = keras.Input((3, 4), name="x")
    y = frozen_after_build(L.MultiHeadAttention(2, 2, name="attention"), x)
    return keras.Model(x, L.Dense(2, name="head")(y))


def frozen_after_build(layer, x):
    y = layer(x, x)
    layer.trainable = False
    return y


def twice():
    x, layer = keras.Input((4, 2), name="x"), L.SimpleRNN(2, return_sequences=True, name="rnn")
    return keras.Model(x, L.Dense(2, name="head")(layer(layer(x))))


def weighted_attention():
    x = keras.Input((3, 4), name="x")
    return keras.Model(x, L.Dense(2, name="head")(L.Attention(use_scale=True, name="attention")([L.Dense(4, name="query")(x), x])))


def head():
    return L.Dense(2, name="head")


def recurrent(layer, masked=False):
    return lambda: stack((4, 2), *([L.Masking()] if masked else []), layer(), head())


FROZEN = [
    ("frozen dense", lambda: stack((3,), L.Dense(4, activation="relu", trainable=False, name="dense"), head()), "sgd"),
    ("frozen Sequential base with batch norm", lambda: frozen_base("sequential"), "sgd"),
    ("frozen Functional base with batch norm", lambda: frozen_base("functional"), "adam"),
    ("base with a frozen batch norm alone", lambda: partly("sequential", ["norm"]), "adam"),
    ("base with a batch norm that is not frozen", lambda: partly("functional", ["dense"]), "sgd"),
    ("frozen base, one layer of it not", lambda: frozen_base("sequential", ["dense"]), "sgd"),
    ("frozen model in a frozen model", nested_twice, "adam"),
    ("transfer learning", lambda: transfer(None), "adam"),
    ("fine tuning of the last layers", lambda: transfer(3), "sgd"),
    ("frozen layer in Bidirectional", lambda: stack((4, 2), L.Bidirectional(L.LSTM(2, trainable=False)), head()), "sgd"),
    ("frozen Bidirectional", lambda: stack((4, 2), L.TimeDistributed(L.Dense(2)), frozen(L.Bidirectional(L.GRU(2))), head()), "adam"),
    ("frozen layer in TimeDistributed", lambda: stack((4, 2), L.TimeDistributed(L.Dense(3, trainable=False)), L.GRU(2), head()), "sgd"),
    ("one frozen cell of two", lambda: stack((4, 2), L.RNN([L.LSTMCell(2, trainable=False), L.GRUCell(2)]), head()), "sgd"),
    ("frozen MultiHeadAttention", attention, "sgd"),
    ("frozen batch norm without a scale",
     lambda: stack((3,), L.Dense(4), L.BatchNormalization(scale=False, trainable=False), head()), "adam"),
    ("batch norm without scale and center",
     lambda: stack((3,), L.BatchNormalization(scale=False, center=False, momentum=0.8), head()), "sgd"),
    ("frozen norms and embedding",
     lambda: stack((3,), L.Embedding(5, 3, trainable=False), L.Dense(4), L.LayerNormalization(trainable=False),
                   L.RMSNormalization(trainable=False), L.PReLU(trainable=False), head()), "sgd"),
]
RECURRENT = [
    ("SimpleRNN", recurrent(lambda: L.SimpleRNN(2, return_sequences=True)), "sgd"),
    ("SimpleRNN without a bias", recurrent(lambda: L.SimpleRNN(2, use_bias=False)), "adam"),
    ("SimpleRNN twice", twice, "sgd"),
    ("masked LSTM", recurrent(lambda: L.LSTM(2), True), "sgd"),
    ("masked GRU without a bias", recurrent(lambda: L.GRU(2, use_bias=False), True), "sgd"),
    ("masked Bidirectional", recurrent(lambda: L.Bidirectional(L.GRU(2)), True), "adam"),
    ("LSTM with relu", recurrent(lambda: L.LSTM(2, activation="relu", use_bias=False)), "sgd"),
    ("GRU with relu", recurrent(lambda: L.GRU(2, activation="relu")), "sgd"),
    ("GRU with its reset before", recurrent(lambda: L.GRU(2, reset_after=False, activation="relu")), "adam"),
    ("three cells", recurrent(lambda: L.RNN([L.SimpleRNNCell(2), L.GRUCell(2), L.LSTMCell(2)])), "sgd"),
    ("ConvLSTM1D", lambda: stack((3, 4, 1), L.ConvLSTM1D(1, 2, padding="same", use_bias=False), L.Flatten(), head()), "sgd"),
    ("attention with a scale", weighted_attention, "sgd"),
    ("slopes and scales", lambda: stack((3,), L.Dense(4), L.RMSNormalization(), L.PReLU(alpha_initializer="ones"),
                                        L.GroupNormalization(2), head()), "sgd"),
]


def arrays(model, folder):
    """The variables of a model by their paths in the file, and its configuration."""
    path = folder / "model.keras"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        config = archive.read("config.json").decode()
        weights = h5py.File(io.BytesIO(archive.read("model.weights.h5")))
    found = {}
    weights.visititems(lambda name, item: found.update({name: np.asarray(item)}) if isinstance(item, h5py.Dataset) else None)
    return config, {name: numbers for name, numbers in found.items() if not name.startswith("optimizer")}


def begin(model, seed):
    for i, v in enumerate(model.weights):
        numbers = uniform(seed + i, v.shape)
        v.assign(np.round((1 + numbers / 4 if "variance" in v.path or "gamma" in v.path else numbers / 2) * 1024) / 1024)


def record(k, name, make, optimizer, folder):
    models = []
    for floats in ("float32", "float64"):
        keras.config.set_floatx(floats)
        keras.backend.clear_session()
        models.append(make())
        begin(models[-1], 1000 * k + 100)
    config, first = arrays(models[0], folder)
    model = models[1]
    shape, ids, masked = model.input_shape[1:], 5 if "embedding" in name else 0, "masked" in name
    x = integers(1000 * k, (BATCH, *shape), ids) if ids else uniform(1000 * k, (BATCH, *shape))
    if masked:
        x[:2, 2:] = 0
        x[2:4, :1] = 0
    y = uniform(1000 * k + 1, (BATCH, *model.output_shape[1:]))
    model.compile(OPTIMIZERS[optimizer](), "mse")
    losses = []
    for _ in range(STEPS):
        model.reset_metrics()
        losses.append(float(model.train_on_batch(x, y, return_dict=True)["loss"]))
    last = arrays(model, folder)[1]
    variables = []
    for path, numbers in first.items():
        moved = not np.array_equal(numbers, last[path])
        variables.append({"path": path, "dims": list(numbers.shape),
                          "first": [int(n) for n in (numbers.astype("float64") * 1024).reshape(-1)],
                          "last": [float(f"{n:.9g}") for n in last[path].reshape(-1)] if moved else []})
    return {"name": name, "optimizer": optimizer, "input": list(shape), "ids": ids, "masked": masked,
            "output": list(model.output_shape[1:]), "config": bare(config),
            "trained": int(sum(np.prod(v.shape) for v in model.trainable_weights)), "variables": variables,
            "losses": [float(f"{v:.15g}") for v in losses]}


def bare(config):
    """Returns the configuration without what no importer reads: initializers, `unread` keys, nulls, dtype policies."""
    unread = {"registered_name", "compile_config", "build_config"}

    def said(key, value):
        plain = isinstance(value, dict) and value.get("class_name") == "DTypePolicy"
        return not (key.endswith("_initializer") or key in unread or value is None or plain)

    def strip(value):
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if said(k, v)}
        return [strip(v) for v in value] if isinstance(value, list) else value
    return json.dumps(strip(json.loads(config)), separators=(",", ":"))


def dump(table):
    lines = [f'"{key}": {json.dumps(value)}' for key, value in table.items() if key != "networks"]
    networks = []
    for n in table["networks"]:
        rows = [json.dumps(v, separators=(",", ":")) for v in n["variables"]]
        head = json.dumps({k: v for k, v in n.items() if k != "variables"}, separators=(",", ":"))
        networks.append(head[:-1] + ',"variables":[\n  ' + ",\n  ".join(rows) + "]}")
    return "{" + ",\n ".join(lines) + ',\n "networks": [\n' + ",\n".join(networks) + "]}\n"


def compare(found, committed):
    worst = 0.0
    for new, old in zip(found["networks"], committed["networks"], strict=True):
        worst = max([worst] + [abs(a - b) / abs(b) for a, b in zip(new["losses"], old["losses"], strict=True)])
    print(f"largest difference of a loss: {worst:.2g}")
    return worst < 1e-11


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        networks = []
        for k, network in enumerate(FROZEN + RECURRENT, 1):
            networks.append({"freezes": k <= len(FROZEN), **record(k, *network, pathlib.Path(folder))})
            n = networks[-1]
            print(f"{n['name']:<44} loss {n['losses'][0]:.4f} -> {n['losses'][-1]:.4f}, {n['trained']} numbers train")
    table = {"versions": {"keras": keras.__version__, "numpy": np.__version__, "backend": keras.backend.backend()},
             "command": "KERAS_BACKEND=torch python3 tests/peers/frozen_layers.py", "steps": STEPS, "batch": BATCH, "networks": networks}
    text = dump(table)
    if options.check:
        return 0 if compare(json.loads(text), json.loads(PATH.read_text())) else 1
    PATH.write_text(text)
    print(f"{PATH}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
