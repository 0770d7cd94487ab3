"""Detections beside LiteRT: NON_MAX_SUPPRESSION_V4 and _V5 and TFLite_Detection_PostProcess on random boxes.

  python tests/peers/detections.py NACRE [COUNT]      with tests/exports/tflite_requirements.txt

Bytes that LiteRT leaves behind the last detection are no answer and are not compared.
"""

import argparse
import pathlib
import subprocess
import tempfile

import flatbuffers
import numpy as np
import tensorflow as tf
from flatbuffers import flexbuffers
from tensorflow.lite.python import schema_py_generated as schema

FLOAT, INT = schema.TensorType.FLOAT32, schema.TensorType.INT32
CODES = {"NON_MAX_SUPPRESSION_V4": schema.BuiltinOperator.NON_MAX_SUPPRESSION_V4,
         "NON_MAX_SUPPRESSION_V5": schema.BuiltinOperator.NON_MAX_SUPPRESSION_V5}


def network(operator, inputs, outputs, options=None):
    """A file of one operator; inputs {name: array, or the shape of an activation}, outputs {name: (type, shape)}."""
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.subgraphs, model.buffers = 3, [graph], [schema.BufferT()]
    code, op = schema.OperatorCodeT(), schema.OperatorT()
    code.builtinCode = CODES.get(operator, schema.BuiltinOperator.CUSTOM)
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    code.customCode = None if operator in CODES else operator
    if options is not None:
        op.customOptions = np.frombuffer(options, np.uint8)
    graph.tensors, graph.operators, model.operatorCodes = [], [op], [code]

    def tensor(name, kind, shape, data=None):
        t = schema.TensorT()
        t.name, t.type, t.shape, t.buffer = name, kind, list(shape), 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(data.tobytes(), np.uint8)
            model.buffers.append(buffer)
            t.buffer = len(model.buffers) - 1
        graph.tensors.append(t)
        return len(graph.tensors) - 1

    op.inputs, graph.inputs = [], []
    for name, x in inputs.items():
        constant = isinstance(x, np.ndarray)
        kind = INT if constant and x.dtype == np.int32 else FLOAT
        op.inputs.append(tensor(name, kind, x.shape if constant else x, x if constant else None))
        if not constant:
            graph.inputs.append(op.inputs[-1])
    op.outputs = [tensor(name, kind, shape) for name, (kind, shape) in outputs.items()]
    graph.outputs = op.outputs
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def boxes_of(random, n):
    """Some of them nearly over each other, some without area, corners in any order."""
    low = random.random((n, 2)) * random.choice([1.0, 4.0])
    boxes = np.concatenate([low, low + random.random((n, 2))], 1)
    for i in range(1, n, 3):
        boxes[i] = boxes[i - 1] + random.normal(0, 0.05, 4)
    return boxes.astype(np.float32)


def suppression(random):
    soft, n = random.random() < 0.5, int(random.integers(1, 200))
    most = int(random.integers(1, min(n + 5, 100)))
    scores = random.random(n).astype(np.float32) if random.random() < 0.8 else np.round(random.random(n), 1).astype(np.float32)
    if len(np.unique(scores)) < n:  # LiteRT takes equals in the order of its heap
        scores = (np.argsort(scores, kind="stable") / n).astype(np.float32)
    inputs = {"boxes": (n, 4), "scores": (n,), "most": np.array(most, np.int32),
              "overlap": np.array(random.choice([0.3, 0.5, 0.9]), np.float32),
              "least": np.array(random.choice([0.0, 0.1, 0.5]), np.float32)}
    outputs = {"places": (INT, (most,))}
    if soft:
        inputs["sigma"] = np.array(random.choice([0.0, 0.3, 1.0]), np.float32)
        outputs["kept"] = (FLOAT, (most,))
    outputs["count"] = (INT, ())
    file = network(f"NON_MAX_SUPPRESSION_V{5 if soft else 4}", inputs, outputs)
    return file, [boxes_of(random, n), scores], 1


def post_process(random):
    n, classes, most = int(random.integers(2, 150)), int(random.integers(1, 12)), int(random.integers(1, 30))
    regular, background = bool(random.random() < 0.5), int(random.random() < 0.6)
    each = 1 if regular else min(classes, int(random.choice([1, 1, 2, 5])))
    options = flexbuffers.Dumps({
        "max_detections": most, "max_classes_per_detection": each, "num_classes": classes, "use_regular_nms": regular,
        "detections_per_class": int(random.integers(1, 40)), "nms_score_threshold": float(random.choice([1e-8, 0.3])),
        "nms_iou_threshold": float(random.choice([0.4, 0.6, 1.0])), "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0})
    anchors = np.concatenate([random.random((n, 2)), random.random((n, 2)) * 0.5 + 0.05], 1).astype(np.float32)
    rows = most * each
    file = network("TFLite_Detection_PostProcess",
                   {"encodings": (1, n, 4), "predictions": (1, n, classes + background), "anchors": anchors},
                   {"boxes": (FLOAT, (1, rows, 4)), "classes": (FLOAT, (1, rows)), "scores": (FLOAT, (1, rows)), "count": (FLOAT, (1,))},
                   options)
    return file, [random.normal(0, 1, (1, n, 4)).astype(np.float32), random.random((1, n, classes + background)).astype(np.float32)], each


def by_litert(file, inputs):
    interpreter = tf.lite.Interpreter(model_content=file)
    interpreter.allocate_tensors()
    for detail, x in zip(interpreter.get_input_details(), inputs):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    return {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}


def by_tool(tool, folder, file, inputs):
    (folder / "x.tflite").write_bytes(file)
    names = [d["name"] for d in tf.lite.Interpreter(model_content=file).get_input_details()]
    given = []
    for name, x in zip(names, inputs):
        np.save(folder / f"{name}.npy", x)
        given += ["--input", f"{name}={folder / name}.npy"]
    for call in (["convert", "x.tflite", "-o", "x.nacre"], ["run", "x.nacre", *given, "--output", "y"]):
        done = subprocess.run([tool, *call], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
    return {path.stem: np.load(path) for path in (folder / "y").glob("*.npy")}


def differences(ours, theirs, each):
    count = int(theirs["count"].reshape(-1)[0])
    wrong = [] if int(ours["count"].reshape(-1)[0]) == count else [f"count {ours['count']} for {count}"]
    for name, y in theirs.items():
        if name == "count":
            continue
        rows = min(count * each, y.size if y.ndim < 2 else y.shape[1])
        a, b = (v.reshape(-1, 4)[:rows] if name == "boxes" else v.reshape(-1)[:rows] for v in (ours[name], y))
        if not np.allclose(a, b, rtol=2e-6, atol=2e-6):
            wrong.append(f"{name}: {np.abs(a - b).max():.3g}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nacre", type=pathlib.Path)
    parser.add_argument("count", nargs="?", type=int, default=60)
    given = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for seed in range(given.count):
            random = np.random.default_rng(seed)
            make = post_process if seed % 2 else suppression
            file, inputs, each = make(random)
            theirs = by_litert(file, inputs)
            try:
                ours = by_tool(given.nacre.resolve(), folder, file, inputs)
            except RuntimeError as refused:
                found = [str(refused)]
            else:
                found = differences(ours, theirs, each)
            if found:
                wrong += 1
                print(f"seed {seed}, {make.__name__}: {'; '.join(found)}")
    print(f"{given.count - wrong} of {given.count} networks of detections equal to LiteRT's, {wrong} wrong; tensorflow {tf.__version__}")
    return wrong != 0


if __name__ == "__main__":
    raise SystemExit(main())
