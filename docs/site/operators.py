"""Prints the page "Operators": types of each op, targets with a fast kernel for it, and what importers take.

    docs/site/operators.py [--tool NACRE] [--source CHECKOUT] > operators.md

The tool tells the kernels (`nacre kernels --json`, `--set SET --json`) and the targets (`nacre convert --help`).
Three facts the tool does not print, so they are read from the sources of the checkout, by patterns over tables:
the rules of ops in engine/ops/*.h (which ops have a gradient), the rows of the importers in tools/importers (which
operators of ONNX, TFLite and Keras come in), and the cases of ports/cuda/product_plan.cc (what cuBLASLt multiplies).
A table that is not found ends the program with 1. Python 3.11 or newer, standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

SHORT = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int8": "i8", "uint8": "u8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint32": "u32", "bool": "bool", "int4": "i4",
    "float8_e4m3": "e4m3", "float8_e5m2": "e5m2",
}
ORDER = list(SHORT.values())
CODES = {"i8", "i4", "e4m3"}  # weights that a layer of another type reads
LAYERS = ("dense", "conv2d", "depthwise_conv2d")


class Tool:
    """Answers of the command line."""

    def __init__(self, path: str) -> None:
        self.path = path

    def text(self, *words: str) -> str:
        return subprocess.run([self.path, *words], check=True, capture_output=True, text=True).stdout

    def sets(self) -> list[str]:
        return [row["set"] for row in json.loads(self.text("kernels", "--json"))["sets"]]

    def kernels(self, name: str) -> list[dict[str, str]]:
        return json.loads(self.text("kernels", "--set", name, "--json"))["kernels"]

    def targets(self) -> list[str]:
        found = re.search(r"--target .*\[host\]: ([\w/, ]+)", self.text("convert", "--help"))
        return [target.strip() for target in need(found, "the targets of `nacre convert --help`")[1].split(",")]


def need(found, what: str):
    if not found:
        raise SystemExit(f"operators.py: {what}: not found; the source has changed its form")
    return found


# ---- kernels ----


def element(operand: str) -> str:
    """Short type of "&float32", "int8 panels8", "float32?", "float32...": layouts and marks are left out."""
    return SHORT[operand.strip().lstrip("&").split(" ")[0].rstrip("?.")]


def forms(op: str, operands: str) -> set[str]:
    """The types of the first operand and of what is written; of layers also the weights, where they are codes."""
    read, _, written = operands.partition(" -> ")
    inputs = [operand for operand in read.split(",") if operand.strip()]
    names = [element(operand) for operand in inputs]
    found = set(names[:1])
    if written:
        found.add(element(written.split(",")[0]))
    if op in LAYERS and names[1] in CODES and names[1] != names[0]:
        return {f"{names[0]} x {names[1]}"}
    return found


def by_op(kernels: list[dict[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for kernel in kernels:
        found.setdefault(kernel["op"], set()).update(forms(kernel["op"], kernel["operands"]))
    return found


def cell(found: set[str]) -> str:
    plain = sorted((form for form in found if " x " not in form), key=ORDER.index)
    weights: dict[str, list[str]] = {}
    for form in sorted(found - set(plain), key=lambda f: [ORDER.index(t) for t in f.split(" x ")]):
        x, w = form.split(" x ")
        weights.setdefault(w, []).append(x)
    parts = [" ".join(plain)] if plain else []
    parts += [f"{w} weights: {' '.join(x)}" for w, x in weights.items()]
    return "; ".join(parts)


def fast_cell(fast: set[str], all_of_them: set[str]) -> str:
    """all, none, or the forms that have a fast kernel."""
    if not fast:
        return "reference"
    return "all" if all_of_them <= fast else cell(fast)


# ---- facts of the sources ----


def sources(root: pathlib.Path, folder: str, pattern: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / folder).glob(pattern)))


def trainable(root: pathlib.Path) -> set[str]:
    """Ops whose rule names gradients; not one whose table is of no operand, as that of random numbers."""
    named = {}
    for path in sorted((root / "engine/ops").glob("*.h")):
        text = path.read_text(encoding="utf-8")
        for rule in re.findall(r"OpRule k\w+Rule = \{(.*?)\};", text, re.S):
            name = re.search(r'\.name = "(\w+)"', rule)
            if name:
                named[name[1]] = ".gradients" in rule and ".of = {}" not in text
    return {name for name in need(named, "OpRule rows in engine/ops") if named[name]}


def products(root: pathlib.Path) -> set[str]:
    text = (root / "ports/cuda/product_plan.cc").read_text(encoding="utf-8")
    names = re.findall(r"case Op::k(\w+):", text)
    snake = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in names}
    return need(snake, "cases of ports/cuda/product_plan.cc")


DOMAINS = {"kMicrosoft": "com.microsoft", "kMl": "ai.onnx.ml", "kPreview": "ai.onnx.preview",
           "kPreviewTraining": "ai.onnx.preview.training"}


def table_rows(text: str, struct: str) -> str:
    """The initializers of all tables of this struct, one behind the other."""
    bodies = re.findall(r"\b" + struct + r" k\w*\[\] = \{(.*?)\};", text, re.S)
    return "\n".join(need(bodies, f"tables of {struct}"))


def onnx(root: pathlib.Path) -> dict[str, set[str]]:
    """Operators by domain; "constants" are those that are computed of stored numbers alone."""
    text = sources(root, "tools/importers/onnx/ops", "*.cc") + sources(root, "tools/importers/ml", "*.cc")
    found: dict[str, set[str]] = {}
    rows = re.findall(r'\{"(\w+)", (?:[\w:]|<[^{}]*?>)+(?:, (k\w+))?\}', table_rows(text, "OperatorImporter"))
    for name, domain in rows:
        found.setdefault(DOMAINS[domain] if domain else "", set()).add(name)
    need(found.get(""), "rows of OperatorImporter")
    control = (root / "tools/importers/onnx/control.cc").read_text(encoding="utf-8")
    found[""] |= set(need(re.findall(r'op != "(\w+)"', control), "control flow in onnx/control.cc"))
    evaluated = table_rows(sources(root, "tools/importers/onnx", "evaluate_*.cc"), "Evaluator")
    found["constants"] = set(re.findall(r'\{"(\w+)",', evaluated)) - found[""]
    return found


def tflite(root: pathlib.Path) -> dict[str, set[str]]:
    text = sources(root, "tools/importers/tflite", "*.cc")
    found = {"": set(re.findall(r"\{BuiltinOperator::(\w+),", table_rows(text, "Converter")))}
    signal = (root / "tools/importers/tflite/signal.cc").read_text(encoding="utf-8")
    custom = set(re.findall(r'\{"(\w+)",', table_rows(signal, "Row")))
    custom |= {"Flex" + name for name in re.findall(r'\{"(\w+)",', table_rows(text, "ListOperator"))}
    custom |= set(re.findall(r'code_name != "CUSTOM (\w+)"', text))
    found["custom"] = custom
    return found


def keras(root: pathlib.Path) -> dict[str, set[str]]:
    layers = table_rows(sources(root, "tools/importers/keras", "*.cc"), "Converter")
    functions = table_rows(sources(root, "tools/importers/keras/functions", "*.cc"), "Converter")
    row = r'\{"(\w+)", &'
    return {"": set(re.findall(row, layers)), "ops": set(re.findall(row, functions))}


# ---- the page ----


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def listed(names: set[str], before: str = "") -> str:
    return wrapped(before + ", ".join(f"`{name}`" for name in sorted(names)) + ".")


def wrapped(text: str, later: str = "") -> str:
    return textwrap.fill(text, 150, break_on_hyphens=False, break_long_words=False, subsequent_indent=later)


def base_of(op: str, ops: set[str]) -> str:
    """dense of dense_float8_gradient_w."""
    prefix = re.match(r"(\w+?)(?:_int8|_float8)?_gradient", op)
    return prefix[1] if prefix and prefix[1] in ops else ""


def page(tool: Tool, root: pathlib.Path) -> str:
    sets = tool.sets()
    listed_kernels = {name: by_op(tool.kernels(name)) for name in sets}
    reference, training = listed_kernels.pop("reference"), listed_kernels.pop("training")
    targets = {target: target.split("/")[-1] for target in tool.targets()}
    # Sets with the same kernels share a column.
    groups: list[tuple[list[str], dict[str, set[str]]]] = []
    for target, name in targets.items():
        kernels = listed_kernels.get(name)
        if kernels is None:
            continue
        same = next((group for group in groups if group[1] == kernels), None)
        if same is None:
            groups.append(([target], kernels))
        else:
            same[0].append(target)
    need(groups, "sets of fast kernels").sort(key=lambda group: -len(group[1]))
    cuda = [target for target in targets if target.startswith("cuda/")]
    heads = [short_targets(names) for names, _ in groups] + ["CUDA"]
    if len(heads) > 4:
        raise SystemExit("operators.py: more than 4 groups of targets: the tables would have more than 7 columns")
    library, with_gradient = products(root), trainable(root)

    everything = {op: reference.get(op, set()) | training.get(op, set()) for op in reference | training}
    inference = sorted(reference)
    learning = sorted(op for op in training if op not in reference)
    has_own = {base_of(op, set(reference)) for op in learning}

    def fast(op: str, all_forms: set[str]) -> list[str]:
        cells = [fast_cell(kernels.get(op, set()), all_forms) for _, kernels in groups]
        return cells + ["cuBLASLt" if op in library else "compiled"]

    def gradient(op: str) -> str:
        if op not in with_gradient:
            return "no"
        return "own kernels" if op in has_own else "by other ops"

    infer_rows = [[f"`{op}`", cell(everything[op]), *fast(op, everything[op]), gradient(op)] for op in inference]
    train_rows = [[f"`{op}`", cell(everything[op]), *fast(op, everything[op])] for op in learning]
    whole = ["inference", "training"]
    counted = [[kind, str(len(ops)),
                *[str(sum(op in kernels for op in ops)) for _, kernels in groups],
                str(len(ops))] for kind, ops in zip(whole, (inference, learning))]

    onnx_names, tflite_names, keras_names = onnx(root), tflite(root), keras(root)
    legend = ", ".join(f"`{short}` {name}" for name, short in SHORT.items() if short != name)
    lines = [(head, names) for head, (names, _) in zip(heads, groups)] + [(heads[-1], cuda)]
    group_lines = "\n".join(wrapped(f"- **{head}**: {', '.join(f'`{name}`' for name in names)}", "  ")
                            for head, names in lines)
    others = [domain for domain in sorted(onnx_names) if domain not in ("", "constants")]
    domains = "\n\n".join(listed(onnx_names[domain], f"Of the domain `{domain}`: ") for domain in others)
    return f"""# Operators, types and targets

Will a network run on a target, and will it run by a fast kernel there? Which of its operators come in at all?
`docs/site/operators.py` prints this page from what the tool lists.

Every op has a **reference kernel**: plain C++ that compiles for every target. It defines the numbers, and it is not fast.
A **fast kernel** takes its place where a target has one for these element types and this shape.
Integer results of both are the same to the bit.

So no cell says "none". An element type of the second column runs on every target; another type runs on none.
`nacre inspect MODEL --steps` names the kernel of each step of a model.

{group_lines}

The targets of one line have kernels of the same ops and types. Their instructions and the layouts of weights differ.
`nacre kernels --set avx2` lists one set, kernel by kernel. The target `host` names no instructions:
`nacre run` takes the fast kernels of the machine that it runs on, an application those that it links.

| cell | meaning |
|---|---|
| all | each type of the second column has a fast kernel |
| types | these have a fast kernel, the others run by the reference |
| reference | no fast kernel |
| compiled | the reference's source, compiled by nvcc, its loops shared among threads |
| cuBLASLt | NVIDIA's library multiplies where it takes types and sizes (`ports/cuda/README.md`), else compiled |

{wrapped("Types are those of the first operand and of the result: " + legend + ".")}
`i8 weights: f32` is an operand of float32 with weights in int8.

{table(["ops", "how many", *(f"fast on {head}" for head in heads[:-1]), "on CUDA"], counted)}

## Inference

The last column says how a gradient goes through the op in training: by kernels of its own, by other ops, or not at all.
Casts and quantizers that a policy adds stand behind no gradient: they are put in after it was made.

{table(["op", "element types", *heads, "gradient"], infer_rows)}

## Training

Ops that only a model of `nacre convert --train` has: losses, gradients, optimizers, and what commits a step.

{table(["op", "element types", *heads], train_rows)}

## Operators of ONNX

Each operator here has an importer, which may still refuse attributes, types or shapes by name.
`nacre inspect NETWORK` lists everything in a file that would not convert.

{listed(onnx_names[""])}

{domains}

{listed(onnx_names["constants"], "Of stored numbers alone, computed while the file is read: ")}

## Operators of TensorFlow Lite

{listed(tflite_names[""])}

{listed(tflite_names["custom"], "Custom operators: ")}

## Layers of Keras

`Functional` and `Sequential` models, models in models, and:

{listed(keras_names[""])}

{listed(keras_names["ops"], "Functions of `keras.ops`, by the names that Keras writes into its files: ")}
"""


def short_targets(names: list[str]) -> str:
    """A name for the head of a column."""
    families: dict[str, list[str]] = {}
    for name in names:
        family, _, rest = name.partition("/")
        families.setdefault(family, []).append(rest)
    if "x86" in families:
        return "x86 and ARM"
    return "microcontrollers" if "riscv" in families else names[0] + " .."


def main() -> int:
    here = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=os.environ.get("NACRE_TOOL") or shutil.which("nacre") or
                        str(here / "build/test/tools/nacre"), help="the built command [NACRE_TOOL, else nacre]")
    parser.add_argument("--source", type=pathlib.Path, default=here, help="the checkout [that of this file]")
    arguments = parser.parse_args()
    if shutil.which(arguments.tool) is None:
        print(f"operators.py: {arguments.tool} is no program: build nacre, or name one with --tool", file=sys.stderr)
        return 1
    sys.stdout.write(page(Tool(arguments.tool), arguments.source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
