"""Writes keras_policy_json.json: what Keras 3 makes of the policy files that nacre writes for it, and of two oddities.

    keras_policy_json.py NACRE [--output FILE]      writes the table (default: beside this script)
    keras_policy_json.py NACRE --check              makes it again and compares with the committed one

NACRE is the built tool. Needs keras and a backend (KERAS_BACKEND, default jax). The table, JSON:

    versions, seed
    files      each with
        names     of the layers of a network, drawn from splitmix64 with state = seed
        request   the policies, as `nacre convert --policy-file` takes them
        written   what `--emit-policy keras=FILE` wrote
        answers   for each name the policy that dtype_policies.deserialize(written) has for this path:
                  {class, name, compute, variable, mode, block, amax}
    defaults   maps whose default is a map: {json, path, answer}, the answer as above without class and name, or
               {json, refused} of the constructor
    lengths    of amax_history_length: {length, policy, built, called}: whether Keras makes the policy, builds a dense
               layer of it, calls it to train

Every file that was written is also what Keras itself serializes: asserted here.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras  # noqa: E402
from keras import dtype_policies  # noqa: E402

from keras_language import Random  # noqa: E402

SEED = 5
FILES = 64
NAMES = ["conv1", "block1/conv", "block1/bn", "block.1/conv", "block11/conv", "dense", "dense_1", "dense+", "a|b",
         "head(0)", "head[0]", "(x", "w{2}", "what?", "^top$", "star*", "back\\slash", "/features/features.0/Conv",
         "block\\.1/conv", "equals=sign", "two words", "\u00fcber", "x.y", "xzy", "x\\.y"]
POLICIES = ["float32", "float16", "bfloat16", "float64", "mixed_float16", "mixed_bfloat16", "int8_from_float32",
            "int8_from_mixed_bfloat16", "int4_from_float32", "int4/32_from_mixed_float16", "int4/1_from_bfloat16",
            "float8_from_float32", "float8/16_from_float32", "float8_from_mixed_bfloat16",
            "float8/7_from_bfloat16;rounding=each"]


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, value):
    """A field of a protocol buffer: a varint, or what has a length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def network(names):
    """An ONNX model: one Relu after the other, named as the layers are."""
    tensor = field(1, 1) + field(2, field(1, field(1, 1)) + field(1, field(1, 4)))  # float [1, 4]

    def value(name):
        return field(1, name) + field(2, field(1, tensor))

    nodes = b"".join(field(1, field(1, f"v{i}") + field(2, f"v{i + 1}") + field(3, name) + field(4, "Relu"))
                     for i, name in enumerate(names))
    graph = nodes + field(2, "chain") + field(11, value("v0")) + field(12, value(f"v{len(names)}"))
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def escaped(name):
    return "".join("\\" + c if c in "\\^$.|?*+()[]{}" else c for c in name)


def describe(policy):
    return {"compute": policy.compute_dtype, "variable": policy.variable_dtype, "mode": policy.quantization_mode or "",
            "block": getattr(policy, "block_size", 0), "amax": getattr(policy, "amax_history_length", 0)}


def answer(policy):
    return {"class": type(policy).__name__, "name": policy.name} | describe(policy)


def make_file(random, nacre):
    names = []
    for _ in range(2 + random.next() % 5):
        name = random.choice(NAMES)
        if name not in names:
            names.append(name)
    if random.chance(15):
        request = {"default": random.choice(POLICIES)}
    else:
        # An escaped name that is another layer's would be found by that one's letters.
        keys = [escaped(n) if escaped(n) == n or escaped(n) not in names else f"(?:{escaped(n)})" for n in names]
        request = {"layers": {key: random.choice(POLICIES) for key in keys if random.chance(80)}}
        if random.chance(60):
            request["default"] = random.choice(POLICIES)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "net.onnx").write_bytes(network(names))
        (folder / "request.json").write_text(json.dumps(request))
        subprocess.run([nacre, "convert", folder / "net.onnx", "--policy-file", folder / "request.json",
                        "--emit-policy", f"keras={folder / 'out.json'}"], check=True)
        written = json.loads((folder / "out.json").read_text())
    policy = dtype_policies.deserialize(written)
    assert dtype_policies.serialize(policy) == written, written
    is_map = isinstance(policy, dtype_policies.DTypePolicyMap)
    return {"names": names, "request": request, "written": written,
            "answers": [answer(policy[name] if is_map else policy) for name in names]}


def plain(name):
    return {"module": "keras", "class_name": "DTypePolicy", "config": {"name": name}, "registered_name": None}


def policy_map(default, entries=None):
    return {"module": "keras.dtype_policies", "class_name": "DTypePolicyMap", "registered_name": None,
            "config": {"default_policy": default, "policy_map": entries or {}}}


def make_defaults():
    inner = policy_map(plain("bfloat16"), {"a": plain("float16"), "d.*": plain("float64")})
    int8 = policy_map({"module": "keras.dtype_policies", "class_name": "QuantizedDTypePolicy",
                       "config": {"mode": "int8", "source_name": "float32"}, "registered_name": None})
    cases = [(inner, {}), (inner, {"x": plain("float64")}), (policy_map(None), {}),
             (policy_map(inner), {"a.*": plain("float64")}), (int8, {"a": plain("float32")})]
    made = []
    for default, entries in cases:
        given = policy_map(default, entries)
        for path in ("a", "dense", "x"):
            made.append({"json": given, "path": path, "answer": describe(dtype_policies.deserialize(given)[path])})
    try:
        dtype_policies.DTypePolicyMap(dtype_policies.deserialize(inner))
    except ValueError as error:
        made.append({"json": policy_map(inner), "refused": str(error)})
    return made


def holds(attempt):
    try:
        attempt()
        return True
    except Exception:  # whatever it is: jax, torch and Keras have their own
        return False


def make_lengths():
    made = []
    for length in (1, 2, 1024, 65535, 65536, 0, -1, -5, True):
        config = {"mode": "float8", "source_name": "float32", "amax_history_length": length}
        given = {"module": "keras.dtype_policies", "class_name": "QuantizedFloat8DTypePolicy", "config": config,
                 "registered_name": None}

        def layer():
            return keras.layers.Dense(2, dtype=dtype_policies.deserialize(given))

        made.append({"length": length, "policy": holds(lambda: dtype_policies.deserialize(given)),
                     "built": holds(lambda: layer().build((None, 3))),
                     "called": holds(lambda: layer()(keras.ops.ones((1, 3)), training=True))})
    return made


def main():
    path = pathlib.Path(__file__).with_suffix(".json")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nacre", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, default=path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    random = Random(SEED)
    versions = {"keras": keras.__version__, "backend": keras.backend.backend(), "python": sys.version.split()[0]}
    table = {"files": [make_file(random, options.nacre.resolve()) for _ in range(FILES)], "defaults": make_defaults(),
             "lengths": make_lengths()}
    if options.check:
        kept = json.loads(path.read_text())
        differing = [name for name, cases in table.items() if kept[name] != cases]
        if differing:
            sys.exit(f"{path.name}: {differing} differ from Keras {versions}; the table is of {kept['versions']}")
        print(f"{path.name}: {FILES} files, {len(table['defaults'])} defaults and {len(table['lengths'])} lengths are "
              f"what Keras {versions} says")
        return
    lines = [f'"versions": {json.dumps(versions)}', f'"seed": {SEED}']
    for name, cases in table.items():
        lines.append(f'"{name}": [\n  ' + ",\n  ".join(json.dumps(case) for case in cases) + "\n]")
    options.output.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
