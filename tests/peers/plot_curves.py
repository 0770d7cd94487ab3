#!/usr/bin/env python3
"""Plots the loss curves that claims framework_parity compares: plot_curves.py DIR OUT.png

DIR holds NETWORK.csv as `NACRE_CURVES=DIR claims framework_parity` writes them. Above the losses, below the distance of each
float32 curve from JAX's float64 one, relative: two float32 trainings part from each other as each parts from float64.
Needs matplotlib.
"""
import csv
import pathlib
import sys

import matplotlib

matplotlib.use("agg")
matplotlib.rcParams.update({"font.size": 8, "path.simplify_threshold": 1.0})
import matplotlib.pyplot as plt
from PIL import Image


def read(path):
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def main(folder, out):
    files = sorted(pathlib.Path(folder).glob("*.csv"))
    if not files:
        sys.exit(f"plot_curves: {folder}: no CSV files; NACRE_CURVES={folder} claims framework_parity writes them")
    figure, axes = plt.subplots(2, len(files), figsize=(2.6 * len(files), 4.4), sharex=True, constrained_layout=True)
    for (above, below), path in zip(axes.T, files):
        curves = read(path)
        above.plot(curves["step"], curves["jax_float32"], color="#4477aa", linewidth=2.2, label="JAX float32")
        above.plot(curves["step"], curves["nacre_float32"], color="#ee6677", linewidth=0.9, label="Nacre float32")
        above.set_title(path.stem)
        above.set_yscale("log")
        exact = curves["jax_float64"]
        for name, colour, width in (("jax_float32", "#4477aa", 1.6), ("nacre_float32", "#ee6677", 0.8)):
            below.plot(curves["step"], [max(abs(a - b) / abs(b), 1e-9) for a, b in zip(curves[name], exact)], color=colour, linewidth=width)
        below.set_yscale("log")
        below.set_ylim(1e-9, 1)
        below.axvline(20, color="#888888", linewidth=0.6, linestyle=":")
        below.set_xlabel("step")
    axes[0][0].set_ylabel("loss")
    axes[1][0].set_ylabel("relative distance from float64")
    axes[0][0].legend(fontsize=7, frameon=False)
    figure.savefig(out)
    Image.open(out).convert("RGB").quantize(16).save(out, optimize=True)  # a quarter of the bytes


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
