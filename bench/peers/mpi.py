"""Measures how a step's time falls with ranks: nacre tune --mpi beside torch's DistributedDataParallel.

    mpi.py --nacre TOOL [--rounds 5] [--batch 64] [--steps 20] [--networks mlp,resnet8,transformer] [--ranks 1,2]

For each network it runs one process and 2 ranks of each system on the same cores, in rounds. It prints the median
milliseconds of a step of the same batch, and the quotient of one process and two ranks. Each process has one thread
and trains with SGD in float32. The ranks share the rows of a step. Nacre takes them as two micro-batches (NUMERICS.md
(57)) in one process too, so that both give the same bytes; torch takes them as one batch. Nacre's time is that of a
whole training of STEPS steps, without start and output. torch's time follows three untimed steps.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

import training_networks

HERE = pathlib.Path(__file__).parent
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])


def nacre_step(o, folder, name, ranks):
    """Returns Nacre's milliseconds for a step."""
    command = [o.nacre, "tune", f"{folder}/{name}.onnx", "--loss", "softmax_cross_entropy", "--data",
               f"{folder}/{name}_x.npy", "--labels", f"{folder}/{name}_y.npy", "--batch", str(o.batch), "--micro-batch",
               str(o.batch // 2), "--lr", "0.01", "--epochs", "1", "--no-shuffle", "--json", "-o",
               f"{folder}/{name}_{ranks}.nacre"]
    if ranks > 1:
        command = [*MPIRUN, "-n", str(ranks), *command, "--mpi"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(said.stdout)["seconds"] / o.steps * 1000


def torch_step(o, folder, name, ranks):
    """Returns torch's milliseconds for a step."""
    command = [sys.executable, str(HERE / "ddp_worker.py"), f"{folder}/{name}.onnx", name, str(o.batch // ranks),
               str(o.steps)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
    if ranks == 1:
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)]
    else:
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                    env={**environment, "RANK": str(rank), "WORLD_SIZE": str(ranks)})
                   for rank in range(ranks)]
    said = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit(f"torch with {ranks} ranks failed on {name}")
    return float(said[0]) / o.steps * 1000


SYSTEMS = {"nacre": nacre_step, "torch": torch_step}


def write_data(o, folder, name):
    training_networks.write_onnx(name, f"{folder}/{name}.onnx")
    x, y = training_networks.batch_of(name, o.batch * o.steps)
    np.save(f"{folder}/{name}_x.npy", x)
    np.save(f"{folder}/{name}_y.npy", y)


def load():
    return os.getloadavg()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--networks", default="mlp,resnet8,transformer")
    parser.add_argument("--ranks", default="1,2")
    o = parser.parse_args()
    ranks = [int(r) for r in o.ranks.split(",")]
    version = subprocess.run([o.nacre, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    kernels = subprocess.run(["lscpu"], capture_output=True, text=True).stdout
    cpu = next((line.split(":")[1].strip() for line in kernels.split("\n") if line.startswith("Model name")), "?")
    mpi = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    print(f"# {cpu}, {os.cpu_count()} processors; {version}; torch {importlib.metadata.version('torch')}, gloo; {mpi}")
    print(f"# batch {o.batch}, {o.steps} steps, medians of {o.rounds} rounds, ms a step [least, most]")
    with tempfile.TemporaryDirectory() as folder:
        for name in o.networks.split(","):
            write_data(o, folder, name)
            times = {(system, r): [] for system in SYSTEMS for r in ranks}
            loads = []
            for _ in range(o.rounds):
                for (system, r), taken in times.items():
                    loads.append(load())
                    taken.append(SYSTEMS[system](o, folder, name, r))
            states = {pathlib.Path(f"{folder}/{name}_{r}.nacre").read_bytes() for r in ranks}
            middle = {key: statistics.median(taken) for key, taken in times.items()}
            for system in SYSTEMS:
                line = "  ".join(f"{r} rank{'s' if r > 1 else ' '} {middle[system, r]:8.2f} [{min(times[system, r]):.2f}, "
                                 f"{max(times[system, r]):.2f}]" for r in ranks)
                last = ranks[-1]
                print(f"{name:12} {system:6} {line}  {middle[system, 1] / middle[system, last]:.2f}x with {last} ranks")
            print(f"{name:12} nacre / torch " + ", ".join(f"{middle['torch', r] / middle['nacre', r]:.2f}x on {r}"
                                                          for r in ranks) +
                  f"; load of the machine before each run {min(loads):.1f} to {max(loads):.1f}; nacre's models on "
                  f"{' and '.join(map(str, ranks))} ranks {'equal to the byte' if len(states) == 1 else 'DIFFER'}",
                  flush=True)


if __name__ == "__main__":
    main()
