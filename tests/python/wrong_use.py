"""Code that mypy --strict refuses: one error in each line that says so."""

import nacre
import nacre.mpi

nacre.convert("net.onnx", polcy="int8")  # wrong
nacre.convert("net.onnx", keep_inputs="yes")  # wrong
nacre.convert("net.onnx", batch="8")  # wrong
nacre.load(7)  # wrong
nacre.Program("net.nacre")  # wrong
nacre.Trainer(nacre.load("m"), thread=2)  # wrong
nacre.tune("net.onnx", [1], [2], callback=3)  # wrong
nacre.mpi.Ranks("train.nacre")  # wrong
