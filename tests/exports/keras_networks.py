"""Shared by the makers of Keras networks: a network with random weights, and the files that TensorFlow makes of it.

    KerasNetwork("gru", lambda: keras.Sequential([...]))

becomes NAME.float.tflite, NAME.dynamic.tflite (int8 weights), NAME.float16.tflite, NAME.int8.tflite and
NAME.int16x8.tflite, each beside a .npz of inputs and of what LiteRT makes of them.
"""
import argparse
import contextlib
import dataclasses
import fnmatch
import io
import os
import pathlib
import sys
import time
import typing
import warnings
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType

keras = tf.keras
FORMS = ("float", "dynamic", "float16", "int8", "int16x8")
OWN_KERNELS = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
INT16 = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8


@dataclasses.dataclass
class Settings:
    unroll: bool = False  # the converter's calibration ends its process where a recurrence is a loop


settings = Settings()


@dataclasses.dataclass
class KerasNetwork:
    name: str
    build: typing.Callable[[], typing.Any]
    ids: int = 0  # inputs are integers below this
    forms: tuple = FORMS


def unsettle(model, numbers):
    """Changes a fresh network to look trained: no parameter is one number everywhere, statistics fit some data."""
    for variable in model.variables:
        if "seed" in variable.path:
            continue
        value = variable.numpy()
        if variable.path.endswith("moving_variance"):
            value = numbers.uniform(0.5, 1.5, value.shape)
        elif value.size > 1 and (value == value.flat[0]).all():
            value = value + numbers.standard_normal(value.shape) * 0.1
        variable.assign(value.astype(variable.dtype))
    return model


class Form:
    """NAME.FORM: how a network becomes a file."""

    def __init__(self, network, form):
        self.network, self.form = network, form

    def name(self):
        return f"{self.network.name}.{self.form}"

    def samples(self, model, count, numbers):
        for _ in range(count):
            yield [
                numbers.integers(0, self.network.ids, x.shape).astype(np.int32)
                if self.network.ids else numbers.standard_normal(x.shape).astype(np.float32)
                for x in model.inputs
            ]

    def converted(self, model, numbers):
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        if self.form == "float":
            return converter.convert()
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if self.form == "float16":
            converter.target_spec.supported_types = [tf.float16]
        if self.form in ("int8", "int16x8"):
            samples = list(self.samples(model, 6, numbers))
            converter.representative_dataset = lambda: iter(samples)
            ops = tf.lite.OpsSet.TFLITE_BUILTINS_INT8 if self.form == "int8" else INT16
            converter.target_spec.supported_ops = [ops, tf.lite.OpsSet.TFLITE_BUILTINS]
            if not self.network.ids:
                codes = tf.int8 if self.form == "int8" else tf.int16
                converter.inference_input_type = converter.inference_output_type = codes
        return converter.convert()

    def write(self, folder):
        path = folder / (self.name() + ".tflite")
        if path.with_suffix(".npz").exists():
            return
        keras.backend.clear_session()
        seed = zlib.crc32(self.network.name.encode())
        keras.utils.set_random_seed(seed)
        numbers = np.random.default_rng(seed)
        settings.unroll = self.form in ("int8", "int16x8")
        model = unsettle(self.network.build(), numbers)
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():  # the converter prints
            warnings.simplefilter("ignore")
            path.write_bytes(self.converted(model, numbers))
        np.savez(path.with_suffix(".npz"), **answers(path, self.network.ids, numbers))


def answers(path, ids, numbers):
    """in.NAME: random numbers; out.NAME and or.NAME: what LiteRT's reference and its own kernels make of them."""
    given = {}
    for name, x in sorted(interpreter(path, OWN_KERNELS)[1].get_input_details().items()):
        shape, dtype = x["shape"], x["dtype"]
        if ids:
            given[name] = numbers.integers(0, ids, shape).astype(dtype)
        elif dtype == np.float32:
            given[name] = numbers.standard_normal(shape).astype(dtype)
        else:
            limits = np.iinfo(dtype)
            given[name] = numbers.integers(limits.min, limits.max + 1, shape).astype(dtype)
    return {"in." + name: x for name, x in given.items()} | given_out(path, given)


def given_out(path, given):
    made = {}
    for prefix, kernels in (("out.", OpResolverType.BUILTIN_REF), ("or.", OWN_KERNELS)):
        try:
            lite, runner = interpreter(path, kernels)
        except ValueError:  # the reference kernels lack an operator of this file
            continue
        made |= {prefix + name: y for name, y in runner(**given).items()}
    real = any(d["dtype"] == np.float32 and d["shape"].size for d in lite.get_tensor_details())
    return made | {"has_reals": np.array(real)}


def interpreter(path, kernels):
    lite = Interpreter(str(path), experimental_op_resolver_type=kernels)
    lite.allocate_tensors()
    return lite, lite.get_signature_runner()


def in_a_process(work):
    """Runs `work` in a child, because TensorFlow's converter and LiteRT may end their process. Returns the error."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            work()
        except Exception as error:
            os.write(write, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        why = said.read().decode(errors="replace")
    status = os.waitpid(child, 0)[1]
    return why or (f"its process ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "")


def make(networks, description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=pathlib.Path, help="where the files go; those that are there already stay")
    parser.add_argument("pattern", nargs="?", default="*", help="only files whose name without .tflite it fits")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    failed = arguments.folder / "not_made.txt"
    for network in networks:
        for form in network.forms:
            each = Form(network, form)
            if not fnmatch.fnmatch(each.name(), arguments.pattern):
                continue
            begun = time.monotonic()
            why = in_a_process(lambda: each.write(arguments.folder))
            if why:  # TensorFlow cannot make this file
                (arguments.folder / (each.name() + ".tflite")).unlink(missing_ok=True)
                with failed.open("a") as lines:
                    lines.write(f"{each.name()}: {why}\n")
                print(f"  {each.name()} was not made: {why[:100]}", file=sys.stderr)
            if time.monotonic() - begun > 60:
                print(f"  {each.name()}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
