"""The digits of tools/samples as a hundred people would write them, each on a device of their own.

A writer has a slant, a place on the page, a pen and a paper; a device has few digits, and not of all classes. Everything
follows from the seed. The network, its training model and its trainer are made once per process.
"""

import functools
import pathlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import nacre

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "tools" / "samples"
BATCH = 8
TRAININGS: dict[str, dict[str, object]] = {
    "lora": {"lora": 4},
    "last": {"train_last": 1},
    "full": {"freeze_batch_norm": True},
}
Images = NDArray[np.float32]
Labels = NDArray[np.int32]


@dataclass(frozen=True)
class Writer:
    slant: float  # columns that a row moves to the right, per row above the middle
    down: int
    right: int
    thickness: float  # 0: as it is; 1: each pixel the darkest of its 3 x 3
    ink: float
    paper: float  # 0..16

    @classmethod
    def of(cls, random: np.random.Generator) -> "Writer":
        return cls(
            slant=random.uniform(-0.35, 0.35),
            down=int(random.integers(-1, 2)),
            right=int(random.integers(-1, 2)),
            thickness=random.uniform(0, 0.6),
            ink=random.uniform(0.5, 1),
            paper=random.uniform(0, 3),
        )

    def write(self, images: Images) -> Images:
        """[n, 1, 8, 8], 0..16, as this person writes them."""
        side = images.shape[-1]
        around = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
        thick = np.max([around[..., i : i + side, j : j + side] for i in range(3) for j in range(3)], axis=0)
        x = images + np.float32(self.thickness) * (thick - images)
        x = np.roll(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (self.down, self.right), (2, 3))[..., 1:-1, 1:-1]
        slanted = np.zeros_like(x)
        for row in range(side):
            move = self.slant * ((side - 1) / 2 - row)
            whole, part = int(np.floor(move)), np.float32(move - np.floor(move))
            for by, share in ((whole, 1 - part), (whole + 1, part)):
                to, start = slice(max(by, 0), side + min(by, 0)), slice(max(-by, 0), side - max(by, 0))
                slanted[..., row, to] += share * x[..., row, start]
        return np.clip(self.paper + self.ink * slanted, 0, 16).astype(np.float32)


@functools.cache
def digits(test: bool) -> tuple[Images, Labels]:
    images = np.load(SAMPLES / "digits_images.npy").astype(np.float32)
    labels = np.load(SAMPLES / "digits_labels.npy").astype(np.int32)
    of_test = np.zeros(len(labels), bool)
    of_test[np.load(SAMPLES / "digits_test.npy")] = True
    return images[of_test == test], labels[of_test == test]


@functools.cache
def devices(count: int, seed: int = 1) -> list[tuple[Images, Labels]]:
    """Returns each device's digits, at least 2 while any are left: counts are log-normal, classes Dirichlet (0.5)."""
    random = np.random.default_rng(seed)
    images, labels = digits(test=False)
    share = random.lognormal(0, 0.8, count)
    sizes = np.maximum(2, np.floor(share / share.sum() * len(labels))).astype(int)
    left = {label: list(random.permutation(np.flatnonzero(labels == label))) for label in range(10)}
    made = []
    for size in sizes:
        taste = random.dirichlet(np.full(10, 0.5))
        rows: list[int] = []
        while len(rows) < size and any(left.values()):
            there = np.array([len(left[label]) > 0 for label in range(10)])
            chances = np.where(there, taste + 1e-6, 0)
            rows.append(left[int(random.choice(10, p=chances / chances.sum()))].pop())
        made.append((Writer.of(random).write(images[rows]), labels[rows]))
    return made


@functools.cache
def test_set(seed: int = 2) -> tuple[Images, Labels]:
    """Digits that no device has, of writers that have none: one for every nine digits."""
    random = np.random.default_rng(seed)
    images, labels = digits(test=True)
    parts = [Writer.of(random).write(images[first : first + 9]) for first in range(0, len(labels), 9)]
    return np.concatenate(parts), labels


@functools.cache
def trainer(training: str) -> nacre.Trainer:
    options = {"optimizer": "momentum", **TRAININGS[training]}
    model = nacre.convert(SAMPLES / "digits.onnx", train="softmax_cross_entropy", batch=BATCH, **options)
    return nacre.Trainer(model, kernels="auto")


def accuracy(trained: nacre.Trainer) -> float:
    x, y = test_set()
    return float((trained.infer(x).argmax(axis=-1) == y).mean())
