"""Writes keras_language.json: what Keras 3 makes of 200 policy names, JSON objects and lookups, and what it refuses.

    keras_language.py [--output FILE]      writes the table (default: beside this script)
    keras_language.py --check              makes it again and compares with the committed one

Needs keras and a backend (KERAS_BACKEND, default jax). The cases are drawn from splitmix64 with state = SEED, inside
the grammar that Keras and Nacre share. Left out, because Nacre follows later versions or Python differs: the mode
ternary and the block "None" (both after 3.15), integers beyond 2^31 - 1, patterns that RE2 has not.

The table, JSON:

    versions, seed
    cases    each with
        kind       "name"         dtype_policies.get(text)
                   "constructor"  DTypePolicy(text)
                   "json"         dtype_policies.get(json) with the global policy `global`
                   "map"          DTypePolicyMap(default, {}), insertions of `entries` in order, then a lookup of `path`
        text | json, global | entries, default, path
        result     {class, name, compute, variable, mode, block, bits, group, amax}, `name` as get_config spells it;
                   for a map the name of the policy found, and null where it is the default
        error      a label instead of a result: what kind of refusal it is, see LABELS
"""

import argparse
import json
import os
import pathlib
import re
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras  # noqa: E402
from keras import dtype_policies  # noqa: E402

SEED = 3
COUNTS = {"name": 90, "constructor": 20, "json": 50, "map": 40}

LABELS = [  # label, pattern of Keras's message; the first that is found counts
    ("CannotConvert", r"^Cannot convert '.*' to a mixed precision"),
    ("NotAPair", r"^Cannot convert `policy` into a valid pair"),
    ("InvalidMode", r"^Invalid quantization mode\."),
    ("Int8WithFloat16", r"doesn't work well with compute_dtype='float16'"),
    ("BlockSizeNotInt", r"<block_size> must be an integer"),
    ("BitsOrGroupNotInt", r"<weight_bits> and <group_size> must be integers"),
    ("BadModeFormat", r"^Invalid mode for \w+\. Expected format"),
    ("BadBlockSize", r"^Invalid block_size in mode"),
    ("BadWeightBits", r"^Invalid weight_bits in mode"),
    ("BadGroupSize", r"^Invalid group_size in mode"),
    ("NameNotString", r"^'name' must be a string"),
    ("AmaxLengthNotInt", r"^`amax_history_length` must be an integer"),
    ("UnknownField", r"got an unexpected keyword argument"),
    ("MissingField", r"missing 1 required positional argument"),
    ("MultipleMatches", r"matches multiple dtype policy specification keys"),
    ("DuplicateKey", r"already exist in the DTypePolicyMap"),
    ("DefaultIsMap", r"^`default_policy` cannot be a `DTypePolicyMap`"),
]


class Random:
    """splitmix64 (Steele, Lea and Flood 2014, doi:10.1145/2714064.2660195, figure 16)."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    def choice(self, values):
        return values[self.next() % len(values)]

    def chance(self, percent):
        return self.next() % 100 < percent


PLAIN = ["float32", "float16", "bfloat16", "float64", "mixed_float16", "mixed_bfloat16"]
OTHER = ["int32", "int", "uint8", "int8", "bool", "string", "complex64", "float8_e4m3fn", "float8_e5m2"]
WRONG = ["", "fp16", "Float32", "mixed_float8", "mixed_int8", "float", " float32", "float32 ", "mixed_bfloat15", "f16"]
MODES = ["int8", "int4", "float8"]
GOOD_BLOCKS = ["128", "32", "1", "-1", "+7", " 64 ", "1_6", "007", "2147483647"]  # as int() reads them
BAD_BLOCKS = ["0", "-2", "x", "", "1.0", "1__6", "_8", "--1", "- 1"]
BITS = ["4", "2", "3", "8", "5", "0", "-4", "four", ""]


def make_block(random):
    return random.choice(GOOD_BLOCKS if random.chance(65) else BAD_BLOCKS)


def make_mode(random):
    kind = random.next() % 10
    if kind < 4:
        return random.choice(MODES)
    if kind < 6:
        return "int4/" + make_block(random)
    if kind < 8:
        bits = "4" if random.chance(50) else random.choice(BITS)
        return f"{random.choice(['gptq', 'awq'])}/{bits}/{make_block(random)}"
    return random.choice(["int8x", "int9", "float8_e4m3fn", "int4/1/2", "gptq", "gptq/4", "awq/4/1/2", "awqq/4/8",
                          "int8/16", "float8/16", "INT8", "int4x/8", "float7", ""])


def make_source(random):
    kind = random.next() % 10
    return random.choice(PLAIN if kind < 7 else OTHER if kind == 7 else WRONG)


def make_name(random):
    kind = random.next() % 10
    if kind == 0:
        return random.choice(PLAIN + OTHER)
    if kind == 1:
        return random.choice(WRONG)
    if kind == 2:
        return random.choice([make_mode(random), make_mode(random) + "_from", "int8_from_int8_from_float32",
                              make_mode(random) + "__from_" + make_source(random),
                              "_from_" + make_source(random), make_mode(random) + "_from__from_float32"])
    return make_mode(random) + "_from_" + make_source(random)


def make_object(random):
    class_name = random.choice(["DTypePolicy", "FloatDTypePolicy", "QuantizedDTypePolicy", "QuantizedFloat8DTypePolicy",
                                "Int4DTypePolicy", "GPTQDTypePolicy", "AWQDTypePolicy"])
    if class_name in ("DTypePolicy", "FloatDTypePolicy"):
        config = {"name": random.choice([make_source(random), make_source(random), None, 16])}
    else:
        mode = {"QuantizedDTypePolicy": random.choice(["int8", "int4", "int4", "float8", "gptq", "int7", "int4/8"]),
                "QuantizedFloat8DTypePolicy": random.choice(["float8", "float8", "float8", "int8", "fp8"]),
                "Int4DTypePolicy": "int4/" + make_block(random),
                "GPTQDTypePolicy": f"gptq/{random.choice(BITS)}/{make_block(random)}",
                "AWQDTypePolicy": f"awq/{random.choice(BITS[:4])}/{make_block(random)}"}[class_name]
        config = {"mode": mode, "source_name": random.choice([make_source(random), make_source(random), None])}
        if class_name == "QuantizedFloat8DTypePolicy" and random.chance(70):
            config["amax_history_length"] = random.choice([1024, 16, 1, 0, -3, True, 1.5, "16", None])
        if random.chance(8):
            del config["mode"]
    if random.chance(8):
        config["nam"] = "float32"
    module = "keras" if class_name in ("DTypePolicy", "FloatDTypePolicy") else "keras.dtype_policies"
    made = {"module": module, "class_name": class_name, "config": config, "registered_name": None}
    if random.chance(30):
        made["shared_object_id"] = 140230
    return made


PATHS = ["enc/l0", "enc/l1", "enc/att/q", "enc", "enc/att", "xenc/l1", "dec", "dec/l0", "dec/att", "dec/att/q", "exc"]
KEYS = ["enc/l0", "enc/.*", "enc/att/.*", "dec", ".*/l0", "dec/.*", "(enc|dec)/l[01]", "head", r"enc/l\d",
        "enc/[^/]*", "e.c", "enc(/.*)?", ".*/q", "att", "dec/att/?q?", "[a-z]{3}", "", r"enc/\w+", "^dec$", "enc/l{1}0"]
FOUND = ["float16", "bfloat16", "float64", "mixed_bfloat16", "int8_from_float32", "int4/32_from_float32",
         "float8_from_float32"]


def make_map(random):
    keys = [random.choice(KEYS) for _ in range(4 + random.next() % 5)]
    if random.chance(90):  # a key twice is a refusal, and not the only thing to see
        keys = list(dict.fromkeys(keys))
    entries = [[key, random.choice(FOUND)] for key in keys]
    if random.chance(10):
        entries[-1][1] = random.choice(["int8_from_float16", "fp16"])
    path = random.choice(keys) if random.chance(15) else random.choice(PATHS)
    return {"entries": entries, "default": random.choice(["float32", "bfloat16"]), "path": path}


def label(error):
    said = str(error).rsplit("\n\nException encountered: ")[-1]  # deserialization wraps what the class said
    for name, pattern in LABELS:
        if re.search(pattern, said):
            return name
    raise AssertionError(f"no label for {type(error).__name__}: {error}")


def describe(policy):
    config = policy.get_config()
    name = config["name"] if "name" in config else f"{config['mode']}_from_{config['source_name']}"
    return {"class": type(policy).__name__, "name": name, "compute": policy.compute_dtype,
            "variable": policy.variable_dtype, "mode": policy.quantization_mode or "",
            "block": getattr(policy, "block_size", 0), "bits": getattr(policy, "weight_bits", 0),
            "group": getattr(policy, "group_size", 0),
            "amax": int(getattr(policy, "amax_history_length", 0))}


def look_up(case):
    table = dtype_policies.DTypePolicyMap(default_policy=case["default"])
    for key, policy in case["entries"]:
        try:
            table[key] = policy
        except ValueError as error:
            if "Cannot interpret the assigned value" in str(error):  # the cause is what Nacre names
                raise error.__context__
            raise
    found = table[case["path"]]
    return None if found is table.default_policy else found.name


def run(case):
    keras.config.set_dtype_policy(case.get("global", "float32"))
    kind = case["kind"]
    try:
        if kind == "map":
            return {"result": look_up(case)}
        if kind == "constructor":
            return {"result": describe(keras.DTypePolicy(case["text"]))}
        return {"result": describe(dtype_policies.get(case["text" if kind == "name" else "json"]))}
    except (ValueError, TypeError) as error:
        return {"error": label(error)}


def make_cases(random):
    made, seen = [], set()
    for kind, count in COUNTS.items():
        while count > 0:
            case = {"kind": kind}
            if kind == "name":
                case["text"] = make_name(random)
            elif kind == "constructor":
                case["text"] = random.choice([make_source(random), make_name(random)])
            elif kind == "json":
                case |= {"json": make_object(random), "global": random.choice(PLAIN)}
            else:
                case |= make_map(random)
            text = json.dumps(case)
            if text not in seen:
                seen.add(text)
                made.append(case | run(case))
                count -= 1
    return made


def main():
    path = pathlib.Path(__file__).with_suffix(".json")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    versions = {"keras": keras.__version__, "backend": keras.backend.backend(), "python": sys.version.split()[0]}
    cases = make_cases(Random(SEED))
    if options.check:
        kept = json.loads(path.read_text())
        differing = [a for a, b in zip(kept["cases"], cases) if a != b]
        if differing or len(kept["cases"]) != len(cases):
            sys.exit(f"{path.name}: {len(differing)} cases differ from Keras {versions['keras']}, first "
                     f"{differing[:1]}; the table was made with {kept['versions']}")
        print(f"{path.name}: {len(cases)} cases are what Keras {versions['keras']} says")
        return
    lines = ",\n  ".join(json.dumps(case) for case in cases)
    options.output.write_text(f'{{"versions": {json.dumps(versions)}, "seed": {SEED}, "cases": [\n  {lines}\n]}}\n')


if __name__ == "__main__":
    main()
