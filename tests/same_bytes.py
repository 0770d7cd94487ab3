#!/usr/bin/env python3
"""Compares two builds of the tool: what they convert, list, compile and refuse.

  tests/same_bytes.py BASE_BUILD HEAD_BUILD [--every N] [--shared FOLDER]

models    networks x policies x {infer, train} x targets: exit code, words and bytes of the model file
kernels   `nacre kernels --json` of every set
code      functions of the libraries, by their instructions without addresses
refusals  every option of every command with values that it does not take, and files that are damaged

Prints what differs, and a line for each part. Ends with 1 where models, kernels or refusals differ.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ["host", "arm/m4", "cuda/sm90"]
MOST_BYTES = 2_000_000  # larger network files are left out
WRONG = ["", "nonsense", "-1", "1e30", "/nowhere/file", "a=b=c"]


def call(tool, words, folder, inputs):
    """Exit code, words and the sha256 of what a command writes."""
    with tempfile.TemporaryDirectory(dir=folder) as work:
        try:
            done = subprocess.run(
                [tool, *words], cwd=work, capture_output=True, stdin=subprocess.DEVNULL, timeout=600, errors="replace",
                env={"PATH": os.environ["PATH"], "COLUMNS": "120", "NACRE_SHARED": inputs}, text=True)
        except subprocess.TimeoutExpired:
            return {"code": "after 600 s", "words": "", "files": {}}
        files = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(Path(work).iterdir()) if p.is_file()}
    words = done.stderr + done.stdout
    return {"code": done.returncode, "words": words.replace(work, "WORK").replace(str(tool), "nacre"), "files": files}


def networks(shared, scratch):
    """The project's samples, trained networks, and one of each 15 nodes of ONNX's backend tests."""
    found = sorted(ROOT.glob("tools/samples/*.onnx"))
    for pattern in ("models/**/*", "cases/**/*"):
        found += sorted(p for p in shared.glob(pattern) if p.suffix in {".tflite", ".onnx", ".keras"})
    for archive in sorted((shared / "onnx").glob("*.tar.xz")):
        with tarfile.open(archive) as tar:
            members = sorted(m.name for m in tar.getmembers() if m.name.endswith("/model.onnx"))
            for i, name in enumerate(members[::15]):
                path = scratch / f"node_{i}_{Path(name).parent.name}.onnx"
                path.write_bytes(tar.extractfile(name).read())
                found.append(path)
    return [p for p in found if p.stat().st_size <= MOST_BYTES]


def policies(tool):
    names = [form["example"] for form in json.loads(subprocess.check_output([tool, "policies", "--json"]))["forms"]]
    return list(dict.fromkeys(n for n in names if n))


def conversions(tool, shared, scratch):
    """Yields command lines of `nacre convert`, for inference and for training."""
    samples = ROOT / "tools/samples"
    for network, policy, target in itertools.product(networks(shared, scratch), policies(tool), TARGETS):
        words = ["convert", str(network), "--policy", policy, "--target", target, "-o", "m.nacre"]
        if network.parent == samples and "static" in policy:
            words += ["--calibrate", str(samples / "digits_images.npy"), "--cast-samples"]
        yield words
        yield words + ["--train", "softmax_cross_entropy", "--optimizer", "adam", "--batch", "4"]


def refusals(tool, shared):
    digits = str(ROOT / "tools/samples/digits.onnx")
    for command in re.findall(r"^  ([a-z]+) {2,}\S", subprocess.check_output([tool, "--help"], text=True), re.M):
        help_text = subprocess.run([tool, command, "--help"], capture_output=True, text=True).stdout
        yield [command, "--help"]
        yield [command]
        for option in sorted(set(re.findall(r"(--[a-z][a-z0-9-]+)", help_text)) - {"--help"}):
            for value in WRONG:
                yield [command, digits, option, value]
    for path in sorted((ROOT / "tests/corpus").glob("*/*")) + sorted(p for p in (shared / "cases").glob("**/*") if p.is_file()):
        for command in ("check", "inspect", "size"):
            yield [command, str(path)]
        yield ["convert", str(path), "-o", "m.nacre"]


def compare(title, tools, lines, every, inputs):
    lines = list(lines)
    random.Random(0).shuffle(lines)  # else every N-th would leave out whole options
    lines = lines[::every]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        def both(words):
            return [call(tool, words, folder, inputs) for tool in tools]

        differ, refused = [], 0
        for words, (a, b) in zip(lines, pool.map(both, lines)):
            refused += a["code"] != 0
            if a != b:
                differ.append(words)
                print(f"{title}: {' '.join(words)}")
                for key in a:
                    if a[key] != b[key]:
                        print(f"  {key}: {str(a[key])[-300:]!r}\n  {' ' * len(key)}  {str(b[key])[-300:]!r}")
    print(f"{title}: {len(lines)} command lines ({refused} refused), {len(differ)} differ")
    return not differ


def functions(library):
    """Instructions by function, without addresses and numbers of constants."""
    text = subprocess.run(["objdump", "-dCr", "--no-show-raw-insn", library], capture_output=True, text=True, check=True).stdout
    found, name = {}, None
    for line in text.splitlines():
        if head := re.match(r"^[0-9a-f]+ <(.*)>:$", line):
            name = re.sub(r"\.(constprop|isra|part|cold)\.?\d*", r".\1", head[1])
            found.setdefault(name, []).append([])
        elif name and (body := re.match(r"^\s+[0-9a-f]+:\s+(.*)$", line)):
            step = re.sub(r"\b[0-9a-f]+ <[^>]*?(\+0x[0-9a-f]+)?>", r"<\1>", body[1])
            step = re.sub(r"^[0-9a-f]+: ", "", re.sub(r"\.L[A-Z]*\d+|\.rodata\S*|\.text\S*", "CONSTANT", step))
            found[name][-1].append(re.sub(r"\s+", " ", step))
    return {name: sorted("\n".join(body) for body in bodies) for name, bodies in found.items()}


def code(builds):
    same, differ, only = 0, [], [0, 0]
    for library in ("engine/libnacre.a", "ports/x86/libnacre_x86.a", "ports/cortex_m/libnacre_cortex_m.a"):
        base, head = (functions(build / library) for build in builds)
        for name in base.keys() & head.keys():
            if base[name] == head[name]: same += 1
            else: differ.append(f"{library}: {name}")
        only[0] += len(base.keys() - head.keys())
        only[1] += len(head.keys() - base.keys())
    for name in sorted(differ): print(f"code: {name}")
    print(f"code: {same} functions have the same instructions, {len(differ)} differ, {only[0]} are of BASE alone, {only[1]} of HEAD")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path)
    parser.add_argument("head", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("NACRE_SHARED") or ROOT / "../shared"))
    options = parser.parse_args()
    builds = [options.base.resolve(), options.head.resolve()]
    tools = [build / "tools/nacre" for build in builds]
    shared = options.shared.resolve()
    sets = re.search(r"--set ([a-z0-9_|]+)", subprocess.check_output([tools[0], "kernels", "--help"], text=True))[1].split("|")
    lists = [["kernels", "--set", name, "--json"] for name in sets] + [["kernels", "--json"]]
    with tempfile.TemporaryDirectory() as scratch:
        same = compare("kernels", tools, lists, 1, str(shared))
        code(builds)
        same &= compare("refusals", tools, refusals(tools[0], shared), options.every, str(shared))
        same &= compare("models", tools, conversions(tools[0], shared, Path(scratch)), options.every, str(shared))
    sys.exit(not same)


main()
