"""Estimators for scikit-learn (1.6 or newer, which must be installed): networks with numeric policies.

They work in pipelines and searches, and their `model_` is the file that a device runs:

    search = GridSearchCV(nacre.sklearn.NacreClassifier(), {"policy": ["float32", "mixed_float16"]}).fit(x, y)
    search.best_estimator_.model_.save("digits.nacre")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn import base  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.metrics import r2_score  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.utils import multiclass  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.utils.validation import validate_data  # type: ignore[import-not-found, import-untyped, unused-ignore]

from . import _checked
from ._files import Network
from ._model import Model
from ._sklearn_estimator import Estimator
from ._tensors import Array

__all__ = ["NacreClassifier", "NacreRegressor"]

_LOSSES = ["squared_error", "absolute_error", "huber"]


class NacreClassifier(base.ClassifierMixin, Estimator):  # type: ignore[misc, unused-ignore]
    """A classifier: a dense network that is made for the data, or a network of yours that is fine-tuned.

    Parameters
    ----------
    network : path, bytes, onnx.ModelProto, keras.Model or Model, optional
        Network to fine-tune, as for `nacre.convert`: one input of `n_features` numbers in a row, and one output with a
        number for each class, scores or probabilities. A Model was converted with `train="softmax_cross_entropy"`. It
        keeps its policies and its optimizer, so `policy` is None and `optimizer` has no effect. None makes a dense
        network, which needs the package onnx.
    hidden_layer_sizes : int or sequence of int, default: (100,)
        Widths of the hidden layers of a dense network.
    activation : str, default: "relu"
        Activation of its hidden layers: "relu", "tanh", "logistic", "identity", "elu", "gelu" or "softplus".
    policy : str, optional
        Numeric policy of every layer, such as "mixed_float16" (`nacre.policies.names`). None: as the network's file
        has it, else "float32".
    optimizer : str, default: "adam"
        Optimizer with its fields, as for `nacre.convert`: "adamw,weight_decay=0.01".
    learning_rate_init : float, default: 0.001
        Learning rate of all steps.
    batch_size : int, default: 32
        Rows of a step.
    max_iter : int, default: 200
        Epochs of `fit`, at most.
    shuffle : bool, default: True
        Whether each epoch takes the rows in a new order.
    random_state : int, RandomState or None, default: None
        Seed of weights, order of rows, dropout and split. With an int the same data give the same bytes, on one
        machine, or with `kernels="reference"` on every machine.
    tol : float, default: 1e-4
        An epoch is better if its loss is lower by more than this. With `early_stopping` its score is higher.
    n_iter_no_change : int, default: 10
        Epochs in a row that are not better, after which `fit` ends.
    early_stopping : bool, default: False
        Whether `fit` keeps rows for validation, ends by their score, and keeps the best epoch's numbers.
    validation_fraction : float, default: 0.1
        Share of the rows that are kept for it.
    kernels : str, default: "auto"
        Kernels that train and predict, as for `nacre.Trainer`.
    threads : int, default: 1
        Threads that share large steps, from 1 to 256.

    Attributes
    ----------
    classes_ : ndarray
        Labels, sorted. Output i of the network is for `classes_[i]`.
    n_features_in_ : int
        Numbers in a row.
    feature_names_in_ : ndarray
        Names of the columns, if X has names that are texts.
    n_iter_ : int
        Epochs so far.
    loss_curve_ : list of float
        Mean loss of each epoch.
    validation_scores_ : list of float or None
        Accuracy on the validation rows after each epoch, with `early_stopping`.
    model_ : Model
        The trained network for inference, compiled for `batch_size` rows. `convert` makes the model for a device.

    Notes
    -----
    An estimator can be pickled and copied, and `partial_fit` of the copy makes the bytes that the original would make.
    There are no weights of samples or classes, no sparse X, and no y of several labels. X is computed in float32.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> import nacre
    >>> x, y = load_digits(return_X_y=True)
    >>> classifier = nacre.sklearn.NacreClassifier(policy="mixed_bfloat16", early_stopping=True, random_state=0)
    >>> pipeline = make_pipeline(MinMaxScaler(), classifier).fit(x[:1400], y[:1400])
    >>> pipeline.score(x[1400:], y[1400:]) > 0.85
    True
    >>> pipeline[-1].model_.save("digits.nacre")
    """

    _LAST = "Softmax"
    classes_: Array

    def partial_fit(self, X: object, y: object, classes: object = None) -> Self:  # noqa: N803
        """Trains once on these rows, from where the training is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as for `fit`.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like, optional
            All labels that will come. The first call needs them, unless `fit` was called.

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
            The first call lacks `classes`, a label is none of them, or the data are refused as by `fit`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import nacre
        >>> x, y = load_iris(return_X_y=True)
        >>> classifier = nacre.sklearn.NacreClassifier(random_state=0)
        >>> for first in range(0, 150, 50):
        ...     classifier = classifier.partial_fit(x[first : first + 50], y[first : first + 50], classes=[0, 1, 2])
        >>> classifier.n_iter_
        3
        """
        begins = not hasattr(self, "model_")
        if begins and classes is None:
            raise ValueError("the first call of partial_fit needs classes: all labels that will come")
        if classes is not None:
            known = np.unique(np.asarray(classes))
            if not begins and not np.array_equal(known, self.classes_):
                raise ValueError(f"classes are {known.tolist()}, and those before were {self.classes_.tolist()}")
            if begins:
                self.classes_ = known
        return self._go_on(X, y, begins)

    def predict(self, X: object) -> Array:  # noqa: N803
        """Returns the label with the highest probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels of `classes_`.

        Raises
        ------
        ValueError
            The rows are not valid, or have other features. scikit-learn's NotFittedError is one too.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import nacre
        >>> x, y = load_iris(return_X_y=True)
        >>> classifier = nacre.sklearn.NacreClassifier(random_state=0, learning_rate_init=0.01).fit(x, y)
        >>> classifier.predict(x[:3])
        array([0, 0, 0])
        """
        outputs = self._predicted(X)
        return np.asarray(self.classes_[outputs.argmax(axis=1)])

    def predict_proba(self, X: object) -> Array:  # noqa: N803
        """Returns the probability of each class: the network's output, behind a softmax unless it ends in one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`, in float32.

        Raises
        ------
        ValueError
            The rows are refused, as by `predict`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import nacre
        >>> x, y = load_iris(return_X_y=True)
        >>> classifier = nacre.sklearn.NacreClassifier(random_state=0, learning_rate_init=0.01).fit(x, y)
        >>> classifier.predict_proba(x[:2]).shape
        (2, 3)
        """
        outputs = self._predicted(X)
        if self._training.gives_probabilities:
            return outputs
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def _checked(self, X: object, y: object, begins: bool) -> tuple[Array, Array]:  # noqa: N803
        x, labels = validate_data(self, self._flat(X), y, dtype=np.float32, reset=begins)
        multiclass.check_classification_targets(labels)
        return x, labels

    def _learn(self, y: Array) -> None:
        self.classes_ = np.unique(y)

    def _targets(self, y: Array) -> Array:
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels that are none of classes_: {unknown.tolist()}")
        return np.searchsorted(self.classes_, y)

    def _outputs(self, targets: Array) -> int:
        return len(self.classes_)

    def _loss(self) -> str:
        return "softmax_cross_entropy"

    def _score_of(self, outputs: Array, targets: Array) -> float:
        return float(np.mean(outputs.argmax(axis=1) == targets.ravel()))


class NacreRegressor(base.RegressorMixin, Estimator):  # type: ignore[misc, unused-ignore]
    """A regressor of one or several numbers: a dense network that is made for the data, or yours, fine-tuned.

    Parameters
    ----------
    network : path, bytes, onnx.ModelProto, keras.Model or Model, optional
        Network to fine-tune, as for `NacreClassifier`. Its output has as many numbers for a row as y. A Model was
        converted with `train` as `loss` is.
    loss : str, default: "squared_error"
        Loss of the training: "squared_error", "absolute_error" or "huber".
    hidden_layer_sizes, activation, policy, optimizer, learning_rate_init, batch_size, max_iter, shuffle, random_state
        Parameters of `NacreClassifier`.
    tol, n_iter_no_change, early_stopping, validation_fraction, kernels, threads
        Parameters of `NacreClassifier`.

    Attributes
    ----------
    n_features_in_ : int
        Numbers in a row.
    feature_names_in_ : ndarray
        Names of the columns, if X has names that are texts.
    n_iter_ : int
        Epochs so far.
    loss_curve_ : list of float
        Mean loss of each epoch.
    validation_scores_ : list of float or None
        R2 on the validation rows after each epoch, with `early_stopping`.
    model_ : Model
        The trained network for inference, compiled for `batch_size` rows. `convert` makes the model for a device.

    Notes
    -----
    Targets are learned as they are: scale large ones, for example with scikit-learn's TransformedTargetRegressor. The
    notes of `NacreClassifier` are true here too.

    Examples
    --------
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import StandardScaler
    >>> import nacre
    >>> x, y = load_diabetes(return_X_y=True, scaled=True)
    >>> regressor = nacre.sklearn.NacreRegressor(max_iter=20, learning_rate_init=0.01, random_state=0, tol=0.01)
    >>> scaled = TransformedTargetRegressor(regressor, transformer=StandardScaler()).fit(x, y)
    >>> scaled.score(x, y) > 0.4
    True
    """

    def __init__(
        self,
        network: Network | Model | None = None,
        *,
        loss: str = "squared_error",
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
        super().__init__(
            network,
            hidden_layer_sizes=hidden_layer_sizes,
            activation=activation,
            policy=policy,
            optimizer=optimizer,
            learning_rate_init=learning_rate_init,
            batch_size=batch_size,
            max_iter=max_iter,
            shuffle=shuffle,
            random_state=random_state,
            tol=tol,
            n_iter_no_change=n_iter_no_change,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            kernels=kernels,
            threads=threads,
        )
        self.loss = loss

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def partial_fit(self, X: object, y: object) -> Self:  # noqa: N803
        """Trains once on these rows, from where the training is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as for `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.

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
            The data are refused as by `fit`, or y has another shape than before.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> import nacre
        >>> x, y = load_diabetes(return_X_y=True)
        >>> regressor = nacre.sklearn.NacreRegressor(random_state=0)
        >>> regressor.partial_fit(x[:200], y[:200] / 100).partial_fit(x[200:], y[200:] / 100).n_iter_
        2
        """
        return self._go_on(X, y, not hasattr(self, "model_"))

    def predict(self, X: object) -> Array:  # noqa: N803
        """Returns the network's numbers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Numbers shaped as y was: float32's values, in float64 as scikit-learn's.

        Raises
        ------
        ValueError
            The rows are not valid, or have other features. scikit-learn's NotFittedError is one too.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> import nacre
        >>> x, y = load_diabetes(return_X_y=True)
        >>> nacre.sklearn.NacreRegressor(max_iter=2, tol=100, n_iter_no_change=1).fit(x, y / 100).predict(x[:3]).shape
        (3,)
        """
        outputs = self._predicted(X)
        return outputs.reshape(len(outputs), *self._target_shape).astype(np.float64)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _checked.one_of("loss", self.loss, _LOSSES)

    def _checked(self, X: object, y: object, begins: bool) -> tuple[Array, Array]:  # noqa: N803
        options = {"multi_output": True, "y_numeric": True}
        x, targets = validate_data(self, self._flat(X), y, dtype=np.float32, reset=begins, **options)
        return x, targets

    def _loss(self) -> str:
        return self.loss

    def _score_of(self, outputs: Array, targets: Array) -> float:
        return float(r2_score(targets.reshape(outputs.shape), outputs))
