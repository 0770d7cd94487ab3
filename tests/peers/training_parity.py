"""Writes training_parity.json: how JAX trains the five networks of tests/differentiate/networks.cc from the same weights.

    training_parity.py                    writes the table beside this script
    training_parity.py --check            computes it again and compares with the committed one
    training_parity.py --resnet FILE      pretrainedResnet.tflite of MLPerf Tiny; ../shared/models/mlperf_tiny otherwise

Needs training_requirements.txt; runs on JAX's CPU backend with x64 enabled. Forward passes and optimizers are written
out below, gradients are jax.grad's.

Neither weights nor data are in the table. A splitmix64 stream with state = seed gives, exact in float32,

    u = (next number >> 48) / 2^15 - 1                    in [-1, 1)

Network k = 1.. in the order of the table. Parameter i (from 0, in the order of `parameters`) is offset + u 2^exponent in
memory order, seed 1000 k + i; the ResNet's are those of its file. Step t trains on batch j = t mod batches: inputs are u
(the ResNet's: next number >> 56, a pixel), seed 1000 k + 500 + 2 j; labels are (next number >> 33) mod classes, targets
are u, seed 1000 k + 501 + 2 j.

Layouts are the engine's: activations NHWC, dense weights [out, in], convolutions [out, kh, kw, in], depthwise [kh, kw, c].
Hyperparameters such as epsilon are float32 numbers, widened in float64.

For each network the table holds

    float64        the loss of each of 200 steps in float64, before the step's update (17 digits)
    float32        the same in float32 (9 digits)
    gradients      of the first step in float32, of each parameter: `largest` magnitude, and the elements, or, of more than
                   64, those at (next number mod elements), 64 numbers of seed 1000 k + 900 + i
    amplification  the largest relative change of a loss when the weights change by 2^-40 of themselves with random signs,
                   over 2^-40: what rounding errors are multiplied by in 200 steps
    statistics     batch norm: the running mean and variance after 200 steps in float64, momentum 0.9, biased variance
"""

import argparse
import functools
import itertools
import json
import pathlib
import struct
import sys
from dataclasses import dataclass, field
from typing import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_default_matmul_precision", "highest")

HERE = pathlib.Path(__file__).resolve().parent
RESNET = HERE.parents[2] / "shared/models/mlperf_tiny/pretrainedResnet.tflite"
STEPS, ELEMENTS = 200, 64
PERTURBATION = 2.0**-40
MASK = (1 << 64) - 1


# ---- numbers


def splitmix64(seed):
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def numbers(seed, count):
    return itertools.islice(splitmix64(seed), count)


def uniform(seed, dims, exponent=0, offset=0.0):
    u = np.array([(z >> 48) / 2**15 - 1 for z in numbers(seed, int(np.prod(dims)))]).reshape(dims)
    value = offset + np.ldexp(u, exponent)
    assert np.all(value.astype(np.float32) == value)
    return value


def single(value):
    """A float32 number as a Python float, which takes the type of what it meets."""
    return float(np.float32(value))


# ---- layers: x and parameters of one type, float32 or float64


def dense(x, w, b=None):
    y = jnp.einsum("...i,oi->...o", x, w)
    return y if b is None else y + b


def conv(x, w, pads, stride=1, groups=1):
    """w [out, kh, kw, in / groups]; pads ((top, bottom), (left, right))."""
    return lax.conv_general_dilated(x, w, (stride, stride), pads, dimension_numbers=("NHWC", "OHWI", "NHWC"),
                                    feature_group_count=groups)


def depthwise(x, w, pads):
    kernel_h, kernel_w, channels = w.shape
    return conv(x, jnp.transpose(w, (2, 0, 1)).reshape(channels, kernel_h, kernel_w, 1), pads, groups=channels)


SAME = ((1, 1), (1, 1))


def batch_norm(x, scale, bias, epsilon, statistics):
    """Over all axes but the last, biased variance. Appends the statistics of this batch."""
    axes = tuple(range(x.ndim - 1))
    mean = jnp.mean(x, axes)
    variance = jnp.mean((x - mean) ** 2, axes)
    statistics += [mean, variance]
    return scale * (x - mean) / jnp.sqrt(variance + epsilon) + bias


def layer_norm(x, scale, bias, epsilon):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
    return scale * (x - mean) / jnp.sqrt(variance + epsilon) + bias


def max_pool2(x):
    n, h, w, c = x.shape
    return jnp.max(x.reshape(n, h // 2, 2, w // 2, 2, c), (2, 4))


relu = jax.nn.relu  # its derivative at 0 is 0
gelu = functools.partial(jax.nn.gelu, approximate=False)  # x (1 + erf(x / sqrt 2)) / 2


def attention(x, p, heads):
    """softmax(q k^T / sqrt(width of a head)) v, [n, positions, width]. No bias of k: its gradient is 0."""
    split = lambda v: v.reshape(*v.shape[:2], heads, -1).transpose(0, 2, 1, 3)  # noqa: E731
    q, k, v = (split(dense(x, p[f"{name}.w"], p.get(f"{name}.b"))) for name in ("query", "key", "value"))
    scores = jnp.einsum("nhqd,nhkd->nhqk", q, k) * (q.shape[-1] ** -0.5)
    weights = jax.nn.softmax(scores, -1)
    y = jnp.einsum("nhqk,nhkd->nhqd", weights, v).transpose(0, 2, 1, 3).reshape(x.shape)
    return dense(y, p["out.w"], p["out.b"])


def lstm(projected, recurrent):
    """projected [n, steps, 4 units], recurrent [4 units, units], gates in the order of GATES; h and c start at 0. All h."""
    n, steps, width = projected.shape
    h = c = jnp.zeros((n, width // 4), projected.dtype)
    outputs = []
    for t in range(steps):
        gates = dict(zip(GATES, jnp.split(projected[:, t] + dense(h, recurrent), 4, -1)))
        c = jax.nn.sigmoid(gates["f"]) * c + jax.nn.sigmoid(gates["i"]) * jnp.tanh(gates["g"])
        h = jax.nn.sigmoid(gates["o"]) * jnp.tanh(c)
        outputs.append(h)
    return jnp.stack(outputs, 1)


GATES = "ifgo"


# ---- networks: p parameters by name, x the batch, statistics a list that batch norm adds to


def mlp(p, x, statistics):
    h = relu(dense(x, p["fc1.w"], p["fc1.b"]))
    h = jnp.tanh(dense(h, p["fc2.w"], p["fc2.b"]))
    return dense(h, p["fc3.w"], p["fc3.b"])


def cnn(p, x, statistics):
    norm = lambda v, name: relu(batch_norm(v, p[f"{name}.scale"], p[f"{name}.bias"], single(1e-3), statistics))  # noqa: E731
    h = max_pool2(norm(conv(x, p["conv1.w"], SAME), "bn1"))
    h = relu(depthwise(h, p["depthwise.w"], SAME) + p["depthwise.b"])
    h = norm(conv(h, p["conv2.w"], ((0, 1), (0, 1)), 2), "bn2")
    return dense(jnp.mean(h, (1, 2)), p["fc.w"], p["fc.b"])


def resnet8(p, x, statistics):
    layer = lambda v, name, pads=SAME, stride=1: conv(v, p[f"{name}.w"], pads, stride) + p[f"{name}.b"]  # noqa: E731
    half, none = ((0, 1), (0, 1)), ((0, 0), (0, 0))
    h = relu(layer(x, "conv0"))
    h = relu(h + layer(relu(layer(h, "conv1")), "conv2"))
    h = relu(layer(h, "conv5", none, 2) + layer(relu(layer(h, "conv3", half, 2)), "conv4"))
    h = relu(layer(h, "conv8", none, 2) + layer(relu(layer(h, "conv6", half, 2)), "conv7"))
    return dense(jnp.mean(h, (1, 2)), p["fc.w"], p["fc.b"])


def transformer(p, x, statistics):
    norm = lambda v, name: layer_norm(v, p[f"{name}.scale"], p[f"{name}.bias"], single(1e-5))  # noqa: E731
    h = x + attention(norm(x, "ln1"), p, heads=4)
    h = h + dense(gelu(dense(norm(h, "ln2"), p["fc1.w"], p["fc1.b"])), p["fc2.w"], p["fc2.b"])
    return dense(jnp.mean(h, 1), p["head.w"], p["head.b"])


def recurrent(p, x, statistics):
    h = lstm(dense(x, p["lstm.w"], p["lstm.b"]), p["lstm.r"])
    return dense(h[:, -1], p["fc.w"], p["fc.b"])


def softmax_cross_entropy(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits, -1), labels[:, None], -1))


def squared_error(y, targets):
    return jnp.mean((y - targets) ** 2)


# ---- optimizers: formulas and their sources are those of engine/ops/optimize.h


def momentum(p, g, state, step, rate):
    """v = 0.9 v + g, p -= rate v.   torch.optim.SGD"""
    v = single(0.9) * state["m"] + g
    return p - rate * v, {"m": v}


def adam(p, g, state, step, rate):
    """Kingma & Ba 2015, algorithm 1; beta = 0.9, 0.999, epsilon = 1e-7.   torch.optim.Adam"""
    beta1, beta2, epsilon = single(0.9), single(0.999), single(1e-7)
    m = beta1 * state["m"] + (1 - beta1) * g
    v = beta2 * state["v"] + (1 - beta2) * g * g
    t = (step + 1).astype(p.dtype)
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    return p - rate * m_hat / (jnp.sqrt(v_hat) + epsilon), {"m": m, "v": v}


# ---- the five


@dataclass
class Network:
    name: str
    forward: Callable
    loss: Callable
    update: Callable
    rate: float  # a power of two, exact in float32
    input: tuple  # of one sample
    classes: int
    batch: int
    batches: int
    parameters: list = field(default_factory=list)  # (name, dims, exponent, offset)
    pixels: bool = False


def weight(name, *dims, exponent):
    return (name, dims, exponent, 0.0)


def bias(name, size):
    return (name, (size,), -3, 0.0)


def scale(name, size):
    return (name, (size,), -3, 1.0)


NETWORKS = [
    Network("mlp", mlp, squared_error, momentum, 2.0**-5, (16,), 4, 16, 4, [
        weight("fc1.w", 32, 16, exponent=-1), bias("fc1.b", 32), weight("fc2.w", 24, 32, exponent=-1), bias("fc2.b", 24),
        weight("fc3.w", 4, 24, exponent=-1), bias("fc3.b", 4)]),
    Network("cnn", cnn, softmax_cross_entropy, adam, 2.0**-8, (12, 12, 2), 5, 8, 4, [
        weight("conv1.w", 8, 3, 3, 2, exponent=-1), scale("bn1.scale", 8), bias("bn1.bias", 8),
        weight("depthwise.w", 3, 3, 8, exponent=-1), bias("depthwise.b", 8), weight("conv2.w", 16, 3, 3, 8, exponent=-2),
        scale("bn2.scale", 16), bias("bn2.bias", 16),
        weight("fc.w", 5, 16, exponent=-1), bias("fc.b", 5)]),
    Network("resnet8", resnet8, softmax_cross_entropy, momentum, 2.0**-24, (32, 32, 3), 10, 2, 4, [], True),
    Network("transformer", transformer, softmax_cross_entropy, adam, 2.0**-9, (6, 16), 4, 8, 4, [
        scale("ln1.scale", 16), bias("ln1.bias", 16),
        weight("query.w", 16, 16, exponent=-2), bias("query.b", 16), weight("key.w", 16, 16, exponent=-2),
        weight("value.w", 16, 16, exponent=-2), bias("value.b", 16), weight("out.w", 16, 16, exponent=-2),
        bias("out.b", 16), scale("ln2.scale", 16), bias("ln2.bias", 16),
        weight("fc1.w", 32, 16, exponent=-2), bias("fc1.b", 32), weight("fc2.w", 16, 32, exponent=-2), bias("fc2.b", 16),
        weight("head.w", 4, 16, exponent=-1), bias("head.b", 4)]),
    Network("lstm", recurrent, softmax_cross_entropy, momentum, 2.0**-4, (7, 6), 4, 8, 4, [
        weight("lstm.w", 48, 6, exponent=-1), bias("lstm.b", 48), weight("lstm.r", 48, 12, exponent=-2),
        weight("fc.w", 4, 12, exponent=-1), bias("fc.b", 4)]),
]


# ---- the ResNet's file: a FlatBuffer of tflite/schema.fbs, of which a few fields are read


class Table:
    """Fields of a FlatBuffers table by their place in the schema."""

    def __init__(self, data, at):
        self.data, self.at = data, at

    def read(self, kind, at):
        return struct.unpack_from("<" + kind, self.data, at)[0]

    def field(self, index):
        """Returns the position of a field, or 0."""
        vtable = self.at - self.read("i", self.at)
        inside = 4 + 2 * index + 2 <= self.read("H", vtable)
        offset = self.read("H", vtable + 4 + 2 * index) if inside else 0
        return self.at + offset if offset else 0

    def number(self, index, kind):
        at = self.field(index)
        return self.read(kind, at) if at else 0

    def vector(self, index, kind):
        at = self.field(index)
        if not at:
            return []
        at += self.read("I", at)
        return list(struct.unpack_from(f"<{self.read('I', at)}{kind}", self.data, at + 4))

    def tables(self, index):
        at = self.field(index)
        at += self.read("I", at)
        places = [at + 4 + 4 * i for i in range(self.read("I", at))]
        return [Table(self.data, place + self.read("I", place)) for place in places]


def resnet_parameters(path):
    """Weights and biases of the nine convolutions and the dense layer, in the order of the file's operators."""
    data = path.read_bytes()
    model = Table(data, struct.unpack_from("<I", data)[0])
    graph, buffers = model.tables(2)[0], model.tables(4)  # Model.subgraphs, .buffers
    tensors = graph.tables(0)  # SubGraph.tensors

    def array(index):
        tensor = tensors[index]  # Tensor.shape, .type (0: float32), .buffer
        assert tensor.number(1, "b") == 0
        content = bytes(buffers[tensor.number(2, "I")].vector(0, "B"))  # Buffer.data
        return np.frombuffer(content, "<f4").reshape(tensor.vector(0, "i"))

    operands = [o.vector(1, "i") for o in graph.tables(3)]  # SubGraph.operators, Operator.inputs
    layers = [o for o in operands if len(o) == 3]  # x, weights, bias
    assert len(layers) == 10
    names = [f"conv{i}" for i in range(9)] + ["fc"]
    return {f"{name}.{part}": array(o[i]) for name, o in zip(names, layers) for i, part in ((1, "w"), (2, "b"))}


# ---- training


def initial(k, network, resnet):
    if not network.parameters:
        return resnet_parameters(resnet)
    return {name: uniform(1000 * k + i, dims, exponent, offset)
            for i, (name, dims, exponent, offset) in enumerate(network.parameters)}


def batch(k, network, j):
    seed, dims = 1000 * k + 500 + 2 * j, (network.batch, *network.input)
    if network.pixels:
        x = np.array([z >> 56 for z in numbers(seed, int(np.prod(dims)))], np.float64).reshape(dims)
    else:
        x = uniform(seed, dims)
    if network.loss is squared_error:
        return x, uniform(seed + 1, (network.batch, network.classes))
    return x, np.array([(z >> 33) % network.classes for z in numbers(seed + 1, network.batch)], np.int32)


def loss_of(network, p, x, target):
    statistics = []
    y = network.forward(p, x, statistics)
    return network.loss(y, target), statistics


def cast(value, dtype):
    return jnp.asarray(value, dtype) if np.asarray(value).dtype.kind == "f" else jnp.asarray(value)


def gradients(k, network, resnet, dtype):
    p = {name: cast(v, dtype) for name, v in initial(k, network, resnet).items()}
    x, target = (cast(v, dtype) for v in batch(k, network, 0))
    return jax.jit(jax.grad(lambda p: loss_of(network, p, x, target)[0]))(p)


def train(k, network, resnet, dtype, perturbation=0.0):
    """The losses and the running statistics."""
    p = {}
    for i, (name, v) in enumerate(initial(k, network, resnet).items()):
        signs = np.array([(z >> 63) * 2.0 - 1 for z in numbers(77 + i, v.size)]).reshape(v.shape)
        p[name] = cast(np.asarray(v, np.float64) * (1 + perturbation * signs), dtype)
    data = [tuple(cast(v, dtype) for v in batch(k, network, j)) for j in range(network.batches)]
    state = {name: {"m": jnp.zeros_like(v), "v": jnp.zeros_like(v)} for name, v in p.items()}
    running = None

    @jax.jit
    def step(p, state, t, x, target):
        (loss, statistics), g = jax.value_and_grad(lambda p: loss_of(network, p, x, target), has_aux=True)(p)
        made = {name: network.update(p[name], g[name], state[name], t, network.rate) for name in p}
        return loss, statistics, {n: m[0] for n, m in made.items()}, {n: m[1] for n, m in made.items()}

    if network.update is momentum:
        state = {name: {"m": s["m"]} for name, s in state.items()}
    losses = []
    for t in range(STEPS):
        loss, statistics, p, state = step(p, state, jnp.int32(t), *data[t % network.batches])
        assert loss.dtype == dtype and all(v.dtype == dtype for v in p.values())
        losses.append(float(loss))
        fresh = [np.asarray(s, np.float64) for s in statistics]  # mean, variance of each layer in turn
        running = running or [np.full_like(s, i % 2) for i, s in enumerate(fresh)]
        running = [single(0.9) * old + (1 - single(0.9)) * new for old, new in zip(running, fresh)]
    return losses, running


def first_gradients(k, network, resnet):
    rows, found = [], gradients(k, network, resnet, np.float32)
    for i, name in enumerate(initial(k, network, resnet)):  # jax.grad sorts by name
        flat = np.asarray(found[name]).reshape(-1)
        places = range(flat.size)
        if flat.size > ELEMENTS:
            places = [z % flat.size for z in numbers(1000 * k + 900 + i, ELEMENTS)]
        rows.append({"name": name, "elements": flat.size, "largest": f"{np.max(np.abs(flat)):.9g}",
                     "values": [f"{flat[place]:.9g}" for place in places]})
    return rows


def record(k, network, resnet):
    losses, running = train(k, network, resnet, np.float64)
    perturbed, _ = train(k, network, resnet, np.float64, PERTURBATION)
    amplification = max(abs(a - b) / abs(a) for a, b in zip(losses, perturbed)) / PERTURBATION
    return {"name": network.name, "loss": network.loss.__name__, "optimizer": network.update.__name__,
            "learning_rate": network.rate, "batch": network.batch, "batches": network.batches,
            "amplification": f"{amplification:.3g}",
            "float64": [f"{v:.17g}" for v in losses],
            "float32": [f"{v:.9g}" for v in train(k, network, resnet, np.float32)[0]],
            "gradients": first_gradients(k, network, resnet), "statistics": [[f"{v:.17g}" for v in s] for s in running]}


def dump(table):
    """JSON, a list of numbers on one line; numbers keep their digits."""
    def text(value, indent):
        inner = indent + " "
        if isinstance(value, dict):
            return "{\n" + ",\n".join(f"{inner}{json.dumps(n)}: {text(v, inner)}" for n, v in value.items()) + "}"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(inner + text(v, inner) for v in value) + "]"
        if isinstance(value, list):
            return "[" + ", ".join(text(v, inner) for v in value) + "]"
        if isinstance(value, str) and number(value):
            return value
        return json.dumps(value)

    def number(word):
        try:
            return np.isfinite(float(word))
        except ValueError:
            return False

    return text(table, "") + "\n"


def compare(found, committed):
    """Another machine's XLA may round otherwise: curves within 1e-10 (float64) and 1e-4 (float32, 20 steps)."""
    worst = {"float64": 0.0, "float32": 0.0, "gradients": 0.0}
    relative = lambda a, b: max(abs(x - y) / abs(y) for x, y in zip(a, b))  # noqa: E731
    for new, old in zip(found["networks"], committed["networks"], strict=True):
        worst["float64"] = max(worst["float64"], relative(new["float64"], old["float64"]))
        worst["float32"] = max(worst["float32"], relative(new["float32"][:20], old["float32"][:20]))
        for a, b in zip(new["gradients"], old["gradients"], strict=True):
            difference = max(abs(x - y) for x, y in zip(a["values"], b["values"], strict=True)) / b["largest"]
            worst["gradients"] = max(worst["gradients"], difference)
    print("largest differences: " + ", ".join(f"{name} {value:.2g}" for name, value in worst.items()))
    return worst["float64"] < 1e-10 and worst["float32"] < 1e-4 and worst["gradients"] < 1e-5


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed table")
    parser.add_argument("--resnet", type=pathlib.Path, default=RESNET, help="pretrainedResnet.tflite")
    options = parser.parse_args()
    table = {"versions": {"jax": jax.__version__, "jaxlib": jax.lib.__version__, "numpy": np.__version__},
             "command": "tests/peers/training_parity.py",
             "gates": GATES,
             "networks": [record(k, network, options.resnet) for k, network in enumerate(NETWORKS, 1)]}
    path = HERE / "training_parity.json"
    text = dump(table)
    for network in table["networks"]:
        curve = network["float64"]
        print(f"{network['name']:<12} loss {float(curve[0]):.4f} -> {float(curve[-1]):.4f}, "
              f"amplification {network['amplification']}")
    if options.check:
        return 0 if compare(json.loads(text), json.loads(path.read_text())) else 1
    path.write_text(text)
    print(f"{path}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
