"""Writes the nodes that TensorFlow's own graph rewrite paints, of random graphs: for tests/passes/rewrite_test.cc.

    python tests/peers/tensorflow_rewrite.py > tests/peers/tensorflow_rewrite_2.21.json    with tensorflow-cpu 2.21.0
    python tests/peers/tensorflow_rewrite.py > tests/peers/tensorflow_rewrite_2.15.json    with tensorflow-cpu 2.15.1

A graph is a list of nodes "op input ...": inputs are indices of earlier nodes, -1 is an input of the network. `outputs`
are the nodes whose values are fetched, each by an Identity. `allow` has a 1 for every node whose type attribute became
float16 or bfloat16. Release 2.21 paints infer ops right after ALLOW ops with float16 too ("infer_after_allow"); 2.15
does not, and its bfloat16 lists and kernels are fewer than today's, so of 2.15 there is float16 only. The lists of 1.15
are those of today with softmax, and for bfloat16 mean, moved to the deny list: of the ops here no other changed but the
depthwise convolution, which is on no list here.
"""

import json
import os
import random

os.environ["TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_EMULATE_FP16"] = "0"  # change types, do not imitate them
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
from tensorflow.python.grappler import tf_optimizer

PREFIX = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_"
GRAPHS = 30  # per case
OPTIMIZERS = {"float16": "auto_mixed_precision_cpu", "bfloat16": "auto_mixed_precision_onednn_bfloat16"}
TARGETS = {"float16": tf.float16.as_datatype_enum, "bfloat16": tf.bfloat16.as_datatype_enum}

FLOAT, INT = tf.float32.as_datatype_enum, tf.int32.as_datatype_enum


def attributes(**values):
    result = {}
    for key, value in values.items():
        result[key] = attr_value_pb2.AttrValue()
        if isinstance(value, (list, tuple)):
            result[key].list.i.extend(value)
        elif isinstance(value, bool):
            result[key].b = value
        elif isinstance(value, bytes):
            result[key].s = value
        elif isinstance(value, float):
            result[key].f = value
        elif key == "shape":
            result[key].shape.dim.add(size=value)
        elif key == "N":
            result[key].i = value
        else:
            result[key].type = value
    return result


# Our op: (inputs, TensorFlow's op, operands after the inputs, attributes). The nodes are records without shapes,
# because the rewrite reads none.
T = dict(T=FLOAT)
OPS = {
    "dense": (1, "MatMul", ["w"], dict(T, transpose_a=False, transpose_b=False)),
    "tanh": (1, "Tanh", [], T),
    "sigmoid": (1, "Sigmoid", [], T),
    "add": (2, "AddV2", [], T),
    "softmax": (1, "Softmax", [], T),
    "mean": (1, "Mean", ["c"], dict(T, Tidx=INT, keep_dims=True)),
    "relu": (1, "Relu", [], T),
    "copy": (1, "Identity", [], T),
    "reshape": (1, "Reshape", ["c"], dict(T, Tshape=INT)),
    "concat": (2, "ConcatV2", ["c"], dict(T, N=2, Tidx=INT)),
    "depthwise_conv2d": (1, "DepthwiseConv2dNative", ["w"],
                         dict(T, strides=[1, 1, 1, 1], dilations=[1, 1, 1, 1], padding=b"SAME", data_format=b"NHWC")),
    "batch_norm": (2, "FusedBatchNormV3", ["w", "w", "w"],
                   dict(T, U=FLOAT, epsilon=1e-3, data_format=b"NHWC", is_training=False)),
    "cast": (0, "Cast", ["c"], dict(SrcT=INT, DstT=FLOAT, Truncate=False)),
}
WEIGHTS = {"dense": 4, "relu": 3, "tanh": 2, "add": 2, "cast": 0.5, "depthwise_conv2d": 0.7, "batch_norm": 0.7}


def random_graph(rng, most_nodes=18):
    names = list(OPS)
    nodes = []
    for n in range(rng.randint(4, most_nodes)):
        op = rng.choices(names, [WEIGHTS.get(name, 1) for name in names])[0]
        first = max(-1, n - 4)
        inputs = [rng.randint(first if rng.random() < 0.8 else -1, n - 1) for _ in range(OPS[op][0])]
        nodes.append((op, inputs))
    read = {i for _, inputs in nodes for i in inputs}
    outputs = [n for n in range(len(nodes)) if n not in read or rng.random() < 0.05]
    return nodes, outputs


def set_lists(case):
    for key in [k for k in os.environ if k.startswith(PREFIX) and k != PREFIX + "EMULATE_FP16"]:
        del os.environ[key]
    os.environ[PREFIX + "LEVEL"] = case["level"]
    moved = {"tf2": [], "tf1": ["Softmax"] + (["Mean"] if case["type"] == "bfloat16" else [])}[case["lists"]]
    os.environ[PREFIX + "ALLOWLIST_REMOVE"] = "DepthwiseConv2dNative"
    if moved:
        os.environ[PREFIX + "INFERLIST_REMOVE"] = os.environ[PREFIX + "DENYLIST_ADD"] = ",".join(moved)


def graph_of(nodes, outputs):
    graph = tf.compat.v1.GraphDef()

    def add(name, op, inputs, attrs):
        node = graph.node.add(name=name, op=op, input=inputs)
        for key, value in attributes(**attrs).items():
            node.attr[key].CopyFrom(value)

    for name, dtype in (("x", FLOAT), ("w", FLOAT), ("c", INT)):
        add(name, "Placeholder", [], dict(dtype=dtype, shape=1))
    for n, (op, inputs) in enumerate(nodes):
        add(f"n{n}", OPS[op][1], ["x" if i < 0 else f"n{i}" for i in inputs] + OPS[op][2], OPS[op][3])
    for n in outputs:
        add(f"output{n}", "Identity", [f"n{n}"], T)
    return graph


def optimized(nodes, outputs, optimizer):
    meta = meta_graph_pb2.MetaGraphDef(graph_def=graph_of(nodes, outputs))
    meta.collection_def["train_op"].node_list.value.extend(f"output{n}:0" for n in outputs)
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.optimizers.append(optimizer)
    rewrite.min_graph_nodes = -1
    rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewrite.fail_on_optimizer_errors = True
    return tf_optimizer.OptimizeGraph(config, meta)


def painted(nodes, outputs, case):
    set_lists(case)
    types = {}
    for node in optimized(nodes, outputs, OPTIMIZERS[case["type"]]).node:
        types[node.name] = node.attr["DstT" if node.op == "Cast" else "T"].type
    return "".join("1" if types[f"n{n}"] == TARGETS[case["type"]] else "0" for n in range(len(nodes)))


def main():
    rng = random.Random(2)
    every_mode = tuple(int(n) for n in tf.__version__.split(".")[:2]) >= (2, 21)
    cases = [{"type": t, "lists": l, "level": ""} for t in ("float16", "bfloat16") for l in ("tf1", "tf2")]
    cases += [{"type": t, "lists": "tf2", "level": "TREAT_INFER_AS_DENY"} for t in ("float16", "bfloat16")]
    for level in ("TENSOR_CORES_ONLY", "UNSAFE_FORCE_ALL"):
        cases.append({"type": "float16", "lists": "tf2", "level": level})
    cases = [case for case in cases if case["type"] == "float16" or every_mode]
    for case in cases:
        case["graphs"] = []
        while len(case["graphs"]) < GRAPHS:
            nodes, outputs = random_graph(rng)
            case["graphs"].append({
                "nodes": [" ".join([op] + [str(i) for i in inputs]) for op, inputs in nodes],
                "outputs": outputs,
                "allow": painted(nodes, outputs, case),
            })
    print("{\"tensorflow\": \"%s\", \"infer_after_allow\": %s, \"cases\": [" % (tf.__version__, json.dumps(every_mode)))
    for i, case in enumerate(cases):
        graphs = ",\n".join(json.dumps(graph) for graph in case.pop("graphs"))
        print(json.dumps(case)[:-1] + ", \"graphs\": [\n" + graphs + ("]}," if i + 1 < len(cases) else "]}]}"))


if __name__ == "__main__":
    main()
