"""Code that mypy --strict refuses: one error in each line that says so."""

import nacre
import nacre.mpi

nacre.convert("net.onnx", polcy="int8")  # wrong
nacre.convert("net.onnx", keep_inputs="yes")  # wrong
nacre.convert("net.onnx", batch="8")  # wrong
nacre.convert("net.onnx", stop_after="simplify")  # wrong
nacre.convert(7)  # wrong
nacre.convrt("net.onnx")  # wrong
nacre.load(7)  # wrong
nacre.compare("a.nacre", "b.nacre")  # wrong
nacre.load("m").size().to_pandas(1)  # wrong
nacre.load("m").bench(run=3)  # wrong
nacre.load("m").evaluate([1], [2], metrc="top1")  # wrong
nacre.Program(nacre.load("m"))({"x": [1]}).argmax()  # wrong
nacre.Program(nacre.load("m"))(x=[1])  # wrong
nacre.Trainer(nacre.load("m")).infer({"x": [1]}).argmax()  # wrong
nacre.Trainer(nacre.load("m")).export(checkpoint="run")  # wrong
nacre.Trainer(nacre.load("m")).commit()  # wrong
nacre.Program("net.nacre")  # wrong
nacre.Trainer(nacre.load("m"), thread=2)  # wrong
nacre.tune("net.onnx", [1], [2], callback=3)  # wrong
nacre.mpi.Ranks("train.nacre")  # wrong
nacre.sklearn.NacreClassifier(polcy="float16")  # wrong
nacre.sklearn.NacreRegressor(max_iter="10")  # wrong
nacre.sklearn.NacreRegressor().fit([[1]], [1]).convert(polcy="float16")  # wrong
