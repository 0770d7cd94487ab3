"""Claim streams: networks whose state stays in the engine from run to run (nacre convert --state), one run after the
other, beside who keeps the state outside.

    streams.py NACRE FOLDER MODELS [--write TABLE]     MODELS holds silero/ and tflm/

silero   two words, each 50 chunks of sound and a stream of its own, within 1e-4 of onnxruntime, whose caller feeds the
         state back
dtln     6 frames, equal to LiteRT's codes (tests/peers/streams_litert.json) with --rounding litert
tokens   two sentences of 72 tokens, each token a run, by the networks and caches of stream_caches.py: within 1e-4 of
         torch, and of Nacre, for a whole sentence at once, and of onnxruntime with the cache outside; in int8 a cosine
         above 0.99. A fixed cache that is full refuses another token.
"""
import argparse
import json
import logging
import pathlib
import sys
import warnings

import numpy as np
import torch

from compare import Converted, Refused, distance, versions
from stream_caches import TOKENS, WORDS, Fixed, Growing, Open, Whole, export, gpt2, kept_outside, llama, session

CHUNKS, CONTEXT, NEW = 50, 64, 512
POLICIES = {"float32": None, "int8_from_float32": 0.99}
PEERS = pathlib.Path(__file__).parent.parent / "peers"


def chunks_of(sound):
    """[CHUNKS, CONTEXT + NEW]: each begins with the end of the one before."""
    long = np.zeros(CONTEXT + CHUNKS * NEW, np.float32)
    long[CONTEXT : CONTEXT + len(sound)] = sound / np.float32(32768)
    return np.stack([long[i * NEW : (i + 1) * NEW + CONTEXT] for i in range(CHUNKS)])


def silero(nacre, models):
    path = models / "silero/silero_vad_openvino_16k.onnx"
    words = [np.frombuffer((models / f"tflm/{word}_1000ms.wav").read_bytes()[44:], "<i2") for word in ("yes", "no")]
    streams, theirs, wanted = [chunks_of(word) for word in words], session(path), []
    for chunks in streams:
        state = np.zeros((2, 1, 128), np.float32)
        for chunk in chunks:
            y, state = theirs.run(["output", "stateN"], {"input": chunk[None], "state": state})
            wanted.append(y.ravel()[0])
    model = Converted(nacre, path, "--state", "state=stateN")
    mine = np.concatenate([model.run({"in.input": chunks})["output"] for chunks in streams])
    far = float(np.abs(mine.ravel() - np.array(wanted)).max())
    text = f"silero: {len(words)} streams of {CHUNKS} chunks, {far:.1e} from onnxruntime"
    return f"{text}, speech {min(wanted):.3f} to {max(wanted):.3f}", far <= 1e-4


def drawn(run, count):
    """Returns `count` int8 codes, drawn as tests/peers/streams_tflite.py draws them."""
    state, codes = run + 1, []
    for _ in range(count):
        state = (1664525 * state + 1013904223) % 2**32
        codes.append((state >> 24) - 128)
    return np.array(codes, np.int8)


def dtln(nacre, models):
    path = models / "tflm/dtln_noise_suppression.tflite"
    table = json.loads((PEERS / "streams_litert.json").read_text())["networks"]
    wanted = np.array(next(network["runs"] for network in table if network["file"] == path.name))
    frames = np.stack([drawn(run, wanted.shape[1]) for run in range(len(wanted))])
    converted = Converted(nacre, path, "--rounding", "litert")
    made = next(iter(converted.run({"in.input_7": frames[:, None]}).values())).reshape(wanted.shape)
    apart = np.abs(made.astype(int) - wanted)
    text = f"dtln: {len(wanted)} frames of {wanted.shape[1]} codes, {(apart > 0).sum()} other than LiteRT's, by at most"
    return f"{text} {apart.max()}", apart.max() == 0


def cosine(a, b):
    return float((np.sum(a * b, -1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)).min())


class Tokens:
    """Two sentences, by a network at once and token by token."""

    def __init__(self, nacre, folder, build):
        self.nacre, self.folder, self.name, self.built = nacre, folder, build.__name__, build()
        self.sentences = np.random.default_rng(1).integers(0, WORDS, (2, TOKENS))
        whole = Whole(*self.built).eval()
        with torch.no_grad():
            self.torchs = np.concatenate([whole(torch.from_numpy(ids[None])).numpy() for ids in self.sentences])
        path = folder / f"{self.name}_whole.onnx"
        export(whole, path, dynamo=False)
        self.at_once = {}
        for policy in POLICIES:
            made = Converted(nacre, path, "--policy", policy).run({"in.ids": self.sentences[:, None]})["logits"]
            self.at_once[policy] = made.reshape(self.torchs.shape)

    def one_by_one(self, kind, exporter):
        form, name = kind(*self.built).eval(), f"{self.name} {kind.__name__.lower()} {exporter}"
        path = self.folder / (name.replace(" ", "_") + ".onnx")
        export(form, path, dynamo=exporter == "dynamo")
        theirs = np.concatenate([kept_outside(form, path, ids[None]) for ids in self.sentences])
        for policy, least in POLICIES.items():
            model = Converted(self.nacre, path, "--policy", policy, *form.options)
            made = [model.run({"in.ids": ids[:, None, None]})["logits"] for ids in self.sentences]
            made = np.stack(made).reshape(self.torchs.shape)
            far = [distance(made, other) for other in (self.torchs, self.at_once[policy], theirs)]
            alike = cosine(made, self.torchs)
            text = "{:.1e} from torch, {:.1e} from Nacre at once, {:.1e} from onnxruntime".format(*far)
            holds = max(far) <= 1e-4 if least is None else alike > least
            yield f"{name}, {policy}: {text}, cosine {alike:.5f}", holds
        if kind is Fixed:
            yield self.one_too_many(name, model)

    def one_too_many(self, name, model):
        try:
            model.run({"in.ids": np.zeros((TOKENS + 1, 1, 1), np.int64)})
        except Refused as refused:
            return f"{name}, token {TOKENS + 1} of a stream: {str(refused).split(': ', 2)[-1]}", True
        return f"{name}: a full cache took another token", False


def results(nacre, folder, models):
    yield silero(nacre, models)
    yield dtln(nacre, models)
    for build in (gpt2, llama):
        tokens = Tokens(nacre, folder, build)
        for kind in (Fixed, Growing, Open):
            for exporter in ("trace", "dynamo"):
                yield from tokens.one_by_one(kind, exporter)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nacre")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--write", metavar="TABLE", type=pathlib.Path, help="writes what it prints to this file too")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    lines, wrong = [versions()], 0
    for text, holds in results(arguments.nacre, arguments.folder, arguments.models):
        lines.append(text if holds else f"WRONG {text}")
        wrong += not holds
        print(lines[-1], file=sys.stderr, flush=True)
    what = f"silero over 2 x {CHUNKS} chunks, DTLN over 6 frames, GPT-2 and Llama over 2 x {TOKENS} tokens"
    lines.append(f"CLAIM streams {'NOT SHOWN' if wrong else 'shown'}: {what}, {len(lines) - 1} lines, {wrong} wrong")
    print("\n".join(lines))
    if arguments.write:
        arguments.write.write_text("\n".join(lines) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
