"""TensorFlow Lite Micro's example networks: converted, run, and beside what its own runtime and LiteRT give.

    compare_tflm.py NACRE FOLDER [--write TABLE]     FOLDER: models/tflm of the shared data

Each runs eight times on random numbers, with what it keeps from run to run. int8 and int16 codes are equal to those of
TensorFlow Lite Micro's reference kernels, and with --rounding litert to those of LiteRT's, where it takes the file;
real numbers are within 1e-5 of the largest, and those of audio_preprocessor_float, scaled integers, are equal. The
int8 one also gives the features of two words in golden/tflm_examples.json, and is joined to micro_speech_quantized: the
scores of a stream, by 1 and by 5 hops, are those of both apart.
"""
import argparse
import concurrent.futures
import importlib.metadata
import json
import multiprocessing
import pathlib
import sys
import textwrap
import wave

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tflite_micro.python.tflite_micro import runtime

from converted import Converted, Refused, distance

RUNS = 8
ARENA = 32 << 20
DTYPES = {0: np.float32, 7: np.int16, 9: np.int8}  # TensorType
TOLERANCE = 1e-5
EXACT = "audio_preprocessor"
PACKAGES = ("tflite-micro", "ai-edge-litert", "numpy")


def inputs_of(path):
    """[(name, shape, dtype)]"""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes(), 0))
    graph = model.subgraphs[0]
    names = {}
    for signature in model.signatureDefs or []:
        names = {x.tensorIndex: x.name for x in signature.inputs}
    tensors = [(i, graph.tensors[i]) for i in graph.inputs]
    return [((names.get(i, t.name) or b"tensor_%d" % i).decode(), tuple(t.shape), DTYPES[t.type]) for i, t in tensors]


def drawn(shape, dtype, numbers):
    shape = (RUNS, *shape)
    if dtype == np.float32:
        return numbers.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return numbers.integers(limits.min, limits.max + 1, shape).astype(dtype)


def of_micro(path, given):
    interpreter = runtime.Interpreter.from_file(str(path), arena_size=ARENA)
    made = []
    for run in range(RUNS):
        for i, x in enumerate(given):
            interpreter.set_input(x[run], i)
        interpreter.invoke()
        made.append(interpreter.get_output(0))
    return np.stack(made)


def of_litert(path, given):
    interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    made = []
    for run in range(RUNS):
        for details, x in zip(interpreter.get_input_details(), given):
            interpreter.set_tensor(details["index"], x[run])
        interpreter.invoke()
        made.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    return np.stack(made)


def in_a_process(work, *operands):
    """Returns work(*operands), run in a process of its own; None if LiteRT refuses the file or ends the process."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        try:
            return pool.submit(work, *operands).result()
        except (RuntimeError, ValueError):  # a process that ended is a RuntimeError
            return None


def ours(nacre, path, names, given, *options):
    arrays = {"in." + name: x.reshape(-1, *x.shape[2:]) for name, x in zip(names, given)}
    made = list(Converted(nacre, path, *options).run(arrays).values())
    if len(made) != 1:
        raise Refused(f"{len(made)} outputs")
    return made[0]


def judged(mine, theirs, tolerance=TOLERANCE):
    """Returns whether the outputs are equal, and a text."""
    mine = mine.reshape(theirs.shape)
    if theirs.dtype == np.float32:
        far = distance(mine, theirs)
        return far <= tolerance, f"{far:.0e}"
    far = int(np.count_nonzero(mine != theirs))
    return far == 0 and mine.dtype == theirs.dtype, f"{far} of {theirs.size} {theirs.dtype} codes"


def compared(nacre, path, numbers):
    """Returns whether all are equal, and a text."""
    inputs = inputs_of(path)
    given = [drawn(shape, dtype, numbers) for _, shape, dtype in inputs]
    names = [name for name, _, _ in inputs]
    tolerance = 0 if path.stem.startswith(EXACT) else TOLERANCE
    right, said = judged(ours(nacre, path, names, given), of_micro(path, given), tolerance)
    said = f"TensorFlow Lite Micro {said}"
    theirs = in_a_process(of_litert, path, given)
    if theirs is None:
        return right, said + ", LiteRT refuses it"
    equal, text = judged(ours(nacre, path, names, given, "--rounding", "litert"), theirs)
    return right and equal, f"{said}, LiteRT {text}"


def words(nacre, folder):
    """(whether the features of the samples of two words are those of the shared data, what to say)"""
    golden = json.loads((folder.parents[1] / "golden" / "tflm_examples.json").read_text())["micro_speech_features_30ms"]
    far = 0
    for word, expected in golden.items():
        with wave.open(str(folder / f"{word}_30ms.wav")) as file:
            samples = np.frombuffer(file.readframes(480), "<i2").reshape(1, 480)
        path = folder / "audio_preprocessor_int8.tflite"
        (name, _, _), = inputs_of(path)
        made = ours(nacre, path, [name], [samples[:, None]])
        far += np.count_nonzero(made.ravel() != np.array(expected))
    return far == 0, f"{far} of {sum(map(len, golden.values()))} features of {' and '.join(golden)} differ"


def stream(nacre, folder):
    """(whether both as one model score a track as they do apart, what to say)"""
    front_end, network = folder / "audio_preprocessor_int8.tflite", folder / "micro_speech_quantized.tflite"
    track = [np.zeros(160 + 1234, np.int16)]  # a stream's first frame begins with samples that no run gave
    for name in ("yes", "noise", "no", "silence"):
        with wave.open(str(folder / f"{name}_1000ms.wav")) as file:
            track.append(np.frombuffer(file.readframes(file.getnframes()), "<i2"))
    track = np.concatenate(track)
    runs = (len(track) - 160) // 1600 * 5
    features, scores = (runtime.Interpreter.from_file(str(path), arena_size=ARENA) for path in (front_end, network))
    window, theirs = np.zeros((49, 40), np.int8), []
    for run in range(runs):
        features.set_input(track[320 * run: 320 * run + 480][None], 0)
        features.invoke()
        window = np.vstack([window[1:], features.get_output(0).reshape(1, 40)])
        scores.set_input(window.reshape(1, -1), 0)
        scores.invoke()
        theirs.append(scores.get_output(0).ravel())
    (name, _, _), = inputs_of(front_end)
    far = 0
    for hops in (1, 5):
        given = track[160: 160 + 320 * runs].reshape(-1, 1, 1, 320 * hops)
        options = ("--front-end", front_end, "--hop", 320, "--hops", hops)
        far += np.count_nonzero(ours(nacre, network, [name], [given], *options) != np.stack(theirs)[hops - 1::hops])
    return far == 0, f"behind audio_preprocessor_int8 {far} of {4 * (runs + runs // 5)} int8 codes of a stream"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nacre")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--write", metavar="TABLE", type=pathlib.Path, help="writes what it prints to this file too")
    arguments = parser.parse_args()
    lines = [", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES), ""]
    files, equal = 0, 0
    for path in sorted(arguments.folder.glob("*.tflite")):
        numbers = np.random.default_rng(files)
        files += 1
        try:
            right, text = compared(arguments.nacre, path, numbers)
            if path.stem == "audio_preprocessor_int8":
                known, told = words(arguments.nacre, arguments.folder)
                right, text = right and known, f"{text}, {told}"
            if path.stem == "micro_speech_quantized":
                known, told = stream(arguments.nacre, arguments.folder)
                right, text = right and known, f"{text}, {told}"
        except Refused as why:
            right, text = False, f"refused: {why}"
        equal += right
        lines += textwrap.wrap(f"{path.stem}: {'' if right else 'WRONG '}{text}", 120, subsequent_indent="    ")
    shown = "shown" if files > 0 and equal == files else "NOT SHOWN"
    lines += ["", f"CLAIM tflm_examples {shown}: {files} networks, {equal} equal"]
    print("\n".join(lines))
    if arguments.write:
        arguments.write.write_text("\n".join(lines) + "\n")
    return 0 if shown == "shown" else 1


if __name__ == "__main__":
    sys.exit(main())
