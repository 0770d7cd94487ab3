"""Runs each command of the tool from Python and as the tool, and compares the results; whole.py calls it."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np

import nacre

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "tools" / "samples"
DIGITS = "digits.onnx"  # a copy: words below are split at blanks, which the checkout's path may have
DATA = "--data x.npy --labels y.npy"
# Keys of times and of what depends on them, with "is", which doctor measures; then keys of paths.
TIMES = re.compile(r".*_us|microseconds|seconds|runs|warm_up_runs|cut_short|pareto|is")
PATHS = {"model", "network", "output", "file", "files", "a", "b", "written"}


def plain(value, key=""):
    """Returns JSON without times, and with names of files in place of their paths."""
    if isinstance(value, dict):
        return {name: plain(each, name) for name, each in value.items() if not TIMES.fullmatch(name)}
    if isinstance(value, list):
        return [plain(each, key) for each in value]
    return os.path.basename(value) if isinstance(value, str) and key in PATHS else value


class Both:
    """Compares results of Python with those of the tool, in the current folder. `counts` has the results by command."""

    def __init__(self, tool, faults):
        self.tool, self.faults, self.counts = tool, faults, {}

    def said(self, words):
        ran = subprocess.run([self.tool, *words.split()], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise SystemExit(f"whole: nacre {words}: {ran.stderr}")
        return ran.stdout

    def same(self, result, words, without=(), key=None):
        """Compares a result with the JSON of the command, or with one value of it."""
        printed = json.loads(self.said(f"{words} --json"))
        here, there = plain(result), plain(printed if key is None else printed[key])
        for name in here.keys() | there.keys():
            if name not in without and (name not in here or name not in there or here[name] != there[name]):
                self.faults.append(f"{words}: {name}: Python {here.get(name)!r}, the tool {there.get(name)!r}")
        self.count(words)

    def equal(self, here, there, words):
        if here != there:
            self.faults.append(f"{words}: what is made differs from the tool's")

    def count(self, words):
        command = words.split()[0]
        self.counts[command] = self.counts.get(command, 0) + 1


def compare_results(tool, faults):
    """Runs each command in Python and as the tool, and adds what differs to the faults. Returns the number of results
    by command."""
    both = Both(tool, faults)
    x, y = (np.load(SAMPLES / f"digits_{name}.npy")[:40] for name in ("images", "labels"))
    x = x.astype(np.float32)
    shutil.copy(SAMPLES / DIGITS, DIGITS)
    np.save("x.npy", x)
    np.save("y.npy", y)
    small = compare_conversion(both)
    nacre.convert(DIGITS).save("float.nacre")
    nacre.convert(DIGITS, target="arm/m4").save("board.nacre")
    nacre.convert(DIGITS, train="softmax_cross_entropy", optimizer="adam", batch=8).save("train.nacre")
    board, trains = nacre.load("board.nacre"), nacre.load("train.nacre")
    compare_policies(both)
    compare_views(both, small, board, trains)
    compare_runs(both, small, x)
    compare_judgements(both, nacre.load("float.nacre"), small, x, y)
    compare_training(both, trains, x, y)
    both.same(board.firmware("sources/out", name="net"), "firmware board.nacre -o tool/out --name net")
    for path in pathlib.Path("sources/out").iterdir():
        both.equal(path.read_bytes(), (pathlib.Path("tool/out") / path.name).read_bytes(), f"firmware {path.name}")
    both.same(nacre.doctor(), "doctor")
    return both.counts


def compare_conversion(both):
    model = nacre.convert(DIGITS, policy="int8_from_float32", golden=2)
    words = "convert digits.onnx -o digits.nacre --policy int8_from_float32 --golden 2"
    both.same(model.conversion, words, without=("network", "model"))
    both.equal(model, nacre.load("digits.nacre"), words)
    both.equal(
        nacre.graph(DIGITS, stop_after="simplify"), both.said("convert digits.onnx --stop-after simplify"), "convert"
    )
    return nacre.load("digits.nacre")


def compare_policies(both):
    both.same({name: getattr(nacre.policies, name)() for name in ("names", "forms", "fields")}, "policies")
    both.same(nacre.policies.resolve("mixed_bfloat16"), "policies mixed_bfloat16", key="record")


def compare_views(both, small, board, trains):
    both.same(small.inspect(target="x86/avx2"), "inspect digits.nacre --target x86/avx2")
    both.same(nacre.inspect(DIGITS, batch=2), "inspect digits.onnx --batch 2")
    both.equal(small.summary(steps=True), both.said("inspect digits.nacre --steps"), "inspect --steps")
    both.same(small.size("arm/m4"), "size digits.nacre --target arm/m4")
    both.same(trains.size(train=True), "size train.nacre --train")
    both.same(small.check(), "check digits.nacre")
    both.same(nacre.kernels(), "kernels")
    both.same(nacre.kernels(set="m4"), "kernels --set m4")
    both.equal(board.kernels_header(), both.said("kernels board.nacre"), "kernels board.nacre")


def compare_runs(both, small, x):
    words = "run digits.nacre --input pixels=x.npy --top 2 --output arrays"
    ran = small.run({"pixels": x}, top=2)
    both.same(ran, words, without=("outputs",))
    output = ran["outputs"][0]
    there = np.load("arrays/probabilities.npy")
    both.equal((output["name"], output["array"].tolist()), ("probabilities", there.tolist()), words)
    words = "bench digits.nacre --runs 3 --min-ms 1 --warmup-runs 1 --warmup-ms 1"
    both.same(small.bench(runs=3, min_ms=1, warmup_runs=1, warmup_ms=1), words)


def compare_judgements(both, reference, small, x, y):
    words = "compare float.nacre digits.nacre --data x.npy --sort execution"
    both.same(small.compare(reference, x, sort="execution"), words)
    words = f"eval float.nacre digits.nacre {DATA} --metric top1"
    both.same(nacre.evaluate([reference, small], x, y, metric="top1"), words)
    made = nacre.report([reference, small], "here.html", data=x, labels=y, no_latency=True)
    words = f"report float.nacre digits.nacre {DATA} --no-latency -o there.html"
    both.same(made, words, without=("page",))
    pages = [pathlib.Path(name).read_text() for name in ("here.html", "there.html")]
    both.equal(*pages, words)
    both.count(words)
    options = {"policies": ["float32", "int8_from_float32"], "budget": 8, "max_drop": 0.2}
    words = f"search digits.onnx {DATA} --policies float32,int8_from_float32 --budget 8 --max-drop 0.2 -o map.json"
    found = nacre.search(DIGITS, x, y, **options)
    both.same(found, words, without=("map",))
    both.equal(found["map"], json.loads(pathlib.Path("map.json").read_text()), words)


def compare_training(both, trains, x, y):
    options = {"epochs": 2, "lr": 0.001, "validate": 0.25, "seed": 3}
    words = f"tune train.nacre {DATA} --epochs 2 --lr 0.001 --validate 0.25 --seed 3 --checkpoint there -o tuned.nacre"
    tuned = nacre.tune(trains, x, y, checkpoint="here", **options)
    both.same(tuned.summary, words)
    both.equal(tuned.model, nacre.load("tuned.nacre"), words)
    words = "export train.nacre --checkpoint there --best -o best.nacre"
    exported = nacre.export(trains, "here", best=True)
    both.same(exported.conversion, words, without=("model", "output"))
    both.equal(exported, nacre.load("best.nacre"), words)
    words = "export train.nacre --checkpoint there --network digits.onnx --onnx -o there.onnx"
    both.same(nacre.export_network(trains, "here", DIGITS, "here.onnx"), words, without=("output",))
    both.equal(pathlib.Path("here.onnx").read_bytes(), pathlib.Path("there.onnx").read_bytes(), words)
