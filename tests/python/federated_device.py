#!/usr/bin/env python3
"""Compares the device side of federated training in C with the Python package's: federated_device.py FEDERATE

FEDERATE: tools/samples/installed/federate.c, compiled. Three rounds of two devices each, with the average of Flower's
kind between them: the bytes of every update equal those that the package makes of the same samples. Then updates that
are wrong in one thing each: the device refuses each with one sentence and writes no file; the package refuses all but
int8 codes in place of numbers. Prints the counts as JSON.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable

import numpy as np

import nacre
from nacre import updates

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "tools" / "samples"
IMAGES = np.load(SAMPLES / "digits_images.npy").astype(np.float32)
LABELS = np.load(SAMPLES / "digits_labels.npy").astype(np.int32)
TRAININGS: dict[str, dict[str, object]] = {
    "all parameters": {"optimizer": "adam"},
    "lora": {"optimizer": "momentum", "lora": 2},
    "last layer": {"optimizer": "sgd", "train_last": 1},
    "a quarter of the channels": {"optimizer": "adam", "train_channels": "conv.*=0.25", "freeze_batch_norm": True},
    "mixed_bfloat16": {"optimizer": "adam", "lora": 2, "policy": "mixed_bfloat16"},
    "codes": {
        "optimizer": "sgd",
        "train_codes": True,
        "policy": "int8/static_from_float32",
        "calibrate": IMAGES[:64],
    },
}


class Device:
    """The C program with its files."""

    def __init__(self, program: str, model: nacre.Model, folder: pathlib.Path, rows: slice) -> None:
        self.program, self.folder, self.rows = program, folder, rows
        folder.mkdir()
        model.save(folder / "train.nacre")
        (255 - IMAGES[rows]).tofile(folder / "samples.bin")
        LABELS[rows].tofile(folder / "labels.bin")

    def run(self, update: bytes | None, lr: float, epochs: int) -> subprocess.CompletedProcess[str]:
        (self.folder / "made").unlink(missing_ok=True)
        if update is not None:
            (self.folder / "update").write_bytes(update)
        name = "-" if update is None else "update"
        words = ["train.nacre", name, "samples.bin", "labels.bin", str(epochs), str(lr), "made"]
        return subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True)

    def made(self) -> bytes:
        return (self.folder / "made").read_bytes()


def equal_rounds(program: str, folder: pathlib.Path) -> dict[str, int]:
    """Returns the size in bytes of the last update, by training. Ends the program if device and package differ."""
    sizes: dict[str, int] = {}
    for i, (name, options) in enumerate(TRAININGS.items()):
        model = nacre.convert(SAMPLES / "digits.onnx", train="softmax_cross_entropy", batch=8, **options)
        trainer = nacre.Trainer(model, kernels="reference")
        parts = [slice(0, 21), slice(40, 72)]
        devices = [Device(program, model, folder / f"{i}-{k}", part) for k, part in enumerate(parts)]
        sent: bytes | None = None
        before = trainer.parameters()
        for _ in range(3):
            rounds = []
            for device in devices:
                done = device.run(sent, 0.01, 2)
                if done.returncode != 0:
                    raise SystemExit(f"{name}: {done.stderr}")
                received = None if sent is None else updates.from_bytes(sent)[0]
                mine = updates.train_round(
                    trainer, received, 255 - IMAGES[device.rows], LABELS[device.rows], lr=0.01, epochs=2
                )
                if updates.to_bytes(mine.update, mine.samples) != device.made():
                    raise SystemExit(f"{name}: the device's update is not the package's")
                if f"update of {len(device.made())} bytes, {len(mine.update)} parameters" not in done.stdout:
                    raise SystemExit(f"{name}: {done.stdout}")
                rounds.append(mine)
            total = sum(each.samples for each in rounds)
            mean = {key: sum(each.update[key] * (each.samples / total) for each in rounds) for key in rounds[0].update}
            sent = updates.to_bytes(updates.check(mean, trainer.parameters()), total)
        if all((before[key] == array).all() for key, array in updates.from_bytes(sent or b"")[0].items()):
            raise SystemExit(f"{name}: three rounds have trained nothing")
        sizes[name] = len(sent or b"")
    return sizes


def sealed(data: bytes) -> bytes:
    """Returns the update with its CRC made right for the bytes that it holds now."""
    return data[:20] + struct.pack("<I", zlib.crc32(data[24:])) + data[24:]


def wrong_updates(update: dict[str, np.ndarray]) -> dict[str, tuple[bytes, str]]:
    """Returns, per fault, the update's bytes and the parameter that the error must name, or "" for none."""
    good = updates.to_bytes(update, 5)
    first = next(iter(update))
    at = 24 + 4 + len(first)  # the first dimension

    def of(change: Callable[[dict[str, np.ndarray]], object]) -> bytes:
        copy = {name: array.copy() for name, array in update.items()}
        change(copy)
        return updates.to_bytes(copy, 5)

    def put(value: float) -> bytes:
        return of(lambda u: u[first].reshape(-1).__setitem__(0, value))

    last = list(update)[-1]
    flipped = bytearray(good)
    flipped[-1] ^= 1
    return {
        "NaN": (put(np.nan), first),
        "infinite": (put(-np.inf), first),
        "reshaped": (of(lambda u: u.update({first: u[first].reshape(-1)})), first),
        "one row more": (of(lambda u: u.update({first: np.concatenate([u[first], u[first][:1]])})), first),
        "unknown name": (of(lambda u: u.update({"stranger": u.pop(last)})), "stranger"),
        "missing": (of(lambda u: u.pop(last)), ""),
        "one too many": (of(lambda u: u.update({"stranger": np.zeros(3, np.float32)})), ""),
        "codes for numbers": (of(lambda u: u.update({first: u[first].astype(np.int8)})), first),
        "twice": (sealed(good[:24] + good[24:].replace(last.encode(), list(update)[-2].encode())), ""),
        "empty": (b"", ""),
        "short header": (good[:20], ""),
        "another magic": (b"nacreupX" + good[8:], ""),
        "another version": (good[:8] + struct.pack("<I", 2) + good[12:], ""),
        "damaged": (bytes(flipped), ""),
        "cut": (sealed(good[:-4]), ""),
        "longer": (sealed(good + b"\0\0\0\0"), ""),
        "a huge dimension": (sealed(good[:at] + b"\xff\xff\xff\xff" + good[at + 4 :]), ""),
        "an unknown type": (sealed(good[:26] + b"\x63" + good[27:]), ""),
        "a huge rank": (sealed(good[:27] + b"\xff" + good[28:]), ""),
        "a huge name": (sealed(good[:24] + b"\xff\xff" + good[26:]), ""),
    }


def refusals(program: str, folder: pathlib.Path) -> int:
    model = nacre.convert(SAMPLES / "digits.onnx", train="softmax_cross_entropy", batch=8, optimizer="adam", lora=2)
    trainer = nacre.Trainer(model, kernels="reference")
    device = Device(program, model, folder / "refusals", slice(0, 16))
    before = {name: array.tobytes() for name, array in trainer.state_dict().items()}
    cases = wrong_updates(trainer.parameters())
    for what, (data, name) in cases.items():
        done = device.run(data, 0.01, 1)
        lines = done.stderr.splitlines()
        if done.returncode != 3 or len(lines) != 1 or f"{name}: " not in lines[0] or done.stdout:
            raise SystemExit(f"the device on an update that is {what}: {done.returncode} {done.stderr}{done.stdout}")
        if sorted(path.name for path in device.folder.iterdir()) != [
            "labels.bin",
            "samples.bin",
            "train.nacre",
            "update",
        ]:
            raise SystemExit(f"the device on an update that is {what}: a file was written")
        try:
            taken = updates.from_bytes(data)[0]
            updates.train_round(trainer, taken, IMAGES[:16], LABELS[:16], lr=0.01)
        except nacre.Error as error:
            if not str(error).startswith(name) or error.exit_code != 3:
                raise SystemExit(f"the package on an update that is {what}: {error}") from None
        else:
            # The package takes int8 values as numbers; the device takes only the parameter's own type.
            if what != "codes for numbers":
                raise SystemExit(f"the package takes an update that is {what}")
            trainer.start()
        if before != {key: array.tobytes() for key, array in trainer.state_dict().items()}:
            raise SystemExit(f"the package on an update that is {what}: the state changed")
    return len(cases)


def wrong_use(program: str, folder: pathlib.Path) -> int:
    """Runs the C program with one wrong argument at a time. It must end with code 3 and one line, changing no file."""
    model = nacre.convert(SAMPLES / "digits.onnx", train="softmax_cross_entropy", batch=8)
    device = Device(program, model, folder / "use", slice(0, 16))
    (device.folder / "odd.bin").write_bytes(b"1234567")
    infer = nacre.convert(SAMPLES / "digits.onnx")
    infer.save(device.folder / "infer.nacre")
    good = ["train.nacre", "-", "samples.bin", "labels.bin", "1", "0.01", "made"]
    cases = [(0, "none.nacre"), (0, "odd.bin"), (0, "infer.nacre"), (1, "none"), (2, "none"), (2, "odd.bin")]
    cases += [(3, "samples.bin"), (4, "0"), (4, "x"), (5, "nan"), (5, "-1"), (6, "train.nacre"), (6, "samples.bin")]
    cases += [(6, "no/folder")]
    kept = {path.name: path.read_bytes() for path in device.folder.iterdir()}
    for place, word in cases:
        words = [word if i == place else each for i, each in enumerate(good)]
        done = subprocess.run([program, *words], cwd=device.folder, capture_output=True, text=True)
        if done.returncode != 3 or len(done.stderr.splitlines()) != 1:
            raise SystemExit(f"federate {' '.join(words)}: {done.returncode} {done.stderr}")
        if {path.name: path.read_bytes() for path in device.folder.iterdir()} != kept:
            raise SystemExit(f"federate {' '.join(words)}: a file changed")
    return len(cases)


def main() -> int:
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        sizes = equal_rounds(program, folder)
        made = {"update bytes": sizes, "updates": 6 * len(sizes), "refused updates": refusals(program, folder)}
        made["refused uses"] = wrong_use(program, folder)
    print(json.dumps(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
