"""Networks over sound, written with torch.nn as people write them, random weights."""
import torch
from torch import nn

from networks import Network, make, noise

TIME = {"x": {2: "time"}}


class Conformer(nn.Module):
    """Frames of a spectrogram: two halves of a feed-forward layer around attention and a gated convolution."""

    def __init__(self, width=32):
        super().__init__()
        self.subsample = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.ReLU(), nn.Conv2d(4, 4, 3, 2), nn.ReLU())
        self.project = nn.Linear(4 * 9, width)
        feed = lambda: nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.SiLU(), nn.Linear(64, width))
        self.first, self.second = feed(), feed()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, batch_first=True)
        self.conv_norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.conv = nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.GLU(1), nn.Conv1d(width, width, 7, padding=3,
                                  groups=width), nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1))

    def forward(self, x):
        h = self.subsample(x.unsqueeze(1))
        h = self.project(h.transpose(1, 2).flatten(2))
        h = h + 0.5 * self.first(h)
        a = self.norm(h)
        h = h + self.attention(a, a, a, need_weights=False)[0]
        h = h + self.conv(self.conv_norm(h).transpose(1, 2)).transpose(1, 2)
        return self.last(h + 0.5 * self.second(h))


def m5():
    block = lambda i, o, k, s=1: [nn.Conv1d(i, o, k, s), nn.BatchNorm1d(o), nn.ReLU(), nn.MaxPool1d(4)]
    return nn.Sequential(*block(1, 8, 80, 4), *block(8, 16, 3), *block(16, 16, 3), nn.AdaptiveAvgPool1d(1),
                         nn.Flatten(), nn.Linear(16, 10), nn.LogSoftmax(1))


def ds_cnn():
    block = lambda: [nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 1),
                     nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(nn.Conv2d(1, 16, (10, 4), 2, (5, 1)), nn.BatchNorm2d(16), nn.ReLU(), *block(), *block(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 12))


class Causal(nn.Module):
    """WaveNet's layer: a dilated causal convolution, tanh times sigmoid, what is kept and what is passed on."""

    def __init__(self, width, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv, self.out = nn.Conv1d(width, 2 * width, 3, dilation=dilation), nn.Conv1d(width, width, 1)

    def forward(self, x):
        a, b = self.conv(nn.functional.pad(x, (self.pad, 0))).chunk(2, 1)
        y = self.out(torch.tanh(a) * torch.sigmoid(b))
        return x + y, y


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Conv1d(1, 8, 1), nn.Conv1d(8, 16, 1)
        self.layers = nn.ModuleList(Causal(8, 2**i) for i in range(4))

    def forward(self, x):
        x, total = self.stem(x), 0
        for layer in self.layers:
            x, y = layer(x)
            total = total + y
        return self.head(torch.relu(total))


class WaveFeatures(nn.Module):
    """wav2vec 2.0: strided convolutions, GroupNorm of one channel each, GELU, LayerNorm."""

    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(nn.Conv1d(1, 16, 10, 5, bias=False), nn.GroupNorm(16, 16), nn.GELU(),
                                   nn.Conv1d(16, 16, 3, 2, bias=False), nn.GELU())
        self.norm, self.project = nn.LayerNorm(16), nn.Linear(16, 24)

    def forward(self, x):
        return self.project(self.norm(self.convs(x).transpose(1, 2)))


class Spectrogram(nn.Module):
    """Samples to a logarithm of power in bands, and a convolution over them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("bands", torch.rand(33, 12))
        self.conv, self.head = nn.Conv2d(1, 8, 3), nn.Linear(8, 4)

    def forward(self, x):
        parts = torch.stft(x, 64, 32, window=self.window, return_complex=False, center=False)
        power = (parts**2).sum(-1)
        bands = torch.log(power.transpose(1, 2) @ self.bands + 1e-6)
        return self.head(torch.relu(self.conv(bands.unsqueeze(1))).mean((2, 3)))


class KeywordGru(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.gru, self.head = nn.Conv1d(10, 16, 5, 2), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.gru(torch.relu(self.conv(x)).transpose(1, 2))[1][-1])


class Separator(nn.Module):
    """Conv-TasNet: a learned basis, a mask for each of two speakers, the basis back."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv1d(1, 16, 16, 8, bias=False)
        self.masks = nn.Sequential(nn.GroupNorm(1, 16), nn.Conv1d(16, 16, 3, padding=2, dilation=2, groups=16),
                                   nn.PReLU(), nn.Conv1d(16, 32, 1), nn.Sigmoid())
        self.decoder = nn.ConvTranspose1d(16, 1, 16, 8, bias=False)

    def forward(self, x):
        basis = torch.relu(self.encoder(x))
        masks = self.masks(basis).view(x.shape[0], 2, 16, -1)
        parts = (basis.unsqueeze(1) * masks).flatten(0, 1)
        return self.decoder(parts).view(x.shape[0], 2, -1)


NETWORKS = [
    Network("conformer", Conformer, [noise(1, 49, 40)], opset=14, half=True, open_axes={"x": {1: "frames"}}),
    Network("m5", m5, [noise(1, 1, 2000)]),
    Network("ds_cnn", ds_cnn, [noise(1, 1, 49, 10)], half=True),
    Network("wavenet", WaveNet, [noise(1, 1, 100)], open_axes=TIME),
    Network("wav2vec", WaveFeatures, [noise(1, 1, 400)], open_axes=TIME),
    Network("spectrogram", Spectrogram, [noise(1, 512)], opset=17),
    Network("keyword_gru", KeywordGru, [noise(1, 10, 50)], open_axes=TIME),
    Network("conv_tasnet", Separator, [noise(1, 1, 400)], open_axes=TIME),
]

if __name__ == "__main__":
    make(NETWORKS, __doc__)
