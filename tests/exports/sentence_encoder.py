"""Claim sentence_encoder: an encoder of the size of all-MiniLM-L6-v2 (6 layers, 384 wide, 12 heads, 30,522 words) with
random weights, as both of torch's exporters write it: in float32 within 1e-4 of torch's, in int8 and float8 with a
cosine above 0.99.

    sentence_encoder.py NACRE FOLDER [--write TABLE]

Sentences are token ids, of 4 to 32 tokens, padded. Beside the cosines stands the largest one between two sentences.
"""
import argparse
import logging
import pathlib
import sys
import warnings

import numpy as np
import torch

from compare import Converted, versions
from make_language import SentenceEncoder
from networks import unsettle

SIZES = dict(vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
             max_position_embeddings=512)
SENTENCES, LENGTH = 8, 32
POLICIES = {"float32": None, "int8_from_float32": 0.99, "float8/current_from_float32": 0.99}


def sentences():
    random = np.random.default_rng(1)
    for count in random.integers(4, LENGTH + 1, SENTENCES):
        ids, mask = np.zeros((2, 1, LENGTH), np.int64)
        ids[0, :count], mask[0, :count] = random.integers(1, SIZES["vocab_size"], count), 1
        yield ids, mask


def cosines(a, b):
    return np.sum(a * b, -1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nacre")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--write", metavar="TABLE", type=pathlib.Path, help="writes what it prints to this file too")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(1)
    network = unsettle(SentenceEncoder(**SIZES)).eval()
    given = list(sentences())
    with torch.no_grad():
        wanted = np.concatenate([network(*map(torch.from_numpy, pair)).numpy() for pair in given]).astype(np.float64)
    between = max(cosines(wanted[i], wanted[j]) for i in range(SENTENCES) for j in range(i))
    lines, right = [versions(), f"cosine between two different sentences: at most {between:.3f}"], between < 0.99
    for dynamo in (False, True):
        path = arguments.folder / f"sentence_encoder_{'dynamo' if dynamo else 'trace'}.onnx"
        how = {"external_data": False, "verbose": False} if dynamo else {"opset_version": 17}
        if not path.exists():
            operands = tuple(map(torch.from_numpy, given[0]))
            torch.onnx.export(network, operands, str(path), dynamo=dynamo, input_names=["ids", "mask"], **how)
        for policy, least in POLICIES.items():
            model = Converted(arguments.nacre, path, "--policy", policy)
            made = [model.run({"in.ids": ids, "in.mask": mask}) for ids, mask in given]
            made = np.concatenate([next(iter(y.values())) for y in made]).astype(np.float64)
            far, alike = np.abs(made - wanted).max() / np.abs(wanted).max(), cosines(made, wanted).min()
            right &= bool(far <= 1e-4 if least is None else alike > least)
            lines.append(f"{path.stem}, {policy}: {far:.1e} of the largest value apart, cosine at least {alike:.5f}")
    shown = "shown" if right else "NOT SHOWN"
    lines.append(f"CLAIM sentence_encoder {shown}: {SENTENCES} sentences, 2 exporters, {len(POLICIES)} policies")
    print("\n".join(lines))
    if arguments.write:
        arguments.write.write_text("\n".join(lines) + "\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
