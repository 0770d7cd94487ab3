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


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, proto in MODELS.items():
        (folder / f"{name}.onnx").write_bytes(proto.SerializeToString(deterministic=True))
    print(f"{len(MODELS)} files in {folder}")


if __name__ == "__main__":
    main()
