"""Writes tied_parameters.json: how torch trains networks with shared and with merely equal parameters, for claim tied_parameters.

    tied_parameters.py            writes the table beside this script
    tied_parameters.py --check    computes it again and compares with the committed one

Needs tied_parameters_requirements.txt. A network is exported by torch.onnx.export (TorchScript) and trained by torch in float64.
In evaluation mode the exporter merges equal initializers and leaves an Identity under each name that it took away; in training
mode it merges only what is one tensor. `do_constant_folding` is off where it would store the transpose of a tied matrix apart.

Every parameter and every hyperparameter is a float32 number, widened. A splitmix64 stream with state = seed gives u = (next
number >> 48) / 2^15 - 1. Network k = 1..; step t trains on batch j = t mod 4: inputs are u, or (next number >> 33) mod `ids`, seed
1000 k + 500 + 2 j; labels are (next number >> 33) mod `classes`, targets u, seed 1000 k + 501 + 2 j.

For each network the table holds

    onnx        the exported files, base64: one for each form in which torch exports the same network
    losses      of 50 steps, each before its update
    parameters  after them: the name in the file, and the numbers in memory order; convolutions [out, kh, kw, in]
    statistics  batch norm's running statistics after them; empty where they are frozen
"""

import argparse
import base64
import io
import itertools
import json
import pathlib
import sys
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")
PATH = pathlib.Path(__file__).with_suffix(".json")
STEPS, BATCHES, BATCH = 50, 4, 8
MASK = (1 << 64) - 1


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
    return torch.tensor([(z >> 48) / 2**15 - 1 for z in numbers], dtype=torch.float64).reshape(dims)


def integers(seed, dims, below):
    numbers = itertools.islice(splitmix64(seed), int(np.prod(dims)))
    return torch.tensor([(z >> 33) % below for z in numbers]).reshape(dims)


def single(value):
    return float(np.float32(value))


def norm(kind, channels):
    """A norm as torch makes it: scale and variance are ones, bias and mean are zeros."""
    return kind(channels, eps=single(1e-5), momentum=1 - single(0.9))


class Norms(nn.Module):
    """Two convolutions with fresh norms: eight equal initializers of two kinds."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(2, 3, 3), norm(nn.BatchNorm2d, 3)
        self.conv2, self.norm2 = nn.Conv2d(3, 3, 3), norm(nn.BatchNorm2d, 3)
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        x = torch.tanh(self.norm1(self.conv1(x)))
        x = torch.tanh(self.norm2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


class Layers(nn.Module):
    """One layer and one norm applied twice, and a layer of equal numbers that is another."""

    def __init__(self):
        super().__init__()
        self.twice, self.equal, self.out = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.norm = norm(nn.BatchNorm1d, 5)

    def forward(self, x):
        x = torch.tanh(self.equal(torch.tanh(self.twice(x))))
        x = torch.tanh(self.twice(self.norm(x)))
        return self.out(self.norm(x))


class Sequence(nn.Module):
    """On three axes a layer is a transpose, a product and a sum; two layers have one bias."""

    def __init__(self):
        super().__init__()
        self.twice, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.other.bias = self.twice.bias
        self.norm = nn.LayerNorm(4, eps=single(1e-5))
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        x = self.norm(torch.tanh(self.twice(x)))
        x = self.norm(torch.tanh(self.twice(x)) + torch.tanh(self.other(x)))
        return self.out(x.mean(1))


class Convolution(nn.Module):
    """A convolution applied twice."""

    def __init__(self):
        super().__init__()
        self.first, self.twice, self.out = nn.Conv2d(1, 3, 1), nn.Conv2d(3, 3, 3, padding=1), nn.Linear(3, 4)

    def forward(self, x):
        x = torch.tanh(self.twice(torch.tanh(self.first(x))))
        return self.out(torch.tanh(self.twice(x)).mean((2, 3)))


class Embedding(nn.Module):
    """The table of the embedding is the matrix of the output layer."""

    def __init__(self, bias):
        super().__init__()
        self.embedding, self.hidden = nn.Embedding(7, 4), nn.Linear(4, 4)
        self.out = nn.Linear(4, 7, bias=bias)
        self.out.weight = self.embedding.weight

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(self.embedding(x).mean(1))))


class Recurrence(nn.Module):
    """A recurrence applied twice: the file cuts and joins its matrices twice."""

    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 4, bias=False, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.lstm(self.lstm(x)[0])[0][:, -1])


class Autoencoder(nn.Module):
    """A matrix and its transpose."""

    def __init__(self):
        super().__init__()
        self.w, self.b, self.c = (nn.Parameter(torch.zeros(*dims)) for dims in ((4, 6), (4,), (6,)))

    def forward(self, x):
        return torch.tanh(x @ self.w.t() + self.b) @ self.w + self.c


class Parts(nn.Module):
    """A matrix and a bias beside their first rows, and beside their rows in another order."""

    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(5, 5), nn.Linear(3, 3)

    def forward(self, x):
        order = torch.tensor([3, 0, 4, 1, 2])
        x = torch.tanh(self.first(x))
        x = torch.tanh(F.linear(x, self.first.weight[order], self.first.bias))
        return self.out(torch.tanh(F.linear(x, self.first.weight[:3], self.first.bias[1:4])))


class Joined(nn.Module):
    """Two matrices joined, and each of them alone; a bias joined of one bias twice."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.zeros(*dims)) for dims in ((3, 5), (2, 5), (2,)))
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        x = torch.tanh(F.linear(x, torch.cat((self.a, self.b))))
        x = torch.cat((F.linear(x, self.a), F.linear(x, self.b)), 1)
        return self.out(torch.tanh(x + torch.cat((self.c, self.c[:1], self.c))))


class Factors(nn.Module):
    """Computes matrices from parameters: multiple, difference, product, sum; some terms are read elsewhere too."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.low, self.high = (nn.Parameter(torch.zeros(*dims)) for dims in ((4, 4), (4, 4), (4, 2), (2, 4)))
        self.shift, self.out = nn.Parameter(torch.zeros(4, 1)), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.tanh(F.linear(x, 2 * self.a))
        x = torch.tanh(F.linear(x, self.a - self.b))
        x = torch.tanh(F.linear(x, self.low @ self.high) + F.linear(x, self.b + self.shift))
        return self.out(x)


class Token(nn.Module):
    """A row that is repeated for each sample and joined to its sequence."""

    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Parameter(torch.zeros(1, 1, 4)), nn.Parameter(torch.zeros(1, 4, 4))
        self.hidden, self.out = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.position
        return self.out(torch.tanh(self.hidden(torch.tanh(x + self.token.repeat(1, 4, 1)))).mean(1))


class Literals(nn.Module):
    """Matrices that are stored in another order than they are computed in, and numbers of the code that no training changes."""

    def __init__(self):
        super().__init__()
        self.w, self.row, self.one = (nn.Parameter(torch.zeros(*dims)) for dims in ((4, 4), (1, 4), (1,)))
        self.scale, self.out = nn.Parameter(torch.zeros(2, 1)), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.tanh(x @ self.w) + self.one
        x = torch.tanh(x @ (2 * self.w)) @ self.row.expand(4, 4)
        x = torch.tanh(x @ (self.w * torch.tensor([1.0, -2.0, 0.5, 3.0])) + torch.cat((self.out.bias[:2], torch.zeros(2))))
        return self.out(F.linear(x, torch.cat((self.w[:2] + self.scale, torch.eye(4)[:2]))))


class Filters(nn.Module):
    """Convolutions whose filters are computed of another's."""

    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(2, 4)

    def forward(self, x):
        x = torch.tanh(self.first(x))[:, :2]
        x = torch.tanh(F.conv2d(x, 2 * self.first.weight, self.first.bias, padding=1))[:, 2:]
        return self.out(torch.tanh(F.conv2d(x, self.first.weight[1:3], self.first.bias[1:3])).mean((2, 3)))


def sgd(groups, rate):
    return torch.optim.SGD(groups, lr=rate, foreach=False)


def momentum(groups, rate):
    return torch.optim.SGD(groups, lr=rate, momentum=single(0.9), foreach=False)


def adam(groups, rate):
    return torch.optim.Adam(groups, lr=rate, betas=(single(0.9), single(0.999)), eps=single(1e-7), foreach=False)


def adamw(groups, rate):
    groups[0]["weight_decay"] = single(0.125)
    return torch.optim.AdamW(groups, lr=rate, betas=(single(0.9), single(0.999)), eps=single(1e-7), weight_decay=0, foreach=False)


# name, module, input of a sample, ids or 0, classes or 0, optimizer, learning rate, frozen norms, exports: (training mode, folding)
EVALUATION, TRAINING, FOLDED = (False, False), (True, False), (False, True)
NETWORKS = [
    ("norms", Norms, (2, 7, 7), 0, 4, momentum, 2.0**-5, False, [EVALUATION, TRAINING]),
    ("frozen_norms", Norms, (2, 7, 7), 0, 4, momentum, 2.0**-5, True, [EVALUATION, TRAINING]),
    ("layers", Layers, (5,), 0, 3, adam, 2.0**-8, False, [EVALUATION, TRAINING, FOLDED]),
    ("sequence", Sequence, (6, 4), 0, 3, sgd, 2.0**-4, False, [EVALUATION, TRAINING]),
    ("convolution", Convolution, (1, 6, 6), 0, 4, adam, 2.0**-7, False, [EVALUATION, TRAINING, FOLDED]),
    ("embedding", lambda: Embedding(True), (3,), 7, 7, adamw, 2.0**-7, False, [EVALUATION, TRAINING, FOLDED]),
    ("embedding_without_bias", lambda: Embedding(False), (3,), 7, 7, momentum, 2.0**-5, False, [EVALUATION, TRAINING]),
    ("recurrence", Recurrence, (5, 4), 0, 3, adam, 2.0**-7, False, [EVALUATION, TRAINING]),
    ("autoencoder", Autoencoder, (6,), 0, 0, momentum, 2.0**-5, False, [EVALUATION, TRAINING]),
    ("parts", Parts, (5,), 0, 3, adam, 2.0**-7, False, [EVALUATION, TRAINING]),
    ("joined", Joined, (5,), 0, 3, momentum, 2.0**-5, False, [EVALUATION, TRAINING]),
    ("factors", Factors, (4,), 0, 3, sgd, 2.0**-4, False, [EVALUATION, TRAINING]),
    ("token", Token, (3, 4), 0, 3, adam, 2.0**-7, False, [EVALUATION, TRAINING]),
    ("literals", Literals, (4,), 0, 3, adam, 2.0**-7, False, [EVALUATION, TRAINING]),
    ("filters", Filters, (2, 6, 6), 0, 4, momentum, 2.0**-5, False, [EVALUATION, TRAINING]),
]


# If the file computes a parameter's operand, the parameter has the name of the computed value.
NAMES = {"lstm.weight_ih_l0": "/lstm/Unsqueeze_3_output_0", "lstm.weight_hh_l0": "/lstm/Unsqueeze_4_output_0"}


# The matrix of x @ w is stored as a layer's matrix, [out, in].
TRANSPOSED = {("literals", "w")}


def is_norm(module):
    return isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm))


def initialise(module, seed):
    """Random float32 numbers but in norms; `equal` gets those of `twice`, and biases that are not shared stay zeros."""
    held = {id(p) for m in module.modules() if is_norm(m) for p in m.parameters()}
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            if id(p) not in held:
                p.copy_(uniform(seed + i, p.shape) / 2 if p.dim() > 1 else torch.zeros(p.shape))
        if hasattr(module, "equal"):
            module.equal.weight.copy_(module.twice.weight)
    module.double()


def export(module, x, training, folding):
    module.float().train(training)
    for m in module.modules():
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
            m.eval()  # the importer reads norms of inference
    file = io.BytesIO()
    torch.onnx.export(module, (x if x.dtype == torch.int64 else x.float(),), file, dynamo=False, opset_version=17,
                      training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=folding, input_names=["x"],
                      output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    module.double()
    return file.getvalue()


def batch(k, dims, ids, classes, outputs, j):
    seed = 1000 * k + 500 + 2 * j
    x = integers(seed, (BATCH, *dims), ids) if ids else uniform(seed, (BATCH, *dims))
    return x, integers(seed + 1, (BATCH,), classes) if classes else uniform(seed + 1, (BATCH, outputs))


def record(k, name, make, dims, ids, classes, optimizer, rate, frozen, exports):
    module = make()
    initialise(module, 1000 * k)
    x, _ = batch(k, dims, ids, classes, 6, 0)
    files = [base64.b64encode(export(module, x, *mode)).decode() for mode in exports]
    weights, others = [], []
    held = {id(p) for m in module.modules() if is_norm(m) for p in m.parameters()}
    for p in module.parameters():
        (weights if p.dim() > 1 and id(p) not in held else others).append(p)
    step = optimizer([{"params": weights}, {"params": others}], rate)
    module.train()
    norms = [(n, m) for n, m in module.named_modules() if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d))]
    for _, m in norms:
        m.train(not frozen)
    losses = []
    for t in range(STEPS):
        x, target = batch(k, dims, ids, classes, 6, t % BATCHES)
        y = module(x)
        loss = F.cross_entropy(y, target) if classes else F.mse_loss(y, target)
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())

    def numbers(v, transposed=False):
        v = v.detach().t() if transposed else v.detach()
        return [f"{n:.17g}" for n in (v.permute(0, 2, 3, 1) if v.dim() == 4 else v).reshape(-1).tolist()]

    return {"name": name, "input": list(dims), "ids": ids, "classes": classes, "outputs": int(y.shape[1]),
            "optimizer": optimizer.__name__, "learning_rate": rate, "frozen": frozen, "onnx": files,
            "losses": [f"{v:.17g}" for v in losses],
            "parameters": [{"name": NAMES.get(n, n), "numbers": numbers(p, (name, n) in TRANSPOSED)} for n, p in module.named_parameters()],
            "statistics": [{"name": f"{n}.{part}", "numbers": numbers(getattr(m, part))}
                           for n, m in norms if not frozen for part in ("running_mean", "running_var")]}


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
        return value if isinstance(value, str) and number(value) else json.dumps(value)

    def number(word):
        try:
            return np.isfinite(float(word))
        except ValueError:
            return False

    return text(table, "") + "\n"


def compare(found, committed):
    """Another machine may round otherwise: losses within 1e-11."""
    worst = 0.0
    for new, old in zip(found["networks"], committed["networks"], strict=True):
        worst = max([worst] + [abs(a - b) / abs(b) for a, b in zip(new["losses"], old["losses"], strict=True)])
    print(f"largest difference of a loss: {worst:.2g}")
    return worst < 1e-11


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed table")
    options = parser.parse_args()
    table = {"versions": {"torch": torch.__version__.split("+")[0], "numpy": np.__version__},
             "command": "tests/peers/tied_parameters.py", "steps": STEPS, "batches": BATCHES, "batch": BATCH,
             "networks": [record(k, *network) for k, network in enumerate(NETWORKS, 1)]}
    for network in table["networks"]:
        losses = network["losses"]
        print(f"{network['name']:<24} loss {float(losses[0]):.4f} -> {float(losses[-1]):.4f}, {len(network['onnx'])} files")
    text = dump(table)
    if options.check:
        return 0 if compare(json.loads(text), json.loads(PATH.read_text())) else 1
    PATH.write_text(text)
    print(f"{PATH}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
