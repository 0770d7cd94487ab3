"""Converts TensorFlow Lite files that tests/exports/make_*.py made, runs them, and compares the outputs with LiteRT's.

    compare_tflite.py NACRE FOLDER [PATTERN] [--write TABLE]

Right are real numbers within 1e-4 of the largest value, with int8 weights under float32 activations (dynamic) within
5e-2: there each layer finds its codes anew, and a last bit of difference may become a whole code. One that is further
apart is right where LiteRT's own result moves further when its inputs move by 1e-6, which is what two orders of float32
sums are apart (the float files of the same networks). Codes of int8 and
int16 are equal to those of LiteRT's reference kernels or of its own (the former's SUM of int8 is wrong). If a file
also computes in float32, its int8 codes may differ by one. Files of codes are converted with --rounding litert.
"""
import argparse
import collections
import fnmatch
import importlib.metadata
import pathlib
import sys
import textwrap

import numpy as np

from ai_edge_litert.interpreter import Interpreter, OpResolverType

from converted import Converted, Refused, distance

TOLERANCE = {"float": 1e-4, "float16": 1e-4, "dynamic": 5e-2}
PACKAGES = ("tensorflow-cpu", "keras", "ai-edge-litert", "numpy")


def of_codes(mine, theirs, has_reals):
    """Compares codes. Returns whether they are right, and a text."""
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return False, f"{mine.dtype}{list(mine.shape)} for {theirs.dtype}{list(theirs.shape)}"
    far = np.abs(mine.astype(np.int64) - theirs.astype(np.int64))
    if far.max() == 0:
        return True, "0"
    most = 1 if has_reals and mine.dtype == np.int8 else 0
    return far.max() <= most, f"{np.count_nonzero(far)} of {far.size} codes by {far.max()}"


def moved_by_rounding(path, arrays):
    """Returns the largest change of LiteRT's outputs in 16 tries with each real input about 1e-6 of itself off."""
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    run = Interpreter(str(path), experimental_op_resolver_type=kernels).get_signature_runner()
    inputs = {name.removeprefix("in."): x for name, x in arrays.items() if name.startswith("in.")}
    far = 0.0
    for seed in range(16):
        noise = np.random.default_rng(seed)
        near = {name: (x * (1 + 1e-6 * noise.standard_normal(x.shape))).astype(x.dtype) if x.dtype == np.float32 else x
                for name, x in inputs.items()}
        made = run(**near)
        far = max([far, *(distance(made[name.removeprefix("out.")], y) for name, y in arrays.items()
                          if name.startswith("out."))])
    return far


def judged(ours, theirs, form, has_reals):
    """Returns whether the outputs are right, a text, and the largest difference of real numbers."""
    far, said = 0.0, []
    for name, array in theirs.items():
        if name not in ours:
            return False, "no output " + name, np.inf
        if array.dtype.kind in "iu" and form in ("int8", "int16x8"):
            said.append(of_codes(ours[name], array, has_reals))
            continue
        far = max(far, distance(ours[name], array))
    if said:
        return all(right for right, _ in said), ", ".join(sorted({text for _, text in said})), np.inf
    return far <= TOLERANCE.get(form, 5e-2), f"{far:.0e}", far


def compared(nacre, path, form):
    """Returns whether the file is converted, whether its outputs are right, and a text."""
    arrays = dict(np.load(path.with_suffix(".npz")))
    options = ["--rounding", "litert"] if form in ("int8", "int16x8") else []
    try:
        ours = Converted(nacre, path, *options).run(arrays)
    except Refused as refused:
        return False, False, str(refused).replace(f"{path.parent}/", "").removeprefix("nacre: ")
    for prefix in ("out.", "or."):  # reference kernels, whose SUM of int8 is wrong; LiteRT's own
        theirs = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        if not theirs:  # the reference kernels lack an operator of this file
            continue
        right, text, apart = judged(ours, theirs, form, bool(arrays["has_reals"]))
        if right:
            break
    if not right and form == "dynamic":
        moved = moved_by_rounding(path, arrays)
        right, text = apart <= moved, f"{text} (LiteRT itself {moved:.0e})"
    return True, right, text


def versions():
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nacre")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("pattern", nargs="?", default="*")
    parser.add_argument("--write", metavar="TABLE", type=pathlib.Path, help="writes what it prints to this file too")
    arguments = parser.parse_args()
    lines, refusals, wrong, files, converted = {}, [], [], 0, 0
    of_form = collections.defaultdict(lambda: [0, 0])  # right, all
    paths = [p for p in sorted(arguments.folder.glob("*.tflite")) if p.with_suffix(".npz").exists()]
    for path in (p for p in paths if fnmatch.fnmatch(p.stem, arguments.pattern)):
        network, form = path.stem.split(".")
        is_converted, right, text = compared(arguments.nacre, path, form)
        verdict = text if right else "WRONG " + text if is_converted else "refused"
        lines.setdefault(network, []).append(f"{form} {verdict}")
        files, converted = files + 1, converted + is_converted
        of_form[form][0] += right
        of_form[form][1] += 1
        if not right:
            (wrong if is_converted else refusals).append(f"{path.stem}: {text}")
            print("WRONG" if is_converted else "refused", f"{path.stem}: {text}", file=sys.stderr, flush=True)
    title = "Difference from LiteRT: of the largest value, and in codes."
    table = [versions(), title, ""]
    for network, parts in lines.items():
        table += textwrap.wrap(f"{network + ': ':22}" + ", ".join(parts), 120, subsequent_indent=" " * 22)
    none = arguments.folder / "not_made.txt"
    not_made = sorted(set(none.read_text().splitlines())) if none.exists() else []
    not_made = [x for x in not_made if not (arguments.folder / (x.split(":")[0] + ".npz")).exists()]
    counts = ", ".join(f"{form} {right} of {count}" for form, (right, count) in sorted(of_form.items()))
    table += ["", f"Right of each form: {counts}."]
    for title, names in (("Wrong", wrong), ("Refused", refusals), ("Not made", not_made)):
        if names:
            table += ["", title + ":"]
        for name in names:
            table += textwrap.wrap(name, 120, subsequent_indent="    ")
    shown = "shown" if not wrong and files > 0 and converted >= 0.95 * files else "NOT SHOWN"
    claim = f"CLAIM tflite_exports {shown}: {files} files, {converted} converted, {len(wrong)} wrong"
    print("\n".join([*table, "", claim]))
    if arguments.write:
        arguments.write.write_text("\n".join([*table, "", claim]) + "\n")
    return 0 if shown == "shown" else 1


if __name__ == "__main__":
    sys.exit(main())
