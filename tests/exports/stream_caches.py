"""Networks that write text, tiny and with random weights, as people export them from transformers for one token at a
time: GPT-2, and a Llama with rotary positions and two heads of queries for each of keys. streams.py runs them.

fixed     keys and values have TOKENS rows, of which a token fills the one at `position` (StaticCache)
growing   the new row is joined to a past (DynamicCache), which here has TOKENS - 1 rows and slides
open      the same; the axis of the past is a symbol in the file, and --shape gives its size
"""
import contextlib
import io

import numpy as np
import onnxruntime
import torch
import transformers

from networks import unsettle

TOKENS, LAYERS, HEADS, WIDTH, WORDS = 72, 2, 4, 64, 96
CACHES = [f"{kind}{layer}" for layer in range(LAYERS) for kind in ("key", "value")]
NEW_CACHES = [f"new_{c}" for c in CACHES]


def gpt2():
    torch.manual_seed(1)
    config = transformers.GPT2Config(vocab_size=WORDS, n_positions=TOKENS + 8, n_embd=WIDTH, n_layer=LAYERS,
                                     n_head=HEADS, bos_token_id=1, eos_token_id=2, attn_implementation="eager")
    return unsettle(transformers.GPT2LMHeadModel(config)).eval(), HEADS


def llama():
    torch.manual_seed(2)
    config = transformers.LlamaConfig(vocab_size=WORDS, max_position_embeddings=TOKENS + 8, hidden_size=WIDTH,
                                      intermediate_size=96, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                                      num_key_value_heads=HEADS // 2, attn_implementation="eager")
    return unsettle(transformers.LlamaForCausalLM(config)).eval(), HEADS // 2


class Whole(torch.nn.Module):
    """All tokens at once."""

    inputs, outputs, open_axes = ["ids"], ["logits"], {}

    def __init__(self, network, heads):
        super().__init__()
        self.network, self.heads = network, heads

    def forward(self, ids):
        return self.network(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits

    def example(self):
        return (torch.zeros(1, TOKENS, dtype=torch.int64),)

    def empty(self, rows):
        return {c: np.zeros((1, self.heads, rows, WIDTH // HEADS), np.float32) for c in CACHES}


class Fixed(Whole):
    inputs, outputs = ["ids", "position", *CACHES], ["logits", "new_position", *NEW_CACHES]
    options = [part for c in ("position", *CACHES) for part in ("--state", f"{c}=new_{c}")]

    def forward(self, ids, position, *caches):
        cache = transformers.StaticCache(self.network.config, max_cache_len=TOKENS)
        for layer, keys, values in zip(cache.layers, caches[::2], caches[1::2]):
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values, layer.cumulative_length = keys.clone(), values.clone(), position.clone()
        mask = torch.ones(1, TOKENS, dtype=torch.int64)
        logits = self.network(input_ids=ids, attention_mask=mask, cache=cache, use_cache=True).logits
        return logits, position + 1, *(x for layer in cache.layers for x in (layer.keys, layer.values))

    def example(self):
        empty = map(torch.from_numpy, self.empty(TOKENS).values())
        return torch.zeros(1, 1, dtype=torch.int64), torch.tensor(0), *empty

    def first(self):
        return {"position": np.array(0), **self.empty(TOKENS)}

    def beside(self, token):
        return {}


class Growing(Whole):
    """`mask` is 1 where the past has a row and for the new one; `positions` is how many tokens went before."""

    inputs, outputs = ["ids", "mask", "positions", *CACHES], ["logits", *NEW_CACHES]
    options = [part for c in CACHES for part in ("--state", f"{c}=new_{c}")]
    options += ["--state", "mask=@mask", "--state", "positions=@position"]

    def forward(self, ids, mask, positions, *caches):
        cache = transformers.DynamicCache(list(zip(caches[::2], caches[1::2])))
        made = self.network(input_ids=ids, attention_mask=mask, position_ids=positions, cache=cache, use_cache=True)
        return made.logits, *(x for layer in cache.layers for x in (layer.keys, layer.values))

    def example(self):
        one, mask = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, TOKENS, dtype=torch.int64)
        return one, mask, one + TOKENS - 1, *map(torch.from_numpy, self.empty(TOKENS - 1).values())

    def first(self):
        return self.empty(TOKENS - 1)

    def beside(self, token):
        filled = np.arange(TOKENS)[None] >= TOKENS - 1 - token
        return {"mask": filled.astype(np.int64), "positions": np.array([[token]])}


class Open(Growing):
    open_axes = {"mask": {1: "rows"}, **{c: {2: "past"} for c in CACHES}}
    options = [*Growing.options, "--shape", f"past={TOKENS - 1}", "--shape", f"rows={TOKENS}"]


def export(form, path, dynamo):
    """Exports the form to `path`, unless the file is there."""
    if path.exists():
        return
    how = {"external_data": False, "verbose": False} if dynamo else {"opset_version": 17}
    if form.open_axes and dynamo:
        *singles, caches = *form.inputs[: -len(CACHES)], form.open_axes[CACHES[0]]
        axes = [form.open_axes.get(name) for name in singles]
        how["dynamic_shapes"] = (*axes, (caches,) * len(CACHES))
    elif form.open_axes:
        how["dynamic_axes"] = form.open_axes
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.onnx.export(form, form.example(), str(path), dynamo=dynamo, input_names=form.inputs,
                          output_names=form.outputs, **how)


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def kept_outside(form, path, ids):
    """Logits of the tokens of ids [1, tokens] by onnxruntime, whose caller gives what a run leaves to the next."""
    theirs, states, logits = session(path), form.first(), []
    names, known = [y.name for y in theirs.get_outputs()], [x.name for x in theirs.get_inputs()]
    for token in range(ids.shape[1]):
        given = {"ids": ids[:, token : token + 1], **states, **form.beside(token)}
        made = dict(zip(names, theirs.run(None, {name: given[name] for name in known})))
        logits.append(made["logits"])
        for c in CACHES:
            states[c] = made[f"new_{c}"][:, :, -states[c].shape[2] :]
        if "position" in states:
            states["position"] = made["new_position"]
    return np.concatenate(logits, 1)
