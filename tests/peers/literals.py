"""Claim literals_stay: networks exported by both of torch's exporters are tuned beside torch.

    literals.py TOOL [NAME..]      prints a table, and how many of its lines hold

Needs tied_parameters_requirements.txt and onnxscript. Each module is exported by torch.onnx.export with dynamo=True (as it is by
default, without its optimizer, and with another opset) and with dynamo=False, in evaluation mode. `nacre tune` then takes SGD steps
with all rows in one batch, and so does torch in float32. A line holds if

    the numbers that were trained are as many as the module has (the sum of p.numel() over parameters that the output depends on)
    the losses of all steps are torch's, to 1e-4 of themselves: a literal that moved, a parameter that stayed or two that were
    trained as one would change them

If the file does not tell, the line holds if one sentence says so: a notice for a legacy file, else a refusal.
"""

import argparse
import contextlib
import io
import json
import logging
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
torch.set_num_threads(1)
STEPS, RATE, ROWS = 6, 0.05, 8
TOLERANCE = 1e-4  # six steps in float32, whose sums both sides add in an order of their own


class RmsNorm(nn.Module):
    def __init__(self, width, epsilon=1e-6):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


class Epsilon(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 8), RmsNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(self.norm(self.a(x)))


class PlusOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)) + 1.0)


class DividedTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x / 4.0)) / 4.0)


class EqualNorms(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n1, self.n2, self.b = nn.Linear(4, 8), nn.LayerNorm(8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(self.n2(torch.relu(self.n1(self.a(x)))))


class Buffers(nn.Module):
    """Beside a buffer a literal tensor; in dynamo's file both are initializers."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 3)
        self.register_buffer("mean", torch.linspace(-1, 1, 4))

    def forward(self, x):
        return self.b(torch.relu(self.a(x - self.mean)) * torch.tensor([0.5, 1.0, 1.5, 2.0, 2.5, 3.0]))


class Scalars(nn.Module):
    """A parameter of one number that has the number of a literal."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 3)
        self.scale, self.gain = nn.Parameter(torch.ones(1)), nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)).pow(2) * self.scale + 1.0) * self.gain


class Slopes(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.p, self.q, self.b = nn.Linear(4, 6), nn.PReLU(), nn.PReLU(6), nn.Linear(6, 3)

    def forward(self, x):
        return self.b(self.q(self.p(self.a(x)) - 0.25))


class Norms(nn.Module):
    """Group norms and batch norms of equal numbers, biases of zeros; batch norms are trained with frozen statistics."""

    def __init__(self):
        super().__init__()
        self.c, self.g1, self.g2 = nn.Conv1d(3, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.GroupNorm(3, 6)
        self.l1, self.l2, self.b = nn.LayerNorm(5), nn.LayerNorm(5), nn.Linear(30, 3)
        nn.init.zeros_(self.c.bias)

    def forward(self, x):
        x = self.g2(torch.relu(self.g1(self.c(x))))
        return self.b(self.l2(torch.tanh(self.l1(x))).flatten(1))


class ZeroBiases(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.a, self.b = nn.Conv1d(3, 4, 3), nn.Linear(12, 6), nn.Linear(6, 3)
        for layer in (self.c, self.a, self.b):
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        return self.b(torch.tanh(self.a(torch.tanh(self.c(x)).flatten(1))))


class Block(nn.Module):
    """A block of a transformer whose scores are divided by a literal."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 16), nn.Linear(16, width)
        for layer in (self.q, self.k, self.v, self.o, self.up, self.down):
            nn.init.zeros_(layer.bias)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        h = self.n1(x)
        q, k, v = self.split(self.q(h)), self.split(self.k(h)), self.split(self.v(h))
        scores = torch.softmax(q @ k.transpose(-1, -2) / 2.0, -1)
        x = x + self.o((scores @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.randn(5, 8) * 0.1)
        self.blocks, self.norm, self.b = nn.Sequential(Block(), Block()), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(self.norm(self.blocks(x + self.position)).mean(1))


class Tied(nn.Module):
    """One matrix is what it embeds with and what it decodes with; one layer is applied twice."""

    def __init__(self):
        super().__init__()
        self.embed, self.a = nn.Embedding(7, 6), nn.Linear(6, 6)
        self.decode = nn.Linear(6, 7, bias=False)
        self.decode.weight = self.embed.weight

    def forward(self, i):
        x = self.embed(i) * 2.0
        return self.decode(torch.tanh(self.a(torch.tanh(self.a(x))))).mean(1)


class LayerScale(nn.Module):
    """Two gains of equal numbers, reshaped before they are read."""

    def __init__(self):
        super().__init__()
        self.c, self.d, self.b = nn.Conv1d(3, 4, 3, padding=1), nn.Conv1d(4, 4, 3, padding=1), nn.Linear(20, 3)
        self.g1, self.g2 = nn.Parameter(torch.full((4,), 0.5)), nn.Parameter(torch.full((4,), 0.5))

    def forward(self, x):
        x = torch.tanh(self.c(x)) * self.g1.view(1, -1, 1)
        x = x + torch.tanh(self.d(x)) * self.g2.view(1, -1, 1)
        return self.b(x.flatten(1))


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.b = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.b(self.gru(x)[0][:, -1]) * 0.5


class Lstm(nn.Module):
    """Two biases, of which each trains by the gradient of their sum."""

    def __init__(self):
        super().__init__()
        self.lstm, self.b = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True), nn.Linear(8, 2)

    def forward(self, x):
        return self.b(self.lstm(x)[0][:, -1])


class Encoder(nn.Module):
    """A token that is repeated for each row, and places that are added."""

    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 6, 8))
        self.block, self.b = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.b(self.block(x)[:, 0])


class Temperature(nn.Module):
    """A parameter that a function is computed of, and data that buffers normalise."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.logit = nn.Linear(4, 6), nn.Linear(6, 3), nn.Parameter(torch.tensor(0.3))
        self.register_buffer("mean", torch.rand(4))
        self.register_buffer("deviation", torch.rand(4) + 0.5)

    def forward(self, x):
        return self.b(F.normalize(self.a((x - self.mean) / self.deviation), dim=-1)) * self.logit.exp()


class Mobile(nn.Module):
    """h_swish written out: two literals, and depthwise convolutions."""

    def __init__(self):
        super().__init__()
        self.c, self.d, self.e = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 4, 1)
        self.b = nn.Linear(4, 3)

    def forward(self, x):
        x = self.c(x)
        x = self.e(self.d(x * torch.clamp(x + 3.0, 0, 6) / 6.0))
        return self.b(x.mean((2, 3)) - 0.5)


class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Embedding(7, 6, padding_idx=0), nn.Linear(6, 3)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)).mean(1))


class Snake(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.slope, self.b = nn.Linear(4, 8), nn.Parameter(torch.rand(8) + 0.5), nn.Linear(8, 3)

    def forward(self, x):
        x = self.a(x)
        return self.b(x + torch.sin(self.slope * x) ** 2 / self.slope)


def real(*dims):
    return lambda: torch.randn(ROWS, *dims)


MODULES = [
    (Epsilon, real(4)), (PlusOne, real(4)), (DividedTwice, real(4)), (EqualNorms, real(4)), (Buffers, real(4)),
    (Scalars, real(4)), (Slopes, real(4)), (Norms, real(3, 5)), (ZeroBiases, real(3, 5)), (Transformer, real(5, 8)),
    (Tied, lambda: torch.randint(0, 7, (ROWS, 4))), (LayerScale, real(3, 5)), (Gru, real(5, 3)), (Lstm, real(5, 3)),
    (Encoder, real(5, 8)), (Temperature, real(4)), (Mobile, real(2, 6, 6)),
    (Padded, lambda: torch.randint(0, 7, (ROWS, 4))), (Snake, real(4)),
]
FORMS = {
    "dynamo": {"dynamo": True},
    "unoptimized": {"dynamo": True, "optimize": False},
    "opset 18": {"dynamo": True, "opset_version": 18},
    "legacy": {"dynamo": False},
    "training": {"dynamo": False, "training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False},
}
# Facts that the file does not tell, and the words that say so: a buffer of a legacy file is an initializer like any
# parameter; a matrix that was transposed at the export may be one with another, or only equal.
UNTOLD = {
    ("Buffers", "legacy"): "mean", ("Buffers", "training"): "mean", ("Tied", "legacy"): "do_constant_folding=False",
    ("Norms", "legacy"): "PyTorch computed these at the export", ("LayerScale", "legacy"): "PyTorch computed these at the export",
    ("Temperature", "dynamo"): "exp was computed of logit at the export",
    ("Temperature", "opset 18"): "exp was computed of logit at the export",
    ("Padded", "legacy"): "if it is a padding_idx", ("Padded", "training"): "if it is a padding_idx",
    ("LayerScale", "dynamo"): "may stand for another parameter, such as g2",
    ("LayerScale", "opset 18"): "may stand for another parameter, such as g2",
}


def export(module, x, form, path):
    options = dict(FORMS[form])
    if options["dynamo"]:
        options |= {"dynamic_shapes": ({0: torch.export.Dim("batch", min=1, max=1024)},), "external_data": False}
    else:
        options |= {"dynamic_axes": {"x": {0: "batch"}}}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.onnx.export(module, (x,), path, input_names=["x"], verbose=False, **options)


def losses_of(module, x, y):
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.mse_loss(module(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def numbers_of(module, x):
    parameters = [p for p in module.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(module(x).square().sum(), parameters, allow_unused=True)
    return sum(p.numel() for p, g in zip(parameters, gradients) if g is not None)


def tune(tool, folder, x, y):
    np.save(folder / "x.npy", x.numpy().astype(np.int64 if x.dtype == torch.int64 else np.float32))
    np.save(folder / "y.npy", y.numpy())
    run = subprocess.run(
        [tool, "tune", "n.onnx", "--data", "x.npy", "--labels", "y.npy", "--loss", "squared_error", "--optimizer", "sgd",
         "--lr", str(RATE), "--epochs", str(STEPS), "--batch", str(ROWS), "--no-shuffle", "--keep", "last", "--json", "-o", "n.nacre"],
        cwd=folder, capture_output=True, text=True)
    return run.returncode, run.stdout, run.stderr


def line_of(tool, kind, make, form):
    torch.manual_seed(3)
    module = kind().eval()
    x = make()
    with torch.no_grad():
        y = torch.randn_like(module(x))
    numbers = numbers_of(module, x)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            export(module, x, form, str(folder / "n.onnx"))
        except Exception as error:
            return None, f"torch does not export it: {str(error).splitlines()[0]}"
        code, out, error = tune(tool, folder, x, y)
    words = UNTOLD.get((kind.__name__, form))
    if words is not None:
        return words in out + error, f"the file does not tell, and that is said: .. {words} .."
    if code != 0:
        return False, " ".join(error.split())
    result = json.loads(out)
    trained = sum(parameter["numbers"] for parameter in result["trained"])
    want = losses_of(module, x, y)
    apart = max(abs(epoch["loss"] - w) / w for epoch, w in zip(result["epochs"], want))
    return trained == numbers and apart <= TOLERANCE, f"{trained:>5} of {numbers:>5}   losses apart {apart:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    tool = str(pathlib.Path(arguments.tool).resolve())
    held = lines = 0
    for kind, make in MODULES:
        for form in FORMS:
            if arguments.names and kind.__name__ not in arguments.names:
                continue
            holds, text = line_of(tool, kind, make, form)
            print(f"{kind.__name__:<14}{form:<12} {'holds ' if holds else 'SKIPPED' if holds is None else 'FAILS '}  {text}", flush=True)
            lines += holds is not None
            held += bool(holds)
    if held == lines:
        print(f"CLAIM literals_stay shown: {held} exports of {len(MODULES)} modules train the module's own numbers, with torch's losses")
        return 0
    print(f"CLAIM literals_stay NOT SHOWN: {lines - held} of {lines} exports differ")
    return 1


if __name__ == "__main__":
    sys.exit(main())
