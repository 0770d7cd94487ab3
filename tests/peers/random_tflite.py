"""Random Keras networks that TensorFlow's converter wrote as TFLite files, in LiteRT, in TensorFlow Lite Micro and in Nacre.

    random_tflite.py NACRE [FIRST COUNT]      seeds; needs random_tflite_requirements.txt

Five forms: int8, int8 with one scale per tensor, int8 between float32 ends, dynamic range (int8 weights, float32 activations),
float32. Four inputs each. int8 is equal to the bit, float32 within 2e-6 of the largest magnitude, with the reference kernels of LiteRT
or those of TensorFlow Lite Micro: the two differ in FULLY_CONNECTED (LiteRT rounds once) and in RELU6 between two scales (TensorFlow
Lite Micro does not rescale), so no network has both.
"""
import contextlib
import io
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tflite_micro.python.tflite_micro import runtime

FORMS = ("int8", "int8 per tensor", "int8 between float32", "dynamic range", "float32")
TOLERANCE = 2e-6
keras, layers = tf.keras, tf.keras.layers


def normal():
    return keras.initializers.RandomNormal()


def block(r, x):
    """One random layer after x, or x where it does not fit."""
    h, w, c = x.shape[1:]
    small = min(h, w)
    padding, stride = r.choice(("same", "valid")), r.randint(1, 2)
    window = (r.randint(1, min(3, h)), r.randint(1, min(3, w)))
    kind = r.choice(("conv", "conv", "depthwise", "depthwise", "separable", "groups", "dilated", "average", "maximum", "pad", "crop",
                     "norm", "concat", "add", "multiply", "subtract", "leaky", "rescale", "gate", "permute", "reshape"))
    if kind == "conv":
        return layers.Conv2D(r.choice((3, 4, 8, 10)), window, strides=stride, padding=padding, use_bias=r.random() < 0.7,
                             bias_initializer=normal())(x)
    if kind == "depthwise":
        return layers.DepthwiseConv2D(window, strides=stride, padding=padding, depth_multiplier=r.choice((1, 1, 2, 3)))(x)
    if kind == "separable" and small >= 3:
        return layers.SeparableConv2D(6, 3, padding="same")(x)
    if kind == "groups" and c % 2 == 0:
        return layers.Conv2D(r.choice((4, 8)), 3 if small >= 3 else 1, groups=2, padding="same")(x)
    if kind == "dilated" and small >= 5:
        return layers.Conv2D(r.choice((3, 5)), 3, dilation_rate=2, padding=padding)(x)
    if kind in ("average", "maximum") and small >= 2:
        of = layers.AveragePooling2D if kind == "average" else layers.MaxPooling2D
        return of((2, r.randint(1, 2)), strides=stride, padding=padding)(x)
    if kind == "pad":
        return layers.ZeroPadding2D(((r.randint(0, 2), r.randint(0, 2)), (r.randint(0, 1), r.randint(0, 2))))(x)
    if kind == "crop" and small >= 4:
        return layers.Cropping2D(((1, 0), (0, 1)))(x)
    if kind == "norm":
        return layers.BatchNormalization(beta_initializer=normal(), moving_mean_initializer=normal(),
                                         gamma_initializer=keras.initializers.RandomUniform(0.5, 2))(x)
    if kind == "concat":
        return layers.Concatenate()([layers.Conv2D(3, 1)(x), x])
    if kind in ("add", "multiply", "subtract"):
        of = {"add": layers.Add, "multiply": layers.Multiply, "subtract": layers.Subtract}[kind]
        return of()([x, layers.Conv2D(c, 1)(x)])
    if kind == "leaky":
        return layers.Add()([layers.LeakyReLU(0.3)(x), x])
    if kind == "rescale":
        return layers.Rescaling(0.7, offset=0.2)(x)
    if kind == "gate":
        g = layers.GlobalAveragePooling2D(keepdims=True)(x)
        return layers.Multiply()([x, layers.Activation("sigmoid")(layers.Conv2D(c, 1)(g))])
    if kind == "permute":
        return layers.Permute((2, 1, 3))(x)
    if kind == "reshape":
        return layers.Reshape((w, h, c))(x)
    return x


def activation(r, x, relu6):
    kind = r.choice(("none", "none", "relu", "relu6" if relu6 else "relu", "leaky", "sigmoid", "tanh", "hard_swish"))
    if kind == "none":
        return x
    if kind == "relu6":
        return layers.ReLU(6.0)(x)
    return layers.LeakyReLU(r.choice((0.1, 0.3)))(x) if kind == "leaky" else layers.Activation(kind)(x)


def network(r):
    first = x = keras.Input((r.choice((8, 9, 12, 15)), r.choice((6, 8, 11, 16)), r.choice((1, 2, 3, 4))), batch_size=1)
    end = r.choice((None, layers.GlobalAveragePooling2D, layers.GlobalMaxPooling2D, layers.Flatten))
    for _ in range(r.randint(2, 6)):
        x = activation(r, block(r, x), end is None)
    if end is not None:
        x = end()(x)
        if r.random() < 0.5:
            x = layers.Dense(7, activation=r.choice((None, "relu", "tanh")))(x)
        x = layers.Dense(r.choice((1, 5, 10)), activation=r.choice((None, "softmax", "sigmoid")))(x)
    if x is first:
        x = layers.ReLU()(x)
    return keras.Model(first, x)


def file_of(seed, form):
    r, numbers = random.Random(seed), np.random.default_rng(seed)
    keras.utils.set_random_seed(seed)
    model = network(r)
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    scale, offset = r.choice((1.0, 5.0)), r.choice((0.0, 1.0))

    def samples():
        for _ in range(20):
            yield [(numbers.standard_normal(model.inputs[0].shape) * scale + offset).astype(np.float32)]

    if form != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if form.startswith("int8"):
        converter.representative_dataset = samples
    if form in ("int8", "int8 per tensor"):
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = r.choice((tf.int8, tf.int8, tf.uint8))
        converter._experimental_disable_per_channel = form == "int8 per tensor"
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():  # the converter prints
        warnings.simplefilter("ignore")
        return converter.convert()


def inputs_of(shape, dtype):
    for i in range(4):
        numbers = np.random.default_rng(i)
        if dtype == np.float32:
            yield (numbers.standard_normal(shape) * (1 + i)).astype(np.float32)
        else:
            limits = np.iinfo(dtype)
            yield numbers.integers(limits.min, limits.max + 1, shape).astype(dtype)


def distance(ours, theirs):
    """Returns the largest difference in codes; of float32, as a multiple of TOLERANCE times the largest magnitude."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return np.inf
    far = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max()
    return far / max(np.abs(theirs).max(), 1e-30) / TOLERANCE if theirs.dtype == np.float32 else far


class Micro:
    """TensorFlow Lite Micro, which refuses some networks: then everything is far from it."""

    def __init__(self, data):
        try:
            self.interpreter = runtime.Interpreter.from_bytes(data, arena_size=4 << 20)
        except RuntimeError:
            self.interpreter = None

    def answer(self, x):
        if self.interpreter is None:
            return np.empty(0)
        self.interpreter.set_input(x, 0)
        self.interpreter.invoke()
        return self.interpreter.get_output(0)


def compare(program, folder, data):
    """Returns a sentence on the fault, and nothing if all is right."""
    source, target, out = folder / "a.tflite", folder / "a.nacre", folder / "out"
    source.write_bytes(data)
    converted = subprocess.run([program, "convert", source, "-o", target], capture_output=True, text=True)
    if converted.returncode != 0:
        return converted.stderr.strip().replace("\n", " | ")
    lite = Interpreter(str(source), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    lite.allocate_tensors()
    micro = Micro(data)
    (given,), (asked,) = lite.get_input_details(), lite.get_output_details()
    worst = [0.0, 0.0]
    for x in inputs_of(given["shape"], given["dtype"]):
        lite.set_tensor(given["index"], x)
        lite.invoke()
        np.save(folder / "x.npy", x)
        for old in out.glob("*"):
            old.unlink()
        name = next(iter(lite.get_signature_list().values()))["inputs"][0]
        ran = subprocess.run([program, "run", target, "--input", f"{name}={folder / 'x.npy'}", "--output", out], capture_output=True, text=True)
        if ran.returncode != 0:
            return ran.stderr.strip().replace("\n", " | ")
        (path,) = out.glob("*.npy")
        ours = np.load(path)
        for i, theirs in enumerate((lite.get_tensor(asked["index"]), micro.answer(x))):
            worst[i] = max(worst[i], distance(ours, theirs))
    limit = 1 if asked["dtype"] == np.float32 else 0
    return "" if min(worst) <= limit else f"{worst[0]:g} from LiteRT, {worst[1]:g} from TensorFlow Lite Micro"


def main():
    first, count = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 3 else (1, 40)
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        for form in FORMS:
            right = 0
            for seed in range(first, first + count):
                said = compare(sys.argv[1], pathlib.Path(name), file_of(seed, form))
                right += not said
                wrong += bool(said)
                if said:
                    print(f"  seed {seed}, {form}: {said}")
            print(f"{form}: {right} of {count} networks equal", flush=True)
    print(f"tensorflow {tf.__version__}, seeds {first} to {first + count - 1}: {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
