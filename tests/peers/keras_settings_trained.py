"""Trains every setting of keras_settings.py beside Keras: the table of the claim settings_closed, tests/claims/settings_closed.txt.

    NACRE_TOOL=build/tools/nacre KERAS_BACKEND=torch python3 tests/peers/keras_settings_trained.py [KIND]

A model with one argument off its default is saved as a .keras file. Keras makes four steps from it and `nacre tune` as many,
on the same rows, with nothing on the command line that the file says. Then both compute the outputs of other rows: they are
equal within MOST of the largest, or the tool refused the file by name, or the setting is silently different.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import keras_settings as table  # noqa: E402  which chooses the backend

import keras
import numpy as np
from keras import layers as L

TOOL = os.environ["NACRE_TOOL"]
STEPS, MOST, FLOOR = 4, 2e-3, 1e-5


def run(*arguments):
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def tuned(file, x, y, other, folder, inputs):
    """The outputs of other rows, or the refusal."""
    np.savez(folder / "x.npz", **dict(zip(inputs, x)))
    np.save(folder / "y.npy", y)
    out = folder / "out.nacre"
    out.unlink(missing_ok=True)
    names = ["--data", folder / "x.npz"]
    if len(x) == 1:
        np.save(folder / "x.npy", x[0])
        names = ["--data", folder / "x.npy"]
    code, said = run("tune", file, *names, "--labels", folder / "y.npy", "--epochs", STEPS, "--batch", len(y), "--no-shuffle",
                     "-o", out)
    if code:
        return None, said
    shutil.rmtree(folder / "got", ignore_errors=True)
    given = []
    for i, v in enumerate(other):
        np.save(folder / f"other{i}.npy", v)
        given += ["--input", f"{inputs[i]}={folder / f'other{i}.npy'}"]
    code, said = run("run", out, *given, "--output", folder / "got")
    if code:
        raise SystemExit(said)
    return np.load(next((folder / "got").glob("*.npy"))), ""


def beside(build, labels, x, other, folder):
    """'equal', 'refused', 'different', or 'unknown' where Keras itself does not train it; and the error or the sentence."""
    try:
        model = build()
        if any(isinstance(layer, L.Dropout) and layer.rate > 0 for layer in model.layers):
            return "unknown", "is drawn: the claim dropout_trains"
        file = folder / "m.keras"  # before the first step
        model.save(file)
    except Exception as error:  # noqa: BLE001
        return "unknown", str(error).strip().split("\n")[0][:80]
    y = labels(model)
    try:
        model = keras.models.load_model(file)  # what the file says: Keras 3.15.1 leaves the delta of Huber out
        for _ in range(STEPS):
            model.train_on_batch(x if len(x) > 1 else x[0], y)
        expected = table.outputs_of(model, other if len(other) > 1 else other[0])[0]
    except Exception as error:  # noqa: BLE001
        return "unknown", str(error).split("\n")[0][:80]
    found, said = tuned(file, x, y, other, folder, [i.name for i in model.inputs])
    if found is None:
        return "refused", said.replace("\n", " ")[:200]
    if not np.isfinite(expected).all():
        return "unknown", "Keras's outputs are not finite"
    if found.shape != expected.shape:
        return "different", f"{found.shape} for {expected.shape}"
    error = float(np.max(np.abs(found - expected)) / max(float(np.max(np.abs(expected))), FLOOR))
    return ("equal" if error <= MOST else "different"), f"{error:.2g}"


def head(layer, shapes, dtype):
    inputs = [keras.Input(s, name=f"in{i}", dtype=dtype) for i, s in enumerate(shapes)]
    apart = len(inputs) == 1 or type(layer).__name__ in ("MultiHeadAttention", "GroupedQueryAttention")
    first = inputs[0]
    if dtype == "float32" and len(shapes) == 1 and not layer.weights and len(shapes[0]) > 0:
        first = L.Dense(shapes[0][-1], name="before", kernel_initializer="identity")(first)  # something to train before it
    y = layer(*inputs) if apart and len(inputs) > 1 else layer(first if len(inputs) == 1 else inputs)
    y = y[0] if isinstance(y, (list, tuple)) else y
    y = L.Dense(3, name="scores")(L.Flatten()(y))
    return keras.Model(inputs, y)


def layer_model(c, o, shapes, dtype):
    keras.utils.set_random_seed(1)
    model = head(c(**(table.made(o) | {"name": "layer"})), shapes, dtype)
    rng = np.random.default_rng(5)
    for v in model.weights:
        if v.dtype.startswith("float") and "seed" not in v.path:
            n = rng.normal(size=v.shape) * 0.3
            v.assign(np.abs(n) + 0.5 if v.path.endswith(("variance", "stddev")) else n)
    model.compile(keras.optimizers.SGD(0.02), "mse")
    return model


def cases(kinds):
    real = lambda model: np.random.default_rng(2).normal(size=(4, 3)).astype("float32")  # noqa: E731
    if "layers" in kinds:
        for name, c in table.classes(L, L.Layer).items():
            if name in table.NOT_MADE or name in ("InputLayer",) or (name in table.MADE_OF and table.MADE_OF[name] is None):
                continue
            given, shapes, dtype = table.MADE_OF.get(name, ({}, [table.FLAT], "float32"))
            x = [table.random(s, dtype, 20 + i) for i, s in enumerate(shapes)]
            other = [table.random(s, dtype, 40 + i) for i, s in enumerate(shapes)]
            for argument in ["", *table.arguments_of(c)]:
                for value in table.values_of(c, argument) if argument else [None]:
                    value = value() if callable(value) and not isinstance(value, (keras.regularizers.Regularizer, keras.constraints.Constraint)) else value
                    more = {argument: value} if argument else {}
                    what = f"{name}({argument + '=' + str(value)[:40] if argument else ''})"
                    yield what, (lambda c=c, g=given, m=more, s=shapes, d=dtype: layer_model(c, g | m, s, d)), real, x, other
    x = [np.random.default_rng(8).normal(size=(table.ROWS, *table.FLAT)).astype("float32")]
    other = [np.random.default_rng(9).normal(size=(5, *table.FLAT)).astype("float32")]
    K, S = keras.optimizers, keras.optimizers.schedules

    def compiled(loss, optimizer, **of_dense):
        model = table.dense_model(**of_dense)
        model.compile(optimizer(), loss())
        return model

    mse, sgd = keras.losses.MeanSquaredError, lambda: K.SGD(0.1)
    softmaxed = lambda o: "softmax" if type(o).__name__ in ("SparseCategoricalCrossentropy", "CategoricalCrossentropy") and not o.from_logits else (  # noqa: E731,E501
        "sigmoid" if type(o).__name__ == "BinaryCrossentropy" and not o.from_logits else None)
    groups = [
        ("losses", keras.losses, keras.losses.Loss, {}, lambda f: compiled(f, sgd, activation=softmaxed(f()))),
        ("optimizers", K, K.Optimizer, {"LossScaleOptimizer": {"inner_optimizer": lambda: K.SGD(0.1)}}, lambda f: compiled(mse, f)),
        ("schedules", S, S.LearningRateSchedule, table.SCHEDULES, lambda f: compiled(mse, lambda: K.SGD(f()))),
        ("regularizers", keras.regularizers, keras.regularizers.Regularizer, {}, lambda f: compiled(mse, sgd, kernel_regularizer=f())),
        ("constraints", keras.constraints, keras.constraints.Constraint, {}, lambda f: compiled(mse, sgd, kernel_constraint=f())),
    ]
    for kind, module, base, given_of, build in groups:
        if kind not in kinds:
            continue
        for name, c in table.classes(module, base).items():
            if name in ("MultiOptimizer", "CTC"):
                continue
            given = given_of.get(name, {})
            for argument in ["", *table.arguments_of(c)]:
                for value in table.values_of(c, argument) if argument else [None]:
                    more = {argument: value} if argument else {}
                    what = f"{name}({argument + '=' + str(value)[:40] if argument else ''})"
                    yield (what, lambda c=c, g=given, m=more, b=build: b(lambda: c(**(table.made(g) | m))),
                           lambda model, n=name: table.labels_for(n if kind == "losses" else "mse"), x, other)


def main():
    kinds = sys.argv[1:] or ["layers", "losses", "optimizers", "schedules", "regularizers", "constraints"]
    print(f"NACRE_TOOL=build/tools/nacre KERAS_BACKEND={keras.backend.backend()} python3 tests/peers/keras_settings_trained.py {' '.join(sys.argv[1:])}")
    print(f"{time.strftime('%Y-%m-%d')}, Keras {keras.__version__}, {run('--version')[1].splitlines()[0]}\n")
    counts = dict.fromkeys(("equal", "refused", "unknown", "different"), 0)
    with tempfile.TemporaryDirectory() as place:
        for what, build, labels, x, other in cases(kinds):
            verdict, why = beside(build, labels, x, other, pathlib.Path(place))
            counts[verdict] += 1
            why = why if verdict != "refused" else why[why.find("not supported:") + 14:].strip() if "not supported:" in why else why
            print(f"{verdict:9} {what:70} {why}", flush=True)
    print(f"\nsettings_closed: {counts['equal']} equal within {MOST} after {STEPS} steps, {counts['refused']} refused by name, "
          f"{counts['unknown']} that Keras does not train, {counts['different']} silently different")
    sys.exit(1 if counts["different"] else 0)


if __name__ == "__main__":
    main()
