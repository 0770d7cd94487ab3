#!/usr/bin/env python3
"""Federated training on Flower's simulation engine, beside central training with as many visits of samples.

    federated.py [--clients 100] [--rounds 20] [--training lora] [--lr 0.002] [--epochs 3] [--server-momentum 0.8]

The strategy is Flower's FedAvgM within nacre.flower.Checked. In a second run two devices more send NaN, and a parameter of
another shape, in every round. Prints one JSON object.
"""

import argparse
import json
import os
import pathlib
import platform
import resource
import sys
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
sys.path.insert(0, str(HERE))

import federated_digits as digits  # noqa: E402
import flwr  # noqa: E402
import numpy as np  # noqa: E402
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord  # noqa: E402
from flwr.serverapp import ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvgM  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402

import nacre  # noqa: E402


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--training", choices=digits.TRAININGS, default="lora")
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--server-momentum", type=float, default=0.8)
    return parser.parse_args()


def hostile(clients: int) -> Any:
    """A mod of Flower's: what devices `clients` and `clients` + 1 send is not what they trained."""

    def mod(message: Message, context: Any, call_next: Any) -> Message:
        reply = call_next(message, context)
        number = int(context.node_config["partition-id"])
        if number < clients or not reply.has_content():
            return reply
        record = reply.content["arrays"]
        name = next(iter(record))
        array = record[name].numpy()
        if number == clients:
            array = np.full_like(array, np.nan)
        else:
            array = np.concatenate([array, array])
        record[name] = Array(array)
        return reply

    return mod


def client_app(clients: int, training: str) -> Any:
    def device(context: Any) -> tuple[nacre.Trainer, Any, Any]:
        number = int(context.node_config["partition-id"])
        x, y = digits.devices(clients)[number % clients]
        return digits.trainer(training), x, y

    return nacre.flower.client(device, mods=[hostile(clients)])


class Counted(FedAvgM):
    """Counts for each round how many updates were averaged."""

    def __init__(self, momentum: float) -> None:
        super().__init__(fraction_evaluate=0, server_learning_rate=1.0, server_momentum=momentum)
        self.taken: list[int] = []

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        whole = list(replies)
        self.taken.append(sum(not reply.has_error() for reply in whole))
        return super().aggregate_train(server_round, whole)


def federated(o: argparse.Namespace, nodes: int) -> dict[str, Any]:
    trainer = digits.trainer(o.training)
    trainer.start()
    initial = nacre.flower.arrays(trainer)
    averaged = Counted(o.server_momentum)
    strategy = nacre.flower.Checked(averaged, trainer)
    accuracies: list[float] = []
    server, found = ServerApp(), {}

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        nacre.flower.load(trainer, arrays)
        accuracies.append(digits.accuracy(trainer))
        return MetricRecord({"accuracy": accuracies[-1]})

    @server.main()
    def main(grid: Any, context: Any) -> None:
        config = ConfigRecord({"lr": o.lr, "local-epochs": o.epochs})
        found["result"] = strategy.start(grid, initial, num_rounds=o.rounds, train_config=config, evaluate_fn=evaluate)

    began = time.monotonic()
    run_simulation(
        server,
        client_app(o.clients, o.training),
        num_supernodes=nodes,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0}},
    )
    if "result" not in found:
        raise SystemExit("federated: the simulation ended without a result")
    return {
        "accuracy before": accuracies[0],
        "accuracy": accuracies[-1],
        "by round": [round(each, 4) for each in accuracies],
        "averaged": averaged.taken,
        "refused": len(strategy.refused),
        "refused nodes": len({each.node for each in strategy.refused}),
        "sentences": sorted({each.sentence for each in strategy.refused}),
        "update bytes": sum(len(array.data) for array in initial.values()),
        "seconds": round(time.monotonic() - began, 1),
    }


def central(o: argparse.Namespace) -> float:
    """All samples on one machine, shuffled anew in each pass: as many passes as a device has made."""
    trainer = digits.trainer(o.training)
    trainer.start()
    parts = digits.devices(o.clients)
    x, y = (np.concatenate([part[i] for part in parts]) for i in range(2))
    random = np.random.default_rng(3)
    for _ in range(o.rounds * o.epochs):
        order = random.permutation(len(y))
        for first in range(0, len(y), digits.BATCH):
            rows = order[first : first + digits.BATCH]
            trainer.step(x[rows], y[rows], o.lr)
    return digits.accuracy(trainer)


def main() -> int:
    o = options()
    parts = digits.devices(o.clients)
    sizes = [len(y) for _, y in parts]
    made: dict[str, Any] = {
        "clients": o.clients,
        "rounds": o.rounds,
        "training": o.training,
        "samples": sum(sizes),
        "samples of a device": [min(sizes), int(np.median(sizes)), max(sizes)],
        "classes of a device": [
            min(len(set(y.tolist())) for _, y in parts),
            max(len(set(y.tolist())) for _, y in parts),
        ],
        "central accuracy": central(o),
        "honest": federated(o, o.clients),
        "with hostile devices": federated(o, o.clients + 2),
        "full model bytes": sum(len(array.data) for array in nacre.flower.arrays(digits.trainer("full")).values()),
        "versions": f"flwr {flwr.__version__}, numpy {np.__version__}, Python {platform.python_version()}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "peak megabytes of this process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
