"""Writes bench/shapes.json: the layers of real networks that bench/kernels and bench/peers measure.

    bench/shapes.py NACRE [-o bench/shapes.json]          NACRE: the built tool, which converts and inspects networks

The layers of MLPerf Tiny's networks come from their files (models/mlperf_tiny of NACRE_SHARED, or of ../shared). The
layers of MobileNetV1 and V2 (224 x 224, width 1) come from the tables of their papers (Howard et al. 2017, table 1;
Sandler et al. 2018, table 2). The layers of the encoder are those of MiniLM (6 layers, hidden 384, 12 heads, 1536 in
between) on 128 tokens. Equal layers stand once, with the networks that have them. The table has the windows of layers
and leaves out their values: clamps and scales.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = {"ad": "ad01_fp32", "kws": "kws_ref_model", "ic": "pretrainedResnet", "vww": "vww_96_float",
         "str_ww": "str_ww_ref_model"}
OPS = {"dense", "conv2d", "depthwise_conv2d", "average_pool", "max_pool", "softmax", "add"}
ATTRIBUTES = {"stride_h", "stride_w", "dilation_h", "dilation_w", "pad_top", "pad_left", "pad_bottom", "pad_right",
              "groups", "kernel_h", "kernel_w", "axis", "beta"}
SLOTS = {"x", "w", "bias", "a", "b"}


def of_file(nacre, path, scratch):
    model = scratch / "model.nacre"
    subprocess.run([nacre, "convert", path, "-o", model], check=True, stdout=subprocess.DEVNULL)
    said = subprocess.run([nacre, "inspect", "--json", model], check=True, stdout=subprocess.PIPE, text=True).stdout
    for step in json.loads(said)["programs"][0]["steps"]:
        if step["op"] not in OPS:
            continue
        inputs = {o["slot"]: o["shape"] for o in step["operands"] if o["slot"] in SLOTS and not o.get("absent")}
        yield step["op"], inputs, {k: v for k, v in step["attributes"].items() if k in ATTRIBUTES}


def same_padding(size, kernel, stride):
    """Pads like TensorFlow's SAME: an odd row goes to the end."""
    out = -(-size // stride)
    pad = max(0, (out - 1) * stride + kernel - size)
    return out, pad // 2, pad - pad // 2


def window(size, kernel, stride):
    out, before, after = same_padding(size, kernel, stride)
    return out, {"stride_h": stride, "stride_w": stride, "dilation_h": 1, "dilation_w": 1, "pad_top": before,
                 "pad_left": before, "pad_bottom": after, "pad_right": after, "groups": 1}


def convolution(size, kernel, stride, c, k):
    out, attributes = window(size, kernel, stride)
    return out, ("conv2d", {"x": [1, size, size, c], "w": [k, kernel, kernel, c], "bias": [k]}, attributes)


def depthwise(size, kernel, stride, c):
    out, attributes = window(size, kernel, stride)
    return out, ("depthwise_conv2d", {"x": [1, size, size, c], "w": [kernel, kernel, c], "bias": [c]}, attributes)


def head(size, c, classes=1000):
    pool = {"stride_h": size, "stride_w": size, "dilation_h": 1, "dilation_w": 1, "pad_top": 0, "pad_left": 0,
            "pad_bottom": 0, "pad_right": 0, "kernel_h": size, "kernel_w": size}
    return [("average_pool", {"x": [1, size, size, c]}, pool),
            ("dense", {"x": [1, c], "w": [classes, c], "bias": [classes]}, {}),
            ("softmax", {"x": [1, classes]}, {"axis": 1, "beta": 1.0})]


def mobilenet_v1():
    size, layer = convolution(224, 3, 2, 3, 32)
    layers, c = [layer], 32
    for k, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        size, layer = depthwise(size, 3, stride, c)
        layers += [layer, convolution(size, 1, 1, c, k)[1]]
        c = k
    return layers + head(size, c)


def mobilenet_v2():
    size, layer = convolution(224, 3, 2, 3, 32)
    layers, c = [layer], 32
    for t, k, n, s in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                       (6, 320, 1, 1)]:
        for i in range(n):
            if t != 1:
                layers.append(convolution(size, 1, 1, c, t * c)[1])
            size, layer = depthwise(size, 3, s if i == 0 else 1, t * c)
            layers += [layer, convolution(size, 1, 1, t * c, k)[1]]
            if i > 0:
                layers.append(("add", {"a": [1, size, size, k], "b": [1, size, size, k]}, {}))
            c = k
    layers.append(convolution(size, 1, 1, c, 1280)[1])
    return layers + head(size, 1280)


def encoder(tokens=128, hidden=384, heads=12, between=1536):
    def dense(c, k):
        return "dense", {"x": [1, tokens, c], "w": [k, c], "bias": [k]}, {}

    width = hidden // heads
    split, scores = [1, heads, tokens, width], [1, heads, tokens, tokens]
    return [dense(hidden, hidden), ("batched_matmul", {"a": split, "b": split}, {"transpose_b": 1}),
            ("softmax", {"x": scores}, {"axis": 3, "beta": 1.0}), ("batched_matmul", {"a": scores, "b": split}, {}),
            ("add", {"a": [1, tokens, hidden], "b": [1, tokens, hidden]}, {}),
            ("layer_norm", {"x": [1, tokens, hidden], "scale": [hidden], "bias": [hidden]}, {"epsilon": 1e-5}),
            dense(hidden, between), ("gelu", {"x": [1, tokens, between]}, {}), dense(between, hidden)]


def collect(nacre):
    folder = pathlib.Path(os.environ.get("NACRE_SHARED") or ROOT.parent / "shared") / "models" / "mlperf_tiny"
    networks = {"mobilenet_v1": mobilenet_v1(), "mobilenet_v2": mobilenet_v2(), "encoder": encoder()}
    with tempfile.TemporaryDirectory(prefix="nacre-shapes-") as scratch:
        files = {name: list(of_file(nacre, folder / f"{file}.tflite", pathlib.Path(scratch)))
                 for name, file in FILES.items()}
    shapes = {}
    for network, layers in {**files, **networks}.items():
        for op, inputs, attributes in layers:
            key = json.dumps([op, inputs, attributes], sort_keys=True)
            shape = shapes.setdefault(key, {"op": op, "inputs": inputs, "attributes": attributes, "networks": {}})
            shape["networks"][network] = shape["networks"].get(network, 0) + 1
    return sorted(shapes.values(), key=lambda s: s["op"])


def main():
    parser = argparse.ArgumentParser(description="Writes the layers of real networks.")
    parser.add_argument("nacre", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "bench" / "shapes.json")
    options = parser.parse_args()
    shapes = collect(options.nacre)
    lines = ",\n".join(json.dumps(shape) for shape in shapes)
    options.output.write_text(f"[\n{lines}\n]\n")
    print(f"{len(shapes)} layers -> {options.output}")


if __name__ == "__main__":
    main()
