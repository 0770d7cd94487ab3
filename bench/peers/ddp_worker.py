"""One rank of a training in torch, or its only process: steps of SGD on random rows, in float32 on one thread.

    ddp_worker.py NETWORK.onnx NAME ROWS STEPS          RANK and WORLD_SIZE as torchrun sets them: DistributedDataParallel
                                                        over gloo; without them no communication

ROWS are this rank's rows. Prints the seconds of STEPS steps, after three untimed ones. All ranks begin together.
"""

import os
import sys
import time

import torch
import training_networks
import training_worker
from torch import distributed


class Network(torch.nn.Module):
    """The module that DistributedDataParallel watches. Its output is the loss of this rank's rows."""

    def __init__(self, training):
        super().__init__()
        self.training_of = training
        for i, name in enumerate(training.graph.trained):
            parameter = torch.nn.Parameter(training.values[name].detach())
            training.values[name] = parameter
            self.register_parameter(f"p{i}", parameter)

    def forward(self, _):
        return self.training_of.loss_of()


def main(path, name, rows, steps):
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    x, labels = training_networks.batch_of(name, int(rows), seed=2 + rank)
    training = training_worker.Torch(training_worker.Graph(path), x, labels, "float32", 0.01)
    network = Network(training)
    if ranks > 1:
        distributed.init_process_group("gloo")
        network = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        network(training.x).backward()
        optimizer.step()

    for _ in range(3):
        step()
    if ranks > 1:
        distributed.barrier()
    start = time.perf_counter()
    for _ in range(int(steps)):
        step()
    seconds = time.perf_counter() - start
    if rank == 0:
        print(seconds)
    if ranks > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
