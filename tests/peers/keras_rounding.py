"""Writes keras_rounding.json: what Keras 3's Dense gives under policies whose every operation rounds.

    keras_rounding.py            writes the table beside this script
    keras_rounding.py --check    computes it again and compares with the committed one

Needs keras_requirements.txt; runs eagerly on two backends, JAX's CPU and torch's, each in
a process of its own. Every y is Keras's own. Beside it stands the same arithmetic in plain numpy (`formula_...`), one
rounding per operation; the script prints in how many layers both agree to the bit.

Inputs are not in the table: keras_numbers.py says what a seed stands for. Each layer draws kernel [in, 12], bias [12]
and x [8, in] in this order from one stream; with c(u) = trunc(31 u) / 16,

    coarse    kernel and x are c(u), bias is 2 c(u)
    fine      kernel and x are u, bias is 2 u
    grid      kernel is low_k + trunc(8 u + 8), low_k = trunc(7 u + 7) - 14 drawn behind the kernel, but 13 of k = 0 and
              -28 of k = 1; rows 8 g are low_k, rows 8 g + 1 low_k + 15, so that a group of 8 rows has the scale 1, under
              `with_zero` but for k < 2; bias is 2 c(u); x is trunc(29 u) / 16, its first element 28 / 16, so that scales
              of float8 are powers of two

 Under `policies` there is for each layer

    y        base64 of the little-endian bits, of the compute type, by JAX
    torch    the same by torch, where it differs: XLA makes a quotient of float16 by a scale of each output a product
             with its reciprocal; torch adds the 1e-7 of abs-max quantizers in float32, to float64 too
    exact    base64 of one bit per element of y: its sum of products is exact in float32 in any order, for every term is
             a multiple of one power of two p, and their magnitudes add up to less than 2^24 p
    size     in float32: base64 of the sums of the magnitudes of terms and bias, float32, which bound what the order does

Policies have Keras's names. int4/B are Dense layers that `quantize` coded, in groups of B = 8 rows. The name behind a
`+` is the rule by which groups got their range: `keras` is the release's own rule, `with_zero` the same rule on groups
with one more row of zeros. Scales of float8 are compute_float8_scale of the largest magnitude of x and of the kernel.
"""

import argparse
import base64
import json
import os
import pathlib
import subprocess
import sys

TABLE = pathlib.Path(__file__).with_name("keras_rounding.json")
KINDS = {"grid": (28, (8, 16, 24)), "coarse": (8, (6, 13)), "fine": (8, (20, 77))}  # how many, and with how many inputs
ROWS, OUTPUTS, BLOCK = 8, 12, 8
POLICIES = ("mixed_bfloat16", "mixed_float16", "bfloat16", "float16", "float8_from_mixed_bfloat16",
            "float8_from_mixed_float16", "int8_from_float64", "int4_from_mixed_bfloat16", "int4_from_mixed_float16",
            "int4/8_from_float32+keras", "int4/8_from_float32+with_zero", "int4/8_from_mixed_bfloat16+keras",
            "int4/8_from_mixed_bfloat16+with_zero", "int4/8_from_mixed_float16+keras",
            "int4/8_from_mixed_float16+with_zero")


def layers(splitmix64):
    stream = splitmix64(314)
    seed = 7000
    for kind, (count, sizes) in KINDS.items():
        for _ in range(count):
            seed += 1
            yield {"seed": seed, "kind": kind, "in": sizes[next(stream) % len(sizes)], "bias": next(stream) % 4 > 0,
                   "relu": next(stream) % 3 == 0}


def compute_type(policy):
    import ml_dtypes
    import numpy as np

    source = policy.split("+")[0].split("_from_")[-1].replace("mixed_", "")
    return {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float64": np.float64}.get(source, np.float32)


class Numbers:
    """One layer: its inputs, and its outputs under a policy, from Keras and from the formula."""

    def __init__(self, layer):
        import numpy as np

        import keras_numbers as numbers

        self.np, self.layer = np, layer
        stream, kind = numbers.splitmix64(layer["seed"]), layer["kind"]
        u = lambda *shape: numbers.uniform(stream, shape)  # noqa: E731
        coarse = lambda v: np.trunc(v * np.float32(31)) / np.float32(16)  # noqa: E731
        drawn = (lambda v: v) if kind == "fine" else coarse
        self.kernel = u(layer["in"], OUTPUTS)
        if kind == "grid":
            codes, low = np.trunc(8 * self.kernel + 8), np.trunc(7 * u(OUTPUTS) + 7) - 14
            codes[0::BLOCK], codes[1::BLOCK], low[0], low[1] = 0, 15, 13, -28
            self.kernel = (low + codes).astype(np.float32)
        else:
            self.kernel = drawn(self.kernel)
        self.bias = 2 * drawn(u(OUTPUTS)) if layer["bias"] else None
        self.x = u(ROWS, layer["in"])
        self.x = np.trunc(29 * self.x) / np.float32(16) if kind == "grid" else drawn(self.x)
        if kind == "grid":
            self.x[0, 0] = 1.75
        for array in (self.kernel, self.x):
            assert array.dtype == np.float32

    # ---- Keras

    def keras(self, policy):
        import keras
        from keras import ops

        name, _, rule = policy.partition("+")
        mode, _, source = name.rpartition("_from_")
        dense = keras.layers.Dense(OUTPUTS, activation="relu" if self.layer["relu"] else None,
                                   use_bias=self.bias is not None, dtype=source)
        dense.build(self.x.shape)
        dense.set_weights([self.kernel] + ([self.bias] if self.bias is not None else []))
        if mode.startswith("int4"):
            block = int(mode.partition("/")[2]) if "/" in mode else None
            dense.quantize("int4", config=keras.quantizers.Int4QuantizationConfig(block_size=block))
            if rule == "with_zero":
                codes, scale, zero = self.codes_with_zero()
                dense._kernel.assign(keras.quantizers.pack_int4(ops.convert_to_tensor(codes), axis=-1)[0])
                dense.kernel_scale.assign(scale)
                dense.kernel_zero.assign(zero)
        elif mode:
            dense.quantize(mode)
        if mode == "float8":
            dense.inputs_scale.assign(self.float8_scale(self.x.astype(compute_type(policy))))
            dense.kernel_scale.assign(self.float8_scale(self.kernel.astype(compute_type(policy))))
        if mode:
            assert dense.dtype_policy.name == name.replace("int4_", "int4/-1_"), dense.dtype_policy.name
        x = self.x.astype(self.np.float64) if policy.endswith("float64") else self.x
        y = ops.convert_to_numpy(dense(x))
        if keras.config.backend() == "torch" and str(y.dtype) != self.np.dtype(compute_type(policy)).name:
            y = y.astype(compute_type(policy))  # torch's bfloat16 reaches numpy as float32: exact
        return y

    def float8_scale(self, tensor):
        import keras

        amax = self.np.float32(self.np.max(self.np.abs(tensor.astype(self.np.float32))))
        return keras.ops.convert_to_numpy(
            keras.quantizers.compute_float8_scale(keras.ops.convert_to_tensor(amax),
                                                  keras.ops.convert_to_tensor(self.np.float32(1)),
                                                  keras.ops.convert_to_tensor(self.np.float32(448))))

    def grouped(self, kernel, block):
        import keras

        return [keras.ops.convert_to_numpy(a) for a in keras.quantizers.abs_max_quantize_grouped_with_zero_point(
            keras.ops.convert_to_tensor(kernel), block_size=block, to_numpy=True)]

    def codes_with_zero(self):
        np = self.np
        groups = -(-self.layer["in"] // BLOCK)
        padded = np.zeros((groups * BLOCK, OUTPUTS), np.float32)
        padded[: self.layer["in"]] = self.kernel
        longer = np.concatenate([padded.reshape(groups, BLOCK, OUTPUTS), np.zeros((groups, 1, OUTPUTS), np.float32)], 1)
        codes, scale, zero = self.grouped(longer.reshape(-1, OUTPUTS), BLOCK + 1)
        codes = codes.reshape(groups, BLOCK + 1, OUTPUTS)[:, :BLOCK].reshape(-1, OUTPUTS)[: self.layer["in"]]
        return codes, scale, zero

    # ---- the formula

    def formula(self, policy):
        """y, for each of its elements whether its sum is exact in float32 in any order, and the sum of magnitudes."""
        import ml_dtypes

        np, kind = self.np, compute_type(policy)
        name, _, rule = policy.partition("+")
        mode, _, source = name.rpartition("_from_")
        variable = np.float32 if source.startswith("mixed") else kind
        kernel, x = self.kernel.astype(variable), self.x.astype(kind)
        divisor = None
        if mode == "float8":
            def quantized(tensor):
                scale = self.float8_scale(tensor).astype(kind)
                codes = np.clip(tensor / scale, kind(-448), kind(448)).astype(np.float32)
                return codes.astype(ml_dtypes.float8_e4m3fn).astype(kind) * scale

            x, weights = quantized(x), quantized(kernel.astype(kind))
        elif mode == "int8":
            def absmax(tensor, axis):
                scale = kind(127) / (np.max(np.abs(tensor), axis=axis, keepdims=True) + kind(1e-7))
                return np.clip(np.rint(tensor * scale), -127, 127), scale

            weights, weight_scale = absmax(kernel.astype(kind), 0)
            x, x_scale = absmax(x, -1)
            divisor = weight_scale * x_scale
        elif mode == "int4":
            scale = np.float32(7) / (np.max(np.abs(kernel), axis=0) + np.float32(1e-7))
            weights, divisor = np.clip(np.rint(kernel * scale), -8, 7).astype(kind), scale.astype(kind)
        elif mode:
            codes, scale, zero = self.grouped(kernel, BLOCK) if rule == "keras" else self.codes_with_zero()
            group = np.arange(self.layer["in"]) // BLOCK
            weights = (codes.astype(kind) - zero.astype(kind)[group]) * scale.astype(kind)[group]
        else:
            weights = kernel.astype(kind)
        terms = x.astype(np.float64)[:, :, None] * weights.astype(np.float64)[None, :, :]
        y = np.sum(terms, axis=1).astype(np.float64 if kind is np.float64 else np.float32).astype(kind)
        if divisor is not None:
            y = y / divisor
        if self.bias is not None:
            y = y + self.bias.astype(variable).astype(kind)
        if self.layer["relu"]:
            y = np.maximum(y, kind(0))
        size = np.sum(np.abs(terms), axis=1) + (0 if self.bias is None else np.abs(self.bias.astype(np.float64)))
        return y, self.exact(terms), size.astype(np.float32)

    def exact(self, terms):
        np = self.np
        mantissa, exponent = np.frexp(terms)
        integer = np.abs(mantissa * 2.0**53).astype(np.int64)
        lowest = np.where(integer == 0, 1 << 62, integer & -integer)
        unit = np.where(terms == 0, np.inf, lowest * np.ldexp(1.0, exponent - 53)).min(axis=1)
        return np.sum(np.abs(terms), axis=1) < 2.0**24 * unit


def raw(policies):
    """Returns the outputs of this process's backend, {policy: [base64 of y]}, with versions."""
    import keras_numbers as numbers
    from importlib import metadata
    import keras

    result = {policy: [] for policy in policies}
    for layer in layers(numbers.splitmix64):
        of_layer = Numbers(layer)
        for policy in policies:
            result[policy].append(numbers.base64_of(of_layer.keras(policy)))
    backend = keras.config.backend()
    return {"versions": {"keras": keras.__version__, backend: metadata.version(backend)}, "policies": result}


def of_backend(backend, policies, wide=False):
    environment = dict(os.environ, KERAS_BACKEND=backend, JAX_ENABLE_X64="1" if wide else "0")
    command = [sys.executable, __file__, "--raw", ",".join(policies)]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def table():
    import numpy as np

    import keras_numbers as numbers

    narrow = [policy for policy in POLICIES if "float64" not in policy]
    wide = [policy for policy in POLICIES if "float64" in policy]
    jax, torch = of_backend("jax", narrow), of_backend("torch", POLICIES)
    jax["policies"].update(of_backend("jax", wide, wide=True)["policies"])
    drawn = list(layers(numbers.splitmix64))
    policies = {}
    for policy in POLICIES:
        records, agree, exact_outputs, other = [], 0, 0, 0
        for index, layer in enumerate(drawn):
            y, exact, size = Numbers(layer).formula(policy)
            record = {"y": jax["policies"][policy][index],
                      "exact": base64.b64encode(np.packbits(exact.reshape(-1), bitorder="little").tobytes()).decode()}
            if compute_type(policy) is np.float32:
                record["size"] = numbers.base64_of(size)
            if torch["policies"][policy][index] != record["y"]:
                record["torch"] = torch["policies"][policy][index]
                other += 1
            agree += numbers.base64_of(y) == record["y"]
            exact_outputs += int(exact.sum())
            records.append(record)
        print(f"  {policy:<40} formula = JAX in {agree} of {len(drawn)} layers, torch other in {other}; "
              f"{exact_outputs} of {len(drawn) * ROWS * OUTPUTS} sums exact")
        policies[policy] = records
    versions = {**jax["versions"], **torch["versions"]}
    rows = ",\n".join(" " + json.dumps(layer, separators=(",", ":")) for layer in drawn)
    blocks = ",\n".join(
        f' "{name}": [\n' + ",\n".join("  " + json.dumps(r, separators=(",", ":")) for r in records) + "\n ]"
        for name, records in policies.items())
    return f'{{"versions": {json.dumps(versions)},\n"layers": [\n{rows}\n],\n"policies": {{\n{blocks}\n}}}}\n'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="compare with the committed table; write nothing")
    parser.add_argument("--raw", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.raw:
        print(json.dumps(raw(arguments.raw.split(","))))
        return 0
    text = table()
    if arguments.check:
        same = json.loads(TABLE.read_text()) == json.loads(text)
        print(f"{TABLE.name}: {'the same' if same else 'NOT the same'} as committed")
        return 0 if same else 1
    TABLE.write_text(text)
    print(f"{TABLE.name}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
