"""The common part of the estimators of nacre.sklearn: parameters, the fit and its rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any, Self, Unpack

import numpy as np
from sklearn.base import BaseEstimator  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.model_selection import train_test_split  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.utils import check_random_state  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.utils.validation import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    check_is_fitted,
    validate_data,
)

from . import _checked, _commands
from ._convert import convert
from ._files import Network
from ._keywords import ConvertOptions
from ._model import Model
from ._sklearn_network import ACTIVATIONS, dense_network, trained_file, training_model
from ._sklearn_training import Stopping, Training, told
from ._tensors import Array

_MOST = 2**31 - 1
_POLICY_OPTIONS = {"policy", "policy_file", "rewrite"}  # options of nacre.convert that give every layer a policy


class Estimator(BaseEstimator):  # type: ignore[misc, unused-ignore]
    """A base of NacreClassifier and NacreRegressor. A subclass says what its targets are."""

    _LAST: str | None = None  # operator that ends a network made here
    n_features_in_: int

    def __init__(
        self,
        network: Network | Model | None = None,
        *,
        hidden_layer_sizes: int | Sequence[int] = (100,),
        activation: str = "relu",
        policy: str | None = None,
        optimizer: str = "adam",
        learning_rate_init: float = 0.001,
        batch_size: int = 32,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = None,
        tol: float = 1e-4,
        n_iter_no_change: int = 10,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        kernels: str = "auto",
        threads: int = 1,
    ) -> None:
        self.network = network
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.policy = policy
        self.optimizer = optimizer
        self.learning_rate_init = learning_rate_init
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.kernels = kernels
        self.threads = threads

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Trains from the beginning, until the loss is no longer better or `max_iter` is reached.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. Numbers are cast to float32. With a `network`, rows may have its shape.
        y : array-like of shape (n_samples,), or (n_samples, n_outputs) for NacreRegressor
            Labels of any type, or targets.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        Error
            The network or an option is refused, or the training diverges.
        TypeError
            A parameter is of another type.
        ValueError
            The data are not valid, do not fit the network, or a parameter is out of range.

        Warns
        -----
        UserWarning
            scikit-learn's ConvergenceWarning: the loss is still becoming better after `max_iter` epochs.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import nacre
        >>> x, y = load_iris(return_X_y=True)
        >>> fitted = nacre.sklearn.NacreClassifier(random_state=0, learning_rate_init=0.01).fit(x, y)
        >>> fitted.score(x, y) > 0.95
        True
        """
        self._check_parameters()
        x, y = self._checked(X, y, begins=True)
        self._learn(y)
        targets = self._targets(y)
        self._begin(x.shape[1], targets)
        rows, targets = self._rows(x), self._trained(targets)
        judged: tuple[Array, Array] | None = None
        if self.early_stopping:
            rows, targets, judged = self._split(rows, targets)
        self._train(rows, targets, judged)
        self.model_ = self._training.export()
        return self

    @_commands.documented("ConvertOptions")
    def convert(self, **options: Unpack[ConvertOptions]) -> Model:
        """Converts the trained network, as `nacre.convert` does: for a device, or with another policy.

        Parameters
        ----------
        **options
            Options of `nacre.convert`. `calibrate` takes rows as X of `fit`. Without `policy`, `policy_file` and
            `rewrite` the policy is that of the fit.

        Returns
        -------
        Model
            The model. `model_` is the one that computes as `predict` does.

        Raises
        ------
        Error
            An option is refused, or the network's file cannot take the numbers.
        TypeError
            There is no option of this name.
        ValueError
            `network` was a `nacre.Model`, or `calibrate` has other features than X had.

        Notes
        -----
        Ranges that `policy="int8/static_from_float32"` learned in the fit are in `model_` alone: give `calibrate`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import nacre
        >>> x, y = load_iris(return_X_y=True)
        >>> fitted = nacre.sklearn.NacreClassifier(random_state=0, learning_rate_init=0.01).fit(x, y)
        >>> small = fitted.convert(policy="int8/static_from_float32", calibrate=x, target="arm/m4")
        >>> small.targets, small.layers[0].policy
        (('arm/m4',), 'int8/static_from_float32')
        """
        check_is_fitted(self, "model_")
        if self._network is None:
            raise ValueError("network was a nacre.Model, which has no file to convert: model_ is the trained model")
        calibrate = options.get("calibrate")
        if calibrate is not None and not isinstance(calibrate, (str, os.PathLike)):
            options["calibrate"] = self._new_rows(calibrate)
        if not _POLICY_OPTIONS.intersection(options):
            options["policy"] = self.policy
        return convert(trained_file(self._training.trainer, self._network), **options)

    def _checked(self, X: object, y: object, begins: bool) -> tuple[Array, Array]:  # noqa: N803
        """Returns valid rows in float32, and valid labels or targets."""
        raise NotImplementedError

    def _learn(self, y: Array) -> None:
        """Sets the attributes that `fit` learns from y."""

    def _targets(self, y: Array) -> Array:
        """Returns y in numbers."""
        return y

    def _outputs(self, targets: Array) -> int:
        """Returns how many numbers the network gives for a row."""
        return int(np.prod(targets.shape[1:]))

    def _loss(self) -> str:
        raise NotImplementedError

    def _score_of(self, outputs: Array, targets: Array) -> float:
        """Returns how good outputs are. Larger is better."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        for name in ("batch_size", "max_iter", "n_iter_no_change"):
            _checked.whole(name, getattr(self, name), 1, _MOST)
        for name in ("learning_rate_init", "validation_fraction", "tol"):
            if not isinstance(getattr(self, name), Real):
                raise TypeError(f"{name} is a number, not {getattr(self, name)!r}")
        if not 0 < self.learning_rate_init < np.inf:
            raise ValueError(f"learning_rate_init is {self.learning_rate_init}: it must be positive and finite")
        if self.early_stopping and not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction is {self.validation_fraction}: it must be between 0 and 1")
        if self.network is None:
            _checked.one_of("activation", self.activation, list(ACTIVATIONS))
            for size in self._hidden():
                _checked.whole("a size of hidden_layer_sizes", size, 1, _MOST)
        if isinstance(self.network, Model) and self.policy is not None:
            raise ValueError("policy: a nacre.Model has its policies; give nacre.convert(..., policy=...) the policy")

    def _hidden(self) -> list[int]:
        sizes: Any = self.hidden_layer_sizes
        return [sizes] if np.ndim(sizes) == 0 else list(sizes)

    def _begin(self, features: int, targets: Array) -> None:
        """Makes the training. Raises ValueError if the data do not fit the network."""
        self.__dict__.pop("model_", None)  # a fit that fails leaves an estimator that is not fitted
        self._random_state = check_random_state(self.random_state)
        network: Any = self.network
        outputs = self._outputs(targets)
        if network is None:
            widths = [features, *self._hidden(), outputs]
            network = dense_network(widths, self.activation, self._LAST, self._random_state)
        options = {"optimizer": self.optimizer, "policy": self.policy, "batch": self.batch_size}
        model = training_model(network, loss=self._loss(), **options)
        training = Training(model, self.kernels, self.threads)
        taken, given = (int(np.prod(info.shape[1:])) for info in (model.inputs[0], model.outputs[0]))
        if training.trainer.loss != self._loss():
            raise ValueError(f"network trains {training.trainer.loss}, and this estimator {self._loss()}")
        if taken != features:
            raise ValueError(f"network takes {taken} numbers in a row, and X has {features}")
        if given != outputs:
            raise ValueError(f"network gives {given} numbers for a row, and y needs {outputs}")
        training.seed(self._random_state)
        self._training = training
        self._target_shape = targets.shape[1:]
        self._network = None if isinstance(network, Model) else network
        self.n_iter_ = 0
        self.loss_curve_: list[float] = []
        self.validation_scores_: list[float] | None = [] if self.early_stopping else None

    def _flat(self, X: Any) -> Any:  # noqa: N803
        """Returns rows of more axes, for a network that was given, as rows of numbers."""
        return np.reshape(X, (len(X), -1)) if self.network is not None and np.ndim(X) > 2 else X

    def _new_rows(self, X: object) -> Array:  # noqa: N803
        """Returns rows as the network takes them, checked against those of the fit."""
        check_is_fitted(self, "model_")
        return self._rows(validate_data(self, self._flat(X), dtype=np.float32, reset=False))

    def _rows(self, x: Array) -> Array:
        info = self._training.trained.inputs[0]
        rows = x.reshape(len(x), *info.shape[1:])
        cast = rows.astype(info.numpy_dtype)
        if cast.dtype.kind in "iu" and not np.array_equal(cast, rows):
            raise ValueError(f"X: the network takes {info.dtype}, which not all of these numbers are")
        return cast

    def _trained(self, targets: Array) -> Array:
        """Returns targets as the trainer takes them."""
        info = self._training.trainer.inputs[-1]
        if targets.shape[1:] != self._target_shape:
            raise ValueError(f"y has {list(targets.shape[1:])} numbers in a row, and had {list(self._target_shape)}")
        return targets.reshape(len(targets), *info.shape[1:]).astype(info.numpy_dtype)

    def _predicted(self, X: object) -> Array:  # noqa: N803
        """Returns the network's outputs in float32: a row for each row of X."""
        rows = self._new_rows(X)
        return _flat_rows(self._training.program(rows))

    def _split(self, rows: Array, targets: Array) -> tuple[Array, Array, tuple[Array, Array]]:
        """Returns rows and targets to train on, and those that judge each epoch."""
        x, judged_x, y, judged_y = train_test_split(
            rows,
            targets,
            test_size=self.validation_fraction,
            random_state=self._random_state,
            stratify=targets if self._LAST == "Softmax" else None,
        )
        return x, y, (judged_x, judged_y)

    def _epoch(self, rows: Array, targets: Array) -> float:
        order = self._random_state.permutation(len(rows)) if self.shuffle else slice(None)
        loss = self._training.epoch(rows[order], targets[order], self.batch_size, self.learning_rate_init)
        self.n_iter_ += 1
        self.loss_curve_.append(loss)
        return loss

    def _train(self, rows: Array, targets: Array, judged: tuple[Array, Array] | None) -> None:
        """Trains epoch by epoch. With rows that judge, the best epoch's state is kept, else the last one's."""
        stopping = Stopping(self.tol, self.n_iter_no_change)
        best = None
        for _ in range(self.max_iter):
            loss, score = self._epoch(rows, targets), None
            if judged is not None:
                score = self._score_of(_flat_rows(self._training.trainer.infer(judged[0])), judged[1])
                assert self.validation_scores_ is not None
                self.validation_scores_.append(score)
            told(self.n_iter_, loss, score)
            if stopping.better(-loss if score is None else score) and judged is not None:
                best = self._training.trainer.state_dict()
            if stopping.reached:
                break
        else:
            sentence = f"after {self.max_iter} epochs the training has not converged: raise max_iter"
            warnings.warn(sentence, ConvergenceWarning, stacklevel=3)
        if best is not None:
            self._training.trainer.load_state_dict(best)

    def _go_on(self, X: Any, y: Any, begins: bool) -> Self:  # noqa: N803
        """Trains once on these rows."""
        self._check_parameters()
        x, y = self._checked(X, y, begins)
        targets = self._targets(y)
        if begins:
            self._begin(x.shape[1], targets)
        told(self.n_iter_ + 1, self._epoch(self._rows(x), self._trained(targets)), None)
        self.model_ = self._training.export()
        return self


def _flat_rows(outputs: Any) -> Array:
    made = np.asarray(outputs, np.float32)
    return made.reshape(len(made), -1)
