#!/usr/bin/env python3
"""Compares what the Python package makes with what the command `nacre` makes of the same files: parity.py TOOL

Model files, outputs of runs, sizes, policies, checkpoints and tuned models are equal to the byte. Needs nothing but the
checkout; NACRE_SHARED adds networks of MLPerf Tiny and a stream. Prints the counts as one JSON object.
"""

import collections
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np

import nacre

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tools" / "samples"
DIGITS = SAMPLES / "digits.onnx"
TINY = (
    "ad01_int8.tflite",
    "kws_ref_model.tflite",
    "pretrainedResnet_quant.tflite",
    "str_ww_ref_model.tflite",
    "vww_96_int8.tflite",
)
FLOAT = ("ad01.h5", "kws_ref_model_float32.tflite")
counts: collections.Counter[str] = collections.Counter()


def tool(*words: object) -> str:
    return subprocess.run([TOOL, *map(str, words)], check=True, capture_output=True, text=True).stdout


def equal(what: str, a: object, b: object, place: str) -> None:
    if a != b:
        raise SystemExit(f"parity: {place}: {what} of the package differ from the tool's")
    counts[what] += 1


def words_of(options: dict[str, object]) -> list[str]:
    """Returns the options as words of the command line, written without the package's own translation."""
    words: list[str] = []
    for name, value in options.items():
        name = "--" + name.replace("_", "-")
        if value is True:
            words.append(name)
        elif isinstance(value, dict):
            for key, each in value.items():
                words += [name, f"{key}={each}"]
        elif isinstance(value, (list, tuple)):
            for each in value:
                words += [name, str(each)]
        else:
            words += [name, str(value)]
    return words


def random_input(info: nacre.TensorInfo, rows: int, generator: np.random.Generator) -> np.ndarray:
    shape = (rows, *info.shape[1:]) if info.rows else info.shape
    dtype = info.numpy_dtype
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return generator.integers(max(limits.min, -128), min(limits.max, 127), shape, dtype, endpoint=True)
    return generator.standard_normal(shape).astype(dtype)


def convert_both(
    network: pathlib.Path, options: dict[str, object], folder: pathlib.Path
) -> tuple[nacre.Model, pathlib.Path]:
    made = folder / "tool.nacre"
    tool("convert", network, "-o", made, *words_of(options))
    model = nacre.convert(network, **options)
    equal("model files", model.to_bytes(), made.read_bytes(), f"{network.name} {options}")
    return model, made


def run_both(model: nacre.Model, made: pathlib.Path, folder: pathlib.Path, kernels: str, place: str) -> None:
    generator = np.random.default_rng(7)
    rows = 2 * model.programs[0].batch + (1 if model.programs[0].batch > 1 else 0)
    arrays = {info.name: random_input(info, rows, generator) for info in model.inputs}
    words: list[object] = []
    for i, (name, array) in enumerate(arrays.items()):
        np.save(folder / f"in{i}.npy", array)
        words += ["--input", f"{name}={folder / f'in{i}.npy'}"]
    said = json.loads(tool("run", made, *words, "--output", folder / "out", "--kernels", kernels, "--json"))
    program = nacre.Program(model, kernels=kernels)
    equal("kernel choices", program.kernels, said["kernels"], place)
    outputs = program(arrays)
    for entry in said["outputs"]:
        expected = np.load(entry["file"])
        got = outputs[entry["name"]]
        equal("outputs", (got.shape, got.tobytes()), (expected.shape, expected.tobytes()), f"{place} {entry['name']}")


def real_both(model: nacre.Model, made: pathlib.Path, folder: pathlib.Path, place: str) -> None:
    """Compares runs of a quantized network whose inputs and outputs are real numbers."""
    x = 3 * np.random.default_rng(3).standard_normal((4, *model.inputs[0].shape[1:])).astype(np.float32)
    np.save(folder / "real.npy", x)
    words = ("--input", f"{model.inputs[0].name}={folder / 'real.npy'}", "--quantize-inputs", "--dequantize-outputs")
    said = json.loads(tool("run", made, *words, "--output", folder / "out", "--json"))
    got = nacre.Program(model, quantize_inputs=True, dequantize_outputs=True)(x)
    equal("outputs", got.tobytes(), np.load(said["outputs"][0]["file"]).tobytes(), f"{place} in real numbers")


def sizes_both(model: nacre.Model, made: pathlib.Path, place: str) -> None:
    for machine in ("host", "arm/m4"):
        said = json.loads(tool("size", made, "--target", machine, "--json"))
        got = model.size(machine)
        del said["model"], got["model"]
        equal("sizes", got, said, f"{place} {machine}")


def inference(folder: pathlib.Path, shared: pathlib.Path | None) -> None:
    images = np.load(SAMPLES / "digits_images.npy")[:64].astype(np.float32)
    np.save(folder / "samples.npy", images)
    calibrated = {"policy": "int8/static_from_float32", "calibrate": str(folder / "samples.npy")}
    cases: list[tuple[pathlib.Path, dict[str, object]]] = [
        (DIGITS, {}),
        (DIGITS, {"batch": 8, "golden": 2, "strip_names": True}),
        (DIGITS, {"policy": "mixed_bfloat16", "set": {"fc.*": "int8_from_float32"}}),
        (DIGITS, {"policy": "float16", "io_layout": "nhwc", "keep_inputs": True}),
        (DIGITS, {"policy": "bfloat16"}),
        (DIGITS, {**calibrated, "range_method": "percentile", "percentile": 99.9}),
        (DIGITS, {**calibrated, "target": ["host", "arm/m4"]}),
        (DIGITS, {"policy": "int4/32_from_float32", "bank": "tcm=8K,sram=512K"}),
        (DIGITS, {"rewrite": "mixed_float16"}),
        (DIGITS, {**calibrated, "io_types": "policy"}),
    ]
    if shared is not None:
        cases += [(shared / name, {}) for name in (*TINY, *FLOAT)]
        cases += [(shared.parent / "silero" / "silero_vad_openvino_16k.onnx", {"state": {"state": "stateN"}})]
        cases += [(shared / TINY[1], {"rounding": "float_even", "batch": 4}), (shared / TINY[2], {"target": "arm/m4"})]
    for network, options in cases:
        place = f"{network.name} {options}"
        model, made = convert_both(network, options, folder)
        for kernels in ("auto", "reference") if "target" not in options else ("auto",):
            run_both(model, made, folder, kernels, place)
        sizes_both(model, made, place)
        if model.inputs[0].codes and model.outputs[0].codes:
            real_both(model, made, folder, place)
    equal("model files", nacre.convert(DIGITS.read_bytes()).to_bytes(), nacre.convert(DIGITS).to_bytes(), "bytes")
    of_array = nacre.convert(DIGITS, policy=calibrated["policy"], calibrate=images)
    equal("model files", of_array.to_bytes(), nacre.convert(DIGITS, **calibrated).to_bytes(), "calibrated by an array")


def policies() -> None:
    said = json.loads(tool("policies", "--json"))
    equal("policies", nacre.policies.names(), said["names"], "names")
    examples = [form["example"] for form in said["forms"] if form["example"]]
    for name in dict.fromkeys(said["names"] + examples):
        equal(
            "policies",
            nacre.policies.resolve(name),
            json.loads(tool("policies", name, "--json")).get("record", {}),
            name,
        )


def machine() -> None:
    states = [
        [(fact["group"], fact["name"], fact["state"]) for fact in said["facts"]]
        for said in (nacre.doctor(), json.loads(tool("doctor", "--json")))
    ]
    equal("facts", *states, "doctor")


def training(folder: pathlib.Path) -> None:
    x = np.load(SAMPLES / "digits_images.npy")[:96].astype(np.float32)
    y = np.load(SAMPLES / "digits_labels.npy")[:96].astype(np.int32)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    data = ("--data", folder / "x.npy", "--labels", folder / "y.npy")
    for policy, optimizer in itertools.product(
        ("float32", "mixed_float16", "float8_from_float32"), ("adam", "momentum")
    ):
        place = f"{policy} {optimizer}"
        options = {"train": "softmax_cross_entropy", "optimizer": optimizer, "policy": policy, "batch": 16}
        model, made = convert_both(DIGITS, options, folder)
        here, there, saved = (
            folder / f"{policy.replace('/', '_')}-{optimizer}-{name}" for name in ("package", "tool", "saved")
        )
        tuned = folder / "tuned.nacre"
        tool(
            "tune",
            made,
            *data,
            "--no-shuffle",
            "--epochs",
            1,
            "--batch",
            32,
            "--lr",
            0.01,
            "--checkpoint",
            there,
            "-o",
            tuned,
        )
        result = nacre.tune(
            model, folder / "x.npy", folder / "y.npy", no_shuffle=True, epochs=1, batch=32, lr=0.01, checkpoint=here
        )
        for slot in sorted(path.name for path in there.glob("*.checkpoint")):
            equal("checkpoints", (here / slot).read_bytes(), (there / slot).read_bytes(), f"{place} {slot}")
        equal("tuned models", result.model.to_bytes(), tuned.read_bytes(), f"{place} tune -o")

        trainer = nacre.Trainer(model)
        for first in range(0, 96, 32):  # two micro-batches a step
            trainer.accumulate(x[first : first + 32], y[first : first + 32])
            trainer.commit(lr=0.01)
        stepped = trainer.state_dict()
        other = nacre.Trainer(model)
        other.load(there)
        equal("training states", bytes_of(stepped), bytes_of(other.state_dict()), f"{place} after 3 steps")
        trainer.save(saved)
        other.start()
        other.load(saved)
        equal("training states", bytes_of(stepped), bytes_of(other.state_dict()), f"{place} saved and loaded")
        tool("export", made, "--checkpoint", saved, "-o", tuned)
        equal("tuned models", trainer.export().to_bytes(), tuned.read_bytes(), f"{place} export")
        tool("export", made, "--checkpoint", saved, "-o", tuned, "--network", DIGITS)
        equal(
            "tuned models", trainer.export(network=DIGITS).to_bytes(), tuned.read_bytes(), f"{place} export --network"
        )


def bytes_of(state: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in state.items()}


if __name__ == "__main__":
    TOOL = os.path.abspath(sys.argv[1])
    warnings.simplefilter("ignore", nacre.Warning)  # the tool prints the same warnings
    tiny = pathlib.Path(os.environ.get("NACRE_SHARED", "/nowhere")) / "models" / "mlperf_tiny"
    with tempfile.TemporaryDirectory() as name:
        inference(pathlib.Path(name), tiny if tiny.is_dir() else None)
        policies()
        machine()
        training(pathlib.Path(name))
    print(json.dumps(counts))
