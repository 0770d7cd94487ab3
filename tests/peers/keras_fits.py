"""Writes keras_fits.json: the codes, scales and zero points that Keras 3's own GPTQ and AWQ give small Dense layers.

    keras_fits.py            writes the table beside this script
    keras_fits.py --check    computes it again and compares with the committed one

Needs keras_requirements.txt; JAX's CPU backend, float32. The splitmix64 stream of a layer's seed gives numbers u as in
keras_numbers.py: kernel [in, out] first, then x [rows, in], in float32:

    diagonal   rows = in, x_ii = 1/16 + |4 u|, all else 0
    pairs      row r has 2 p and 2 p + 1 alone, p = r mod in / 2: x_2p = u, x_2p+1 = u / 2 + 3/4 x_2p
    full       per row c = u; x_i = (u + 3/2 c) 2^-(i mod 3)

`by` says what of Keras was called:

    gptq       GPTQ(layer).quantize_and_correct_layer(). Keras 3.15.1 propagates errors with the rows of H^-1 as it is
               at the start, where GPTQ eliminates each term from it first (Frantar et al. 2022, eq. 3). The two are the
               same where H^-1 is made of 2 x 2 blocks: `diagonal` and `pairs`.
    rows       gptq_quantize_matrix() with the upper Cholesky factor of H^-1 in place of H^-1, made in float64: GPTQ as
               the paper has it. blocksize = group: then Keras finds a group's scales from the weights as they are by then.
               `own_error` is the squared error of the outputs, over the samples, of what `gptq` gives the same layer.
    awq        AWQ(layer).quantize_layer(). Keras weighs the error by the square of the largest |x| of each input; on
               `diagonal` that is the error of the outputs.

`codes` has a string per output, a hexadecimal digit per term for up to 4 bits, two for 8; codes and zero
points are Keras's, from 0. `factors` are awq_scales.
"""

import argparse
import json
import os
import pathlib
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import numpy as np  # noqa: E402
import keras  # noqa: E402
from keras.src.quantizers.awq import AWQ  # noqa: E402
from keras.src.quantizers.awq_config import AWQConfig  # noqa: E402
from keras.src.quantizers.gptq import GPTQ, gptq_quantize_matrix  # noqa: E402
from keras.src.quantizers.gptq_config import GPTQConfig  # noqa: E402
from keras.src.quantizers.quantizers import GPTQQuantizer  # noqa: E402

from keras_numbers import splitmix64, uniform  # noqa: E402

F32 = np.float32


def samples(kind, stream, rows, inputs):
    x = np.zeros((rows, inputs), np.float32)
    u = lambda: uniform(stream, (1,))[0]  # noqa: E731
    for r in range(rows):
        if kind == "diagonal":
            x[r, r] = F32(0.0625) + abs(F32(4) * u())
        elif kind == "pairs":
            p = r % (inputs // 2)
            x[r, 2 * p] = u()
            x[r, 2 * p + 1] = F32(0.5) * u() + F32(0.75) * x[r, 2 * p]
        else:
            c = F32(1.5) * u()
            for i in range(inputs):
                x[r, i] = (u() + c) * F32(2.0 ** -(i % 3))
    return x


def layers():
    """by, kind, in, out, rows, group, bits, activation_order"""
    rows = [("gptq", "diagonal", 32, 6, 32, 16, 4, 0)]
    rows += [("gptq", "pairs", 32, 8, 64, group, bits, 0)
             for group, bits in ((-1, 4), (16, 4), (16, 3), (16, 2), (32, 8), (-1, 8))]
    rows += [("rows", "full", inputs, 8, 96, group, bits, 0)
             for inputs, group, bits in ((32, 32, 4), (48, 16, 4), (48, 16, 3), (48, 24, 2), (64, 32, 8), (96, 32, 4))]
    rows += [("rows", "full", 48, 8, 96, -1, bits, 1) for bits in (4, 3)]
    rows += [("awq", "diagonal", inputs, 8, inputs, group, 4, 0)
             for inputs, group in ((32, 16), (32, -1), (48, 16), (64, 32), (96, 32))]
    return [dict(zip(("by", "kind", "in", "out", "rows", "group", "bits", "activation_order"), row), seed=100 + i)
            for i, row in enumerate(rows)]


def built(kernel):
    layer = keras.layers.Dense(kernel.shape[1], use_bias=False)
    layer.build((None, kernel.shape[0]))
    layer.set_weights([kernel])
    return layer


def unpacked(layer, terms, bits, outputs):
    """[out, in] codes of a layer that Keras quantized: two 4-bit codes a byte along the outputs."""
    codes = np.asarray(layer.quantized_kernel)
    if bits == 4:
        codes = np.stack([codes & 15, codes >> 4], 1).reshape(-1, terms)[:outputs]
    return codes.astype(int)


def own_gptq(layer, kernel, x):
    config = GPTQConfig(None, None, weight_bits=layer["bits"], group_size=layer["group"],
                        activation_order=bool(layer["activation_order"]))
    dense = built(kernel)
    dense.quantize("gptq", config=config)
    fit = GPTQ(dense, config)
    fit.update_hessian_with_batch(x)
    fit.quantize_and_correct_layer()
    return (unpacked(dense, layer["in"], layer["bits"], layer["out"]), np.asarray(dense.kernel_scale),
            np.asarray(dense.kernel_zero), np.asarray(dense.g_idx).astype(int))


def reals(found):
    codes, scale, zero, index = found[:4]
    return (codes - zero[:, index].astype(int)) * scale[:, index].astype(np.float64)


def by_rows(layer, kernel, x):
    wide = x.astype(np.float64)
    hessian = 2 / len(x) * wide.T @ wide
    hessian += 0.01 * np.mean(np.diag(hessian)) * np.eye(len(hessian))
    order = np.argsort(-np.diag(hessian), kind="stable") if layer["activation_order"] else np.arange(len(hessian))
    inverse = np.linalg.inv(hessian[np.ix_(order, order)])
    upper = np.linalg.cholesky(inverse).T
    rows = np.zeros_like(upper)
    rows[np.ix_(order, order)] = upper
    config = GPTQConfig(None, None, weight_bits=layer["bits"], group_size=layer["group"])
    found = gptq_quantize_matrix(
        keras.ops.transpose(kernel), rows.astype(np.float32),
        blocksize=layer["group"] if layer["group"] > 0 else layer["in"], group_size=layer["group"],
        activation_order=bool(layer["activation_order"]), order_metric=np.diag(hessian).astype(np.float32),
        compute_scale_zero=GPTQQuantizer(config).find_params)
    codes, scale, zero, index = [np.asarray(v) for v in found]
    return codes.astype(int), scale, zero, index.astype(int)


def own_awq(layer, kernel, x):
    config = AWQConfig(None, None, group_size=layer["group"])
    dense = built(kernel)
    dense.quantize("awq", config=config)
    fit = AWQ(dense, config)
    fit.update_activation_magnitudes(x)
    fit.quantize_layer()
    return (unpacked(dense, layer["in"], 4, layer["out"]), np.asarray(dense.kernel_scale),
            np.asarray(dense.kernel_zero), np.asarray(dense.g_idx).astype(int), np.asarray(dense.awq_scales))


def numbers(array):
    return [float(v) for v in np.asarray(array, np.float32).reshape(-1)]


def fitted(layer):
    stream = splitmix64(layer["seed"])
    kernel = uniform(stream, (layer["in"], layer["out"]))
    x = samples(layer["kind"], stream, layer["rows"], layer["in"])
    found = {"gptq": own_gptq, "rows": by_rows, "awq": own_awq}[layer["by"]](layer, kernel, x)
    digits = "0123456789abcdef"
    text = (lambda q: digits[q]) if layer["bits"] <= 4 else (lambda q: digits[q >> 4] + digits[q & 15])
    result = dict(layer, codes=["".join(text(q) for q in row) for row in found[0]], scale=numbers(found[1]),
                  zero=[int(v) for v in found[2].reshape(-1)])
    if layer["by"] == "awq":
        result["factors"] = numbers(found[4])
    if layer["by"] == "rows" and not layer["activation_order"]:
        error = reals(own_gptq(layer, kernel, x)) - kernel.T
        result["own_error"] = float(2 / len(x) * np.sum((x.astype(np.float64) @ error.T) ** 2))
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="compare with the committed table; write nothing")
    check = parser.parse_args().check
    rows = [json.dumps(fitted(layer)) for layer in layers()]
    versions = {"keras": keras.__version__, "backend": keras.config.backend(), "numpy": np.__version__}
    text = '{"versions": %s,\n"layers": [\n%s\n]}\n' % (json.dumps(versions), ",\n".join(rows))
    path = pathlib.Path(__file__).parent / "keras_fits.json"
    if check:
        same = path.read_text() == text
        print(path.name, "is the same" if same else "differs")
        return 0 if same else 1
    path.write_text(text)
    print(path.name, len(rows), "layers,", len(text), "bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
