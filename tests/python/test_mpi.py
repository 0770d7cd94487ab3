"""nacre.mpi: any number of ranks has the state of one process, and what one rank does wrong is told on all."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import nacre

HERE = pathlib.Path(__file__).resolve().parent
pytest.importorskip("mpi4py")
pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun (tools/packages.sh mpi)")
TRAINS = {"train": "softmax_cross_entropy", "optimizer": "adam", "batch": 16}


def run(folder, model, ranks, *arguments, code=0):
    """Returns the results of the ranks, in their order; if `code` is not 0, the standard error of the run."""
    folder.mkdir(exist_ok=True)
    model.save(folder / "train.nacre")
    program = [sys.executable, "-m", "mpi4py", HERE / "mpi_ranks.py"] if ranks else [sys.executable, HERE / "mpi_ranks.py"]
    start = ["mpirun", "--oversubscribe", "--mca", "btl", "self,vader", "-n", str(ranks)] if ranks else []
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [*start, *program, folder / "train.nacre", "ranks" if ranks else "alone", *arguments]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert (ran.returncode == 0) == (code == 0), ran.stderr
    if code:
        return ran.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(max(ranks, 1))]


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "float8_from_float32"])
def test_ranks_have_the_state_of_one_process(tmp_path, digits, policy):
    model = nacre.convert(digits, policy=policy, **TRAINS)
    alone = run(tmp_path / "alone", model, 0)[0]
    for count in (1, 2, 4):
        folder = tmp_path / str(count)
        for one in run(folder, model, count):
            assert (one["state"], one["reports"]) == (alone["state"], alone["reports"])
        trainer = nacre.Trainer(model)
        assert trainer.load(folder / "checkpoint")["kept"] == 0


@pytest.fixture(scope="module")
def adam(digits):
    return nacre.convert(digits, **TRAINS)


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory, adam):
    return run(tmp_path_factory.mktemp("alone"), adam, 0)[0]


@pytest.mark.parametrize(
    ("fault", "told", "own"),
    [
        ("label", "rank 2: ", "an index in the data is out of range"),
        ("rows", "step: rank 2 has 2 micro-batches, the last of 1 rows, lr 0.001, rank 0 3 micro-batches, the last of 8 rows", ""),
        ("dtype", "rank 2: TypeError: pixels takes float32", "TypeError: pixels takes float32"),
        ("lr", "step: rank 2 has 3 micro-batches, the last of 8 rows, lr 0.002, rank 0 3 micro-batches, ", ""),
        ("call", "rank 2 calls save, rank 0 step: all ranks make the same calls", ""),
        ("negative", "learning rate", ""),
    ],
)
def test_what_one_rank_does_wrong_is_told_on_all_and_changes_nothing(tmp_path, adam, unharmed, fault, told, own):
    for rank, one in enumerate(run(tmp_path, adam, 3, fault)):
        assert len(one["said"]) == 1 and (own if own and rank == 2 else told) in one["said"][0], one["said"]
        assert (one["state"], one["reports"]) == (unharmed["state"], unharmed["reports"])


def test_a_step_that_is_not_finite_is_refused_on_all(tmp_path, adam):
    alone = run(tmp_path / "alone", adam, 0, "nan")[0]
    assert alone["reports"][1] is False
    for one in run(tmp_path / "ranks", adam, 2, "nan"):
        assert (one["state"], one["reports"]) == (alone["state"], alone["reports"])


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("model", "Error: rank 1 has another model than rank 0"),
        ("state", "Error: rank 1 has another state than rank 0"),
        ("immediate", "no sums that ranks could share"),
        ("type", "ranks train a nacre.Trainer, not NoneType"),
    ],
)
def test_ranks_that_cannot_train_together_are_told(tmp_path, adam, digits, fault, sentence):
    model = adam if fault != "immediate" else nacre.convert(digits, update="immediate", **TRAINS)
    for one in run(tmp_path, model, 2, fault):
        assert len(one["said"]) == 1 and sentence in one["said"][0], one["said"]


def test_a_script_that_ends_on_one_rank_ends_all(tmp_path, adam):
    assert "the data of this rank is gone" in run(tmp_path, adam, 2, "dies", code=1)
