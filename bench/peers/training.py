"""Trains the same networks on the same batch in Nacre, torch (eager and compiled) and JAX, and prints the ratios.

    training.py --runner PATH --nacre PATH [--rounds N] [--networks mlp,resnet8] [--batches 1,16,128]
                [--policies float32,mixed_bfloat16] [--peers torch,jax] [--kernels NAME] [--json FILE]

Example, with the environment that training.sh makes:

    bench/peers/training.sh --networks mlp,ds_cnn --batches 16 --json build/training.json

training_networks.py makes the networks, nacre convert --train makes models of them that train; SGD on one batch, one
thread, one core. Each engine is a process of its own. First every engine takes a few steps from the same numbers: the
losses must agree. How often an engine runs in a round is chosen before the rounds, for about 25 ms; then every engine
runs once a round, in an order that is rotated. A speed is the time of the best peer, the one with the smallest median,
divided by Nacre's in the same round: the median over the rounds, with quartiles. Memory is by how much a process has
grown at its most since before the network was made; of Nacre also the bytes that it asks for.

Exit codes: 0 done, 1 losses do not agree, 2 wrong usage. Whether bars are met is said, and no failure.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import training_networks
from contender import Contender, Refused
from other_load import OtherLoad

WORKER = pathlib.Path(__file__).with_name("training_worker.py")
PEERS = ("torch", "torch-compiled", "jax")
PAIR_KERNELS = ("avx512_bf16", "amx")  # kernel sets that multiply pairs of bfloat16; others compute in float32
RATE = 0.01
STEPS = 5  # their losses are compared
# A product in bfloat16 has a relative error of 2^-9, and engines keep different tensors in bfloat16. So only gross
# errors show.
LIMITS = {"float32": 1e-3, "mixed_bfloat16": 0.05}


def quartiles(numbers):
    if len(numbers) < 2:
        return {"low": numbers[0], "median": numbers[0], "high": numbers[0]}
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return {"low": low, "median": middle, "high": high}


def convert(options, network, batch, policy, folder):
    model = folder / f"{network.stem}.{batch}.{policy}.nacre"
    subprocess.run([options.nacre, "convert", network, "-o", model, "--train", "softmax_cross_entropy", "--optimizer",
                    "sgd", "--batch", str(batch), "--policy", policy], check=True, stdout=subprocess.DEVNULL)
    return model


def commands(options, name, network, batch, policy, folder):
    """Yields the name and the command of Nacre first, then of each peer."""
    model = convert(options, network, batch, policy, folder)
    yield "nacre", [str(options.runner), str(model), "--kernels", options.kernels, "--lr", str(RATE)]
    for peer in options.peers:
        yield peer, [sys.executable, str(WORKER), peer, str(network), name, str(batch), policy, "--lr", str(RATE)]


def losses(contender):
    found = []
    for _ in range(STEPS):
        contender.ask("run 1")
        found.append(float(contender.ask("loss")))
    return found


def apart(a, b):
    """Returns the largest difference of two losses, relative to the first loss. (Later losses of a batch of one are
    near 0.)"""
    return max(abs(x - y) for x, y in zip(a, b)) / abs(a[0])


def rounds_of(contenders, rounds):
    times = {c.name: [] for c in contenders}
    for turn in range(rounds):
        first = turn % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            times[contender.name].append(contender.burst())
    return times


def measure(options, name, network, batch, policy, folder):
    x, labels = training_networks.batch_of(name, batch)
    with contextlib.ExitStack() as stack:
        contenders, notes = [], []
        for peer, command in commands(options, name, network, batch, policy, folder):
            try:
                contenders.append(stack.enter_context(Contender(peer, command, {options.core})))
            except Refused as refusal:
                if peer == "nacre":
                    raise
                notes.append(f"left out: {refusal}")
        nacre = contenders[0]
        (folder / "input").write_bytes(x.tobytes() + labels.tobytes())
        nacre.ask(f"input {folder / 'input'}")
        found = {c.name: losses(c) for c in contenders}
        for contender in contenders:
            contender.ask("restart")
            contender.choose_iterations()
        load = OtherLoad()
        times = rounds_of(contenders, options.rounds)
        medians = {c.name: statistics.median(times[c.name]) for c in contenders}
        others = [c.name for c in contenders[1:]]
        best = min(others, key=medians.get) if others else None
        speed = quartiles([b / a for a, b in zip(times["nacre"], times[best])]) if best else None
        memory = {c.name: int(c.ask("memory")) for c in contenders}
        return {"network": name, "batch": batch, "policy": policy, "best_peer": best, "speed": speed,
                "nanoseconds": times, "medians": medians, "losses": found, "memory_bytes": memory,
                "nacre_training_bytes": nacre.about["training_bytes"], "others_load": load.cores(),
                "apart": {n: apart(found["nacre"], found[n]) for n in others}, "notes": notes,
                "engines": {c.name: c.about for c in contenders}}


def text_of(row):
    times = ", ".join(f"{name} {ns / 1000:.0f}" for name, ns in row["medians"].items())
    memory = ", ".join(f"{name} {size / 2**20:.1f}" for name, size in row["memory_bytes"].items())
    speed = row["speed"]
    ratio = "no peer" if speed is None else (f"{speed['median']:.2f}x [{speed['low']:.2f}, {speed['high']:.2f}] of "
                                             f"{row['best_peer']}")
    worst = max(row["apart"].values(), default=0.0)
    return (f"{row['network']:<12} {row['batch']:>4} {row['policy']:<15} {ratio:<40} us: {times}; MiB: {memory} "
            f"({row['nacre_training_bytes'] / 2**20:.1f} asked for); losses {worst:.1e} apart"
            + (f"; DISTURBED by {row['others_load']:.2f} cores" if row["others_load"] > 0.05 else "")
            + "".join(f"; {note}" for note in row["notes"]))


def bars(rows):
    """Returns the bars of claim training_peers: whether each is reached, and a sentence."""
    compared = [r for r in rows if r["speed"]]
    if not compared:
        return []
    reached = [r for r in compared if r["speed"]["high"] >= 1]
    mean = statistics.geometric_mean([r["speed"]["median"] for r in compared])
    small = [r for r in compared
             if r["memory_bytes"]["nacre"] * 3 <= min(s for n, s in r["memory_bytes"].items() if n != "nacre")]
    pairs = {}
    for r in rows:
        pairs.setdefault((r["network"], r["batch"]), {})[r["policy"]] = r["medians"]["nacre"]
    dots = rows[0]["engines"]["nacre"]["options"]["kernels"] in PAIR_KERNELS
    both = [p for p in pairs.values() if len(p) == 2 and dots]
    faster = sum(p["mixed_bfloat16"] < p["float32"] for p in both)
    return [(len(reached) == len(compared), f"every row >= 1.0 of the best peer: {len(reached)} of {len(compared)}"),
            (mean >= 1.5, f"geometric mean >= 1.5: {mean:.2f}"),
            (len(small) == len(compared), f"at most a third of every peer's memory: {len(small)} of {len(compared)}"),
            *([(faster == len(both), f"mixed_bfloat16 faster than float32: {faster} of {len(both)}")] if both else [])]


def listed(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description="Trains networks in Nacre, torch and JAX.")
    parser.add_argument("--runner", type=pathlib.Path, required=True)
    parser.add_argument("--nacre", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--networks", type=listed, default=list(training_networks.NETWORKS))
    parser.add_argument("--batches", type=lambda text: [int(n) for n in listed(text)], default=[1, 16, 128])
    parser.add_argument("--policies", type=listed, default=list(LIMITS))
    parser.add_argument("--peers", type=listed, default=list(PEERS))
    parser.add_argument("--kernels", default="auto")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    for what, given, known in (("networks", options.networks, training_networks.NETWORKS),
                               ("policies", options.policies, LIMITS), ("peers", options.peers, PEERS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"--{what} {unknown[0]}: there is none of that name, only: {', '.join(known)}")
    rows, disagree = [], 0
    with tempfile.TemporaryDirectory(prefix="nacre-training-") as scratch:
        folder = pathlib.Path(scratch)
        for name in options.networks:
            network = folder / f"{name}.onnx"
            training_networks.write_onnx(name, network)
            for batch in options.batches:
                for policy in options.policies:
                    row = measure(options, name, network, batch, policy, folder)
                    rows.append(row)
                    print(text_of(row), flush=True)
                    for peer, distance in row["apart"].items():
                        if not distance <= LIMITS[policy]:
                            disagree += 1
                            print(f"    DISAGREES: {peer}: {row['losses'][peer]} and nacre {row['losses']['nacre']}")
    for met, text in bars(rows):
        print(f"{'MET    ' if met else 'NOT MET'} {text}")
    if options.json:
        options.json.write_text(json.dumps({"rounds": options.rounds, "rows": rows, "bars": bars(rows)}, indent=1))
    return 1 if disagree else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Refused as refusal:
        print(f"training: {refusal}", file=sys.stderr)
        sys.exit(1)
