"""A training on the ranks that mpirun started, or on one process without it: mpi_ranks.py MODEL alone|ranks [FAULT]

Writes what a rank says to RANK.json: its state's hash, its reports, and the sentences of what was refused. FAULT is what the last rank does
wrong before the second step.
"""

import hashlib
import json
import pathlib
import sys

import numpy as np

import nacre

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "tools" / "samples"
ROWS = (64, 40, 9, 16, 33)  # of the steps: of batch 16 these are 4, 3, 1, 1 and 3 micro-batches


def hash_of(trainer):
    made = hashlib.sha256()
    for name, array in trainer.state_dict().items():
        made.update(name.encode() + array.tobytes())
    return made.hexdigest()


def main():
    model, how, fault = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""
    images = np.load(SAMPLES / "digits_images.npy").astype(np.float32) / 255
    labels = np.load(SAMPLES / "digits_labels.npy")
    trainer = nacre.Trainer(nacre.load(model), kernels="reference")
    ranks, rank, wrong, step, said, reports = None, 0, False, trainer.step, [], []

    def attempt(call):
        try:
            call()
            said.append("nothing was refused")
        except (nacre.Error, TypeError, ValueError) as refused:
            said.append(f"{type(refused).__name__}: {refused}")

    if how == "ranks":
        from mpi4py import MPI

        rank = MPI.COMM_WORLD.rank
        wrong = rank == MPI.COMM_WORLD.size - 1
        if wrong and fault == "model":
            trainer = nacre.Trainer(nacre.convert(SAMPLES / "digits.onnx", train="softmax_cross_entropy", batch=16))
        if wrong and fault == "state":
            trainer.step(images[:16], labels[:16], 1e-3)
        if fault in ("model", "state", "immediate", "type"):
            attempt(lambda: nacre.mpi.Ranks(None if wrong and fault == "type" else trainer))
            pathlib.Path(f"{rank}.json").write_text(json.dumps({"said": said}))
            return
        ranks = nacre.mpi.Ranks(trainer)
        step = ranks.step
    for count, rows in enumerate(ROWS):
        x, y, lr = images[:rows], labels[:rows], 1e-3
        if count == 1 and fault:
            x_wrong, y_wrong, lr_wrong = x, y, lr
            if fault == "nan":
                x_wrong = np.where(np.arange(rows)[:, None, None, None] == 5, np.float32(np.nan), x).astype(np.float32)
            elif wrong and fault == "label":
                y_wrong = np.full_like(y, 77)
            elif wrong and fault == "rows":
                x_wrong, y_wrong = images[:17], labels[:17]
            elif wrong and fault == "dtype":
                x_wrong = x.astype(np.float64)
            elif wrong and fault == "lr":
                lr_wrong = 2e-3
            elif fault == "negative":
                lr_wrong = -1.0
            elif wrong and fault == "dies":
                raise RuntimeError("the data of this rank is gone")
            if wrong and fault == "call":
                attempt(lambda: ranks.save("nowhere"))
            else:
                attempt(lambda: reports.append(step(x_wrong, y_wrong, lr_wrong).applied))
        reports.append(step(x, y, lr).loss)
    if ranks is not None:
        ranks.require_same_state()
        ranks.save("checkpoint")
        ranks.close()
    pathlib.Path(f"{rank}.json").write_text(json.dumps({"state": hash_of(trainer), "reports": reports, "said": said}))


main()
