"""Saves layers of Keras under each policy, converts and runs the files, and compares with what Keras predicts.

    keras_layers.py NACRE [--only PATTERN] [--policies PATTERN] [--forms keras,h5,weights] [--write TABLE]

A model per case of keras_cases.py and policy: float32, mixed_bfloat16, mixed_float16 while it is built, int8, int4
(per channel, and in blocks of 4) and float8 by model.quantize, where that changes a layer. Weights are random, inputs
normal. int8/w is int8 of weights alone, int4x8 has rows in int8. Files are .keras; float32 models are saved as .h5,
and as weights beside a configuration (w.h5), too.

Right is an output whose difference, of the largest value, is within

    float32, int4    10^-5: sums in another order
    mixed_bfloat16   n 2^-9     mixed_float16   n 2^-12     n values of the case are rounded one behind the other
    int8, int4x8     10^-3: integer sums are the same, a tie between two codes may fall otherwise
    float8           2^-4, half a unit of E4M3, where such a tie falls otherwise
"""
import argparse
import fnmatch
import importlib.metadata
import inspect
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap

import absl.logging
import keras
import numpy as np
from keras import layers
from keras.quantizers import AbsMaxQuantizer
from keras.src.quantizers.quantization_config import (Float8QuantizationConfig, Int4QuantizationConfig,
                                                      Int8QuantizationConfig)
from keras_cases import CASES, SKIPPED

BUILT = {"float32": lambda n: 1e-5, "mixed_bfloat16": lambda n: n * 2.0**-9, "mixed_float16": lambda n: n * 2.0**-12}
QUANTIZED = {
    "int8": (lambda: Int8QuantizationConfig(), lambda n: 1e-3),
    "int8, rows real": (lambda: Int8QuantizationConfig(activation_quantizer=None), lambda n: 1e-5),
    "int4": (lambda: Int4QuantizationConfig(block_size=-1), lambda n: 1e-5),
    "int4, rows int8": (lambda: Int4QuantizationConfig(block_size=-1, activation_quantizer=AbsMaxQuantizer()),
                        lambda n: 1e-3),
    "int4/4": (lambda: Int4QuantizationConfig(block_size=4), lambda n: 1e-5),
    "float8": (lambda: Float8QuantizationConfig(), lambda n: 2.0**-4)}
READ_BACK = ("int8, rows real", "int4, rows int8")  # attention's file lacks this, so Keras reads it back first
COLUMNS = {".weights": "w.h5", "mixed_bfloat16": "bf16", "mixed_float16": "f16", "int8, rows real": "int8/w",
           "int4, rows int8": "int4x8"}


class Refused(Exception):
    pass


def tool(*arguments):
    try:
        done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        raise Refused("takes longer than two minutes")
    if done.returncode:
        raise Refused(" ".join((done.stderr or f"exit code {done.returncode}").split()))
    return done.stdout


def randomize(model, rng):
    for v in model.weights:
        name, shape = v.path.split("/")[-1], v.shape
        if not str(v.dtype).startswith("float") or "seed" in v.path or name in ("mean", "variance"):
            continue
        if name in ("real_kernel", "imag_kernel"):  # STFTSpectrogram's kernels are no random numbers
            continue
        if name == "moving_variance":
            v.assign(rng.uniform(0.5, 2, shape))
            continue
        fan = int(np.prod(shape[:-1])) if len(shape) > 1 else 4
        v.assign(rng.normal(0, 1 / np.sqrt(max(fan, 1)), shape) + (1 if name in ("gamma", "scale") else 0))


def inputs_of(model, rng):
    made = []
    for x in model.inputs:
        shape = (2, *x.shape[1:])
        whole = "int" in x.dtype
        made.append(rng.integers(0, 11, shape).astype("int32") if whole else rng.normal(size=shape).astype("float32"))
    return made


def scale_float8(model, rng):
    """Sets scales as training leaves them: about right for the largest values."""
    for layer in model._flatten_layers():
        if layer.quantization_mode == "float8":
            largest = float(np.abs(np.asarray(layer._kernel)).max())
            layer.inputs_scale.assign(rng.uniform(2.5, 4) / 448)
            layer.kernel_scale.assign(largest * rng.uniform(0.8, 1.2) / 448)


def modes_of(model):
    return {layer.quantization_mode for layer in model._flatten_layers() if layer.quantization_mode}


def built(case, policy, rng):
    """Returns the model under a policy, or None if the policy changes nothing."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(5)
    keras.config.set_dtype_policy(policy if policy in BUILT else "float32")
    try:
        model = case.build()
    finally:
        keras.config.set_dtype_policy("float32")
    randomize(model, rng)
    if policy in QUANTIZED:
        model.quantize(config=QUANTIZED[policy][0]())
        scale_float8(model, rng)
        return model if modes_of(model) else None
    return model


def saved(model, folder, form):
    """Saves the model and returns the file to give to the tool."""
    if form != "weights":
        model.save(folder / f"m.{form}")
        return folder / f"m.{form}"
    model.save_weights(folder / "net.weights.h5")
    (folder / "net.json").write_text(model.to_json())
    return folder / "net.weights.h5"


def as_float(array):
    if array.dtype.kind == "V":  # bfloat16
        array = (array.view("uint16").astype("uint32") << 16).view("float32")
    return array.astype("float64")


def difference(nacre, file, inputs, expected, folder):
    tool(nacre, "convert", file, "-o", folder / "m.nacre", "--batch", 2)
    program = json.loads(tool(nacre, "inspect", folder / "m.nacre", "--json"))["programs"][0]
    feeds = []
    for i, (x, array) in enumerate(zip(program["inputs"], inputs, strict=True)):
        np.save(folder / f"{i}.npy", array)
        feeds += ["--input", f"{x['name']}={folder / f'{i}.npy'}"]
    for old in (folder / "out").glob("*"):
        old.unlink()
    tool(nacre, "run", folder / "m.nacre", *feeds, "--output", folder / "out")
    most = 0.0
    for x, theirs in zip(program["outputs"], expected, strict=True):
        mine, theirs = as_float(np.load(folder / "out" / f"{x['name']}.npy")), as_float(theirs)
        if mine.shape != theirs.shape:
            return float("inf")
        far = np.abs(mine - theirs).max() / max(np.abs(theirs).max(), 1e-6)
        most = max(most, float(far)) if np.isfinite(far) else float("inf")
    return most


class Table:
    """Holds a row per case; by policy: the difference, WRONG, refused, or "-" (Keras lacks it, or no layer changes)."""

    def __init__(self, says_each):
        self.says_each = says_each
        self.rows, self.notes, self.kinds = {}, [], set()
        self.models = self.wrong = self.refused = 0

    def put(self, name, column, said, note=""):
        self.rows.setdefault(name, {})[column] = said
        if note:
            self.notes.append(note)
        if self.says_each or said in ("WRONG", "refused"):
            print(f"{name}, {column}: {note or said}", file=sys.stderr, flush=True)

    def add(self, name, case, column, far, tolerance):
        self.models += 1
        self.kinds.update(case.kinds)
        right = far <= tolerance
        self.wrong += not right
        note = "" if right else f"WRONG {name}, {column}: {far:.3g} instead of {tolerance:.1g}"
        self.put(name, column, f"{far:.0e}" if right else "WRONG", note)

    def refuse(self, name, column, sentence):
        self.models += 1
        self.refused += 1
        self.put(name, column, "refused", f"refused {name}, {column}: {sentence}")

    def text(self, columns):
        cells = [["", *(COLUMNS.get(c, c) for c in columns)]]
        for name, row in self.rows.items():
            cells.append([name, *(row.get(c, "-").replace("e-0", "e-").replace("0e+00", "0") for c in columns)])
        widths = [max(map(len, column)) for column in zip(*cells)]
        lines = [f"{row[0]:{widths[0]}}" + "".join(f" {c:>{w}}" for c, w in zip(row[1:], widths[1:])) for row in cells]
        notes = [line for note in self.notes for line in textwrap.wrap(note, 120, subsequent_indent="    ")]
        return lines + ["", *notes]


def shown(nacre, name, case, policy, forms, table):
    def not_in_keras(column, problem):
        first = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        table.put(name, column, "-", f"not in Keras {name}, {column}: {first[:80]}")

    if policy in QUANTIZED and case.not_quantized:
        return not_in_keras(policy, case.not_quantized)
    rng = np.random.default_rng(7)
    try:
        model = built(case, policy, rng)
        if model is None:
            return
        inputs = inputs_of(model, rng)
        given = inputs if len(inputs) > 1 else inputs[0]
        expected = model.predict(given, verbose=0)
    except Exception as problem:  # Keras itself cannot do this
        return not_in_keras(policy, problem)
    tolerance = max((BUILT[policy] if policy in BUILT else QUANTIZED[policy][1])(case.roundings), case.at_least)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        for form in forms if policy == "float32" else ("keras",):
            column = policy if form == "keras" else "." + form
            try:
                file = saved(model, folder, form)
                if policy in READ_BACK:
                    expected = keras.models.load_model(file).predict(given, verbose=0)
            except Exception as problem:
                not_in_keras(column, problem)
                continue
            try:
                outputs = expected if isinstance(expected, (list, tuple)) else [expected]
                far = difference(nacre, file, inputs, list(map(np.asarray, outputs)), folder)
                table.add(name, case, column, far, tolerance)
            except Refused as sentence:
                table.refuse(name, column, str(sentence).replace(f"{folder}/", "").removeprefix("nacre: "))


def missing_kinds():
    """Returns the layers of keras.layers that have neither a case nor a reason. Two names of one class count once."""
    named = {kind for case in CASES.values() for kind in case.kinds}
    classes = {}
    for name, item in inspect.getmembers(layers):
        if not name.startswith("_") and callable(item):
            classes.setdefault(item, []).append(name)
    return [names[0] for names in classes.values() if not any(n in named or n in SKIPPED for n in names)]


def main():
    absl.logging.set_verbosity("error")  # else Keras warns at each .h5 file that the format is old
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nacre", type=pathlib.Path)
    parser.add_argument("--only", default="*", help="cases whose name it fits")
    parser.add_argument("--policies", default="*", help="policies whose name it fits")
    parser.add_argument("--forms", default="keras,h5,weights", help="of files of float32 models")
    parser.add_argument("--verbose", action="store_true", help="says each model when it is done")
    parser.add_argument("--write", metavar="TABLE", type=pathlib.Path, help="writes what it prints to this file too")
    arguments = parser.parse_args()
    table = Table(arguments.verbose)
    for name, case in CASES.items():
        if fnmatch.fnmatch(name, arguments.only):
            for policy in (*BUILT, *QUANTIZED):
                if fnmatch.fnmatch(policy, arguments.policies):
                    shown(arguments.nacre.resolve(), name, case, policy, arguments.forms.split(","), table)
    packages = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("keras", keras.backend.backend(), "numpy",
        "h5py"))
    title = "Difference from Keras's predict, of the largest value, by policy; .h5 and .weights of float32."
    columns = ["float32", ".h5", ".weights", *list(BUILT)[1:], *QUANTIZED]
    text = [packages, title, "", *table.text(columns)]
    reasons = {}
    for kind, reason in SKIPPED.items():
        reasons.setdefault(reason, []).append(kind)
    text += ["", "Not tried:"]
    for reason, kinds in reasons.items():
        text += textwrap.wrap(f"{', '.join(kinds)}: {reason}", 120, subsequent_indent="    ")
    missing = missing_kinds()
    if missing:
        text += textwrap.wrap("Without a case: " + ", ".join(missing), 120, subsequent_indent="    ")
    shown_all = "shown" if table.wrong == 0 and not missing and table.models else "NOT SHOWN"
    text += ["", f"CLAIM keras_files {shown_all}: {table.models} models of {len(table.kinds)} layer kinds, "
             f"{table.wrong} wrong, {table.refused} refused"]
    print("\n".join(text))
    if arguments.write:
        arguments.write.write_text("\n".join(text) + "\n")
    return 0 if shown_all == "shown" else 1


if __name__ == "__main__":
    sys.exit(main())
