"""All of the package's interface, for mypy --strict: every call has the type that is written beside it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import nacre
import nacre.mpi
import nacre.sklearn
from nacre import policies


def models(path: str, x: NDArray[np.float32], y: NDArray[np.int32]) -> nacre.Model:
    model: nacre.Model = nacre.convert(
        path,
        policy="int8/static_from_float32",
        set={"fc.*": "int8_from_float32"},
        target=["host", "arm/m4"],
        batch=8,
        shape={"x": (1, 3)},
        calibrate=x,
        keep_inputs=True,
        range_method="percentile",
        percentile=99.9,
    )
    of_bytes: nacre.Model = nacre.convert(b"network", train="softmax_cross_entropy", optimizer="adam")
    loaded: nacre.Model = nacre.load(of_bytes.to_bytes())
    loaded.save("m.nacre")
    text: str = nacre.graph(path, stop_after="simplify", policy="float16")
    size: nacre.Result = model.size("arm/m4", train=True)
    facts: list[dict[str, Any]] = [model.inspect(target="x86/avx2"), model.check(), model.evaluate(x, y, metric="top1")]
    facts += [model.compare(path, x, sort="execution"), nacre.evaluate([model, loaded], x, y), model.conversion, size]
    facts += [nacre.doctor(), model.firmware("out", target="arm/m4", name="net")]
    page: nacre.Result = nacre.report([model, loaded], "r.html", data=x, labels=y)
    facts += [page, nacre.compare(model, path, x, csv="c.csv"), nacre.size(path, "arm/m4", train=True)]
    facts += [nacre.inspect(path, batch=2, html="i.html"), nacre.kernels(set="m4"), model.bench(runs=3, profile=True)]
    facts += [model.run({"x": x}, top=3, seed=1), model.run(), size.copy()]
    rows: list[dict[str, Any]] = size.rows("programs")
    tables: tuple[str, ...] = page.tables
    print(rows, tables, size.command, size.to_pandas(), size.plot(), model.kernels_header())
    info: nacre.TensorInfo = model.inputs[0]
    shape: tuple[int, ...] = info.shape
    scale: float | None = model.outputs[0].scale
    layer: nacre.Layer = model.layers[0]
    program: nacre.ProgramInfo = model.programs[0]
    print(
        text, facts, shape, scale, layer.policy, program.batch, model.metadata["converter"], model.targets, model.trains
    )
    print(model.picture(), model.summary(steps=True), model.name, info.numpy_dtype)
    return model


def runs(model: nacre.Model, x: NDArray[np.float32]) -> NDArray[Any]:
    program = nacre.Program(
        model, target="host", kernels="reference", threads=2, quantize_inputs=True, dequantize_outputs=True
    )
    y: NDArray[Any] = program(x)
    rows: int = program(x, x).shape[0]
    named: dict[str, NDArray[Any]] = program({"x": x})
    largest: NDArray[np.intp] = named["probabilities"].argmax(axis=1)
    program.input("x")[...] = x
    program.run(rows=1)
    program.start()
    stream: dict[str, NDArray[Any]] = program.stream()
    program.start(stream)
    tensors: dict[str, NDArray[Any]] = program.intermediates({"x": x})
    profile: nacre.Profile = program.profile(x, runs=5)
    step: nacre.StepTime = profile.steps[0]
    roof: float | None = step.roof_us
    print(tensors, profile.median_us, profile.first_us, profile.runs, roof, step.kernel + step.layer + step.op + step.types)
    print(step.step + step.multiply_accumulates, step.us, step.on_gpu)
    out: NDArray[Any] = program.output(0)
    print(rows, largest, out, program.kernels, program.info.steps, program.inputs, program.outputs)
    return y


def trains(model: nacre.Model, x: NDArray[np.float32], y: NDArray[np.int32]) -> nacre.Model:
    trainer = nacre.Trainer(model, kernels="auto", threads=1, target="host")
    trainer.accumulate(x, y)
    report: nacre.StepReport = trainer.commit(lr=1e-3)
    report = trainer.step({"x": x}, y, 1e-3)
    trainer.begin_at(1)
    block: NDArray[np.uint8] = trainer.sums().copy()
    trainer.join(block, trainer.sums())
    trainer.merged(2)
    trainer.discard()
    trainer.start()
    state: dict[str, NDArray[Any]] = trainer.state_dict()
    trainer.load_state_dict(state)
    trainer.load_state_dict(trainer.parameters(), strict=False)
    done: nacre.updates.Round = nacre.updates.train_round(trainer, trainer.parameters(), x, y, lr=1e-3, epochs=2)
    sent: tuple[dict[str, NDArray[Any]], int] = nacre.updates.from_bytes(
        nacre.updates.to_bytes(done.update, done.samples)
    )
    trainer.load_state_dict(nacre.updates.check(sent[0], trainer.parameters()), strict=False)
    trainer.save("ck")
    taken: dict[str, Any] = trainer.load("ck", any_training=True)
    answer: NDArray[Any] = trainer.infer(x)
    by_name: dict[str, NDArray[Any]] = trainer.infer({"x": x})
    print(
        report.applied, report.loss, taken, answer, by_name, trainer.batch, trainer.loss, trainer.target, trainer.inputs
    )
    print(trainer.export(network="net.onnx", policy="float16"))
    exported: nacre.Model = nacre.export(model, "ck", best=True, network="net.onnx")
    written: nacre.Result = nacre.export_network(exported, "ck", "net.onnx", "tuned.onnx", any_training=True)
    print(written["tensors"])
    return trainer.export()


def on_ranks(trainer: nacre.Trainer, x: NDArray[np.float32], y: NDArray[np.int32]) -> float:
    ranks = nacre.mpi.Ranks(trainer)
    report: nacre.StepReport = ranks.step(x, y, lr=1e-3)
    ranks.require_same_state()
    ranks.save("checkpoint")
    ranks.close()
    print(ranks.rank + ranks.count)
    return report.loss


def estimators(path: str, x: NDArray[np.float64], y: NDArray[np.int64]) -> nacre.Model:
    classifier = nacre.sklearn.NacreClassifier(path, policy="mixed_float16", max_iter=5, random_state=0)
    fitted: nacre.sklearn.NacreClassifier = classifier.fit(x, y).partial_fit(x, y, classes=[0, 1])
    labels: NDArray[Any] = fitted.predict(x)
    probabilities: NDArray[Any] = fitted.predict_proba(x)
    regressor = nacre.sklearn.NacreRegressor(loss="huber", hidden_layer_sizes=(8, 8), early_stopping=True, threads=2)
    numbers: NDArray[Any] = regressor.fit(x, y).partial_fit(x, y).predict(x)
    print(labels, probabilities, numbers, fitted.n_iter_, fitted.loss_curve_, fitted.model_)
    made: nacre.Model = fitted.convert(policy="int8/static_from_float32", calibrate=x, target="arm/m4")
    return made


def whole(path: str, x: NDArray[np.float32], y: NDArray[np.int32]) -> nacre.Tuned:
    def ended(epoch: dict[str, Any]) -> bool:
        return bool(epoch["loss"] > 0.1)

    def told(what: str, done: int, total: int) -> None:
        print(what, done, total)

    nacre.set_progress(told)
    nacre.set_progress(None)
    try:
        tuned: nacre.Tuned = nacre.tune(path, x, y, loss="huber", epochs=2, validate=0.2, lr=0.1, callback=ended)
    except nacre.Error as error:
        code: int | None = error.code
        print(code, error.code_name, error.table, error.index, error.exit_code)
        raise
    found: nacre.Result = nacre.search(path, x, y, budget=3, policies=["float32", "bfloat16"])
    fields: dict[str, Any] = policies.resolve("mixed_bfloat16")
    names: list[str] = policies.names()
    forms: list[dict[str, Any]] = policies.forms() + policies.fields()
    print(tuned.to_pandas("trained"), tuned.plot())
    print(tuned.model, tuned.epochs, tuned.summary, found, fields, names, forms, nacre.version, nacre.Warning)
    return tuned
