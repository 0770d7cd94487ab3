#!/usr/bin/env python3
"""Trains the sample network on scikit-learn's digits and writes digits.onnx and its data beside this file.

    pixels 0..16 -> Mul 1/16 -> conv1 3x3 16 -> bn1 -> relu1
                 -> depthwise 3x3 -> bn2 -> relu2 -> pointwise 1x1 32 (with bias) -> relu3 -> pool1 (max 2x2)
                 -> conv4 3x3 32 -> bn4 -> relu4 -> conv5 3x3 32 -> bn5 -> add (+ pool1) -> relu5
                 -> pool2 (average 2x2) -> flatten -> fc -> softmax

The ONNX graph is built by hand, not exported: an exporter would fold the batch normalizations and invent names, and
policies match names. Flatten comes after a pool with height and width 2, so that a converter which changes the layout
(NCHW to NHWC) and forgets to permute fc's weights shows it as a bad accuracy.

The split and the training depend on kSeed alone. On one machine and with requirements.txt the files come out the same
to the byte; another CPU may round otherwise, so the committed files are the reference, not this script's output.
"""

import os

# Restricts the process to one core before jax is imported: XLA's order of summation depends on the number of cores.
# XLA's flag --xla_cpu_multi_thread_eigen=false alone does not change that.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.environ["JAX_PLATFORMS"] = "cpu"

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

kHere = Path(__file__).resolve().parent
kSeed = 20
kTestShare = 0.25  # share of each class that is tested
kEpochs = 120
kBatch = 64
kPeakRate = 4e-3
kWeightDecay = 1e-4
kEpsilon = 1e-5  # epsilon of the batch normalizations
kMomentum = 0.9  # ONNX's sense: running = kMomentum * running + (1 - kMomentum) * batch
kPixelScale = 1 / 16  # exact in float32

# name -> weights [out, in / groups, kernel, kernel], groups, has a bias, followed by a batch normalization
kConvolutions = {
    "conv1": ((16, 1, 3, 3), 1, False, "bn1"),
    "depthwise": ((16, 1, 3, 3), 16, False, "bn2"),
    "pointwise": ((32, 16, 1, 1), 1, True, None),
    "conv4": ((32, 32, 3, 3), 1, False, "bn4"),
    "conv5": ((32, 32, 3, 3), 1, False, "bn5"),
}
kFeatures, kClasses = 32 * 2 * 2, 10


def split(labels, rng):
    """Returns the indices of the test images, sorted: kTestShare of each class."""
    of_class = [rng.permutation(np.flatnonzero(labels == c)) for c in range(kClasses)]
    return np.sort(np.concatenate([i[: round(kTestShare * len(i))] for i in of_class])).astype(np.int32)


def initial_values(rng):
    """Returns parameters and running statistics (not trained) by their ONNX names, initialised as in He et al. 2015."""
    parameters, running = {}, {}
    for name, (shape, _, has_bias, norm) in kConvolutions.items():
        fan_in = np.prod(shape[1:])
        parameters[f"{name}.weight"] = rng.normal(0, np.sqrt(2 / fan_in), shape)
        if has_bias:
            parameters[f"{name}.bias"] = np.zeros(shape[0])
        if norm:
            parameters |= {f"{norm}.scale": np.ones(shape[0]), f"{norm}.bias": np.zeros(shape[0])}
            running |= {f"{norm}.mean": np.zeros(shape[0]), f"{norm}.var": np.ones(shape[0])}
    parameters["fc.weight"] = rng.normal(0, np.sqrt(1 / kFeatures), (kClasses, kFeatures))
    parameters["fc.bias"] = np.zeros(kClasses)
    as_float32 = lambda tree: {k: jnp.asarray(v, jnp.float32) for k, v in tree.items()}
    return as_float32(parameters), as_float32(running)


def logits(p, running, pixels, training):
    """Returns the logits [batch, classes] and the running statistics after this batch."""
    after = dict(running)

    def conv(x, name):
        shape, groups, has_bias, norm = kConvolutions[name]
        pad = shape[2] // 2
        x = jax.lax.conv_general_dilated(
            x, p[f"{name}.weight"], (1, 1), [(pad, pad)] * 2, feature_group_count=groups,
            dimension_numbers=("NCHW", "OIHW", "NCHW"))
        channel = lambda v: v[None, :, None, None]
        if has_bias:
            x = x + channel(p[f"{name}.bias"])
        if not norm:
            return x
        mean, var = running[f"{norm}.mean"], running[f"{norm}.var"]
        if training:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
            for key, value in (("mean", mean), ("var", var)):
                after[f"{norm}.{key}"] = kMomentum * running[f"{norm}.{key}"] + (1 - kMomentum) * value
        scale = p[f"{norm}.scale"] / jnp.sqrt(var + kEpsilon)
        return (x - channel(mean)) * channel(scale) + channel(p[f"{norm}.bias"])

    def pool(x, reduce):
        n, c, h, w = x.shape
        return reduce(x.reshape(n, c, h // 2, 2, w // 2, 2), axis=(3, 5))

    x = pixels * kPixelScale
    x = jax.nn.relu(conv(x, "conv1"))
    x = jax.nn.relu(conv(x, "depthwise"))
    pooled = pool(jax.nn.relu(conv(x, "pointwise")), jnp.max)
    x = jax.nn.relu(conv(pooled, "conv4"))
    x = jax.nn.relu(conv(x, "conv5") + pooled)
    x = pool(x, jnp.mean).reshape(len(pixels), kFeatures)
    return x @ p["fc.weight"].T + p["fc.bias"], after


def shifted(images, rng):
    """Shifts each image by -1, 0 or 1 pixel along both axes and fills with zeros."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    dy, dx = rng.integers(0, 3, (2, len(images)))
    return np.stack([p[:, y : y + 8, x : x + 8] for p, y, x in zip(padded, dy, dx)])


@jax.jit
def adamw_step(p, running, moments, pixels, labels, rate, step):
    """Does a step of AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101); only weights of rank 2 or more decay."""

    def loss(p):
        scores, after = logits(p, running, pixels, training=True)
        return -jax.nn.log_softmax(scores)[jnp.arange(len(labels)), labels].mean(), after

    (value, running), gradient = jax.value_and_grad(loss, has_aux=True)(p)
    new_p, new_moments = {}, {}
    for key, g in gradient.items():
        m, v = moments[key]
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        update = m / (1 - 0.9**step) / (jnp.sqrt(v / (1 - 0.999**step)) + 1e-8)
        decay = kWeightDecay * p[key] if p[key].ndim > 1 else 0
        new_p[key], new_moments[key] = p[key] - rate * (update + decay), (m, v)
    return new_p, running, new_moments, value


def train(images, labels, rng):
    p, running = initial_values(rng)
    moments = {k: (jnp.zeros_like(v), jnp.zeros_like(v)) for k, v in p.items()}
    per_epoch = len(images) // kBatch  # the last, partial batch is dropped; the order changes every epoch
    steps = kEpochs * per_epoch
    for step in range(steps):
        if step % per_epoch == 0:
            order, moved = rng.permutation(len(images)), shifted(images, rng)
        batch = order[step % per_epoch * kBatch :][:kBatch]
        rate = kPeakRate * min(1, (step + 1) / per_epoch) * 0.5 * (1 + np.cos(np.pi * step / steps))
        p, running, moments, loss = adamw_step(
            p, running, moments, moved[batch], labels[batch], np.float32(rate), np.float32(step + 1))
        if (step + 1) % (20 * per_epoch) == 0:
            print(f"epoch {(step + 1) // per_epoch}: loss {loss:.4f}")
    return p, running


def onnx_model(values):
    """Makes the inference graph. IR 8 and opset 17 are the newest that onnx 1.12 (Debian 12) reads."""
    nodes = []

    def node(op, name, inputs, **attributes):
        output = {"fc": "logits", "softmax": "probabilities"}.get(name, f"{name}.out")
        nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))
        return output

    def conv(x, name):
        shape, groups, has_bias, norm = kConvolutions[name]
        weights = [f"{name}.weight"] + ([f"{name}.bias"] if has_bias else [])
        x = node("Conv", name, [x, *weights], group=groups, kernel_shape=shape[2:], pads=[shape[2] // 2] * 4)
        if not norm:
            return x
        statistics = [f"{norm}.{k}" for k in ("scale", "bias", "mean", "var")]
        return node("BatchNormalization", norm, [x, *statistics], epsilon=kEpsilon, momentum=kMomentum)

    x = node("Mul", "scale", ["pixels", "scale.factor"])
    x = node("Relu", "relu1", [conv(x, "conv1")])
    x = node("Relu", "relu2", [conv(x, "depthwise")])
    x = node("Relu", "relu3", [conv(x, "pointwise")])
    pooled = node("MaxPool", "pool1", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = node("Relu", "relu4", [conv(pooled, "conv4")])
    x = node("Add", "add", [conv(x, "conv5"), pooled])
    x = node("Relu", "relu5", [x])
    x = node("AveragePool", "pool2", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = node("Flatten", "flatten", [x], axis=1)
    x = node("Gemm", "fc", [x, "fc.weight", "fc.bias"], transB=1)
    node("Softmax", "softmax", [x], axis=-1)

    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", kClasses])],
        [numpy_helper.from_array(np.asarray(v, np.float32), name) for name, v in values.items()])
    model = helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)], producer_name="nacre tools/samples")
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8)[:, None], digits.target.astype(np.uint8)
    assert images.max() == 16 and (images[:, 0] == digits.images).all()

    rng = np.random.default_rng(kSeed)
    test = split(labels, rng)
    rest = np.setdiff1d(np.arange(len(labels)), test)
    p, running = train(images[rest].astype(np.float32), labels[rest].astype(np.int32), rng)

    for name, indices in (("training", rest), ("test", test)):
        scores, _ = logits(p, running, images[indices].astype(np.float32), training=False)
        right = int((np.argmax(scores, 1) == labels[indices]).sum())
        print(f"{name}: {right} of {len(indices)} right ({100 * right / len(indices):.2f} %)")

    model = onnx_model({"scale.factor": np.float32(kPixelScale)} | p | running)
    (kHere / "digits.onnx").write_bytes(model.SerializeToString(deterministic=True))
    np.save(kHere / "digits_images.npy", images)
    np.save(kHere / "digits_labels.npy", labels)
    np.save(kHere / "digits_test.npy", test)
    print("now run check_onnxruntime.py --write")


if __name__ == "__main__":
    main()
