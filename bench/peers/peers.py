"""The engines that networks are compared on: one class for each, and a process that runs one of them.

    peers.py list [--json FILE]                        what is installed, with versions; FILE: the same as JSON
    peers.py serve PEER NETWORK [--threads N] [--batch N] [--precision bfloat16]
                                                       runs NETWORK on commands from standard input, as peer_runner does

Example:

    printf 'run 100\\nquit\\n' | peers.py serve onnxruntime tools/samples/digits.onnx

`serve` prints one line of JSON that says what runs, and one line for each command: `input FILE` takes the bytes of all
inputs, `run N` says the nanoseconds of N runs together, `output FILE` writes the bytes of all outputs, `quit` ends.
A process runs one engine on one network: no engine's threads wait beside another's.

Each engine has the options that its documentation gives for the shortest time of one inference. Others are there to be
asked for by name:

    litert-compiled    LiteRT's newer API, CompiledModel: the same kernels, and 1 us more for each call
    litert-reference   LiteRT's reference kernels: slow. The convolutional networks get Nacre's codes (--rounding
                       double), ad/int8, which is fully connected layers alone, those of --rounding single
    openvino-bf16      OpenVINO's default on a processor with AMX: float networks are computed in bfloat16

The wheel refuses LiteRT's option enable_ynnpack.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

UNSUPPORTED = 4  # exit code: the engine is not installed, or cannot read such files


class Unsupported(Exception):
    """Says in one sentence what this engine cannot do here."""


def time_of(call, count):
    """Returns the nanoseconds of `count` calls. They include the loop itself, 10 to 20 ns a turn."""
    turns = range(count)
    start = time.perf_counter_ns()
    for _ in turns:
        call()
    return time.perf_counter_ns() - start


def split(data, arrays):
    """Copies bytes into arrays, one after another."""
    at = 0
    for array in arrays:
        array[...] = np.frombuffer(data, array.dtype, array.size, at).reshape(array.shape)
        at += array.nbytes


class LiteRt:
    """interpreter.invoke() with the XNNPACK delegate, which the wheel applies to every model.

    The wheel's own benchmark, litert-benchmark, is a Python loop over CompiledModel too, which is slower than this.
    """

    package, reads = "ai-edge-litert", (".tflite",)
    resolver = "AUTO"

    def __init__(self, network, threads, batch):
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self.engine = Interpreter(model_path=str(network), num_threads=threads,
                                  experimental_op_resolver_type=OpResolverType[self.resolver])
        if batch > 1:
            for d in self.engine.get_input_details():
                self.engine.resize_tensor_input(d["index"], [batch, *d["shape"][1:]])
        self.engine.allocate_tensors()
        self.inputs = [np.zeros(d["shape"], d["dtype"]) for d in self.engine.get_input_details()]
        self.call = self.engine.invoke
        delegates = sum(op["op_name"] == "DELEGATE" for op in self.engine._get_ops_details())
        self.options = {"delegate": "XNNPACK" if delegates else "none", "op_resolver": self.resolver,
                        "num_threads": threads}

    def set_inputs(self):
        for details, array in zip(self.engine.get_input_details(), self.inputs):
            self.engine.set_tensor(details["index"], array)

    def outputs(self):
        return [self.engine.get_tensor(d["index"]) for d in self.engine.get_output_details()]


class LiteRtReference(LiteRt):
    """TensorFlow Lite's reference kernels, which define what it computes."""

    resolver = "BUILTIN_REF"


class LiteRtCompiled:
    """CompiledModel.run_by_index with its own buffers."""

    package, reads = "ai-edge-litert", (".tflite",)

    def __init__(self, network, threads, batch):
        if batch > 1:
            raise Unsupported("is called with the batch of the file alone")
        from ai_edge_litert.compiled_model import CompiledModel
        from ai_edge_litert.hardware_accelerator import HardwareAccelerator
        from ai_edge_litert.options import CpuOptions, Options

        options = Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=CpuOptions(num_threads=threads))
        self.engine = CompiledModel.from_file(str(network), options=options)
        signature = next(iter(self.engine.get_signature_list()))
        self.inputs = [self._zeros(d) for d in self.engine.get_input_tensor_details(signature).values()]
        self._results = [self._zeros(d) for d in self.engine.get_output_tensor_details(signature).values()]
        self._from, self._to = self.engine.create_input_buffers(0), self.engine.create_output_buffers(0)
        self.call = lambda: self.engine.run_by_index(0, self._from, self._to)
        self.options = {"accelerator": "CPU", "cpu_num_threads": threads}

    @staticmethod
    def _zeros(details):
        return np.zeros(details["shape"], details["dtype"])

    def set_inputs(self):
        for buffer, array in zip(self._from, self.inputs):
            buffer.write(array)

    def outputs(self):
        return [buffer.read(a.size, a.dtype.type) for buffer, a in zip(self._to, self._results)]


class OnnxRuntime:
    """run_with_iobinding(): inputs and outputs stay in place between runs."""

    package, reads = "onnxruntime", (".onnx",)

    def __init__(self, network, threads, batch):
        import onnxruntime as ort

        self._batch = batch
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.engine = ort.InferenceSession(str(network), options, providers=["CPUExecutionProvider"])
        if any(v.type != "tensor(float)" for v in self.engine.get_inputs() + self.engine.get_outputs()):
            raise Unsupported("only float32 inputs and outputs are bound here")
        self.inputs = [np.zeros(self._dims(i), np.float32) for i in self.engine.get_inputs()]
        self.binding = self.engine.io_binding()
        self._bind()
        self.call = lambda: self.engine.run_with_iobinding(self.binding)
        self.options = {"provider": self.engine.get_providers()[0], "intra_op_num_threads": threads,
                        "graph_optimization_level": "all", "io_binding": True}

    def _dims(self, value):
        if self._batch > 1 and isinstance(value.shape[0], int):
            raise Unsupported(f"the file fixes the batch to {value.shape[0]}")
        return [d if isinstance(d, int) else self._batch for d in value.shape]

    def _bind(self):
        import onnxruntime as ort

        for value, array in zip(self.engine.get_inputs(), self.inputs):
            self.binding.bind_ortvalue_input(value.name, ort.OrtValue.ortvalue_from_numpy(array))
        self._results = [ort.OrtValue.ortvalue_from_shape_and_type(self._dims(o), np.float32)
                         for o in self.engine.get_outputs()]
        for value, result in zip(self.engine.get_outputs(), self._results):
            self.binding.bind_ortvalue_output(value.name, result)

    def set_inputs(self):
        self._bind()

    def outputs(self):
        return self.binding.copy_outputs_to_cpu()


class OpenVino:
    """infer() of one request, whose tensors hold the inputs already.

    Files leave the batch open; it is set to 1, because kws with an open batch is refused at run time. Inputs that were
    never written can hold subnormal numbers. With inputs of 1e-40 float networks took 8 to 17 times longer; LiteRT's
    did not.
    """

    package, reads = "openvino", (".tflite", ".onnx")
    precisions = {"float32": "f32", "bfloat16": "bf16"}

    def __init__(self, network, threads, batch, precision="float32"):
        import openvino as ov

        wanted = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": threads}
        if self.precisions:
            wanted["INFERENCE_PRECISION_HINT"] = self.precisions[precision]
        core = ov.Core()
        model = core.read_model(str(network))
        model.reshape({i: [batch] + [d.get_length() for d in list(i.partial_shape)[1:]] for i in model.inputs})
        self.engine = core.compile_model(model, "CPU", wanted)
        self.request = self.engine.create_infer_request()
        self.inputs = [self.request.get_input_tensor(i).data for i in range(len(model.inputs))]
        for array in self.inputs:
            array[...] = 0
        self.call = self.request.infer
        self.options = {name: self._text(self.engine.get_property(name))
                        for name in (*wanted, "INFERENCE_PRECISION_HINT", "ENABLE_CPU_PINNING")}

    @staticmethod
    def _text(value):
        return value.get_type_name() if hasattr(value, "get_type_name") else str(value)

    def set_inputs(self):
        pass  # they are views of the request's tensors

    def outputs(self):
        return [self.request.get_output_tensor(i).data for i in range(len(self.engine.outputs))]


class Torch:
    """The network, compiled ahead of time by Inductor. digits take 80 us, 124 us with torch.compile, 195 us eager."""

    package, reads = "torch", (".onnx",)
    precisions = {"float32": "float32", "bfloat16": "bfloat16"}

    def __init__(self, network, threads, batch, precision="float32"):
        import torch
        import torch_network

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        module = torch_network.Network(network).eval()
        if precision == "bfloat16":
            module = torch_network.Bfloat16(module)
        self._x = torch.zeros([batch, *module.dims[1:]])
        with tempfile.TemporaryDirectory(prefix="nacre-peers-") as folder:
            package = torch._inductor.aoti_compile_and_package(torch.export.export(module, (self._x,)),
                                                               package_path=f"{folder}/network.pt2")
            self.engine = torch._inductor.aoti_load_package(package)
        self.inputs = [self._x.numpy()]
        self.call = lambda: self.engine(self._x)
        self.options = {"compiled by": "aoti_compile_and_package", "num_threads": torch.get_num_threads(),
                        "precision": precision}

    def set_inputs(self):
        pass  # they are views of the tensor

    def outputs(self):
        return [y.numpy() for y in self.engine(self._x)]


class OpenVinoBf16(OpenVino):
    precisions = None  # the engine's default


def run_tool(name, *arguments):
    """Runs a program that a wheel installs beside the interpreter. Its output is shown if it fails."""
    program = pathlib.Path(sys.executable).with_name(name)
    if not program.exists():
        raise Unsupported(f"needs {name}, which is not installed")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unsupported(f"{name}: {' '.join((done.stderr or done.stdout).split())[-200:]}")


class Mnn:
    """runSession() of a session whose input tensors hold the inputs already. The wheel's mnnconvert made its file."""

    package, reads = "MNN", (".tflite", ".onnx")
    precisions = {"float32": "high", "bfloat16": "low_bf16"}

    def __init__(self, network, threads, batch, precision="float32"):
        import MNN

        if b"MatMulInteger" in network.read_bytes():
            raise Unsupported("computes something else of MatMulInteger: 1.7 of the largest output apart")
        with tempfile.TemporaryDirectory(prefix="nacre-peers-") as folder:
            path = pathlib.Path(folder) / "network.mnn"
            run_tool("mnnconvert", "-f", network.suffix[1:].upper(), "--modelFile", network, "--MNNModel", path,
                     "--bizCode", "nacre")
            self.engine = MNN.Interpreter(str(path))
        self.layout = MNN.Tensor_DimensionType_Tensorflow if network.suffix == ".tflite" \
            else MNN.Tensor_DimensionType_Caffe
        wanted = {"backend": "CPU", "numThread": threads, "precision": self.precisions[precision]}
        self.session = self.engine.createSession(wanted)
        self.tensors = list(self.engine.getSessionInputAll(self.session).values())
        for tensor in self.tensors:
            self.engine.resizeTensor(tensor, (batch, *tensor.getShape()[1:]))
        self.engine.resizeSession(self.session)
        self.types = {MNN.Halide_Type_Float: np.float32}
        if any(t.getDataType() not in self.types for t in self.tensors):
            raise Unsupported("its binding has no tensors of int8")
        self.inputs = [np.zeros(t.getShape(), self.types[t.getDataType()]) for t in self.tensors]
        self.call = lambda: self.engine.runSession(self.session)
        self.options = wanted

    def _host(self, tensor, data):
        import MNN

        return MNN.Tensor(data.shape, tensor.getDataType(), data, self.layout)

    def set_inputs(self):
        for tensor, array in zip(self.tensors, self.inputs):
            tensor.copyFrom(self._host(tensor, array))

    def outputs(self):
        found = []
        for tensor in self.engine.getSessionOutputAll(self.session).values():
            host = self._host(tensor, np.zeros(tensor.getShape(), self.types[tensor.getDataType()]))
            tensor.copyToHostTensor(host)
            found.append(np.array(host.getNumpyData()))
        return found


class Ncnn:
    """One Extractor for each run, as ncnn requires. pnnx converted the file."""

    package, reads = "ncnn", (".onnx",)
    precisions = {"float32": False, "bfloat16": True}

    def __init__(self, network, threads, batch, precision="float32"):
        import ncnn
        import onnx

        if batch > 1:
            raise Unsupported("knows no batch")
        graph = onnx.load(str(network)).graph
        given = [i for i in graph.input if i.name not in {t.name for t in graph.initializer}]
        dims = [d.dim_value or 1 for d in given[0].type.tensor_type.shape.dim]
        with tempfile.TemporaryDirectory(prefix="nacre-peers-") as folder:
            file = pathlib.Path(folder) / network.name
            shutil.copy(network, file)
            run_tool("pnnx", file, "inputshape=[" + ",".join(map(str, dims)) + "]f32", "fp16=0")
            self.engine = ncnn.Net()
            self.engine.opt.num_threads = threads
            self.engine.opt.use_fp16_packed = self.engine.opt.use_fp16_storage = False
            self.engine.opt.use_fp16_arithmetic = False
            self.engine.opt.use_bf16_storage = self.precisions[precision]
            for load, end in ((self.engine.load_param, "param"), (self.engine.load_model, "bin")):
                if load(str(file.with_suffix(f".ncnn.{end}"))) != 0:
                    raise Unsupported(f"cannot load what pnnx made of {network.name}")
        self.inputs = [np.zeros(dims, np.float32)]
        self.mat = ncnn.Mat(self.inputs[0].reshape(dims[1:]))  # a view
        self.names = self.engine.input_names()[0], self.engine.output_names()
        self.call = self._run
        self.options = {"num_threads": threads, "converted by": "pnnx", "bf16_storage": self.precisions[precision]}

    def _run(self):
        extractor = self.engine.create_extractor()
        extractor.input(self.names[0], self.mat)
        return [extractor.extract(name)[1] for name in self.names[1]]

    def set_inputs(self):
        pass  # they are views of the mat

    def outputs(self):
        return [np.array(mat) for mat in self._run()]


PEERS = {"litert": LiteRt, "onnxruntime": OnnxRuntime, "openvino": OpenVino, "torch": Torch, "mnn": Mnn, "ncnn": Ncnn,
         "litert-compiled": LiteRtCompiled, "litert-reference": LiteRtReference,
         "openvino-bf16": OpenVinoBf16}
DEFAULT = ("litert", "onnxruntime", "openvino", "torch", "mnn", "ncnn")


def version(peer):
    """Returns the version of the peer's installed package; None if it is not installed."""
    try:
        return importlib.metadata.version(PEERS[peer].package)
    except importlib.metadata.PackageNotFoundError:
        return None


def write_whole(path, data):
    path = pathlib.Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def own_standard_output():
    """Keeps standard output for the answers. An engine's own prints go to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return lambda line: print(line, file=answers, flush=True)


def run_command(engine, command, argument):
    if command == "input":
        data = pathlib.Path(argument).read_bytes()
        split(data, engine.inputs)
        engine.set_inputs()
        return f"input {len(data)}"
    if command == "run":
        return str(time_of(engine.call, int(argument)))
    if command == "output":
        data = b"".join(np.ascontiguousarray(a).tobytes() for a in engine.outputs())
        write_whole(argument, data)
        return f"output {len(data)}"
    raise Unsupported(f"{command}: there is no such command, only: input, run, output and quit")


def serve(peer, network, threads, batch, precision):
    say = own_standard_output()
    if version(peer) is None:
        raise Unsupported("is not installed")
    if network.suffix not in PEERS[peer].reads:
        raise Unsupported(f"reads {' and '.join(PEERS[peer].reads)}, not {network.suffix}")
    if precision and not getattr(PEERS[peer], "precisions", None):
        raise Unsupported(f"does not compute in {precision}")
    engine = PEERS[peer](network, threads, batch, *([precision] if precision else []))
    engine.set_inputs()
    engine.call()
    say(json.dumps({"peer": peer, "version": version(peer), "options": engine.options, "threads": threads,
                    "input_bytes": sum(a.nbytes for a in engine.inputs),
                    "output_bytes": sum(a.nbytes for a in engine.outputs())}))
    for line in sys.stdin:
        command, _, argument = line.rstrip("\n").partition(" ")
        if command == "quit":
            break
        say(run_command(engine, command, argument))
    say("quit")


def list_peers(path):
    rows = {name: {"package": PEERS[name].package, "version": version(name), "reads": PEERS[name].reads,
                   "default": name in DEFAULT} for name in PEERS}
    for name, row in rows.items():
        print(f"{name:<16} {row['package']:<16} {row['version'] or 'not installed':<14} {' '.join(row['reads'])}")
    if path:
        write_whole(path, json.dumps(rows, indent=1).encode() + b"\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list")
    listing.add_argument("--json", metavar="FILE")
    serving = commands.add_parser("serve")
    serving.add_argument("peer", choices=PEERS)
    serving.add_argument("network", type=pathlib.Path)
    serving.add_argument("--threads", type=int, default=1)
    serving.add_argument("--batch", type=int, default=1)
    serving.add_argument("--precision", choices=("float32", "bfloat16"), help="of a float32 file [float32]")
    options = parser.parse_args()
    if options.command == "list":
        list_peers(options.json)
        return 0
    try:
        serve(options.peer, options.network, options.threads, options.batch, options.precision)
    except Unsupported as error:
        print(f"{options.peer}: {error}", file=sys.stderr)
        return UNSUPPORTED
    except Exception as error:  # an engine's own error, whose first line says what it is about
        print(f"{options.peer}: {options.network.name}: {' '.join(str(error).split())[:300]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
