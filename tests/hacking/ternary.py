"""Converts a dense layer under int8/ternary_from_float32, and compares its weights with the formula of Ternary Weight
Networks in numpy: ternary.py NACRE FOLDER."""

import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

nacre, folder = sys.argv[1], pathlib.Path(sys.argv[2])
w = np.random.default_rng(1).standard_normal((24, 7)).astype(np.float32)  # [terms, channels]
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["y"])],
    "ternary",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [24, 24])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [24, 7])],
    [numpy_helper.from_array(w, "w")],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "ternary.onnx")
np.save(folder / "eye.npy", np.eye(24, dtype=np.float32))
model, policy = folder / "ternary.nacre", "int8/ternary_from_float32"
convert = [nacre, "convert", folder / "ternary.onnx", "-o", model, "--policy", policy]
subprocess.run(convert, check=True, stdout=subprocess.DEVNULL)
run = [nacre, "run", model, "--input", f"x={folder / 'eye.npy'}", "--output", folder / "outputs"]
subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
size = np.abs(w.astype(np.float64))
kept = size > 0.7 * size.mean(axis=0)
step = np.float32((size * kept).sum(axis=0) / kept.sum(axis=0))
sys.exit(0 if np.array_equal(np.load(folder / "outputs" / "y.npy"), np.sign(w) * kept * step) else 1)
