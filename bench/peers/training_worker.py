"""A process that trains one network in torch or JAX on commands from standard input, as training_runner does in Nacre.

    training_worker.py torch|torch-compiled|jax NETWORK.onnx NAME BATCH POLICY [--lr X]

`run N` takes N steps of SGD on the same batch and says the nanoseconds of all together; `loss` says the loss before the
last step; `restart` begins again with the file's numbers; `memory` says by how many bytes the process has grown since
before the network was made, at its most; `quit` ends. The first line says what runs, as JSON.

POLICY is float32, or mixed_bfloat16: parameters and their updates in float32, products in bfloat16 (torch: autocast;
JAX: parameters and activations are cast, logits and loss are float32). A step is all of it: forward, loss, gradients,
update, running statistics of batch norms.
"""

import argparse
import importlib.metadata
import json
import os
import sys
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
import onnx
from onnx import helper, numpy_helper

import training_networks

MOMENTUM = 0.99  # for running statistics: running = MOMENTUM running + (1 - MOMENTUM) batch


def most_bytes():
    """Returns the peak memory of this process. getrusage would return its parent's, if that was larger."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


class Graph:
    """The nodes of the file, its constants as arrays, and which of these are trained or are running statistics."""

    def __init__(self, path):
        graph = onnx.load(path).graph
        self.constants = {t.name: numpy_helper.to_array(t).copy() for t in graph.initializer}
        self.nodes = [(n.op_type, {a.name: helper.get_attribute_value(a) for a in n.attribute}, list(n.input),
                       n.output[0]) for n in graph.node]
        self.output = graph.output[0].name
        self.statistics = [name for op, _, inputs, _ in self.nodes if op == "BatchNormalization"
                           for name in inputs[3:5]]
        self.fixed = {n: v for n, v in self.constants.items() if n in training_networks.FIXED}
        self.trained = [n for n in self.constants if n not in self.fixed and n not in self.statistics]


class Torch:
    """Puts images and kernels in channels-last order, as torch's documentation advises for convolutions on CPUs.
    ResNet-8 takes 20 to 25 % less time than with channels first, eager in float32 and both in bfloat16. Other
    networks differ only by noise."""

    package, compiled = "torch", False

    def __init__(self, graph, x, labels, policy, lr):
        import torch
        from torch.nn import functional

        torch.set_num_threads(1)
        self.torch, self.functional, self.graph, self.lr = torch, functional, graph, lr
        self.x, self.labels = self.tensor(x), torch.from_numpy(labels.astype(np.int64))
        self.mixed = policy == "mixed_bfloat16"
        self.restart()
        self.options = {"compiled by": "torch.compile" if self.compiled else "none", "optimizer": "SGD, fused",
                        "num_threads": torch.get_num_threads()}

    def tensor(self, array):
        last = self.torch.channels_last if array.ndim == 4 else self.torch.contiguous_format
        return self.torch.from_numpy(array.copy()).contiguous(memory_format=last)

    def restart(self):
        torch, graph = self.torch, self.graph
        copy = {n: self.tensor(v) for n, v in graph.constants.items()}
        self.values = {n: v.requires_grad_() if n in graph.trained else v for n, v in copy.items()}
        self.optimizer = torch.optim.SGD([self.values[n] for n in graph.trained], lr=self.lr, fused=True)
        self.forward = torch.compile(self.loss_of) if self.compiled else self.loss_of
        self.loss = None

    def apply(self, op, a, x, given):
        torch, f = self.torch, self.functional
        if op == "Gemm":
            return f.linear(x, given[0], given[1])
        if op == "Conv":
            pads, weights = a["pads"], given[0]
            if pads[:2] != pads[2:]:
                x, pads = f.pad(x, (pads[1], pads[3], pads[0], pads[2])), [0, 0]
            return f.conv2d(x, weights, None, a["strides"], pads[:2], 1, a["group"])
        if op == "BatchNormalization":
            return f.batch_norm(x, given[2], given[3], given[0], given[1], True, 1 - MOMENTUM, a["epsilon"])
        if op == "LayerNormalization":
            return f.layer_norm(x, given[0].shape, given[0], given[1], a["epsilon"])
        if op == "Reshape":
            return x.reshape([d if d >= 0 else x.shape[0] for d in self.graph.fixed[a["shape"]].tolist()])
        return {"Relu": lambda: f.relu(x), "Add": lambda: x + given[0], "Mul": lambda: x * given[0],
                "MatMul": lambda: x @ given[0], "Gelu": lambda: f.gelu(x), "Softmax": lambda: f.softmax(x, -1),
                "GlobalAveragePool": lambda: x.mean((2, 3)), "Flatten": lambda: torch.flatten(x, 1),
                "ReduceMean": lambda: x.mean(1), "Transpose": lambda: x.permute(a["perm"])}[op]()

    def loss_of(self):
        values = {**self.values, "x": self.x}
        with self.torch.autocast("cpu", self.torch.bfloat16, enabled=self.mixed):
            for op, a, inputs, output in self.graph.nodes:
                if op == "Reshape":
                    a = {"shape": inputs[1]}
                values[output] = self.apply(op, a, values[inputs[0]], [values[i] for i in inputs[1:]])
        return self.functional.cross_entropy(values[self.graph.output].float(), self.labels)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss = self.forward()
        self.loss.backward()
        self.optimizer.step()

    def last_loss(self):
        return float(self.loss.detach())

    def wait(self):
        pass


class TorchCompiled(Torch):
    compiled = True


class Jax:
    """One jitted step. The old parameters give their memory to the new ones. Activations are channels-last."""

    package = "jax"

    def __init__(self, graph, x, labels, policy, lr):
        import jax
        from jax import numpy as jnp

        self.jax, self.jnp, self.graph = jax, jnp, graph
        self.type = jnp.bfloat16 if policy == "mixed_bfloat16" else jnp.float32
        self.x = jnp.asarray(x.transpose(0, 2, 3, 1) if x.ndim == 4 else x)
        self.labels = jnp.asarray(labels)

        def update(parameters, statistics, x, labels):
            (loss, statistics), gradients = jax.value_and_grad(self.loss_of, has_aux=True)(parameters, statistics, x,
                                                                                         labels)
            return {n: p - lr * gradients[n] for n, p in parameters.items()}, statistics, loss

        self.update = jax.jit(update, donate_argnums=(0, 1))
        self.restart()
        self.options = {"compiled by": "jit", "XLA_FLAGS": os.environ["XLA_FLAGS"]}

    def restart(self):
        kernels = {inputs[1] for op, _, inputs, _ in self.graph.nodes if op == "Conv"}
        copy = {n: self.jnp.array(v.transpose(2, 3, 1, 0) if n in kernels else v)
                for n, v in self.graph.constants.items()}
        self.parameters = {n: copy[n] for n in self.graph.trained}
        self.statistics = {n: copy[n] for n in self.graph.statistics}
        self.loss = None

    def apply(self, op, a, x, given):
        jnp, lax = self.jnp, self.jax.lax
        if op == "Gemm":
            return x @ given[0].T + given[1]
        if op == "Conv":
            p = a["pads"]
            return lax.conv_general_dilated(x, given[0], a["strides"], [(p[0], p[2]), (p[1], p[3])],
                                            dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=a["group"])
        if op == "LayerNormalization":
            y = x.astype(jnp.float32)
            y = (y - y.mean(-1, keepdims=True)) * lax.rsqrt(y.var(-1, keepdims=True) + a["epsilon"])
            return y.astype(x.dtype) * given[0] + given[1]
        if op == "Reshape":
            return x.reshape([d if d >= 0 else x.shape[0] for d in a["dims"]])
        nn = self.jax.nn
        return {"Relu": lambda: nn.relu(x), "Add": lambda: x + given[0], "Mul": lambda: x * given[0],
                "MatMul": lambda: x @ given[0], "Gelu": lambda: nn.gelu(x, approximate=False),
                "Softmax": lambda: nn.softmax(x.astype(jnp.float32), -1).astype(x.dtype),
                "GlobalAveragePool": lambda: x.mean((1, 2)), "Flatten": lambda: x.reshape(x.shape[0], -1),
                "ReduceMean": lambda: x.mean(1), "Transpose": lambda: x.transpose(a["perm"])}[op]()

    def normalize(self, x, given, epsilon):
        """Returns the result, mean and variance of a batch norm in float32."""
        y = x.astype(self.jnp.float32)
        mean, variance = y.mean((0, 1, 2)), y.var((0, 1, 2))
        scale, shift = given[0].astype(self.jnp.float32), given[1].astype(self.jnp.float32)
        return ((y - mean) * (scale * self.jax.lax.rsqrt(variance + epsilon)) + shift).astype(x.dtype), mean, variance

    def loss_of(self, parameters, statistics, x, labels):
        values = {n: v.astype(self.type) for n, v in parameters.items()}
        values["x"], kept = x.astype(self.type), {}
        values["root"] = self.jnp.asarray(self.graph.fixed.get("root", 1.0), self.type)
        for op, a, inputs, output in self.graph.nodes:
            if op == "BatchNormalization":
                y, mean, variance = self.normalize(values[inputs[0]], [values[i] for i in inputs[1:3]], a["epsilon"])
                values[output] = y
                for name, value in zip(inputs[3:5], (mean, variance)):
                    kept[name] = MOMENTUM * statistics[name] + (1 - MOMENTUM) * value
                continue
            if op in ("Reshape", "ReduceMean"):
                a, inputs = {"dims": self.graph.fixed[inputs[1]].tolist()}, inputs[:1]
            values[output] = self.apply(op, a, values[inputs[0]], [values[i] for i in inputs[1:]])
        logits = self.jax.nn.log_softmax(values[self.graph.output].astype(self.jnp.float32))
        return -self.jnp.take_along_axis(logits, labels[:, None], 1).mean(), kept

    def step(self):
        self.parameters, self.statistics, self.loss = self.update(self.parameters, self.statistics, self.x, self.labels)

    def last_loss(self):
        return float(self.loss)

    def wait(self):
        self.jax.block_until_ready((self.parameters, self.statistics, self.loss))


ENGINES = {"torch": Torch, "torch-compiled": TorchCompiled, "jax": Jax}


def say(line):
    print(line, flush=True)


def run(engine, count):
    start = time.perf_counter_ns()
    for _ in range(count):
        engine.step()
    engine.wait()
    return time.perf_counter_ns() - start


def main():
    parser = argparse.ArgumentParser(description="Trains a network in torch or JAX.")
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("network")
    parser.add_argument("name", choices=training_networks.NETWORKS)
    parser.add_argument("batch", type=int)
    parser.add_argument("policy", choices=("float32", "mixed_bfloat16"))
    parser.add_argument("--lr", type=float, default=0.01)
    o = parser.parse_args()
    __import__(ENGINES[o.engine].package)
    start = most_bytes()
    engine = ENGINES[o.engine](Graph(o.network), *training_networks.batch_of(o.name, o.batch), o.policy, o.lr)
    engine.step()
    engine.wait()
    engine.restart()
    say(json.dumps({"peer": o.engine, "version": importlib.metadata.version(engine.package),
                    "options": engine.options, "threads": 1}))
    for line in sys.stdin:
        command, _, argument = line.rstrip("\n").partition(" ")
        if command == "quit":
            break
        if command == "run":
            say(str(run(engine, int(argument))))
        elif command == "loss":
            say(repr(engine.last_loss()))
        elif command == "memory":
            say(str(most_bytes() - start))
        elif command == "restart":
            engine.restart()
            say("restart")
        else:
            sys.exit(f"{o.engine}: {command}: there is no such command")
    say("quit")


if __name__ == "__main__":
    main()
