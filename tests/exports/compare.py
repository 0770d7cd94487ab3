"""Converts files that tests/exports/make_*.py made, runs them, and compares the outputs with onnxruntime's.

    compare.py NACRE FOLDER [PATTERN] [--write TABLE] [--claim NAME]

Right is an output within 1e-4 of the largest value, in half precision 1e-2: 2^-10 each time that something is rounded.
Integers are equal. A file with open axes is converted with --shape for each input; every other one, for each symbol.
"""
import argparse
import fnmatch
import importlib.metadata
import pathlib
import sys
import textwrap

import numpy as np
import onnx

from converted import Converted, Refused, distance

TOLERANCE = {"": 1e-4, "open": 1e-4, "half": 1e-2}
PACKAGES = ("torch", "torchvision", "transformers", "timm", "onnxscript", "onnx", "onnxruntime", "numpy")


def shapes(model, arrays, by_symbol):
    """Returns --shape options for every input, or for every symbol."""
    given = {}
    for x in model.graph.input:
        sizes = arrays["in." + x.name].shape
        for dim, size in zip(x.type.tensor_type.shape.dim, sizes):
            if dim.dim_param and by_symbol:
                given[dim.dim_param] = str(size)
        if not by_symbol and sizes:
            given[x.name] = "x".join(map(str, sizes))
    return [part for name, sizes in given.items() for part in ("--shape", f"{name}={sizes}")]


def compared(nacre, path, index):
    """Returns the opset, whether the file is converted, whether its outputs are right, and a text."""
    model = onnx.load(path, load_external_data=False)
    arrays = dict(np.load(path.with_suffix(".npz")))
    form = path.stem.split(".")[2] if path.stem.count(".") == 2 else ""
    opset = next(i.version for i in model.opset_import if i.domain in ("", "ai.onnx"))
    try:
        ours = Converted(nacre, path, *(shapes(model, arrays, index % 2) if form == "open" else [])).run(arrays)
    except Refused as refused:
        return opset, False, False, str(refused).replace(f"{path.parent}/", "").removeprefix("nacre: ")
    theirs = {name[4:]: array for name, array in arrays.items() if name.startswith("out.")}
    missing = [name for name in theirs if name not in ours]
    far = float("inf") if missing else max(distance(ours[name], array) for name, array in theirs.items())
    return opset, True, far <= TOLERANCE[form], f"{far:.0e}"


def versions():
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nacre")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("pattern", nargs="?", default="*")
    parser.add_argument("--claim", default="exports", help="its name in the last line")
    parser.add_argument("--write", metavar="TABLE", type=pathlib.Path, help="writes what it prints to this file too")
    arguments = parser.parse_args()
    lines, refusals, wrong, files, converted = {}, [], [], 0, 0
    paths = [p for p in sorted(arguments.folder.glob("*.onnx")) if p.with_suffix(".npz").exists()]
    for index, path in enumerate(p for p in paths if fnmatch.fnmatch(p.stem, arguments.pattern)):
        opset, is_converted, right, text = compared(arguments.nacre, path, index)
        network, exporter, *form = path.stem.split(".")
        verdict = text if right else "WRONG " + text if is_converted else "refused"
        lines.setdefault(network, []).append(" ".join([exporter + str(opset), *form, verdict]))
        files, converted = files + 1, converted + is_converted
        if not is_converted:
            refusals.append(f"{path.stem}: {text}")
            print(refusals[-1], file=sys.stderr, flush=True)
        elif not right:
            wrong.append(f"{path.stem}: {text}")
            print("WRONG", wrong[-1], file=sys.stderr, flush=True)
    none = arguments.folder / "not_exported.txt"
    title = "Difference from onnxruntime, of the largest value, by exporter (trace: dynamo=False) and opset."
    table = [versions(), title, ""]
    for network, parts in lines.items():
        table += textwrap.wrap(f"{network + ': ':18}" + ", ".join(parts), 120, subsequent_indent=" " * 18)
    not_exported = sorted(set(none.read_text().splitlines())) if none.exists() else []
    not_exported = [x for x in not_exported if not (arguments.folder / (x.split(":")[0] + ".npz")).exists()]
    for title, names in (("Wrong", wrong), ("Refused", refusals), ("Not exported", not_exported)):
        if names:
            table += ["", title + ":"]
        for name in names:
            table += textwrap.wrap(name, 120, subsequent_indent="    ")
    shown = "shown" if not wrong and files > 0 and converted >= 0.95 * files else "NOT SHOWN"
    claim = f"CLAIM {arguments.claim} {shown}: {files} files, {converted} converted, {len(wrong)} wrong"
    print("\n".join([*table, "", claim]))
    if arguments.write:
        arguments.write.write_text("\n".join([*table, "", claim]) + "\n")
    return 0 if shown == "shown" else 1


if __name__ == "__main__":
    sys.exit(main())
