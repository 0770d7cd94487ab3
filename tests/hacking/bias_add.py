"""Converts and runs com.microsoft BiasAdd, and compares it with numpy: bias_add.py NACRE FOLDER."""

import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

nacre, folder = sys.argv[1], pathlib.Path(sys.argv[2])
random = np.random.default_rng(1)
x, skip = (random.standard_normal((1, 6, 8)).astype(np.float32) for _ in range(2))
bias = random.standard_normal(8).astype(np.float32)
graph = helper.make_graph(
    [helper.make_node("BiasAdd", ["x", "bias", "skip"], ["y"], domain="com.microsoft")],
    "bias_add",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
    [numpy_helper.from_array(bias, "bias"), numpy_helper.from_array(skip, "skip")],
)
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "bias_add.onnx")
np.save(folder / "x.npy", x)
convert = [nacre, "convert", folder / "bias_add.onnx", "-o", folder / "bias_add.nacre"]
subprocess.run(convert, check=True, stdout=subprocess.DEVNULL)
run = [nacre, "run", folder / "bias_add.nacre", "--input", f"x={folder / 'x.npy'}", "--output", folder / "outputs"]
subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
sys.exit(0 if np.array_equal(np.load(folder / "outputs" / "y.npy"), x + bias + skip) else 1)
