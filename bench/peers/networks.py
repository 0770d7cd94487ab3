"""Runs the same networks on the same inputs in Nacre and in other engines, in one run, and prints the ratios.

    networks.py [--rounds N] [--networks ad,kws/int8] [--peers litert,openvino] [--threads 1,2] [--batches 1,16]
                [--kernels NAME] [--again N] [--runner PATH] [--json FILE]

Example, with the environment that run.sh makes:

    bench/peers/run.sh --networks kws,ic --threads 1 --json build/peers.json

Networks are MLPerf Tiny's (models/mlperf_tiny of NACRE_SHARED, or of ../shared), MobileNetV2 of TensorFlow Lite
Micro's tests (models/tflm), the digits sample, and an encoder of MiniLM's size with random weights
(encoder_network.py). bfloat16: the float32 file, computed in bfloat16 by Nacre's policy and by the peers that can.
Each engine is a process of its own, pinned to as many cores as it has threads. How often an engine runs in a round is
chosen before the rounds, so that it takes about 25 ms; then, in each round, every engine runs once, in an order that is
rotated from round to round. Times are taken inside the process around the loop of calls. A ratio is the median, over
the rounds, of Nacre's time divided by the time of the best peer in the same round, with the quartiles; the best peer is
the one with the smallest median. One set of kernels is used for all rows, and is chosen before the run.

The rows "call" are a network of one Relu: what a call of each engine costs, its Python binding included. Nacre is
called from C++, as no Python binding of it exists; a peer's time in the other rows has about its call in it.

Outputs are compared on 16 inputs; agreement.py says what agrees. If Nacre has fewer threads than a row, it runs with
one, and a note says so.

A row during which other processes were busy says DISTURBED; --again N takes it up to N times more and keeps the row
with the least load of others.

Exit codes: 0 done, 1 an engine's outputs do not agree with Nacre's, 2 wrong usage.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile
from dataclasses import dataclass

import agreement
import call_network
import encoder_network
import peers
from contender import Contender, Refused, peer_command, runner_command, seeded_input
from other_load import OtherLoad

ROOT = pathlib.Path(__file__).resolve().parents[2]
USAGE = 2
LEAST_ROUNDS = 11
DISTURBED_CORES = 0.05  # a row says DISTURBED above this
INPUTS = 16  # outputs are compared on these; the first is timed


@dataclass
class Network:
    name: str
    types: str  # int8, float32, hybrid, dynamic, bfloat16
    file: str
    low: float = 0  # float32 inputs are drawn from [low, high): the range of the int8 network's input, if there is one
    high: float = 1
    folder: str = "models/mlperf_tiny"  # of NACRE_SHARED, or "samples", or "made": the file is written first
    policy: str = ""  # Nacre's, of all layers; the peers' precision
    own_sums: bool = False  # agreement.py

    @property
    def path(self):
        return f"{self.name}/{self.types}"


NETWORKS = (
    Network("call", "float32", "call.tflite", -1, 1, "made"),
    Network("ad", "int8", "ad01_int8.tflite"),
    Network("ad", "float32", "ad01_fp32.tflite", -84.8, 14.9),
    Network("kws", "int8", "kws_ref_model.tflite"),
    Network("kws", "hybrid", "kws_ref_model_float32.tflite", -123.4, 25.7),
    Network("ic", "int8", "pretrainedResnet_quant.tflite"),
    Network("ic", "float32", "pretrainedResnet.tflite", 0, 255),
    Network("vww", "int8", "vww_96_int8.tflite"),
    Network("vww", "float32", "vww_96_float.tflite", 0, 1),
    Network("str_ww", "int8", "str_ww_ref_model.tflite"),
    Network("mobilenet_v2", "int8", "mobilenet_v2_quantized_1x3x224x224.tflite", folder="models/tflm",
            own_sums=True),
    Network("call-onnx", "float32", "call.onnx", -1, 1, "made"),
    Network("digits", "float32", "digits.onnx", 0, 16, "samples"),
    Network("encoder", "float32", "encoder.onnx", -1, 1, "made"),
    Network("encoder", "bfloat16", "encoder.onnx", -1, 1, "made", "bfloat16"),
    Network("encoder", "dynamic", "encoder_int8.onnx", -1, 1, "made"),
)
WRITERS = {"call.tflite": call_network.write_tflite, "call.onnx": call_network.write_onnx,
           "encoder.onnx": encoder_network.write_float, "encoder_int8.onnx": encoder_network.write_int8}


class Usage(Exception):
    pass


def shared_folder():
    return pathlib.Path(os.environ.get("NACRE_SHARED") or ROOT.parent / "shared")


def place_of(network, scratch):
    """Returns the path of the network's file; None if there is no such file."""
    if network.folder == "made":
        path = scratch / network.file
        if not path.exists():
            WRITERS[network.file](path)
        return path
    folder = ROOT / "tools" / "samples" if network.folder == "samples" else shared_folder() / network.folder
    return folder / network.file if (folder / network.file).is_file() else None


def selected(wanted):
    """Returns the NETWORKS wanted: by name ("ad": all with that name), or by path ("ad/int8")."""
    if wanted is None:
        return NETWORKS
    names = wanted.split(",")
    known = {n.name for n in NETWORKS} | {n.path for n in NETWORKS}
    for name in names:
        if name not in known:
            raise Usage(f"--networks {name}: there is no such network, only: {', '.join(n.path for n in NETWORKS)}")
    return [n for n in NETWORKS if n.name in names or n.path in names]


def start_peer(name, network, file, threads, batch, cores, notes):
    """Starts the engine's process. Returns None, and adds a note, if the engine refuses."""
    try:
        return Contender(name, peer_command(name, file, threads, batch, network.policy), cores)
    except Refused as refusal:
        notes.append(f"{network.path}, {threads} threads, batch {batch}: left out: {refusal}")
        return None


def start_nacre(options, network, file, threads, batch, cores, rounding="double"):
    command = runner_command(options.runner, file, options.kernels, threads, rounding, batch, network.policy)
    return Contender("nacre", command, cores)


def quartiles(numbers):
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return {"low": low, "median": middle, "high": high}


def rotated_rounds(contenders, rounds):
    """Returns the nanoseconds per run: for each engine one number a round."""
    times = {c.name: [] for c in contenders}
    for turn in range(rounds):
        first = turn % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            times[contender.name].append(contender.burst())
    return times


def measure(network, batch, contenders, alike, rounds):
    """`contenders` begin with Nacre. `alike`, for int8 networks, is Nacre with the peers' rounding; it is not
    timed."""
    nacre, *others = contenders
    inputs = [seeded_input(nacre.about["input_bytes"], network.types, network.low, network.high, seed + 1)
              for seed in range(INPUTS)]
    outputs = {c.name: [c.infer(x) for x in reversed(inputs)][::-1] for c in contenders}
    rounded_alike = [alike.infer(x) for x in inputs] if alike else []
    agreements = {c.name: agreement.compare(c.name, network.types, network.own_sums, batch, outputs["nacre"],
                                            outputs[c.name], rounded_alike) for c in others}
    for contender in contenders:
        contender.choose_iterations()
    load = OtherLoad()
    times = rotated_rounds(contenders, rounds)
    others_busy = load.cores()
    medians = {name: statistics.median(t) for name, t in times.items()}
    row = {"times_ns": times, "median_ns": medians, "iterations": {c.name: c.iterations for c in contenders},
           "agreement": agreements, "other_processes_cores": others_busy}
    if others:
        best = min((c.name for c in others), key=medians.get)
        row["best"] = best
        row["ratio"] = quartiles([a / b for a, b in zip(times["nacre"], times[best])])
    return row


def time_text(ns):
    return "-" if ns is None else f"{ns / 1e3:.2f} us" if ns < 1e5 else f"{ns / 1e3:.1f} us"


def header(names):
    return f"{'network':<19}{'threads':>7}{'batch':>6}" + "".join(f"{n:>17}" for n in ("nacre", *names)) + \
        f"   nacre / best peer"


def row_text(row, names):
    columns = "".join(f"{time_text(row['median_ns'].get(n)):>17}" for n in ("nacre", *names))
    ratio = "no peer"
    if "ratio" in row:
        r = row["ratio"]
        ratio = f"{r['median']:.3g} [{r['low']:.3g}, {r['high']:.3g}] {row['best']}"
    busy = row["other_processes_cores"]
    disturbed = f"   DISTURBED: other processes kept {busy:.2f} cores busy" if busy > DISTURBED_CORES else ""
    return f"{row['network']:<19}{row['threads']:>7}{row['batch']:>6}{columns}   {ratio}{disturbed}"


def print_agreement(rows):
    """Prints one line for each network and peer. The number of threads matters only if a peer's sums depend on it."""
    lines = {}
    for row in rows:
        for name, found in row["agreement"].items():
            text = f"{name:<17} {found['says']}{'' if found['agrees'] else '  DISAGREES'}"
            lines.setdefault((row["network"], row["batch"], text), []).append(str(row["threads"]))
    print(f"\n{'network':<19}{'threads':>7}{'batch':>6}   outputs beside Nacre's")
    for (network, batch, text), threads in lines.items():
        print(f"{network:<19}{','.join(threads):>7}{batch:>6}   {text}")


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {"processor": names[0] if names else "unknown", "cores": os.cpu_count(), "load": os.getloadavg()[0],
            "python": sys.version.split()[0]}


def run_rows(options, names, report):
    with tempfile.TemporaryDirectory(prefix="nacre-peers-") as scratch:
        for network in selected(options.networks):
            file = place_of(network, pathlib.Path(scratch))
            if file is None:
                report["notes"].append(f"{network.path}: {network.file} is not in {shared_folder() / network.folder}")
                continue
            for batch, threads in itertools.product(options.batches, options.threads):
                try:
                    row = least_disturbed(lambda: run_row(options, names, report, network, file, threads, batch),
                                          options.again)
                except Refused as refusal:
                    if batch == 1:
                        raise
                    report["notes"].append(f"{network.path}, batch {batch}: left out: {refusal}")
                    continue
                report["rows"].append(row)
                print(row_text(row, names), flush=True)


def least_disturbed(run, again):
    """Takes up to 1 + `again` rows and returns the one with the least load of other processes. Never chooses by
    times."""
    rows = [run()]
    while rows[-1]["other_processes_cores"] > DISTURBED_CORES and len(rows) <= again:
        rows.append(run())
    return {**min(rows, key=lambda row: row["other_processes_cores"]), "taken": len(rows)}


def run_row(options, names, report, network, file, threads, batch):
    cores = set(sorted(os.sched_getaffinity(0))[-threads:])
    with contextlib.ExitStack() as stack:
        contenders = [stack.enter_context(start_nacre(options, network, file, threads, batch, cores))]
        for name in names:
            if file.suffix not in peers.PEERS[name].reads:
                continue
            contender = start_peer(name, network, file, threads, batch, cores, report["notes"])
            if contender is not None:
                contenders.append(stack.enter_context(contender))
        for contender in contenders:
            seen = report["engines"].setdefault(contender.name, [])
            about = {k: v for k, v in contender.about.items() if not k.endswith("_bytes")}
            if about not in seen:
                seen.append(about)
        alike = None
        if network.types == "int8":
            alike = stack.enter_context(start_nacre(options, network, file, 1, batch, cores, "float_even"))
        row = measure(network, batch, contenders, alike, options.rounds)
    return {"network": network.path, "threads": threads, "batch": batch, "cores": sorted(cores), **row}


def describe(report):
    """Prints the engines that ran with their settings, and the notes about those that did not."""
    print()
    for engines in report["engines"].values():
        for about in engines:
            settings = ", ".join(f"{k}={v}" for k, v in about["options"].items())
            built = f", commit {about['commit']}, g++ {about['compiler']}" if "commit" in about else ""
            print(f"{about['peer']} {about['version']}, threads {about['threads']}: {settings}{built}")
    for note in dict.fromkeys(report["notes"]):
        print(f"note: {note}")


def installed(wanted, notes):
    names = []
    for name in wanted.split(","):
        if name not in peers.PEERS:
            raise Usage(f"--peers {name}: there is no such peer, only: {', '.join(peers.PEERS)}")
        if peers.version(name) is None:
            notes.append(f"{name}: {peers.PEERS[name].package} is not installed, and is left out")
        else:
            names.append(name)
    return names


def numbers_of(option, text):
    numbers = [int(n) if n.isdecimal() else 0 for n in text.split(",")]
    if min(numbers) < 1:
        raise Usage(f"{option} {text}: is no list of numbers, such as 1,2")
    return numbers


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, metavar="N", help=f"at least {LEAST_ROUNDS} [21]")
    parser.add_argument("--again", type=int, default=0, metavar="N", help="how often to repeat a disturbed row [0]")
    parser.add_argument("--networks", metavar="LIST", help="names or NAME/TYPES [all]")
    parser.add_argument("--peers", metavar="LIST", default=",".join(peers.DEFAULT),
                        help=f"of {', '.join(peers.PEERS)} [{','.join(peers.DEFAULT)}]")
    parser.add_argument("--threads", metavar="LIST", default="1,2", help="[1,2]")
    parser.add_argument("--batches", metavar="LIST", default="1", help="samples of a run [1]")
    parser.add_argument("--kernels", metavar="NAME", default="auto", help="Nacre's, for all rows [auto]")
    parser.add_argument("--runner", type=pathlib.Path, metavar="PATH", help="peer_runner of a build",
                        default=ROOT / "build" / "bench" / "bench" / "peer_runner")
    parser.add_argument("--json", metavar="FILE", help="every number, and what ran")
    options = parser.parse_args()
    options.threads = numbers_of("--threads", options.threads)
    options.batches = numbers_of("--batches", options.batches)
    cores = len(os.sched_getaffinity(0))
    if not all(1 <= t <= cores for t in options.threads):
        raise Usage(f"--threads: from 1 to {cores}, which is how many cores this process has")
    if options.rounds < LEAST_ROUNDS:
        raise Usage(f"--rounds {options.rounds}: fewer than {LEAST_ROUNDS} give no quartiles worth printing")
    if not options.runner.is_file():
        raise Usage(f"--runner {options.runner}: is not there; bench/peers/run.sh builds it")
    if options.json and not pathlib.Path(options.json).absolute().parent.is_dir():
        raise Usage(f"--json {options.json}: its folder is not there")
    return options


def main():
    try:
        options = parse()
        notes = []
        names = installed(options.peers, notes)
        selected(options.networks)
    except Usage as error:
        print(f"networks.py: {error}", file=sys.stderr)
        return USAGE
    report = {"machine": machine(), "rounds": options.rounds, "kernels": options.kernels, "engines": {}, "rows": [],
              "notes": notes}
    print("{processor}, {cores} cores, load {load:.2f} at the start; Python {python}".format(**report["machine"]))
    print(f"{options.rounds} rounds, medians; ratio: median [quartiles] of the rounds' ratios\n")
    print(header(names), flush=True)
    try:
        run_rows(options, names, report)
    except Refused as refusal:
        print(f"networks.py: {refusal}", file=sys.stderr)
        return USAGE if refusal.code == USAGE else 1
    print_agreement(report["rows"])
    describe(report)
    if options.json:
        peers.write_whole(options.json, json.dumps(report, indent=1).encode() + b"\n")
    agree = all(a["agrees"] for row in report["rows"] for a in row["agreement"].values())
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
