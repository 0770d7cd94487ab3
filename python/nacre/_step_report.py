"""Tells how a training step went."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepReport:
    """Tells how a training step went.

    Attributes
    ----------
    applied : bool
        Whether the step changed the parameters. False if a gradient was not finite: then only the loss scale and its
        counters changed.
    loss : float
        Mean loss over the samples.
    norm : float
        2-norm of the mean gradient before clipping; 0 for training in integers (int8/full).
    loss_scale : float
        Loss scale that the gradients were made with.
    samples : float
        Number of samples that the loss counted.
    refused_in_row : int
        Number of refused steps in a row, with this one, since the training was started or loaded.
    overflow_at_floor : bool
        Whether the step was refused at the lowest loss scale, so that a lower one cannot cure it.

    Examples
    --------
    >>> import numpy as np
    >>> import nacre
    >>> x = np.load("tools/samples/digits_images.npy").astype(np.float32)
    >>> labels = np.load("tools/samples/digits_labels.npy")
    >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", batch=32)
    >>> report = nacre.Trainer(model).step(x[:32], labels[:32], lr=1e-3)
    >>> report.applied, report.samples
    (True, 32.0)
    """

    applied: bool
    loss: float
    norm: float
    loss_scale: float
    samples: float
    refused_in_row: int
    overflow_at_floor: bool
