"""Saves networks of Keras layers in four forms, reads them with the tool, runs them, and compares with Keras.

    NACRE_TOOL=build/tools/nacre KERAS_BACKEND=jax python3 tests/peers/keras_files.py [--only NAME] [--forms keras,h5,weights,json]

Weights are random and inputs normal. A network is right where every output is within 1e-4 of Keras's (POLICIES: within
the row's tolerance), relative to the largest of them. Needs keras, h5py and one backend (keras_requirements.txt).
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import keras
import numpy as np
from keras import layers as L

TOOL = os.environ["NACRE_TOOL"]
MOST = 1e-4


def sequential(shape, *stack, dtype="float32"):
    return lambda: keras.Sequential([keras.Input(shape, dtype=dtype), *[make() for make in stack]])


def on(shape, build, *others):
    """Makes a functional model with inputs of these shapes. `build` makes its output, or a list of outputs."""

    def make():
        inputs = [keras.Input(s, name=f"in{i}") for i, s in enumerate((shape, *others))]
        return keras.Model(inputs, build(*inputs))

    return make


def one(shape, make, dtype="float32"):
    return sequential(shape, make, dtype=dtype)


IMAGE, SEQUENCE, FLAT = (9, 8, 6), (7, 6), (12,)

ACTIVATIONS = ["relu", "relu6", "leaky_relu", "sigmoid", "tanh", "softmax", "log_softmax", "elu", "celu", "selu", "softplus",
               "softsign", "exponential", "silu", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "mish", "tanh_shrink",
               "log_sigmoid", "hard_shrink", "soft_shrink", "squareplus", "glu", "linear"]


def shared():
    a, b = keras.Input((5,), name="a"), keras.Input((5,), name="b")
    layer = L.Dense(4, activation="tanh", name="shared")
    return keras.Model([a, b], [L.Concatenate(name="both")([layer(a), layer(b)]), L.Subtract(name="apart")([layer(a), layer(b)])])


def nested():
    inner = keras.Sequential([L.Dense(4, activation="relu"), L.BatchNormalization(), L.Dense(4)], name="inner")
    x = keras.Input((4,), name="x")
    middle_in = keras.Input((4,))
    middle = keras.Model(middle_in, L.Add()([inner(middle_in), middle_in]), name="middle")
    return keras.Model(x, L.Dense(3)(middle(inner(middle(x)))))


def residual():
    x = keras.Input((8, 8, 3), name="image")
    y = L.Conv2D(8, 3, padding="same", use_bias=False)(x)
    y = L.ReLU()(L.BatchNormalization()(y))
    z = L.Conv2D(8, 3, padding="same")(y)
    y = L.Activation("relu")(L.Add()([L.BatchNormalization()(z), y]))
    return keras.Model(x, L.Dense(10, activation="softmax")(L.GlobalAveragePooling2D()(L.Dropout(0.3)(y))))


def transformer():
    x = keras.Input((6, 8), name="tokens")
    a = L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    y = L.LayerNormalization()(x + a)
    z = L.Dense(8)(L.Dense(16, activation="gelu")(y))
    return keras.Model(x, L.LayerNormalization()(y + z))


def encoder_decoder():
    x, y = keras.Input((5, 4), name="source"), keras.Input((6, 4), name="target")
    _, h, c = L.LSTM(3, return_state=True)(x)
    z = L.LSTM(3, return_sequences=True)(y, initial_state=[h, c])
    return keras.Model([x, y], [L.Dense(2)(z), h])


def scores():
    x = keras.Input((5, 8), name="x")
    return keras.Model(x, list(L.MultiHeadAttention(2, 4, value_dim=3)(x, x, return_attention_scores=True)))


def normalization():
    layer = L.Normalization()
    layer.adapt(np.random.default_rng(1).normal(3, 2, (64, 12)))
    return keras.Sequential([keras.Input((12,)), layer, L.Dense(3)])


NETWORKS = {
    **{f"activation_{name}": on((6, 8), lambda x, n=name: L.Activation(n)(x)) for name in ACTIVATIONS},
    "dense": sequential(FLAT, lambda: L.Dense(8, activation="relu"), lambda: L.Dense(3, activation="softmax", use_bias=False)),
    "dense_rank4": one(IMAGE, lambda: L.Dense(5)),
    "einsum": one(SEQUENCE, lambda: L.EinsumDense("abc,cd->abd", output_shape=(None, 5), bias_axes="d", activation="tanh")),
    "einsum_heads": one(SEQUENCE, lambda: L.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de")),
    "einsum_turned": one(SEQUENCE, lambda: L.EinsumDense("abc,bd->acd", output_shape=(6, 5), bias_axes="c")),
    "einsum_joined": one((7, 2, 3), lambda: L.EinsumDense("abcd,cde->abe", output_shape=(None, 5), bias_axes="e")),
    "einsum_dots": one(IMAGE, lambda: L.EinsumDense("...x,xy->...y", output_shape=5, bias_axes="y")),
    "embedding": sequential((6,), lambda: L.Embedding(11, 4), lambda: L.Flatten(), lambda: L.Dense(2), dtype="int32"),
    "conv2d": one(IMAGE, lambda: L.Conv2D(4, (3, 2), activation="relu")),
    "conv2d_same_strided": one(IMAGE, lambda: L.Conv2D(4, 3, strides=2, padding="same")),
    "conv2d_dilated": one(IMAGE, lambda: L.Conv2D(4, 3, dilation_rate=2, padding="same", use_bias=False)),
    "conv2d_groups": one(IMAGE, lambda: L.Conv2D(6, 3, groups=3)),
    "conv1d": one(SEQUENCE, lambda: L.Conv1D(4, 3, strides=2, padding="same", activation="tanh")),
    "conv1d_causal": one(SEQUENCE, lambda: L.Conv1D(4, 3, dilation_rate=2, padding="causal")),
    "depthwise2d": one(IMAGE, lambda: L.DepthwiseConv2D(3, depth_multiplier=2, strides=2, padding="same")),
    "depthwise1d": one(SEQUENCE, lambda: L.DepthwiseConv1D(3, depth_multiplier=2)),
    "separable2d": one(IMAGE, lambda: L.SeparableConv2D(4, 3, depth_multiplier=2, padding="same", activation="relu")),
    "separable1d": one(SEQUENCE, lambda: L.SeparableConv1D(4, 3)),
    "conv2d_transpose": one(IMAGE, lambda: L.Conv2DTranspose(4, 3, strides=2, padding="same")),
    "conv2d_transpose_valid": one(IMAGE, lambda: L.Conv2DTranspose(4, (3, 2), strides=(1, 2), activation="relu")),
    "conv1d_transpose": one(SEQUENCE, lambda: L.Conv1DTranspose(4, 3, strides=2)),
    "batch_norm": one(IMAGE, lambda: L.BatchNormalization()),
    "batch_norm_axis": one(IMAGE, lambda: L.BatchNormalization(axis=1, scale=False)),
    "batch_norm_plain": one(FLAT, lambda: L.BatchNormalization(scale=False, center=False)),
    "layer_norm": one(SEQUENCE, lambda: L.LayerNormalization()),
    "layer_norm_axes": one(IMAGE, lambda: L.LayerNormalization(axis=[-2, -1], center=False)),
    "group_norm": one(IMAGE, lambda: L.GroupNormalization(3)),
    "instance_norm": one(IMAGE, lambda: L.GroupNormalization(-1, scale=False)),
    "rms_norm": one(SEQUENCE, lambda: L.RMSNormalization()),
    "unit_norm": one(SEQUENCE, lambda: L.UnitNormalization()),
    "relu_layer": one(FLAT, lambda: L.ReLU(max_value=1.5, negative_slope=0.2, threshold=0.3)),
    "relu_slope": one(FLAT, lambda: L.ReLU(negative_slope=0.2)),
    "leaky": one(FLAT, lambda: L.LeakyReLU(negative_slope=0.1)),
    "prelu": one(IMAGE, lambda: L.PReLU(shared_axes=[1, 2])),
    "elu_layer": one(FLAT, lambda: L.ELU(0.7)),
    "softmax_layer": one(IMAGE, lambda: L.Softmax(axis=1)),
    "pools": sequential((12, 11, 3), lambda: L.MaxPooling2D(3, strides=2, padding="same"), lambda: L.AveragePooling2D(2, padding="same")),
    "pools1d": sequential((12, 3), lambda: L.MaxPooling1D(2), lambda: L.AveragePooling1D(3, strides=1, padding="same")),
    "global_max2d": one(IMAGE, lambda: L.GlobalMaxPooling2D()),
    "global_average1d": one(SEQUENCE, lambda: L.GlobalAveragePooling1D(keepdims=True)),
    "shapes": sequential(IMAGE, lambda: L.Permute((3, 1, 2)), lambda: L.Reshape((6, -1)), lambda: L.Flatten(), lambda: L.RepeatVector(3)),
    "padding": sequential(IMAGE, lambda: L.ZeroPadding2D(((1, 2), (0, 3))), lambda: L.Cropping2D(((2, 1), (1, 1)))),
    "padding1d": sequential(SEQUENCE, lambda: L.ZeroPadding1D((2, 1)), lambda: L.Cropping1D((1, 1)), lambda: L.UpSampling1D(3)),
    "up_sampling": one(IMAGE, lambda: L.UpSampling2D((2, 3))),
    "merges": on((5,), lambda a, b: [L.Add()([a, b]), L.Subtract()([a, b]), L.Multiply()([a, b]), L.Average()([a, b]),
                                     L.Maximum()([a, b]), L.Minimum()([a, b]), L.Concatenate()([a, b])], (5,)),
    "merge_ranks": on((4, 5), lambda a, b: L.Add()([a, b]), (5,)),
    "dot": on((4, 5), lambda a, b: L.Dot(axes=(2, 1))([a, b]), (5, 3)),
    "dot_cosine": on((5,), lambda a, b: L.Dot(axes=1, normalize=True)([a, b]), (5,)),
    "operators": on((5,), lambda a: (a * 2.0 + 1.0) / 3.0 - a),
    "rescaling": one(IMAGE, lambda: L.Rescaling(1 / 127.5, offset=-1)),
    "normalization": normalization,
    "lstm": one(SEQUENCE, lambda: L.LSTM(4)),
    "lstm_sequences": one(SEQUENCE, lambda: L.LSTM(4, return_sequences=True, go_backwards=True)),
    "gru": one(SEQUENCE, lambda: L.GRU(4, return_sequences=True)),
    "gru_reset_before": one(SEQUENCE, lambda: L.GRU(4, reset_after=False)),
    "gru_no_bias": one(SEQUENCE, lambda: L.GRU(4, use_bias=False, go_backwards=True)),
    "simple_rnn": one(SEQUENCE, lambda: L.SimpleRNN(4, return_sequences=True)),
    "bidirectional_lstm": one(SEQUENCE, lambda: L.Bidirectional(L.LSTM(4, return_sequences=True))),
    "bidirectional_gru": one(SEQUENCE, lambda: L.Bidirectional(L.GRU(4), merge_mode="sum")),
    "time_distributed": one((4, 9, 8, 2), lambda: L.TimeDistributed(L.Conv2D(3, 3))),
    "encoder_decoder": encoder_decoder,
    "multi_head": on((5, 8), lambda q, v: L.MultiHeadAttention(2, 4, output_shape=6)(q, v), (7, 8)),
    "multi_head_scores": scores,
    "group_query": on((6, 8), lambda x: L.GroupQueryAttention(4, 4, 2)(x, x, use_causal_mask=True)),
    "attention": on((5, 4), lambda q, v: L.Attention(use_scale=True)([q, v]), (7, 4)),
    "attention_concat": on((5, 4), lambda q, v: L.Attention(score_mode="concat")([q, v]), (7, 4)),
    "additive_attention": on((5, 4), lambda q, v: L.AdditiveAttention()([q, v]), (7, 4)),
    "dropouts": sequential(IMAGE, lambda: L.Dropout(0.5), lambda: L.SpatialDropout2D(0.5), lambda: L.GaussianNoise(1.0), lambda: L.Identity()),
    "shared": shared,
    "nested": nested,
    "residual": residual,
    "transformer": transformer,
}


def mixed(policy, *stack, shape=FLAT):
    """Returns a function that builds the layers under a policy of Keras."""

    def make():
        keras.config.set_dtype_policy(policy)
        try:
            return keras.Sequential([keras.Input(shape, dtype="float32"), *[build() for build in stack]])
        finally:
            keras.config.set_dtype_policy("float32")

    return make


MLP = (lambda: L.Dense(16, activation="relu"), lambda: L.LayerNormalization(), lambda: L.Dense(4))
CNN = (lambda: L.Conv2D(8, 3, activation="relu"), lambda: L.BatchNormalization(), lambda: L.Flatten(), lambda: L.Dense(4))

# Policies of the layers: {name: (model, quantization made after the model has weights, tolerance)}. 2^-8 and 2^-11
# are half units of the 16-bit types; a network has several such roundings.
POLICIES = {
    **{f"mixed_bfloat16_{n}": (mixed("mixed_bfloat16", *net, shape=s), None, 2**-6) for n, net, s in (("mlp", MLP, FLAT), ("cnn", CNN, IMAGE))},
    **{f"mixed_float16_{n}": (mixed("mixed_float16", *net, shape=s), None, 2**-9) for n, net, s in (("mlp", MLP, FLAT), ("cnn", CNN, IMAGE))},
    "bfloat16_mlp": (mixed("bfloat16", *MLP), None, 2**-5),
    "float16_mlp": (mixed("float16", *MLP), None, 2**-8),
    **{f"{mode.replace('/', '_')}_{n}": (mixed("float32", *net, shape=s), mode, most)
       for mode, most in (("int8", 1e-3), ("int4", 1e-3), ("float8", 0.1)) for n, net, s in (("mlp", MLP, FLAT), ("cnn", CNN, IMAGE))},
    "int8_einsum": (mixed("float32", lambda: L.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de"), shape=SEQUENCE), "int8", 1e-3),
}


def randomize(model, rng):
    for v in model.weights:
        name, shape = v.path.split("/")[-1], v.shape
        if not str(v.dtype).startswith(("float", "bfloat")) or "seed" in v.path:
            continue
        if name == "moving_variance":
            v.assign(rng.uniform(0.5, 2, shape))
        elif name not in ("mean", "variance"):  # Normalization has read its mean and variance already
            fan = int(np.prod(shape[:-1])) if len(shape) > 1 else 4
            v.assign(rng.normal(0, 1 / np.sqrt(max(fan, 1)), shape) + (1 if name in ("gamma", "scale") else 0))


def files_of(model, folder):
    """Saves the model in four forms. Yields each form's name and the file to give to the tool."""
    model.save(folder / "m.keras")
    yield "keras", folder / "m.keras"
    model.save(folder / "m.h5")
    yield "h5", folder / "m.h5"
    apart = folder / "apart"
    apart.mkdir()
    model.save_weights(apart / "net.weights.h5")
    (apart / "net.json").write_text(model.to_json())
    yield "weights", apart / "net.weights.h5"
    yield "json", apart / "net.json"


def tool(*arguments):
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().replace("\n", " ")[:300])
    return done.stdout


def difference(file, inputs, expected, folder):
    tool("convert", file, "-o", folder / "m.nacre", "--batch", 2)
    program = json.loads(tool("inspect", folder / "m.nacre", "--json"))["programs"][0]
    feeds = []
    for x, array in zip(program["inputs"], inputs, strict=True):
        name = x["name"]
        np.save(folder / f"{name}.npy", array)
        feeds += ["--input", f"{name}={folder / name}.npy"]
    out = folder / "out"
    tool("run", folder / "m.nacre", *feeds, "--output", out)
    most = 0
    for name, y in zip([o["name"] for o in program["outputs"]], expected, strict=True):
        got = np.load(out / f"{name}.npy")
        if got.dtype.kind == "V":  # bfloat16
            got = (got.view("uint16").astype("uint32") << 16).view("float32")
        got = got.astype("float32")
        y = y.astype("float32")
        if got.shape != y.shape:
            raise RuntimeError(f"{name} has shape {got.shape}, Keras {y.shape}")
        most = max(most, float(np.max(np.abs(got - y)) / max(np.max(np.abs(y)), 1e-6)))
    return most


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--forms", default="keras,h5,weights,json")
    options = parser.parse_args()
    right, wrong, refused = 0, [], []
    worst = 0
    rows = {name: (make, None, MOST) for name, make in NETWORKS.items()} | POLICIES
    for name, (make, mode, most) in rows.items():
        if options.only not in name:
            continue
        keras.utils.clear_session()
        rng = np.random.default_rng(7)
        model = make()
        randomize(model, rng)
        if mode:
            model.quantize(mode)
        inputs = []
        for x in model.inputs:
            shape = (2, *x.shape[1:])
            inputs.append(rng.integers(0, 11, shape).astype("int32") if "int" in x.dtype else rng.normal(size=shape).astype("float32"))
        expected = model.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0)
        expected = [np.asarray(y) for y in (expected if isinstance(expected, (list, tuple)) else [expected])]
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            for form, file in files_of(model, folder):
                if name == "bfloat16_mlp" and form == "h5":  # h5py does not store that its two bytes are a bfloat16
                    continue
                if form not in options.forms.split(","):
                    continue
                try:
                    error = difference(file, inputs, expected, folder)
                except RuntimeError as problem:
                    refused.append(f"{name}.{form}: {problem}")
                    continue
                if most == MOST:
                    worst = max(worst, error)
                if error <= most:
                    right += 1
                else:
                    wrong.append(f"{name}.{form}: off by {error:.3g}")
    print(*refused, *wrong, sep="\n")
    print(f"keras_files: {right} right (worst {worst:.2g} of {MOST}), {len(wrong)} wrong, {len(refused)} refused")
    sys.exit(1 if wrong or refused else 0)


main()
