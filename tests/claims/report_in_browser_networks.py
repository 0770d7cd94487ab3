"""Makes networks whose pages are hard to draw: report_in_browser_networks.py FOLDER

    deep.onnx      500 layers: residual blocks of dense layers
    hostile.onnx   names with tags, quotes, ends of scripts, control characters and right-to-left marks; hostile.npy: samples of it
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(5)
HOSTILE = ["<script>alert(1)</script>", "\"'&<b onmouseover=alert(1)>", "</script><img src=x onerror=alert(1)>", "a\u202eb]]>-->\x07",
           "</title></style></svg>", "javascript:alert(1)"]


def dense(nodes, weights, name, x, y, width):
    w, b = f"{name}.w", f"{name}.b"
    weights += [numpy_helper.from_array((RNG.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32), w),
                numpy_helper.from_array(RNG.standard_normal(width).astype(np.float32) * 0.1, b)]
    nodes.append(helper.make_node("Gemm", [x, w, b], [y], name=name, transB=1))


def save(path, nodes, weights, names, width):
    graph = helper.make_graph(nodes, names[2], [helper.make_tensor_value_info(names[0], TensorProto.FLOAT, [1, width])],
                              [helper.make_tensor_value_info(names[1], TensorProto.FLOAT, [1, width])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def deep(path, layers=500, width=8):
    nodes, weights, x = [], [], "x"
    for i in range(layers // 4):  # dense, relu, dense, add
        dense(nodes, weights, f"encoder/block_{i}/first/dense", x, f"a{i}", width)
        nodes.append(helper.make_node("Relu", [f"a{i}"], [f"r{i}"], name=f"encoder/block_{i}/relu"))
        dense(nodes, weights, f"encoder/block_{i}/second/dense", f"r{i}", f"c{i}", width)
        nodes.append(helper.make_node("Add", [f"c{i}", x], [f"x{i}"], name=f"encoder/block_{i}/add"))
        x = f"x{i}"
    save(path, nodes, weights, ("x", x, "deep"), width)
    assert len(nodes) == layers


def hostile(folder, width=8):
    nodes, weights, x = [], [], HOSTILE[0] + "in"
    for i, name in enumerate(HOSTILE):
        dense(nodes, weights, name, x, f"{name}{i}", width)
        x = f"{name}{i}"
    save(folder / "hostile.onnx", nodes, weights, (HOSTILE[0] + "in", x, HOSTILE[2]), width)
    np.save(folder / "hostile.npy", RNG.standard_normal((16, width)).astype(np.float32))


folder = pathlib.Path(sys.argv[1])
deep(folder / "deep.onnx")
hostile(folder)
