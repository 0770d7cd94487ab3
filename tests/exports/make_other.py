"""Generative networks, recommenders, graphs, mixers: written with torch.nn as people write them, random weights."""
import math

import torch
from torch import nn

from networks import Network, ids, image, make, noise

IMAGE = {"x": {2: "height", 3: "width"}}


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 3, 2, 1),
                                     nn.LeakyReLU(0.2), nn.Flatten())
        self.mean, self.log_variance = nn.Linear(16 * 49, 4), nn.Linear(16 * 49, 4)
        self.decoder = nn.Sequential(
            nn.Linear(4, 16 * 49), nn.Unflatten(1, (16, 7, 7)), nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1),
            nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Sigmoid())

    def forward(self, x, y):  # y: the noise
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        return self.decoder(mean + torch.exp(0.5 * log_variance) * y), mean, log_variance


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


def espcn():
    return nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 8, 3, padding=1), nn.Tanh(),
                         nn.Conv2d(8, 9, 3, padding=1), nn.PixelShuffle(3))


class Srcnn(nn.Module):
    """A bicubic enlargement and what a residual network adds to it."""

    def __init__(self):
        super().__init__()
        conv = lambda: nn.Conv2d(8, 8, 3, padding=1)
        block = lambda: Residual(nn.Sequential(conv(), nn.PReLU(8), conv()))
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), block(), block(), nn.Conv2d(8, 3, 3, padding=1))

    def forward(self, x):
        x = nn.functional.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        return (x + self.body(x)).clamp(0, 1)


def generator():
    layers = []
    for i, o in ((16, 32), (32, 16), (16, 8)):
        layers += [nn.ConvTranspose2d(i, o, 4, 2 if layers else 1, 1 if layers else 0, bias=False), nn.BatchNorm2d(o),
                   nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())


def style_transfer():
    conv = lambda i, o, k, s=1: nn.Sequential(nn.ReflectionPad2d(k // 2), nn.Conv2d(i, o, k, s),
                                              nn.InstanceNorm2d(o, affine=True))
    return nn.Sequential(conv(3, 8, 9), nn.ReLU(), conv(8, 16, 3, 2), nn.ReLU(),
                         Residual(nn.Sequential(conv(16, 16, 3), nn.ReLU(), conv(16, 16, 3))),
                         nn.Upsample(scale_factor=2), conv(16, 8, 3), nn.ReLU(), nn.ReflectionPad2d(4),
                         nn.Conv2d(8, 3, 9))


class Denoiser(nn.Module):
    """A step of a diffusion model: the time as sines and cosines, GroupNorm, attention over the image."""

    def __init__(self, width=16):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.stem, self.down = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, 2, 1)
        self.norm, self.attention = nn.GroupNorm(4, width), nn.MultiheadAttention(width, 2, batch_first=True)
        self.head = nn.Sequential(nn.GroupNorm(4, 2 * width), nn.SiLU(), nn.Conv2d(2 * width, 3, 3, padding=1))

    def forward(self, x, y):
        rates = torch.exp(-math.log(10000) * torch.arange(8, dtype=x.dtype) / 8)
        angles = y[:, None] * rates[None]
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        stem = self.stem(x)
        h = self.norm(self.down(stem) + time[:, :, None, None])
        n, c, rows, columns = h.shape
        tokens = h.flatten(2).transpose(1, 2)
        h = h + self.attention(tokens, tokens, tokens)[0].transpose(1, 2).reshape(n, c, rows, columns)
        return self.head(torch.cat([stem, nn.functional.interpolate(h, scale_factor=2, mode="nearest")], 1))


class Recommender(nn.Module):
    """NCF: the product and a network of the vectors of a user and a thing."""

    def __init__(self):
        super().__init__()
        self.users, self.things = nn.Embedding(30, 8), nn.Embedding(40, 8)
        self.mlp = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 8), nn.ReLU())
        self.head = nn.Linear(16, 1)

    def forward(self, x, y):
        u, t = self.users(x), self.things(y)
        return torch.sigmoid(self.head(torch.cat([u * t, self.mlp(torch.cat([u, t], -1))], -1))).squeeze(-1)


class Dlrm(nn.Module):
    """Numbers and categories: the products of all pairs of their vectors."""

    def __init__(self):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.tables = nn.ModuleList(nn.Embedding(n, 8) for n in (20, 30, 40))
        self.top = nn.Sequential(nn.Linear(8 + 6, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, x, y):
        dense = self.bottom(x)
        vectors = torch.stack([dense] + [table(y[:, i]) for i, table in enumerate(self.tables)], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return self.top(torch.cat([dense, products[:, [1, 2, 2, 3, 3, 3], [0, 0, 1, 0, 1, 2]]], 1))


class DeepFm(nn.Module):
    """One table for all fields, whose categories are counted on: x + the first of each field."""

    def __init__(self, fields=(5, 7, 9)):
        super().__init__()
        starts = torch.tensor([0, *fields[:-1]]).cumsum(0)
        self.register_buffer("starts", starts)
        self.linear, self.vectors = nn.Embedding(sum(fields), 1), nn.Embedding(sum(fields), 8)
        self.mlp = nn.Sequential(nn.Linear(24, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        x = x + self.starts
        v = self.vectors(x)
        pairs = 0.5 * (v.sum(1) ** 2 - (v**2).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.linear(x).sum(1) + pairs + self.mlp(v.flatten(1)))


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        tower = lambda n: nn.Sequential(nn.Linear(n, 16), nn.ELU(), nn.Linear(16, 8))
        self.left, self.right, self.scale = tower(10), tower(12), nn.Parameter(torch.tensor(2.0))

    def forward(self, x, y):
        a, b = (nn.functional.normalize(t, dim=-1) for t in (self.left(x), self.right(y)))
        return self.scale.exp() * a @ b.t()


class DenseGcn(nn.Module):
    """D^-1/2 (A + 1) D^-1/2 x W: the graph as a matrix that is given."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x, y):
        a = y + torch.eye(y.shape[0], dtype=y.dtype)
        d = a.sum(1).pow(-0.5)
        a = d[:, None] * a * d[None]
        return torch.log_softmax(self.second(a @ torch.relu(self.first(a @ x))), 1)


class EdgeGcn(nn.Module):
    """Adds each edge's start row of x to its end row, with scatter_add. Edges are stored, or an input."""

    def __init__(self, edges=None):
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 3)
        self.register_buffer("edges", edges)

    def gather(self, x, edges):
        to = edges[1].unsqueeze(1).expand(-1, x.shape[1])
        return torch.zeros_like(x).scatter_add(0, to, x[edges[0]])

    def forward(self, x, y=None):
        edges = self.edges if y is None else y
        return self.second(self.gather(torch.relu(self.first(self.gather(x, edges))), edges))


class Gat(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.left, self.right = nn.Linear(6, 8, bias=False), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x, y):
        h = self.w(x)
        scores = nn.functional.leaky_relu(self.left(h) + self.right(h).t(), 0.2)
        return nn.functional.elu(torch.softmax(scores.masked_fill(y == 0, float("-inf")), 1) @ h)


class MixerBlock(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        mlp = lambda n, m: nn.Sequential(nn.Linear(n, m), nn.GELU(), nn.Linear(m, n))
        self.norm_1, self.tokens = nn.LayerNorm(width), mlp(tokens, 32)
        self.norm_2, self.channels = nn.LayerNorm(width), mlp(width, 48)

    def forward(self, x):
        x = x + self.tokens(self.norm_1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm_2(x))


class Mixer(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(3, width, 8, 8), nn.Sequential(MixerBlock(16, width), MixerBlock(16, width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.stem(x).flatten(2).transpose(1, 2))).mean(1))


class Gmlp(nn.Module):
    """A gate that mixes tokens, einsum as einops writes it."""

    def __init__(self, tokens=16, width=24):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.gate_norm = nn.LayerNorm(width)
        self.mix, self.bias = nn.Parameter(torch.randn(tokens, tokens) * 0.1), nn.Parameter(torch.ones(tokens, 1))

    def forward(self, x):
        u, v = nn.functional.gelu(self.wide(self.norm(x))).chunk(2, -1)
        return x + self.narrow(u * (torch.einsum("bnd,mn->bmd", self.gate_norm(v), self.mix) + self.bias))


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.points = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1))
        self.turn, self.head = nn.Linear(32, 9), nn.Linear(32, 5)

    def forward(self, x):
        turn = self.turn(self.points(x).amax(2)).view(-1, 3, 3) + torch.eye(3, dtype=x.dtype)
        return self.head(self.points(torch.bmm(turn, x)).amax(2))


class DetectionHead(nn.Module):
    """YOLO: boxes of a grid decoded in the network."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 4, 1), nn.SiLU(), nn.Conv2d(16, 2 * 7, 1))
        self.register_buffer("anchors", torch.tensor([[8.0, 12.0], [20.0, 16.0]]))

    def forward(self, x):
        y = self.body(x)
        n, _, rows, columns = y.shape
        y = y.view(n, 2, 7, rows, columns).permute(0, 1, 3, 4, 2)
        grid = torch.stack(torch.meshgrid(torch.arange(columns), torch.arange(rows), indexing="xy"), -1).to(x.dtype)
        centre = (y[..., :2].sigmoid() * 2 - 0.5 + grid) * 4
        size = (y[..., 2:4].sigmoid() * 2) ** 2 * self.anchors[None, :, None, None]
        return torch.cat([centre, size, y[..., 4:].sigmoid()], -1).view(n, -1, 7)


class SpatialTransformer(nn.Module):
    """The image seen through a turn and a shift that a network finds."""

    def __init__(self):
        super().__init__()
        self.find = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 144, 6))
        self.head = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 676, 10))

    def forward(self, x):
        theta = self.find(x).view(-1, 2, 3) * 0.1 + torch.eye(2, 3, dtype=x.dtype)
        grid = nn.functional.affine_grid(theta, x.shape, align_corners=False)
        return self.head(nn.functional.grid_sample(x, grid, align_corners=False))


class Keypoints(nn.Module):
    """The mean place of a softmax over the image."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(), nn.Conv2d(8, 5, 3, 1, 1))

    def forward(self, x):
        heat = self.body(x)
        n, k, rows, columns = heat.shape
        weights = heat.flatten(2).softmax(-1).view(n, k, rows, columns)
        at = lambda count, along: (weights.sum(along) * torch.linspace(-1, 1, count, dtype=x.dtype)).sum(-1)
        return torch.stack([at(columns, 2), at(rows, 3)], -1), heat.flatten(2).argmax(-1)


def c3d():
    return nn.Sequential(nn.Conv3d(1, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d((1, 2, 2)),
                         nn.Conv3d(8, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(),
                         nn.Linear(8, 4))


class Activations(nn.Module):
    """One of each activation of torch.nn that is a function of one number."""

    def __init__(self):
        super().__init__()
        kinds = (nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus, nn.Softsign, nn.Hardswish,
                 nn.Softshrink, nn.Hardsigmoid, nn.Hardtanh, nn.ReLU6, nn.LeakyReLU, nn.LogSigmoid,
                 nn.Tanhshrink, nn.Hardshrink)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), kind()) for kind in kinds)

    def forward(self, x):
        return torch.cat([layer(x) for layer in self.layers], -1)


EDGES = torch.stack([ids(9, 20), ids(9, 20)])
ADJACENCY = (torch.rand(9, 9) > 0.6).float().fill_diagonal_(1)

NETWORKS = [
    Network("vae", Vae, [noise(1, 1, 28, 28), noise(1, 4)], half=True),
    Network("espcn", espcn, [image(24, 1)], half=True, open_axes=IMAGE),
    Network("srcnn", Srcnn, [image(16)], open_axes=IMAGE),
    Network("dcgan", generator, [noise(1, 16, 1, 1)]),
    Network("style_transfer", style_transfer, [image(32)], open_axes=IMAGE),
    Network("denoiser", Denoiser, [image(16), torch.tensor([7.0])]),
    Network("ncf", Recommender, [ids(30, 6), ids(40, 6)], open_axes={"x": {0: "batch"}, "y": {0: "batch"}}),
    Network("dlrm", Dlrm, [noise(2, 13), ids(20, 2, 3)], half=True),
    Network("deepfm", DeepFm, [ids(5, 2, 3)]),
    Network("two_towers", TwoTowers, [noise(3, 10), noise(4, 12)]),
    Network("gcn_dense", DenseGcn, [noise(9, 6), ADJACENCY]),
    Network("gcn_edges", lambda: EdgeGcn(EDGES), [noise(9, 6)], opset=16),
    Network("gcn_given_edges", EdgeGcn, [noise(9, 6), EDGES], opset=16),
    Network("gat", Gat, [noise(9, 6), ADJACENCY]),
    Network("mixer", Mixer, [image(32)], half=True),
    Network("gmlp", Gmlp, [noise(1, 16, 24)]),
    Network("pointnet", PointNet, [noise(1, 3, 50)], open_axes={"x": {2: "points"}}),
    Network("yolo_head", DetectionHead, [image(32)], half=True),
    Network("keypoints", Keypoints, [image(32)]),
    Network("c3d", c3d, [noise(1, 1, 6, 16, 16)]),
    Network("activations", Activations, [noise(2, 8)], half=True),
    Network("spatial_transformer", SpatialTransformer, [image(28, 1)], opset=16),
]

if __name__ == "__main__":
    make(NETWORKS, __doc__)
