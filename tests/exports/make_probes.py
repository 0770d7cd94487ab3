"""One thing each that exporters write in a way of their own: small modules, random weights."""
import torch
import transformers
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import rnn

from networks import Network, ids, image, make, noise


class Probe(nn.Module):
    """f of the inputs, and of the modules that it is given."""

    def __init__(self, f, *parts):
        super().__init__()
        self.f, self.parts = f, nn.ModuleList(parts)

    def forward(self, x, y=None):
        return self.f(*self.parts, x) if y is None else self.f(*self.parts, x, y)


def probe(name, f, inputs, *parts, **options):
    """parts: functions that make the modules."""
    return Network(name, lambda: Probe(f, *(make_part() for make_part in parts)), inputs, **options)


def packed(lstm, x, y):
    """Sequences of several lengths."""
    sequences = rnn.pack_padded_sequence(x, y, batch_first=True, enforce_sorted=False)
    return rnn.pad_packed_sequence(lstm(sequences)[0], batch_first=True, total_length=x.shape[1])[0]


def segnet(conv, x):
    pooled, places = F.max_pool2d(conv(x), 2, return_indices=True)
    return F.max_unpool2d(torch.relu(pooled), places, 2)


def greedy(embedding, head, x):
    """Two tokens, each the likeliest after the last."""
    first = head(embedding(x).mean(1)).argmax(-1)
    second = head(embedding(first)).argmax(-1)
    return torch.stack([first, second], 1), embedding(second)


def dynamic_filters(x, y):
    return F.conv2d(x, y, padding=1)


def selective_scan(project, x):
    """A state-space layer: h = a h + b x, over time."""
    a, b = project(x).chunk(2, -1)
    a, h, states = torch.sigmoid(a), torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = a[:, t] * h + b[:, t] * x[:, t]
        states.append(h)
    return torch.stack(states, 1)


def sinusoids(x):
    """Positions of the width of x."""
    places = torch.arange(x.shape[1], dtype=x.dtype)[:, None] / 10000 ** (torch.arange(8, dtype=x.dtype) / 8)
    return x + torch.cat([places.sin(), places.cos()], 1)


def windows(x):
    """Patches taken out and put back."""
    patches = F.unfold(x, 4, padding=1, stride=2)
    return F.fold(patches * 0.5, x.shape[2:], 4, padding=1, stride=2)


class Decoder(nn.Module):
    """A step of GPT-2 with the keys and values of the tokens before."""

    def __init__(self):
        super().__init__()
        self.embedding, self.qkv, self.out = nn.Embedding(50, 32), nn.Linear(32, 96), nn.Linear(32, 50)

    def forward(self, x, y, z):
        q, k, v = (p.view(1, 1, 4, 8).transpose(1, 2) for p in self.qkv(self.embedding(x)).chunk(3, -1))
        k, v = torch.cat([y, k], 2), torch.cat([z, v], 2)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 1, 32)), k, v


def whisper():
    sizes = dict(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                 encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=16, max_source_positions=20, vocab_size=64,
                 pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    return Probe(lambda model, x: model.encoder(x)[0], transformers.WhisperModel(transformers.WhisperConfig(**sizes)))


ROWS = noise(3, 8)

NETWORKS = [
    probe("embedding_bag", lambda bag, x: bag(x), [ids(20, 3, 4)], lambda: nn.EmbeddingBag(20, 8, mode="mean")),
    probe("packed_lstm", packed, [noise(2, 6, 4), torch.tensor([6, 4])], lambda: nn.LSTM(4, 8, batch_first=True)),
    probe("segnet", segnet, [image(16)], lambda: nn.Conv2d(3, 4, 3)),
    probe("greedy", greedy, [ids(20, 1, 5)], lambda: nn.Embedding(20, 8), lambda: nn.Linear(8, 20)),
    probe("dynamic_filters", dynamic_filters, [image(8), noise(4, 3, 3, 3)]),
    probe("selective_scan", selective_scan, [noise(1, 12, 8)], lambda: nn.Linear(8, 16)),
    probe("sinusoids", sinusoids, [noise(1, 10, 16)], open_axes={"x": {1: "length"}}),
    probe("windows", windows, [image(16)], opset=18),
    Network("cached_decoder", Decoder, [ids(50, 1, 1), noise(1, 4, 6, 8), noise(1, 4, 6, 8)], opset=14,
            open_axes={"y": {2: "past"}, "z": {2: "past"}}),
    Network("whisper_encoder", whisper, [noise(1, 16, 40)], opset=14),
    probe("adaptive_pools", lambda x: (F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_max_pool2d(x, (4, 1))),
          [image(12)]),
    probe("uint8_image", lambda conv, x: conv(x.permute(0, 3, 1, 2).float() / 255),
          [torch.randint(0, 256, (1, 8, 8, 3), dtype=torch.uint8)], lambda: nn.Conv2d(3, 4, 3)),
    probe("bool_mask", lambda x, y: (x.masked_fill(y, -1e9).softmax(-1), x.where(y, torch.zeros_like(x))),
          [ROWS, torch.rand(3, 8) > 0.5]),
    probe("order", lambda x: (x.topk(3, -1)[0], x.sort(-1)[0], x.argsort(-1, descending=True), x.cumsum(0)), [ROWS]),
    probe("places", lambda x, y: (x.gather(1, y), torch.zeros_like(x).scatter(1, y, x)),
          [ROWS, torch.stack([torch.randperm(8) for _ in range(3)])]),
    probe("one_hot", lambda x: F.one_hot(x, 6).float() @ torch.arange(12.0).view(6, 2), [ids(6, 2, 3)]),
    probe("turns", lambda x: (x.roll((1, -2), (2, 3)), x.flip(3), x.flip(2).transpose(2, 3)), [image(6)]),
    probe("distances", lambda x, y: (torch.cdist(x, y), F.cosine_similarity(x, y), F.pairwise_distance(x, y)),
          [ROWS, noise(3, 8)]),
    probe("weight_norm", lambda conv, x: conv(x), [image(8)],
          lambda: torch.nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3))),
    probe("bilinear", lambda layer, x, y: layer(x, y), [ROWS, noise(3, 5)], lambda: nn.Bilinear(8, 5, 4)),
    probe("norms", lambda a, b, c, x: a(x) + b(x) + c(x), [noise(2, 6, 5, 7)], lambda: nn.GroupNorm(3, 6),
          lambda: nn.InstanceNorm2d(6, affine=True), lambda: nn.LocalResponseNorm(3)),
    probe("rms_norm", lambda norm, x: norm(x), [ROWS], lambda: nn.RMSNorm(8), half=True),
    probe("statistics", lambda x: (x.var(1), x.std(0, keepdim=True), x.norm(dim=1), x.logsumexp(1), x.prod(1)), [ROWS]),
    probe("resized_as", lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear"), [image(7), image(12, 1)],
          open_axes={"x": {2: "h", 3: "w"}, "y": {2: "H", 3: "W"}}),
    probe("pads", lambda x: (F.pad(x, (1, 2, 0, 1), "replicate"), F.pad(x, (2, 1, 1, 0), "circular")),
          [noise(1, 2, 5, 6)]),
    probe("whole", lambda x: (x.clamp(1, 5), x.sum(1), x.max(1)[0], (x > 4).sum(), -x, x * x - 2), [ids(9, 3, 4)]),
    probe("whole_division", lambda x: (x // 3, x % 3), [ids(9, 3, 4)]),
    probe("passed_on", lambda x: (x, x + 1, torch.ones(2, 2), x), [ROWS]),
    probe("cumulative_mask", lambda x: ((x != 0).long().cumsum(1) * (x != 0)).float(), [ids(3, 2, 7)]),
    probe("head_weights", lambda mha, x: mha(x, x, x, average_attn_weights=True), [noise(1, 6, 16)],
          lambda: nn.MultiheadAttention(16, 4, batch_first=True)),
    probe("spectrum", lambda x: torch.stft(x, 32, 16, window=torch.hann_window(32), return_complex=False),
          [noise(1, 200)], opset=17),
    probe("conv_transpose_3d", lambda conv, x: conv(x), [noise(1, 2, 4, 5, 5)], lambda: nn.ConvTranspose3d(2, 3, 2, 2)),
    probe("flow", lambda x, y: F.grid_sample(x, y.permute(0, 2, 3, 1), padding_mode="border", align_corners=True),
          [image(9), torch.rand(1, 2, 9, 9) * 2 - 1], opset=16),
    probe("parts", lambda x: torch.cat([p.sum(1, keepdim=True) for p in x.split([1, 2, 5], 1)], 1), [ROWS]),
]

if __name__ == "__main__":
    make(NETWORKS, __doc__)
