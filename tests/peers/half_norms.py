# Normalisations in 16 bits as their sources compute them, at magnitudes from 1e-4 to 3e4.
#
#   KERAS_BACKEND=torch python tests/peers/half_norms.py tests/peers/half_norms.json
#
# Each record: a network's file, the policy that nacre converts it under ("" : as the file says), inputs that float16
# holds exactly, the outputs of Keras, torch or onnxruntime, base64 of float32. bound: 5 u (max |y| + max |b|) + 2^-24,
# u = 2^-11 of float16 and 2^-8 of bfloat16: the source rounds at most three times to 16 bits (what is normalised, its
# product with the scale, the sum with the bias), nacre at most twice, each by u of a number no larger than that.
import base64
import io
import json
import os
import sys
import tempfile
import warnings
import zipfile

os.environ.setdefault("KERAS_BACKEND", "torch")
warnings.filterwarnings("ignore")
import keras
import numpy as np
import onnx
import onnxruntime
import torch
from keras import layers, ops
from onnx import TensorProto, helper, numpy_helper

MAGNITUDES = (1e-4, 1.0, 300.0, 3e4)
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def numbers(array):
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def input_of(shape, magnitude, random):
    x = (random.uniform(-1, 1, shape) * magnitude).astype("float16")
    x[x == 0] = np.float16(magnitude)
    return x.astype("float32")


def record(source, name, policy, file, shape, bias, infer, half="float16", magnitudes=MAGNITUDES):
    random = np.random.default_rng(len(name) + 7 * len(policy))
    runs = []
    for magnitude in magnitudes:
        x = input_of((3, *shape), magnitude, random)
        y = np.concatenate([np.asarray(infer(row[None]), "float32").reshape(1, -1) for row in x])
        if not np.isfinite(y).all() or not y.any():
            runs.append({"magnitude": magnitude, "x": numbers(x), "y": numbers(y), "bound": 0})
            continue
        bound = 5 * UNIT[half] * (float(np.abs(y).max()) + bias)
        runs.append({"magnitude": magnitude, "x": numbers(x), "y": numbers(y), "bound": bound + 2.0**-24})
    return {"source": source, "name": name, "policy": policy, "file": base64.b64encode(file).decode(), "runs": runs}


# ---- Keras


def keras_file(network):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "n.keras")
        network.save(path)
        small = io.BytesIO()
        with zipfile.ZipFile(path) as whole, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
            for name in whole.namelist():
                out.writestr(name, whole.read(name))
        return small.getvalue()


def keras_records():
    made = {
        "LayerNormalization": (lambda d: layers.LayerNormalization(dtype=d), (8,)),
        "GroupNormalization": (lambda d: layers.GroupNormalization(2, dtype=d), (4, 8)),
        "RMSNormalization": (lambda d: layers.RMSNormalization(dtype=d), (8,)),
        "BatchNormalization": (lambda d: layers.BatchNormalization(dtype=d), (8,)),
        "UnitNormalization": (lambda d: layers.UnitNormalization(dtype=d), (8,)),
    }
    functions = {
        "ops.var": lambda x: ops.var(x, axis=-1),
        "ops.std": lambda x: ops.std(x, axis=-1),
        "ops.normalize": lambda x: ops.normalize(x, axis=-1),
        "ops.norm": lambda x: ops.norm(x, axis=-1),
    }
    for dtype, half in (("mixed_float16", "float16"), ("float16", "float16"), ("mixed_bfloat16", "bfloat16")):
        for name, (layer, shape) in made.items():
            keras.utils.set_random_seed(1)
            random = np.random.default_rng(3)
            x = keras.Input(shape)
            network = keras.Model(x, layer(dtype)(x))
            bias = 0.0
            for variable in network.weights:
                variable.assign(random.integers(64, 192, variable.shape) / 128)
                bias = 1.5 if "beta" in variable.path else bias
            infer = lambda v: ops.convert_to_numpy(ops.cast(network(v), "float32"))
            yield record("keras", name, "", keras_file(network), shape, bias, infer, half)
        for name, function in functions.items():
            if dtype != "float16":
                continue
            keras.config.set_dtype_policy(dtype)
            x = keras.Input((8,), dtype="float16")
            network = keras.Model(x, function(x))
            infer = lambda v: ops.convert_to_numpy(ops.cast(network(v.astype("float16")), "float32"))
            yield record("keras", name, dtype, keras_file(network), (8,), 0.0, infer, half, MAGNITUDES[:3])
            keras.config.set_dtype_policy("float32")


# ---- torch


class Normalize(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.normalize(x, dim=-1)


class LlamaNorm(torch.nn.Module):  # transformers' LlamaRMSNorm
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        kept = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * x.to(kept)


def torch_records():
    modules = {
        "LayerNorm": (torch.nn.LayerNorm(8), (4, 8)),
        "GroupNorm": (torch.nn.GroupNorm(2, 4), (4, 8)),
        "InstanceNorm1d": (torch.nn.InstanceNorm1d(4, affine=True), (4, 8)),
        "RMSNorm": (torch.nn.RMSNorm(8, eps=1e-6), (4, 8)),
        "F.normalize": (Normalize(), (4, 8)),
        "LlamaRMSNorm": (LlamaNorm(8), (4, 8)),
    }
    for name, (module, shape) in modules.items():
        random = np.random.default_rng(5)
        module = module.eval()
        bias = 0.0
        with torch.no_grad():
            for key, parameter in module.named_parameters():
                parameter.copy_(torch.tensor(random.integers(64, 192, tuple(parameter.shape)) / 128))
                bias = 1.5 if key == "bias" else bias
        files = []
        example = torch.ones(1, *shape)
        for dynamo in (False, True):
            out = io.BytesIO()
            if dynamo:
                with tempfile.TemporaryDirectory() as folder:
                    path = os.path.join(folder, "m.onnx")
                    torch.onnx.export(module, (example,), path, dynamo=True, external_data=False, verbose=False)
                    files.append(open(path, "rb").read())
            else:
                try:
                    torch.onnx.export(module, (example,), out, dynamo=False, verbose=False)
                except torch.onnx.errors.UnsupportedOperatorError:  # the older exporter has no aten::rms_norm
                    out = io.BytesIO()
                files.append(out.getvalue())
        halved = module.half()
        infer = lambda v: halved(torch.tensor(v).half()).detach().float().numpy()
        for dynamo, file in enumerate(files):
            if not file:
                continue
            yield record("torch", name + (", dynamo" if dynamo else ""), "float16", file, shape, bias, infer)
        module.float()


# ---- ONNX


def onnx_file(op, domain, opset, half, shape, parameters, attributes):
    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    stored = [numpy_helper.from_array(p.astype("float16" if half else "float32"), f"p{i}")
              for i, p in enumerate(parameters)]
    node = helper.make_node(op, ["x"] + [s.name for s in stored], ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", kind, [1, *shape])],
                              [helper.make_tensor_value_info("y", kind, None)], stored)
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return made.SerializeToString()


def onnx_records():
    random = np.random.default_rng(9)
    drawn = lambda *s: random.integers(64, 192, s) / 128
    scale8, bias8, scale4, bias4 = drawn(8), drawn(8), drawn(4), drawn(4)
    axes = np.array([-1], "int64")
    cases = [
        ("LayerNormalization", "", 17, [scale8, bias8], {"axis": -1}, 1.5),
        ("RMSNormalization", "", 23, [scale8], {"axis": -1}, 0.0),
        ("GroupNormalization", "", 21, [scale4, bias4], {"num_groups": 2}, 1.5),
        ("InstanceNormalization", "", 17, [scale4, bias4], {}, 1.5),
        ("MeanVarianceNormalization", "", 13, [], {"axes": [2]}, 0.0),
        ("LpNormalization", "", 17, [], {"axis": -1, "p": 2}, 0.0),
        ("LRN", "", 13, [], {"size": 3}, 0.0),
        ("ReduceL2", "", 13, [], {"axes": [-1]}, 0.0),
        ("SimplifiedLayerNormalization", "", 17, [scale8], {"axis": -1, "epsilon": 1e-6}, 0.0),
        ("SkipSimplifiedLayerNormalization", "com.microsoft", 17, [np.zeros((1, 4, 8)), scale8], {"epsilon": 1e-6}, 0.0),
        ("SkipLayerNormalization", "com.microsoft", 17, [np.zeros((1, 4, 8)), scale8, bias8], {"epsilon": 1e-6}, 1.5),
    ]
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    for op, domain, opset, parameters, attributes, bias in cases:
        shape = (4, 4, 2) if op == "LRN" else (4, 8)
        files = {h: onnx_file(op, domain, opset, h, shape, parameters, attributes) for h in (False, True)}
        sessions = {}
        for half, file in files.items():
            try:
                sessions[half] = onnxruntime.InferenceSession(file, quiet, providers=["CPUExecutionProvider"])
            except Exception:
                continue
        if not sessions:
            print("onnxruntime has no", op)
            continue
        half = True in sessions  # else onnxruntime's float32, rounded
        session = sessions[half]

        def infer(v):
            y = session.run(None, {"x": v.astype("float16" if half else "float32")})[0]
            return np.asarray(y, "float16").astype("float32")

        source = "onnxruntime" if half else "onnxruntime float32"
        yield record(source, op, "float16", files[False], shape, bias, infer)
        yield record(source, op + ", a file of float16", "", files[True], shape, bias, infer)


def main():
    records = [*keras_records(), *torch_records(), *onnx_records()]
    versions = {"keras": keras.__version__, "torch": torch.__version__, "onnxruntime": onnxruntime.__version__}
    with open(sys.argv[1], "w") as out:
        json.dump({"versions": versions, "records": records}, out, indent=1)
        out.write("\n")


main()
