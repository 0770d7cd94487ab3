"""Writes keras_int8.json and keras_float8.json: what Keras 3 itself computes in Dense under int8 and float8 policies.

    keras_numbers.py            writes both tables beside this script
    keras_numbers.py --check    computes them again and compares with the committed ones

Needs keras_requirements.txt; runs eagerly, on JAX's CPU backend unless KERAS_BACKEND says numpy (then int8 alone).
Every number of a table is read from Keras's own calls. Beside them stands the same arithmetic in plain numpy
(`formula_...`), one rounding per operation; the script prints how many arrays of both agree to the bit.

Inputs are not in the tables. Each layer has a seed; a splitmix64 stream with state = seed gives, in [-1, 1),

    u = (next number >> 40) / 2^24 * 2 - 1                    float32, exact

keras_int8.json, one record per layer: kernel [in, out] is u 2^kernel_exponent, then, with `bias`, bias [out] is
u 2^bias_exponent, then x [lead.., in] is u 2^x_exponent, all in memory order from one stream. Then its traits, in this
order:

    ties           kernel and x are trunc(254 u) 2^(exponent - 8); kernel[0, :] and x[.., 0] are 254 2^(exponent - 8),
                   so that, the exponents being >= 3, 127 / amax is a power of two and every other code a tie
    spread         row r of x is 2^(-4 r) as large
    constant       kernel[:, 1 mod out] is kernel[0, 1 mod out]
    zero_column    kernel[:, 0] = 0
    outlier        kernel[in / 2, out - 1] is 2^8 and x[0, in / 2] 2^10 as large
    zero_row       the last row of x is 0

`float32` and `bfloat16` hold the results under int8_from_float32 and int8_from_mixed_bfloat16: `kernel`, `x` and `sums`
(int8, int8 and int32; kernel in [in, out] order) as [CRC32C of the little-endian bytes, first four values];
`kernel_scale` (float32, as stored), `x_scale` and `y` (the compute type) as base64 of the little-endian bits.

keras_float8.json, one record per layer, 50 training steps each: bias [out] is u, once; then per step kernel is
u 2^kernel_exponent and x is u 2^x_exponent, in this order from one stream. An exponent of null is a tensor of zeros
(its numbers are drawn all the same); `special` "inf" or "nan" replaces x's element 1. Each step gives

    [x_exponent, kernel_exponent, special, inputs_scale, kernel_scale, inputs_amax_history, kernel_amax_history,
     y, qx, qw]

the four variables after the step (scales as bits in hexadecimal; histories as base64 of their float32, or as CRC32C
where longer than 16; every NaN as 7FC00000), y (float32, base64) and the CRC32C of the quantized and dequantized x and
kernel.
"""

import argparse
import base64
import itertools
import json
import os
import pathlib
import sys
from importlib import metadata

os.environ.setdefault("KERAS_BACKEND", "jax")

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import keras  # noqa: E402
from keras import ops  # noqa: E402

BFLOAT16 = ml_dtypes.bfloat16
LAYERS = 100
STEPS = 50
MASK = (1 << 64) - 1


def splitmix64(seed):
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def uniform(stream, shape):
    numbers = itertools.islice(stream, int(np.prod(shape)))
    return np.array([(z >> 40) / 2**24 * 2 - 1 for z in numbers], np.float32).reshape(shape)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return f"{crc ^ 0xFFFFFFFF:08X}"


def digest(array):
    array = np.asarray(array)
    return [crc32c(array.tobytes()), [int(v) for v in array.reshape(-1)[:4]]]


def base64_of(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def forget_programs():
    """Clears JAX's caches, which keep a compiled program per operation and shape: gigabytes after 200 layers."""
    if keras.config.backend() == "jax":
        import jax

        jax.clear_caches()


class Agreement:
    """Counts arrays whose formula equals Keras to the bit."""

    def __init__(self):
        self.counts = {}

    def note(self, name, found, formula, place):
        equal = same_bits(found, formula)
        agreeing, total = self.counts.get(name, (0, 0))
        self.counts[name] = (agreeing + equal, total + 1)
        if not equal:
            print(f"  {place}: {name} differs from the formula")

    def print(self):
        for name, (agreeing, total) in self.counts.items():
            print(f"  {name:<42} formula = Keras in {agreeing} of {total}")

    def complete(self):
        return all(agreeing == total for agreeing, total in self.counts.values())


# ---- int8


def int8_layers():
    """The 100 layers. Sizes, scales and traits come from a stream of their own; the corners are written out."""
    stream = splitmix64(2026)
    corners = {0: ([6], 48, 24), 1: ([2, 3], 48, 24), 2: ([1], 1, 1), 3: ([1, 1], 1, 24), 4: ([6], 48, 1)}
    for index in range(LAYERS):
        pick = lambda low, high: low + next(stream) % (high - low + 1)  # noqa: E731
        lead = [pick(1, 6)] if pick(0, 2) else [pick(1, 2), pick(1, 3)]
        inputs, outputs = pick(1, 48), pick(1, 24)
        lead, inputs, outputs = corners.get(index, (lead, inputs, outputs))
        x_exponent, kernel_exponent = pick(-20, 13), pick(-20, 13)
        traits = [name for name, odds in (("ties", 7), ("spread", 5), ("constant", 5), ("zero_column", 8),
                                          ("outlier", 5), ("zero_row", 5)) if pick(1, odds) == 1]
        if "ties" in traits:
            x_exponent, kernel_exponent = max(3, x_exponent), max(3, kernel_exponent)
        yield {"seed": 1 + index, "lead": lead, "in": inputs, "out": outputs, "x_exponent": x_exponent,
               "kernel_exponent": kernel_exponent, "bias": pick(0, 3) > 0,
               "bias_exponent": x_exponent + kernel_exponent, "relu": pick(0, 2) == 0, "traits": traits}


def int8_data(layer):
    stream, traits = splitmix64(layer["seed"]), layer["traits"]

    def scaled(shape, exponent):
        u = uniform(stream, shape)
        if "ties" in traits:
            u = np.trunc(u.astype(np.float64) * 254).astype(np.float32) * np.float32(2.0**-8)
        return np.ldexp(u, exponent)

    inputs, outputs = layer["in"], layer["out"]
    kernel = scaled((inputs, outputs), layer["kernel_exponent"])
    bias = np.ldexp(uniform(stream, (outputs,)), layer["bias_exponent"]) if layer["bias"] else None
    x = scaled((int(np.prod(layer["lead"])), inputs), layer["x_exponent"])
    if "ties" in traits:
        kernel[0, :] = np.ldexp(np.float32(254), layer["kernel_exponent"] - 8)
        x[:, 0] = np.ldexp(np.float32(254), layer["x_exponent"] - 8)
    if "spread" in traits:
        x = np.ldexp(x, -4 * np.arange(len(x), dtype=np.int32)[:, None])
    if "constant" in traits:
        kernel[:, 1 % outputs] = kernel[0, 1 % outputs]
    if "zero_column" in traits:
        kernel[:, 0] = 0
    if "outlier" in traits:
        kernel[inputs // 2, outputs - 1] *= np.float32(2.0**8)
        x[0, inputs // 2] *= np.float32(2.0**10)
    if "zero_row" in traits:
        x[-1, :] = 0
    return kernel, bias, x.reshape(layer["lead"] + [inputs])


class Recorder:
    """Stands for the layer's activation quantizer: calls it and keeps what it gave."""

    def __init__(self, quantizer):
        self.quantizer = quantizer

    def __call__(self, x, axis=None):
        self.codes, self.scale = self.quantizer(x, axis=axis)
        return self.codes, self.scale


def keras_int8(layer, source):
    kernel, bias, x = int8_data(layer)
    dense = keras.layers.Dense(layer["out"], activation="relu" if layer["relu"] else None, use_bias=layer["bias"],
                               dtype=source)
    dense.build(x.shape)
    dense.set_weights([kernel] + ([bias] if layer["bias"] else []))
    dense.quantize("int8")
    assert dense.dtype_policy.name == f"int8_from_{source}"
    dense.inputs_quantizer = Recorder(dense.inputs_quantizer)
    y = dense(x)
    codes = ops.convert_to_numpy(dense._kernel.value)
    x_codes, x_scale = (ops.convert_to_numpy(a) for a in (dense.inputs_quantizer.codes, dense.inputs_quantizer.scale))
    return {"kernel": codes, "kernel_scale": ops.convert_to_numpy(dense.kernel_scale.value), "x": x_codes,
            "x_scale": x_scale, "sums": ops.convert_to_numpy(ops.matmul(x_codes, codes)), "y": ops.convert_to_numpy(y)}


def formula_abs_max(x, axis):
    """e = T(amax + T(1e-7)), s = T(127 / e), q = clip(half-even(T(x s)), -127, 127), T the type of x."""
    kind = x.dtype.type
    round_to = lambda v: np.asarray(v, np.float32).astype(x.dtype)  # noqa: E731
    wide = lambda v: np.asarray(v).astype(np.float32)  # noqa: E731
    amax = np.max(np.abs(x), axis=axis, keepdims=True)
    scale = round_to(np.float32(127) / wide(round_to(wide(amax) + wide(kind(1e-7)))))
    product = round_to(wide(x) * wide(scale))
    return np.clip(np.rint(wide(product)), -127, 127).astype(np.int8), scale


def formula_int8(layer, compute):
    """y = relu(T(T(T(sum) / T(T(kernel_scale) x_scale)) + T(bias))); the kernel's codes and scale in float32."""
    kernel, bias, x = int8_data(layer)
    round_to = lambda v: np.asarray(v, np.float32).astype(compute)  # noqa: E731
    wide = lambda v: np.asarray(v).astype(np.float32)  # noqa: E731
    codes, kernel_scale = formula_abs_max(kernel, 0)
    kernel_scale = kernel_scale[0]
    x_codes, x_scale = formula_abs_max(x.astype(compute), -1)
    sums = np.matmul(x_codes.astype(np.int32), codes.astype(np.int32))
    scale = round_to(wide(round_to(kernel_scale)) * wide(x_scale))
    y = round_to(wide(round_to(sums)) / wide(scale))
    if bias is not None:
        y = round_to(wide(y) + wide(round_to(bias)))
    if layer["relu"]:
        y = np.maximum(y, compute(0))
    return {"kernel": codes, "kernel_scale": kernel_scale, "x": x_codes, "x_scale": x_scale, "sums": sums, "y": y}


def int8_table():
    agreement, layers = Agreement(), []
    for layer in int8_layers():
        record = dict(layer)
        for source, compute in (("float32", np.float32), ("mixed_bfloat16", BFLOAT16)):
            found, formula = keras_int8(layer, source), formula_int8(layer, compute)
            for name, array in found.items():
                agreement.note(f"int8_from_{source} {name}", array, formula[name], f"layer {layer['seed']}")
            record[np.dtype(compute).name] = {
                name: base64_of(array) if name in ("kernel_scale", "x_scale", "y") else digest(array)
                for name, array in found.items()}
        layers.append(record)
        forget_programs()
    agreement.print()
    return layers, agreement.complete()


# ---- float8


def float8_layers():
    """(kind, x dims, kernel dims, history length): Dense 16x8 and EinsumDense abc,cd->abd."""
    seed = 500
    for length in (4, 16, 1024):
        for kind, x, kernel in (("dense", [4, 16], [16, 8]), ("einsum_dense", [2, 3, 12], [12, 6])):
            seed += 1
            yield {"seed": seed, "layer": kind, "x": x, "kernel": kernel, "amax_history_length": length}


def float8_steps(layer):
    """x and kernel exponents of the 50 steps: a random walk, then what numbers must survive."""
    stream = splitmix64(9000 + layer["seed"])
    corners = {5: None, 9: 100, 10: -100, 15: None, 16: None, 17: None, 18: None, 19: None, 20: None, 27: 60, 33: -60}
    x = kernel = 0
    for step in range(STEPS):
        x = min(max(x + next(stream) % 5 - 2, -8), 8)
        kernel = min(max(kernel + next(stream) % 3 - 1, -4), 2)
        yield (corners.get(step, x), None if step == 24 else kernel, {12: "inf", 30: "nan"}.get(step))


def float8_data(layer):
    stream = splitmix64(layer["seed"])
    bias = uniform(stream, layer["kernel"][-1:])

    def tensors():
        for x_exponent, kernel_exponent, special in float8_steps(layer):
            kernel, x = uniform(stream, layer["kernel"]), uniform(stream, layer["x"])
            kernel = np.zeros_like(kernel) if kernel_exponent is None else np.ldexp(kernel, kernel_exponent)
            x = np.zeros_like(x) if x_exponent is None else np.ldexp(x, x_exponent)
            if special is not None:
                x.reshape(-1)[1] = np.float32(special)
            yield x, kernel

    return bias, tensors()


STATE = ("inputs_scale", "kernel_scale", "inputs_amax_history", "kernel_amax_history")


def state_of(dense):
    return {name: ops.convert_to_numpy(getattr(dense, name).value) for name in STATE}


def keras_float8(layer):
    """Trains one layer; yields per step the state before it, the state after it, and y."""
    import jax

    policy = keras.dtype_policies.QuantizedFloat8DTypePolicy(
        "float8", "float32", amax_history_length=layer["amax_history_length"])
    assert policy.name == "float8_from_float32"
    bias, tensors = float8_data(layer)
    units = layer["kernel"][-1]
    dense = (keras.layers.Dense(units, dtype=policy) if layer["layer"] == "dense" else
             keras.layers.EinsumDense("abc,cd->abd", output_shape=(None, units), bias_axes="d", dtype=policy))
    dense.build(layer["x"])
    optimizer = keras.optimizers.SGD(learning_rate=0.0)
    optimizer.build(dense.trainable_variables)

    def loss(trainable, fixed, x):
        y, _ = dense.stateless_call(trainable, fixed, x, training=True)
        return ops.sum(y), y

    for x, kernel in tensors:
        dense._kernel.assign(kernel)
        dense.bias.assign(bias)
        before = state_of(dense)
        (_, y), gradients = jax.value_and_grad(loss, has_aux=True)(
            [v.value for v in dense.trainable_variables], [v.value for v in dense.non_trainable_variables], x)
        optimizer.apply(gradients, dense.trainable_variables)
        yield before, state_of(dense), np.asarray(y), x, kernel


def formula_scale(history, scale):
    amax = np.max(history)
    factor = np.float32(448) / amax if amax > 0 and np.isfinite(amax) else np.float32(1) / scale
    return np.asarray(np.float32(1) / factor, np.float32)


def formula_history(history, x):
    history = np.roll(history, -1)
    history[0] = np.max(np.abs(x))
    return history


def formula_float8(before, x, kernel):
    """Keras order: the new scale is of the history before this step, and counts from the next step on."""
    with np.errstate(all="ignore"):
        return {name: formula_scale(before[name.replace("scale", "amax_history")], before[name]) if "scale" in name else
                formula_history(before[name], x if "inputs" in name else kernel) for name in STATE}


def formula_qdq(x, scale):
    with np.errstate(all="ignore"):
        return np.clip(x / scale, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale


def formula_y(layer, qx, qw, bias):
    """float64, with the bias rounded through bfloat16, and the bound 4 eps sqrt(K) sum |terms| on |y - formula|."""
    rounded = bias.astype(BFLOAT16).astype(np.float64)
    with np.errstate(all="ignore"):
        y = qx.astype(np.float64) @ qw.astype(np.float64) + rounded
        bound = np.abs(qx).astype(np.float64) @ np.abs(qw).astype(np.float64) + np.abs(rounded)
    return y, 4 * 2.0**-23 * np.sqrt(layer["kernel"][0]) * bound


def plain_nan(array):
    return np.where(np.isnan(array), np.float32("nan"), array).astype(np.float32)


def float8_table():
    agreement, layers, worst = Agreement(), [], 0.0
    for layer in float8_layers():
        steps, exponents = [], list(float8_steps(layer))
        bias, _ = float8_data(layer)
        for step, (before, after, y, x, kernel) in enumerate(keras_float8(layer)):
            formula, place = formula_float8(before, x, kernel), f"layer {layer['seed']}, step {step}"
            for name in STATE:
                after[name] = plain_nan(after[name])
                agreement.note(f"float8 {name}", after[name], plain_nan(formula[name]), place)
            quantized = []
            for name, tensor in (("inputs_scale", x), ("kernel_scale", kernel)):
                found = plain_nan(ops.convert_to_numpy(keras.quantizers.quantize_and_dequantize(
                    ops.convert_to_tensor(tensor), ops.convert_to_tensor(before[name]), "float8_e4m3fn", "float32")))
                formula_q = plain_nan(formula_qdq(tensor, before[name]))
                agreement.note(f"float8 quantized {name[:-6]}", found, formula_q, place)
                quantized.append(found)
            expected, bound = formula_y(layer, *quantized, bias)
            wrong = (np.isnan(y) != np.isnan(expected)) | (np.abs(y - expected) > bound)
            agreement.note("float8 y within 4 eps sqrt(K)", np.zeros_like(wrong), wrong, place)
            worst = max(worst, float(np.nanmax(np.abs(y - expected) / np.where(bound > 0, bound, 1))))
            history = base64_of if layer["amax_history_length"] <= 16 else lambda h: crc32c(h.tobytes())
            scales = [f"{after[name].reshape(()).view(np.uint32)[()]:08X}" for name in STATE[:2]]
            steps.append([*exponents[step], *scales, *(history(after[name]) for name in STATE[2:]),
                          base64_of(plain_nan(y)), *(crc32c(q.tobytes()) for q in quantized)])
        layers.append({**layer, "steps": steps})
        forget_programs()
    agreement.print()
    print(f"  largest |y - formula| is {worst:.2f} of 4 eps sqrt(K) sum |terms|")
    return layers, agreement.complete()


# ---- tables


def table_text(layers):
    backend = keras.config.backend()
    versions = {"keras": keras.__version__, "backend": f"{backend} {metadata.version(backend)}",
                "numpy": np.__version__, "ml_dtypes": metadata.version("ml_dtypes")}
    rows = ",\n".join(" " + json.dumps(layer, separators=(",", ":")) for layer in layers)
    return f'{{"versions": {json.dumps(versions)},\n"layers": [\n{rows}\n]}}\n', versions


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="compare with the committed tables; write nothing")
    check = parser.parse_args().check
    jobs = [("keras_int8.json", int8_table)] + ([("keras_float8.json", float8_table)]
                                                if keras.config.backend() == "jax" else [])
    good = True
    for name, build in jobs:
        layers, agrees = build()
        text, versions = table_text(layers)
        path = pathlib.Path(__file__).with_name(name)
        if check:
            same = json.loads(path.read_text())["layers"] == json.loads(text)["layers"]
            print(f"{name}: {'the same' if same else 'NOT the same'} as committed; versions here {versions}")
            good &= same
        else:
            path.write_text(text)
            print(f"{name}: {len(text)} bytes, {versions}")
        good &= agrees
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
