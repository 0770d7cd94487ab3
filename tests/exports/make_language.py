"""Networks of transformers and of torch.nn over tokens: tiny configurations, random weights."""
import torch
import transformers
from torch import nn

from networks import Network, ids, image, make, noise

LENGTH = {"x": {1: "sequence"}}
BOTH = {"x": {0: "batch", 1: "sequence"}, "y": {0: "batch", 1: "sequence"}}
ATTENTION = {"attn_implementation": "eager"}


class Given(nn.Module):
    """Calls a network of transformers by the names of its inputs, and returns one of its results."""

    def __init__(self, network, result, *names):
        super().__init__()
        self.network, self.result, self.names = network, result, names

    def forward(self, x, y=None):
        given = dict(zip(self.names, (x, y)))
        if isinstance(self.network, (transformers.GPT2LMHeadModel, transformers.LlamaForCausalLM)):
            given["use_cache"] = False
        return self.network(**given)[self.result]


def gpt2():
    sizes = dict(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)
    return Given(transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **ATTENTION)), "logits", "input_ids",
                 "attention_mask")


def llama():
    sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=64)
    return Given(transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **ATTENTION)), "logits", "input_ids",
                 "attention_mask")


def bert_sizes():
    return dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                max_position_embeddings=32)


def bert():
    config = transformers.BertConfig(**bert_sizes(), **ATTENTION)
    return Given(transformers.BertForSequenceClassification(config), "logits", "input_ids", "attention_mask")


def distilbert():
    config = transformers.DistilBertConfig(vocab_size=64, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
                                           max_position_embeddings=32, **ATTENTION)
    return Given(transformers.DistilBertForTokenClassification(config), "logits", "input_ids", "attention_mask")


def roberta():
    """Positions are counted over what is not padding: a running sum of the mask."""
    config = transformers.RobertaConfig(**bert_sizes(), pad_token_id=1, **ATTENTION)
    return Given(transformers.RobertaModel(config, add_pooling_layer=False), "last_hidden_state", "input_ids",
                 "attention_mask")


def clip_text():
    """CLIP's text encoder. Its output is the projected state of the end token, which has the largest id."""
    config = transformers.CLIPTextConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                         num_attention_heads=4, projection_dim=16, max_position_embeddings=32,
                                         eos_token_id=2, **ATTENTION)
    return Given(transformers.CLIPTextModelWithProjection(config), "text_embeds", "input_ids", "attention_mask")


def t5_encoder():
    config = transformers.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    return Given(transformers.T5EncoderModel(config), "last_hidden_state", "input_ids", "attention_mask")


class SentenceEncoder(nn.Module):
    """BERT with the end that sentence-transformers gives MiniLM: the mean over tokens without padding, of length 1."""

    def __init__(self, **sizes):
        super().__init__()
        self.network = transformers.BertModel(transformers.BertConfig(**sizes, **ATTENTION), add_pooling_layer=False)

    def forward(self, x, y):
        states = self.network(input_ids=x, attention_mask=y)["last_hidden_state"]
        mask = y.unsqueeze(-1).to(states.dtype)
        return nn.functional.normalize((states * mask).sum(1) / mask.sum(1).clamp(min=1e-9), dim=1)


def hf_vit():
    sizes = dict(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                 intermediate_size=64, num_labels=10)
    return Given(transformers.ViTForImageClassification(transformers.ViTConfig(**sizes, **ATTENTION)), "logits",
                 "pixel_values")


def hf_swin():
    sizes = dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4,
                 num_labels=10)
    return Given(transformers.SwinForImageClassification(transformers.SwinConfig(**sizes, **ATTENTION)), "logits",
                 "pixel_values")


class Seq2Seq(nn.Module):
    """nn.Transformer over two sequences of tokens, with a causal mask."""

    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        self.positions = nn.Parameter(torch.randn(1, 32, width) * 0.1)
        self.transformer = nn.Transformer(width, 4, 2, 2, 64, batch_first=True)
        self.head = nn.Linear(width, 50)

    def forward(self, x, y):
        source = self.embedding(x) + self.positions[:, : x.shape[1]]
        target = self.embedding(y) + self.positions[:, : y.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1], dtype=source.dtype)
        return self.head(self.transformer(source, target, tgt_mask=mask, tgt_is_causal=True))


class TextClassifier(nn.Module):
    """nn.TransformerEncoder with the padding, token 0, left out."""

    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x), src_key_padding_mask=x == 0).mean(1))


class NanoGpt(nn.Module):
    """scaled_dot_product_attention with is_causal, weights of embedding and head tied."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embedding, self.positions = nn.Embedding(50, width), nn.Embedding(32, width)
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.GELU("tanh"), nn.Linear(64, width))
        self.head = nn.Linear(width, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        n, t = x.shape
        h = self.embedding(x) + self.positions(torch.arange(t))
        q, k, v = (p.view(n, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.norm(h)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(y.transpose(1, 2).reshape(n, t, -1))
        return self.head(h + self.mlp(h))


class Tagger(nn.Module):
    """Embedding, a recurrence, a linear layer for every token."""

    def __init__(self, kind, **options):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.recurrence = kind(16, 24, batch_first=True, **options)
        self.head = nn.Linear(48 if options.get("bidirectional") else 24, 5)

    def forward(self, x):
        return self.head(self.recurrence(self.embedding(x))[0])


class Crnn(nn.Module):
    """Columns of an image as a sequence: text recognition."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d((2, 1)), nn.Conv2d(16, 16, (8, 2)), nn.ReLU())
        self.recurrence = nn.LSTM(16, 16, num_layers=2, bidirectional=True)
        self.head = nn.Linear(32, 11)

    def forward(self, x):
        columns = self.features(x).squeeze(2).permute(2, 0, 1)
        return nn.functional.log_softmax(self.head(self.recurrence(columns)[0]), 2)


class Translator(nn.Module):
    """A GRU encoder and decoder with attention between them."""

    def __init__(self, width=24):
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        self.encoder, self.decoder = nn.GRU(width, width, batch_first=True), nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(2 * width, 50)

    def forward(self, x, y):
        states, last = self.encoder(self.embedding(x))
        answers, _ = self.decoder(self.embedding(y), last)
        weights = torch.softmax(answers @ states.transpose(1, 2), -1)
        return self.head(torch.cat([answers, weights @ states], -1))


class TextCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(16, 8, k) for k in (2, 3, 4))
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        h = self.embedding(x).transpose(1, 2)
        return self.head(torch.cat([torch.relu(c(h)).max(2).values for c in self.convolutions], 1))


class CellByCell(nn.Module):
    """nn.LSTMCell in a loop, which a trace writes out."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(6, 12), nn.Linear(12, 2)

    def forward(self, x):
        h = c = torch.zeros(x.shape[0], 12, dtype=x.dtype)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.head(h)


TOKENS, MASK = ids(50, 1, 12) + 1, torch.tensor([[1] * 9 + [0] * 3])
TOKENS_IN_50 = TOKENS.clamp(max=49)

NETWORKS = [
    Network("gpt2", gpt2, [TOKENS, MASK], half=True, open_axes=BOTH),
    Network("llama", llama, [TOKENS, MASK], opset=14, half=True, open_axes=BOTH),
    Network("bert", bert, [TOKENS, MASK], half=True, open_axes=BOTH),
    Network("distilbert", distilbert, [TOKENS, MASK], open_axes=BOTH),
    Network("minilm", lambda: SentenceEncoder(**bert_sizes()), [TOKENS, MASK], half=True, open_axes=BOTH),
    Network("hf_vit", hf_vit, [image(32)]),
    Network("hf_swin", hf_swin, [image(32)]),
    Network("transformer", Seq2Seq, [TOKENS_IN_50, TOKENS_IN_50[:, :7]], half=True),
    Network("text_classifier", TextClassifier, [TOKENS_IN_50 * MASK], opset=14, open_axes=LENGTH),
    Network("nano_gpt", NanoGpt, [TOKENS_IN_50], opset=14, half=True, open_axes=LENGTH),
    Network("lstm_tagger", lambda: Tagger(nn.LSTM), [TOKENS_IN_50], half=True, open_axes=LENGTH),
    Network("lstm_tagger_both", lambda: Tagger(nn.LSTM, bidirectional=True, num_layers=2), [TOKENS_IN_50]),
    Network("gru_tagger", lambda: Tagger(nn.GRU), [TOKENS_IN_50], open_axes=LENGTH),
    Network("gru_tagger_both", lambda: Tagger(nn.GRU, bidirectional=True), [TOKENS_IN_50]),
    Network("rnn_tagger", lambda: Tagger(nn.RNN), [TOKENS_IN_50]),
    Network("crnn", Crnn, [noise(1, 1, 32, 40)], half=True),
    Network("translator", Translator, [TOKENS_IN_50, TOKENS_IN_50[:, :7]]),
    Network("text_cnn", TextCnn, [TOKENS_IN_50], open_axes=LENGTH),
    Network("lstm_cells", CellByCell, [noise(1, 8, 6)]),
    Network("roberta", roberta, [TOKENS, MASK], open_axes=BOTH),
    Network("clip_text", clip_text, [TOKENS, MASK], opset=14),
    Network("t5_encoder", t5_encoder, [TOKENS, MASK], opset=14, open_axes=BOTH),
]

if __name__ == "__main__":
    make(NETWORKS, __doc__)
