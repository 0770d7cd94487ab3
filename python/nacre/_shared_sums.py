"""Steps that several machines share: the sums of their micro-batches, as methods of nacre.Trainer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import _checked
from ._calls import Calls
from ._error import Error
from ._native import Trainer as NativeTrainer


class SharedSums:
    """A base of nacre.Trainer."""

    _native: NativeTrainer
    _calls: Calls

    def sums(self) -> NDArray[np.uint8]:
        """Returns the accumulated sums: the bytes that machines exchange between `accumulate` and `commit`.

        Returns
        -------
        ndarray of uint8
            The trainer's own memory, not a copy. Empty for a model with `update="immediate"`, which has no sums to
            share.

        Notes
        -----
        Each machine takes a micro-batch of the step (`begin_at`), accumulates it and sends its sums to all others. Each
        joins all blocks in the order of the micro-batches, writes the result to its `sums()`, calls `merged`, and
        commits. All then have the state of one machine that took all micro-batches, to the byte. `nacre.mpi.Ranks` does
        it over MPI. Sums that a GPU keeps are copied to the host: call `sums` again before each read or write.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> labels = np.load("tools/samples/digits_labels.npy")
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", batch=16)
        >>> machines = [nacre.Trainer(model), nacre.Trainer(model)]
        >>> for i, machine in enumerate(machines):
        ...     machine.begin_at(i)
        ...     machine.accumulate(x[16 * i : 16 * i + 16], labels[16 * i : 16 * i + 16])
        >>> both = machines[0].sums().copy()
        >>> machines[0].join(both, machines[1].sums())
        >>> for machine in machines:
        ...     machine.sums()[:] = both
        ...     machine.merged(2)
        >>> [machine.commit(lr=1e-3).samples for machine in machines]
        [32.0, 32.0]
        """
        return self._native.sums()

    def begin_at(self, index: int) -> None:
        """Discards what was accumulated, and chooses the micro-batch that the next `accumulate` takes.

        Parameters
        ----------
        index : int
            Number of the micro-batch in its step, from 0. Dropout draws the random numbers of that micro-batch.

        Raises
        ------
        Error
            The model has `update="immediate"` and `index` is not 0.
        TypeError
            `index` is no whole number.
        ValueError
            `index` is out of range.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> nacre.Trainer(model).begin_at(1)
        """
        index = _checked.whole("index", index, 0, 2**32 - 1)
        with self._calls:
            self._native.begin_at(index)

    def join(self, into: NDArray[np.uint8], other: NDArray[np.uint8]) -> None:
        """Adds a block of sums to another: into = into + other.

        Parameters
        ----------
        into : ndarray of uint8
            Block that is changed, as `sums()` and its copies are. Join blocks in the order of the micro-batches.
        other : ndarray of uint8
            Block that is added.

        Raises
        ------
        Error
            A block is too short.
        TypeError
            A block is no contiguous array of uint8 with one axis, or `into` is read-only.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> trainer = nacre.Trainer(model)
        >>> block = trainer.sums().copy()
        >>> trainer.join(block, trainer.sums())
        """
        for array in (into, other):
            in_one_piece = isinstance(array, np.ndarray) and array.ndim == 1 and array.flags.c_contiguous
            if not in_one_piece or array.dtype != np.uint8:
                raise TypeError("blocks of sums are arrays of uint8 in one piece, as sums() and its copies are")
        if not into.flags.writeable:
            raise TypeError("into cannot be written")
        if into.size < self.sums().size or other.size < self.sums().size:
            raise Error(f"a block of sums has {self.sums().size} bytes, not {min(into.size, other.size)}", 2)
        self._native.join(into, other)

    def merged(self, micro_batches: int) -> None:
        """Tells the trainer that `sums()` was written and holds the sums of so many micro-batches.

        Parameters
        ----------
        micro_batches : int
            Number of micro-batches in the sums.

        Raises
        ------
        Error
            `micro_batches` is 0, or there are no sums to share.
        TypeError
            `micro_batches` is no whole number.
        ValueError
            `micro_batches` is out of range.

        Examples
        --------
        >>> import numpy as np
        >>> import nacre
        >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
        >>> labels = np.load("tools/samples/digits_labels.npy")
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", batch=16)
        >>> here, there = nacre.Trainer(model), nacre.Trainer(model)
        >>> there.accumulate(x[:16], labels[:16])
        >>> here.sums()[:] = there.sums()
        >>> here.merged(1)
        >>> here.commit(lr=1e-3).samples
        16.0
        """
        micro_batches = _checked.whole("micro_batches", micro_batches, 0, 2**32 - 1)
        with self._calls:
            self._native.merged(micro_batches)
