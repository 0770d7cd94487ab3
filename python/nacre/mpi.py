"""Trains on the ranks of an MPI communicator (mpi4py). Any number of ranks gives the state of one process, to the byte.

A script that `mpirun -n 4 python -m mpi4py train.py` starts:

    trainer = nacre.Trainer(nacre.load("train.nacre"))
    ranks = nacre.mpi.Ranks(trainer)
    for x, y in batches:                             # the same on every rank
        report = ranks.step(x, y, lr=1e-3)
    ranks.save("checkpoint")

With `-m mpi4py`, a rank whose script ends with an exception ends all ranks. Without it the others would wait for it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

try:
    from mpi4py import MPI
except ImportError as error:  # raised also if mpi4py is installed, but no library of MPI
    needs = "nacre.mpi needs mpi4py (pip install mpi4py) and a library of MPI such as Open MPI's"
    raise ImportError(f"{needs}: {error}") from error

from . import _checked
from ._error import Error
from ._native import version
from ._step_report import StepReport
from ._tensors import Array, runs_of
from ._trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_LINE = 64  # slices begin at multiples of it


@dataclass(frozen=True)
class _Taken:
    """The arrays of a step, and the micro-batches that they make."""

    arrays: list[Array]
    runs: int
    last_rows: int
    """0: all that the program takes."""

    @property
    def said(self) -> str:
        return f"{self.runs} micro-batches, the last of {self.last_rows or 'all'} rows"


class Ranks:
    """The ranks of a communicator that train one model together.

    Every method is collective: all ranks call it, in the same order, with the same numbers. A refusal on one rank is
    raised on all, before they exchange anything more: on that rank unchanged, on the others as an Error that names it.

    Parameters
    ----------
    trainer : Trainer
        Each rank's own, with the same model, kernels and state.
    communicator : mpi4py.MPI.Comm, optional
        The ranks; if left out, all processes that mpirun started. It is copied, so the caller's own messages do not mix
        with these.

    Attributes
    ----------
    trainer : Trainer
        This rank's trainer.
    rank : int
        Number of this process, from 0.
    count : int
        Number of processes.

    Raises
    ------
    Error
        The models, kernels, versions or states of the ranks differ, or the model has no sums to share
        (`update="immediate"`), or 1 GiB of them. All ranks raise it.
    TypeError
        `trainer` is no Trainer.

    Examples
    --------
    A process that mpirun did not start is the only rank:

    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> labels = np.load("tools/samples/digits_labels.npy")
    >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", batch=16)
    >>> ranks = nacre.mpi.Ranks(nacre.Trainer(model))
    >>> ranks.step(x[:64], labels[:64], lr=1e-3).samples
    64.0
    >>> ranks.rank, ranks.count
    (0, 1)
    >>> ranks.close()
    """

    def __init__(self, trainer: Trainer, communicator: MPI.Comm | None = None) -> None:
        self._communicator = (MPI.COMM_WORLD if communicator is None else communicator).Dup()
        self.rank: int = self._communicator.Get_rank()
        self.count: int = self._communicator.Get_size()
        self.trainer = trainer
        bytes_ = self._agree("Ranks", lambda: self._bytes_of_sums(trainer))
        self._require_same(self._about)
        share = -(-bytes_ // self.count // _LINE) * _LINE
        self._begins = [min(bytes_, rank * share) for rank in range(self.count)]
        self._sizes = [min(bytes_, (rank + 1) * share) - begin for rank, begin in enumerate(self._begins)]
        mine = self._sizes[self.rank]
        self._sum: NDArray[np.uint8] = np.empty(mine, np.uint8)
        self._received: NDArray[np.uint8] = np.empty((self.count, mine), np.uint8)

    def _about(self) -> dict[str, str]:
        return {
            "version": version,
            "model": hashlib.sha256(self.trainer.model.to_bytes()).hexdigest(),
            "target": self.trainer.target,
            "set of kernels": self.trainer.kernels,
            "state": self._state_hash(),
        }

    def close(self) -> None:
        """Frees the copy of the communicator. No method may be called after it.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> ranks = nacre.mpi.Ranks(nacre.Trainer(model))
        >>> ranks.close()
        """
        self._communicator.Free()

    def step(self, x: object, y: object, lr: float) -> StepReport:
        """Makes one step with these rows, as `nacre.Trainer.step`: the same state, to the byte.

        Parameters
        ----------
        x : array, tuple of arrays, or dict of arrays
            Rows, as for `nacre.Trainer.accumulate`, with the same shapes on every rank. Rows beyond `trainer.batch`
            make several micro-batches. Rank r computes micro-batches r, r + count, r + 2 count and so on, and copies
            only their rows.
        y : array
            Labels or targets.
        lr : float
            Learning rate, the same on every rank.

        Returns
        -------
        StepReport
            How the step went, the same on every rank.

        Raises
        ------
        Error
            The ranks gave different numbers of micro-batches or different `lr`, and nothing changed; or a step is
            refused as in `nacre.Trainer.step`.
        TypeError
            An array has another type, on this rank.
        ValueError
            An array has another shape, on this rank.

        Notes
        -----
        Fewer micro-batches than ranks leave ranks without work. Gradients that were accumulated before are discarded.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> labels = np.load("tools/samples/digits_labels.npy")
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", batch=16)
        >>> ranks = nacre.mpi.Ranks(nacre.Trainer(model))
        >>> report = ranks.step(x[:64], labels[:64], lr=1e-3)
        >>> report.applied
        True
        >>> ranks.close()
        """
        trainer = self.trainer
        with trainer._calls:
            try:
                taken = self._agree(
                    "step", lambda: self._taken(x, y), lambda taken: f"{taken.said}, lr {_checked.rate(lr)!r}"
                )
                runs = taken.runs
                for first in range(0, runs, self.count):
                    self._agree("step", partial(self._compute, taken, first + self.rank))
                    self._add(min(self.count, runs - first), first > 0)
                self._finish()
                return self._agree("step", lambda: self._commit(runs, lr))
            except Exception:
                trainer._native.discard()
                raise

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Saves a checkpoint, as `nacre.Trainer.save`. Rank 0 alone writes it; all ranks continue when it is there.

        Parameters
        ----------
        directory : str or path-like
            Directory of the checkpoint.

        Raises
        ------
        Error
            The checkpoint cannot be written. All ranks raise it.
        TypeError
            `directory` is no path, on rank 0; the others raise Error.
        ValueError
            `directory` is empty or has a null character, on rank 0; the others raise Error.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> ranks = nacre.mpi.Ranks(nacre.Trainer(model))
        >>> ranks.save("checkpoint")
        >>> ranks.close()
        """
        self._agree("save", lambda: self.trainer.save(directory) if self.rank == 0 else None)

    def require_same_state(self) -> None:
        """Checks that all ranks have the same state, for example after a change of one.

        Raises
        ------
        Error
            The states differ. All ranks raise it.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> ranks = nacre.mpi.Ranks(nacre.Trainer(model))
        >>> ranks.require_same_state()
        >>> ranks.close()
        """
        self._require_same(lambda: {"state": self._state_hash()})

    @staticmethod
    def _bytes_of_sums(trainer: Trainer) -> int:
        if not isinstance(trainer, Trainer):
            raise TypeError(f"ranks train a nacre.Trainer, not {type(trainer).__name__}")
        made = int(trainer.sums().size)
        if made == 0:
            raise Error("this model has no sums that ranks could share: it updates as it goes", 4)
        if made >= 2**30:
            raise Error(f"sums of {made} bytes are too long for one message: nacre tune --mpi sends them in pieces", 4)
        return made

    def _taken(self, x: object, y: object) -> _Taken:
        arrays = self.trainer._arrays(x, y)
        return _Taken(arrays, *runs_of(arrays, self.trainer.inputs, self.trainer.batch))

    def _compute(self, taken: _Taken, run: int) -> None:
        if run < taken.runs:
            self.trainer._native.begin_at(run)
            self.trainer._write(taken.arrays, run)
            self.trainer._native.accumulate(taken.last_rows if run == taken.runs - 1 else 0)

    def _commit(self, micro_batches: int, lr: float) -> StepReport:
        self.trainer._native.merged(micro_batches)
        return StepReport(**self.trainer._native.commit(_checked.rate(lr)))

    def _add(self, givers: int, given: bool) -> None:
        """Adds up one round. Ranks below `givers` have a block each; rank r adds slice r of them, in rank order."""
        mine = self._sizes[self.rank]
        gives = self.rank < givers
        block = self.trainer.sums()
        self._communicator.Alltoallv(
            [block, self._sizes if gives else [0] * self.count, self._begins, MPI.BYTE],
            [
                self._received,
                [mine if rank < givers else 0 for rank in range(self.count)],
                [mine * rank for rank in range(self.count)],
                MPI.BYTE,
            ],
        )
        for rank in range(givers):
            if given or rank > 0:
                self.trainer._native.join_part(self._sum, self._received[rank], self._begins[self.rank])
            else:
                self._sum[:] = self._received[0]

    def _finish(self) -> None:
        self._communicator.Allgatherv(self._sum, [self.trainer.sums(), self._sizes, self._begins, MPI.BYTE])

    def _state_hash(self) -> str:
        made = hashlib.sha256()
        for name, array in self.trainer.state_dict().items():
            made.update(f"{name} {array.dtype} {array.shape}\n".encode())
            made.update(np.ascontiguousarray(array).tobytes())
        return made.hexdigest()

    def _agree(self, what: str, work: Callable[[], T], same: Callable[[T], str] = lambda _: "") -> T:
        """Returns the result of `work`, if it succeeds on all ranks with one text of `same`; else all ranks raise.

        Each rank tells all others before any goes on, so no rank waits for a message that will not come.
        """
        made: list[T] = []
        problem: Exception | None = None
        text = ""
        try:
            made.append(work())
            text = same(made[0])
        except Exception as error:  # told to all, then raised
            problem = error
        sentence = None
        if problem is not None:
            sentence = str(problem) if isinstance(problem, Error) else f"{type(problem).__name__}: {problem}"
        told: list[tuple[str, str, str | None]] = self._communicator.allgather((what, text, sentence))
        if problem is not None:
            raise problem
        for rank, (other, other_text, failed) in enumerate(told):
            if failed is not None:
                raise Error(f"rank {rank}: {failed}")
            if other != told[0][0]:
                raise Error(f"rank {rank} calls {other}, rank 0 {told[0][0]}: all ranks make the same calls", 2)
            if other_text != told[0][1]:
                raise Error(f"{what}: rank {rank} has {other_text}, rank 0 {told[0][1]}: give all ranks the same", 2)
        return made[0]

    def _require_same(self, about: Callable[[], dict[str, str]]) -> None:
        mine: list[dict[str, str]] = []
        self._agree("Ranks", lambda: mine.append(about()))
        told = self._communicator.allgather(mine[0])
        for rank, other in enumerate(told):
            for name, value in other.items():
                if value != told[0][name]:
                    shown = f": {value}, not {told[0][name]}" if len(value) < 40 else ""
                    raise Error(f"rank {rank} has another {name} than rank 0{shown}; give all ranks the same", 2)
