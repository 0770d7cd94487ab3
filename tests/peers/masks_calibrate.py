# Attention with every form of mask that exporters write, and what onnxruntime computes of it in float32.
#
#   python tests/peers/masks_calibrate.py tests/peers/masks_calibrate.json
#
# One head over 8 tokens: s = (x Wq)(x Wk)' / sqrt(d), a mask, softmax, (p (x Wv)) Wo [8, 4]. All networks have equal
# weights and samples; `none` has no mask. A network with the input `m` [1, 1, 8] takes 1 for tokens that count.
import base64
import json
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

TOKENS, WIDTH, OUT, CALIBRATED, JUDGED = 8, 16, 4, 24, 16
LOWEST = float(np.finfo("float32").min)
INF = float("inf")

# name: (how, number)
FORMS = {
    "none": ("none", 0),
    "add_inf": ("add", -INF),
    "add_1e4": ("add", -1e4),
    "add_1e9": ("add", -1e9),
    "add_lowest": ("add", LOWEST),
    "add_100": ("add", -100),
    "add_reshape": ("add_reshape", -INF),
    "add_max": ("add_max", LOWEST),
    "scale_after": ("scale_after", -1e9),
    "where_inf": ("where", -INF),
    "where_1e9": ("where", -1e9),
    "where_lowest": ("where", LOWEST),
    "input_1e4": ("input", -1e4),
    "input_1e9": ("input", -1e9),
    "input_lowest": ("input", LOWEST),
    "input_sub": ("input_sub", 1e9),
    "input_where": ("input_where", -INF),
    "causal_and_input": ("both", -1e9),
}


def base64_of(array):
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def network(how, number, random):
    stored, nodes = [], []

    def constant(name, array):
        stored.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def weights(name, rows, columns):
        return constant(name, (random.normal(size=(rows, columns)) / np.sqrt(rows) * 1.6).astype("float32"))

    q, k, v = (node("MatMul", ["x", weights("W" + n, WIDTH, WIDTH)], n) for n in "qkv")
    turned = node("Transpose", [k], "kt", perm=[0, 2, 1])
    raw = node("MatMul", [q, turned], "raw")
    small = constant("scale", np.float32(1 / np.sqrt(WIDTH)))
    causal = np.triu(np.ones((1, TOKENS, TOKENS)), 1) > 0
    additive = lambda: constant("mask", np.where(causal, np.float32(number), np.float32(0)).astype("float32"))
    takes_mask = how in ("input", "input_sub", "input_where", "both")
    s = node("Mul", [raw, small], "scores")
    if how == "add" or how == "both":
        s = node("Add", [s, additive()], "masked")
    if how == "add_reshape":
        s = node("Add", [s, additive()], "masked")
        s = node("Reshape", [s, constant("shape", np.array([1, 1, TOKENS, TOKENS]))], "heads")
    if how == "add_max":
        s = node("Max", [node("Add", [s, additive()], "masked"), constant("least", np.float32(LOWEST))], "bounded")
    if how == "scale_after":
        s = node("Mul", [node("Add", [raw, additive()], "masked"), small], "scaled")
    if how == "where":
        s = node("Where", [constant("keep", ~causal), s, constant("fill", np.float32(number))], "masked")
    if takes_mask:
        away = node("Sub", [constant("one", np.float32(1)), "m"], "away")
    if how in ("input", "both"):
        s = node("Add", [s, node("Mul", [away, constant("lowest", np.float32(number))], "added")], "masked_by_input")
    if how == "input_sub":
        s = node("Sub", [s, node("Mul", [away, constant("large", np.float32(number))], "taken")], "masked_by_input")
    if how == "input_where":
        keep = node("Greater", ["m", constant("half", np.float32(0.5))], "keep")
        s = node("Where", [keep, s, constant("fill", np.float32(number))], "masked_by_input")
    p = node("Softmax", [s], "p", axis=-1)
    if how == "add_reshape":
        p = node("Reshape", [p, constant("back", np.array([1, TOKENS, TOKENS]))], "p3")
    node("MatMul", [node("MatMul", [p, v], "mixed"), weights("Wo", WIDTH, OUT)], "y")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, TOKENS, WIDTH])]
    if takes_mask:
        inputs.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, [1, 1, TOKENS]))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, TOKENS, OUT])]
    made = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, stored),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString(), takes_mask


def main():
    samples = np.random.default_rng(2).normal(size=(CALIBRATED + JUDGED, 1, TOKENS, WIDTH)).astype("float32")
    lengths = np.random.default_rng(3).integers(3, TOKENS + 1, CALIBRATED + JUDGED)
    masks = (np.arange(TOKENS)[None, None, None] < lengths[:, None, None, None]).astype("float32")
    networks = []
    for name, (how, number) in FORMS.items():
        file, takes_mask = network(how, number, np.random.default_rng(1))
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        y = [session.run(None, {"x": x, **({"m": m} if takes_mask else {})})[0]
             for x, m in zip(samples[CALIBRATED:], masks[CALIBRATED:])]
        networks.append({"name": name, "file": base64.b64encode(file).decode(), "takes_mask": takes_mask,
                         "y": base64_of(np.array(y))})
    with open(sys.argv[1], "w") as out:
        json.dump({"onnxruntime": onnxruntime.__version__, "calibrated": CALIBRATED, "x": base64_of(samples),
                   "m": base64_of(masks), "networks": networks}, out, indent=1)
        out.write("\n")


main()
