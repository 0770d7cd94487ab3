"""Makes the kept corpus of fuzz_onnx: small networks, each with other operators, so that the fuzzer starts from files that parse.

    $(bash tools/peers.sh) tests/fuzz/make_onnx_corpus.py tests/fuzz/corpus/onnx
"""
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def array(name, shape, dtype=np.float32):
    count = int(np.prod(shape))
    return numpy_helper.from_array((np.arange(count) % 7 - 3).astype(dtype).reshape(shape), name)


def integers(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(nodes, x, y, initializers, opset):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, x)],
                              [helper.make_tensor_value_info("y", FLOAT, y)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(op, inputs, outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


IMAGE = ["batch", 2, 5, 5]
MODELS = {
    "conv_bn_relu": model(
        [node("Conv", ["x", "w"], ["a"], pads=[1, 0, 0, 1], strides=[2, 1]),
         node("BatchNormalization", ["a", "s", "b", "m", "v"], ["c"]), node("Relu", ["c"])],
        IMAGE, None, [array("w", (3, 2, 2, 2)), array("s", (3,)), array("b", (3,)), array("m", (3,)),
                      numpy_helper.from_array(np.ones(3, np.float32), "v")], 13),
    "depthwise": model([node("Conv", ["x", "w", "b"], group=2, dilations=[2, 1], auto_pad="SAME_UPPER")],
                       IMAGE, None, [array("w", (4, 1, 3, 3)), array("b", (4,))], 11),
    "pools": model([node("MaxPool", ["x"], ["a"], kernel_shape=[2, 2], ceil_mode=1),
                    node("AveragePool", ["a"], ["b"], kernel_shape=[2, 2], count_include_pad=1, pads=[1, 1, 0, 0]),
                    node("GlobalAveragePool", ["b"])], IMAGE, None, [], 12),
    "dense": model([node("Flatten", ["x"], ["a"]), node("Gemm", ["a", "w", "b"], ["c"], transB=1, alpha=0.5),
                    node("Softmax", ["c"], axis=1)], IMAGE, None, [array("w", (4, 50)), array("b", (4,))], 12),
    "moves": model([node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]), node("Slice", ["a", "s", "e", "ax", "st"], ["b"]),
                    node("Concat", ["b", "b"], ["c"], axis=3), node("Reshape", ["c", "shape"])], IMAGE, None,
                   [integers("s", [0]), integers("e", [9]), integers("ax", [1]), integers("st", [2]),
                    integers("shape", [0, -1])], 13),
    "pad_split": model([node("Pad", ["x", "pads"], ["a"], mode="reflect"),
                        node("Split", ["a"], ["b", "c"], axis=1), node("Sub", ["b", "c"])], IMAGE, None,
                       [integers("pads", [0, 0, 1, 1, 0, 0, 1, 0])], 13),
    "pointwise": model([node("Clip", ["x", "low", "high"], ["a"]), node("HardSwish", ["a"], ["b"]),
                        node("Mul", ["b", "k"], ["c"]), node("Sigmoid", ["c"], ["d"]), node("LeakyRelu", ["d"], alpha=0.1)],
                       IMAGE, None, [array("low", ()), numpy_helper.from_array(np.float32(6), "high"), array("k", (2, 1, 1))], 14),
    "qdq": model([node("QuantizeLinear", ["x", "s", "z"], ["a"]), node("DequantizeLinear", ["a", "s", "z"], ["b"]),
                  node("DequantizeLinear", ["w", "s", "z"], ["c"]), node("Conv", ["b", "c"], ["d"]),
                  node("QuantizeLinear", ["d", "s", "z"], ["e"]), node("DequantizeLinear", ["e", "s", "z"])],
                 IMAGE, None, [numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.int8(0), "z"),
                               array("w", (2, 2, 1, 1), np.int8)], 13),
    "shapes": model([node("Shape", ["x"], ["a"]), node("Gather", ["a", "i"], ["b"]), node("Unsqueeze", ["b", "zero"], ["c"]),
                     node("Concat", ["c", "rest"], ["d"], axis=0), node("Reshape", ["x", "d"], ["e"]),
                     node("ReduceMean", ["e"], axes=[1], keepdims=0)], IMAGE, None,
                    [integers("i", 0), integers("zero", [0]), integers("rest", [-1])], 13),
}


def graph(nodes, inputs, outputs, initializers=()):
    """The body of a control flow operator."""
    infos = lambda names: [helper.make_tensor_value_info(n, t, s) for n, t, s in names]
    return helper.make_graph(nodes, "body", infos(inputs), infos(outputs), list(initializers))


def with_domain(proto, domain, version=1):
    proto.opset_import.append(helper.make_opsetid(domain, version))
    return proto


def outside(location):
    """A weight whose data are in another file."""
    tensor = array("w", (2, 2, 1, 1))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def calling(depth):
    """Returns a model with functions f0, f1, ..: each calls the next one twice, the last one Relu."""
    proto = with_domain(model([node("f0", ["x"], domain="own")], IMAGE, None, [], 17), "own")
    for i in range(depth):
        inner = dict(op_type=f"f{i + 1}", domain="own") if i + 1 < depth else dict(op_type="Relu")
        nodes = [helper.make_node(inner["op_type"], [a], [b], domain=inner.get("domain")) for a, b in (("a", "b"), ("b", "c"))]
        proto.functions.append(helper.make_function("own", f"f{i}", ["a"], ["c"], nodes,
                                                    [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]))
    return proto


ROWS = ["batch", 3, 4]
FLAG = numpy_helper.from_array(np.array(True), "flag")
MODELS |= {
    "loop": model([node("Loop", ["turns", "", "x"], ("y", "scan"), body=graph(
        [node("Identity", ["going"], ["still"]), node("Add", ["v", "k"], ["w"]), node("Relu", ["w"], ["row"])],
        [("i", INT64, []), ("going", TensorProto.BOOL, []), ("v", FLOAT, None)],
        [("still", TensorProto.BOOL, []), ("w", FLOAT, None), ("row", FLOAT, None)], [array("k", (4,))]))],
        ROWS, None, [integers("turns", 3)], 16),
    "scan_if": model([node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
                      node("Scan", ["s", "t"], ("last", "rows"), num_scan_inputs=1, body=graph(
                          [node("Add", ["old", "row"], ["new"]), node("Tanh", ["new"], ["out"])],
                          [("old", FLOAT, None), ("row", FLOAT, None)], [("new", FLOAT, None), ("out", FLOAT, None)])),
                      node("If", ["flag"], then_branch=graph([node("Add", ["last", "last"], ["a"])], [], [("a", FLOAT, None)]),
                           else_branch=graph([node("Neg", ["last"], ["b"])], [], [("b", FLOAT, None)]))],
                     ROWS, None, [array("s", (1, 4)), FLAG], 16),
    "recurrent": model([node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
                        node("LSTM", ["t", "w", "r", "b"], ("h", "", ""), hidden_size=2, direction="bidirectional"),
                        node("ReduceSum", ["h", "axis"], ["s"], keepdims=0),
                        node("GRU", ["s", "gw", "gr"], ("g", ""), hidden_size=2, linear_before_reset=1),
                        node("RNN", ["s", "nw", "nr"], ("n", ""), hidden_size=2), node("Add", ["g", "n"])],
                       ROWS, None, [array("w", (2, 8, 4)), array("r", (2, 8, 2)), array("b", (2, 16)), integers("axis", [1]),
                                    array("gw", (1, 6, 2)), array("gr", (1, 6, 2)), array("nw", (1, 2, 2)), array("nr", (1, 2, 2))], 14),
    "attention": model([node("MatMul", ["x", "w"], ["q"]), node("Transpose", ["x"], ["k"], perm=[0, 2, 1]),
                        node("MatMul", ["q", "k"], ["s"]), node("Trilu", ["ones", "one"], ["mask"], upper=1),
                        node("Mul", ["mask", "low"], ["m"]), node("Add", ["s", "m"], ["a"]), node("Softmax", ["a"], ["p"], axis=-1),
                        node("MatMul", ["p", "x"], ["o"]), node("LayerNormalization", ["o", "g", "g"], ["n"]),
                        node("Gelu", ["n"], approximate="tanh")], ROWS, None,
                       [array("w", (4, 4)), array("ones", (3, 3)), integers("one", 1), array("low", ()), array("g", (4,))], 20),
    "folding": model([node("Range", ["zero", "four", "one"], ["r"]), node("Shape", ["x"], ["s"]),
                      node("Gather", ["s", "one"], ["n"]), node("ConstantOfShape", ["rest"], ["c"]), node("NonZero", ["c"], ["z"]),
                      node("Where", ["bools", "r", "r"], ["v"]), node("ScatterND", ["r", "at", "at1"], ["t"]),
                      node("Expand", ["v", "rest"], ["e"]), node("Tile", ["t", "rest"], ["l"]), node("CumSum", ["r", "zero"], ["u"]),
                      node("TopK", ["u", "two"], ["values", "places"]), node("OneHot", ["places", "four", "pair"], ["h"]),
                      node("Mod", ["r", "four"], ["d"]), node("Cast", ["d"], ["f"], to=FLOAT), node("Add", ["x", "f"], ["p"]),
                      node("MatMul", ["p", "turned"], ["q"]), node("ReduceSum", ["h", "two"], ["o"], keepdims=0),
                      node("Cast", ["o"], ["of"], to=FLOAT), node("Add", ["q", "of"])],
                     ROWS, None, [integers("zero", 0), integers("four", 4), integers("one", 1), integers("rest", [4]),
                                  numpy_helper.from_array(np.array([True, False, True, False]), "bools"), integers("at", [[1]]),
                                  integers("at1", [7]), integers("two", [0]), integers("pair", [0, 1]), array("turned", (4, 4))], 17),
    "resize_transposed": model([node("ConvTranspose", ["x", "w"], ["a"], strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 0, 0]),
                                node("Resize", ["a", "", "scales"], ["b"], mode="linear", coordinate_transformation_mode="half_pixel"),
                                node("Resize", ["b", "", "", "sizes"], mode="cubic")], IMAGE, None,
                               [array("w", (2, 3, 3, 3)), numpy_helper.from_array(np.float32([1, 1, 1.5, 2]), "scales"),
                                integers("sizes", [1, 3, 4, 4])], 18),
    "indices": model([node("ArgMax", ["x"], ["i"], axis=2, keepdims=1), node("GatherElements", ["x", "i"], ["g"], axis=2),
                      node("ScatterElements", ["x", "i", "g"], ["s"], axis=2, reduction="add"),
                      node("GatherND", ["s", "at"], ["n"]), node("LogSoftmax", ["n"], axis=-1)], ROWS, None, [integers("at", [[0, 1], [0, 2]])], 18),
    "einsum_norms": model([node("Einsum", ["x", "w"], ["a"], equation="bij,jk->bik"), node("InstanceNormalization", ["a", "s", "s"], ["b"]),
                           node("LpNormalization", ["b"], ["c"], axis=-1, p=2), node("ReduceLogSumExp", ["c", "axes"], ["d"]),
                           node("PRelu", ["d", "slope"])], ROWS, None,
                          [array("w", (4, 4)), array("s", (3,)), integers("axes", [1]), array("slope", (1,))], 18),
    "blocks": with_domain(model([node("MatMulNBits", ["x", "codes", "scale", "zero"], domain="com.microsoft", K=4, N=2, bits=4, block_size=16)],
                                ROWS, None, [numpy_helper.from_array(np.arange(16, dtype=np.uint8).reshape(2, 1, 8), "codes"),
                                             numpy_helper.from_array(np.ones(2, np.float32), "scale"),
                                             numpy_helper.from_array(np.full((2, 1), 8, np.uint8), "zero")], 17), "com.microsoft"),
    "dynamic": model([node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), node("MatMulInteger", ["q", "w", "z", "wz"], ["i"]),
                      node("Cast", ["i"], ["f"], to=FLOAT), node("Mul", ["s", "ws"], ["m"]), node("Mul", ["f", "m"])],
                     ROWS, None, [array("w", (4, 2), np.int8), numpy_helper.from_array(np.int8(0), "wz"),
                                  numpy_helper.from_array(np.float32(0.1), "ws")], 13),
    "trees": with_domain(model([node("Reshape", ["x", "flat"], ["a"]), node("Scaler", ["a"], ["b"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0]),
                                node("TreeEnsembleRegressor", ["b"], domain="ai.onnx.ml", n_targets=1, nodes_treeids=[0, 0, 0],
                                     nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0], nodes_values=[0.5, 0.0, 0.0],
                                     nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
                                     target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, -1.0])],
                               ROWS, None, [integers("flat", [-1, 4])], 15), "ai.onnx.ml", 3),
    "signals": model([node("Reshape", ["x", "flat"], ["a"]), node("STFT", ["a", "step", "", "length"], ["s"], onesided=1),
                      node("ReduceSumSquare", ["s", "axes"], keepdims=0)], ROWS, None,
                     [integers("flat", [1, 12, 1]), integers("step", 2), integers("length", 4), integers("axes", [-1])], 18),
    "volume": model([node("Unsqueeze", ["x", "one"], ["a"]), node("Conv", ["a", "w"], ["b"], pads=[1, 0, 0, 1, 0, 0]),
                     node("MaxPool", ["b"], kernel_shape=[1, 2, 2])], IMAGE, None,
                    [integers("one", [1]), array("w", (2, 1, 2, 2, 2))], 17),
    "outside": model([node("Conv", ["x", "w"])], IMAGE, None, [outside("../../../etc/passwd")], 17),
    "far": model([node("ConstantOfShape", ["shape"], ["c"]), node("Add", ["x", "c"])], IMAGE, None,
                 [integers("shape", [1 << 20, 1 << 20])], 17),
    "calls": calling(14),
    "unknown": model([node("Mystery", ["x"], ["m"]), node("Conv", ["m", "w"], ["c"]), node("Cast", ["c"], ["i"], to=INT64),
                      node("Div", ["i", "i"])], IMAGE, None, [array("w", (2, 2, 1, 1))], 17),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, proto in MODELS.items():
        (folder / f"{name}.onnx").write_bytes(proto.SerializeToString(deterministic=True))
    print(f"{len(MODELS)} files in {folder}")


if __name__ == "__main__":
    main()
