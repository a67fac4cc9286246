"""EqPropClassifier."""

from collections.abc import Sequence
from math import inf
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.utils import compute_sample_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from eqprop.errors import InputError
from eqprop.sklearn import auto
from eqprop.sklearn.boxed import Theta
from eqprop.sklearn.network import Network

# The target for the output of an example's class; −TARGET for the others. Both are inside the box, where outputs learn.
TARGET = 0.5
MOST_NAMED = 20  # classes in a message


class EqPropClassifier(ClassifierMixin, Network):
    """A classifier that settles: a Hopfield network, trained by Equilibrium Propagation.

    Its units are in [−1, 1] (`hard_tanh`). Features may have any units: they are standardised, and three standard
    deviations reach the ends of the box. Each class has an output, or two classes one, with the targets ±½. The cost is
    half the squared error, in which outputs beyond their targets, as 0.7 for ½, count 50/r for r training examples per
    feature, but at most 1.

    hidden_layer_sizes: units of each hidden layer; () for none.
    architecture: "layered", where each layer is joined to the next; "skip", where every layer is joined to the
        output as well; or "fully-connected", where every unit is joined to every other, with one hidden layer.
    beta: the strength of the symmetric nudge (β and −β), below 1. "auto": ½, and ½ √(50/r) from r = 50 on, but at
        least 0.1. In r, examples of earlier calls count, too.
    alpha: weight decay (AdamW's). "auto": 2.5/r, but at most 0.1.
    batch_size: examples in a minibatch. "auto": n/128 for n examples, rounded up to a power of two, at least
        32 and at most 128.
    learning_rate_init: Adam's learning rate; in `fit`, it falls linearly to 0 over `max_iter` epochs.
    max_iter: epochs at the most. "auto": 1,000,000/n for n examples, but at least 60 and at most 80.
    tol, n_iter_no_change: training ends when the loss has stayed within `tol` for `n_iter_no_change` epochs; with
        `early_stopping`, when the score on the examples held out has not risen by `tol` for as many.
    early_stopping, validation_fraction: hold out that part of the examples, and keep the weights that score best on it.
    warm_start: `fit` goes on with the weights that it found before.
    verbose: show a progress bar; without a terminal, a line per epoch.
    random_state: decides the first weights and the order of the examples.
    class_weight: {class: weight}, or "balanced" for weights inversely proportional to a class's number of examples.

    Fitting finds `classes_`, `theta_` (weights and biases, as `network_` has them), `mean_` and `scale_` of the
    features, `n_iter_`, `loss_curve_` (the mean cost of each epoch), `validation_scores_` with `early_stopping`,
    `temperature_`, and scikit-learn's `n_features_in_` and `feature_names_in_`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> EqPropClassifier(random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Network._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    classes_: np.ndarray
    _drive: ClassVar[float] = 0.7
    _found: ClassVar[dict[str, Any]] = Network._found | {"classes_": np.ndarray, "temperature_": float}

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (100,),
        *,
        architecture: str = "layered",
        beta: float | str = "auto",
        alpha: float | str = "auto",
        batch_size: int | str = "auto",
        learning_rate_init: float = 0.01,
        max_iter: int | str = "auto",
        tol: float = 1e-5,
        n_iter_no_change: int = 10,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        verbose: bool = False,
        random_state: Any = None,
        class_weight: Any = None,
    ):
        super().__init__(
            hidden_layer_sizes,
            architecture=architecture,
            beta=beta,
            alpha=alpha,
            batch_size=batch_size,
            learning_rate_init=learning_rate_init,
            max_iter=max_iter,
            tol=tol,
            n_iter_no_change=n_iter_no_change,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            warm_start=warm_start,
            verbose=verbose,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train for one epoch, at the rate `learning_rate_init`.

        The first call needs all `classes` that will occur, and decides the scale of the features.
        """
        fresh = not hasattr(self, "theta_")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all of y: give partial_fit a dict of weights, or sample_weight"
            )
        if fresh and (classes is None or len(np.unique(classes)) < 2):
            raise ValueError(f"classes={_plain(classes)}: the first call of partial_fit needs all, two or more")
        if fresh:
            self._announced = np.unique(classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            first = _plain(self.classes_)
            raise ValueError(f"classes={_plain(classes)} are not those of the first call, {first}: leave them out")
        try:
            return self._learn_part(X, y, sample_weight, fresh)
        finally:
            vars(self).pop("_announced", None)

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest output."""
        outputs = self._outputs(X)
        return self.classes_[self._scores(outputs).argmax(1)]

    def decision_function(self, X: Any) -> np.ndarray:
        """The outputs, a column for each class; for two classes the one output, positive for the second class."""
        outputs = self._outputs(X)
        return outputs[:, 0] if self.n_outputs_ == 1 else outputs

    def predict_proba(self, X: Any) -> np.ndarray:
        """softmax(outputs · temperature_), a column for each class; for two classes the outputs are −o and o.

        `temperature_` is chosen so that the examples held out by `early_stopping` are most likely. Without them it is
        chosen on the training examples, which the network knows, so that probabilities tend to be too near 0 and 1.
        After several calls of `partial_fit`, or of `fit` with `warm_start`, it is the geometric mean of theirs,
        weighted by their numbers of examples.
        """
        outputs = self._outputs(X)
        return softmax(self.temperature_ * self._scores(outputs), axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of `predict_proba`."""
        outputs = self._outputs(X)
        return log_softmax(self.temperature_ * self._scores(outputs), axis=1)

    def _checked(self, X: Any, y: Any, sample_weight: Any, fresh: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X, rows, weight = super()._checked(X, y, sample_weight, fresh)
        if self.class_weight is not None:
            weight = weight * compute_sample_weight(self.class_weight, self.classes_[self._codes(rows)])
            if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
                raise ValueError(f"class_weight={self.class_weight!r}: give weights of 0 or more, not all of them 0")
        return X, rows, weight

    def _encode(self, y: np.ndarray, fresh: bool) -> np.ndarray:
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        classes = getattr(self, "_announced", np.unique(y)) if fresh else self.classes_
        if len(classes) < 2:
            one = _plain(classes[0])
            raise ValueError(f"y has the one class {one}: a classifier needs examples of two classes or more")
        if len(unknown := np.setdiff1d(y, classes)):
            odd = _plain(unknown[0])
            raise ValueError(f"y has the class {odd}, which is not one of the classes {_plain(classes)}")
        self.classes_, self.n_outputs_ = classes, 1 if len(classes) == 2 else len(classes)
        codes = np.searchsorted(classes, y)
        return codes[:, None].astype(float) if self.n_outputs_ == 1 else np.eye(len(classes))[codes]

    def _codes(self, rows: np.ndarray) -> np.ndarray:
        """The number of each row's class."""
        return rows[:, 0].astype(int) if self.n_outputs_ == 1 else rows.argmax(1)

    def _aims(self, rows: np.ndarray) -> np.ndarray:
        return TARGET * (2 * rows - 1)

    def _excess(self, r: float) -> float:
        return auto.excess(r)

    def _scores(self, outputs: np.ndarray) -> np.ndarray:
        """A column for each class."""
        return np.hstack([-outputs, outputs]) if self.n_outputs_ == 1 else outputs

    def _goodness(self, theta: Theta, X: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> float:
        scores = self._scores(self._boxed.answer(theta, self._inputs(X)))
        return float(accuracy_score(self._codes(rows), scores.argmax(1), sample_weight=weight))

    def _split(self, rows: np.ndarray, Y: np.ndarray, rng: np.random.RandomState) -> Any:
        codes = self._codes(Y[rows])
        few = int(min(self.validation_fraction, 1 - self.validation_fraction) * len(rows)) < len(self.classes_)
        even = None if few or np.bincount(codes).min() < 2 else codes  # None where a part would lack a class
        return train_test_split(rows, test_size=self.validation_fraction, random_state=rng, stratify=even)

    def _finish(self, X: np.ndarray, rows: np.ndarray, share: float) -> None:
        """Find the temperature at which the examples are most likely; its logarithm is averaged over all examples seen.

        Each of n examples is taken to be of any class with probability 1/(n + 1). Without that, the temperature would
        be infinite where all are classified rightly.
        """
        scores, codes = self._scores(self._boxed.answer(self.theta_, self._inputs(X))), self._codes(rows)
        doubt = 1 / (len(codes) + 1)

        def surprise(log_temperature: float) -> float:
            logs = log_softmax(np.exp(log_temperature) * scores, axis=1)
            right = logs[np.arange(len(codes)), codes]
            return -float(np.mean((1 - doubt) * right + doubt * logs.mean(axis=1)))

        found: Any = minimize_scalar(surprise, bounds=(-3, 5), method="bounded")
        before = np.log(self.temperature_) if share < 1 else 0.0
        self.temperature_ = float(np.exp((1 - share) * before + share * found.x))

    def _check_found(self, path: str) -> None:
        super()._check_found(path)
        count, classes = max(2, self.n_outputs_), self.classes_
        if classes.shape != (count,) or len(set(classes.tolist())) != count or not 0 < self.temperature_ < inf:
            raise InputError(f"{path}: 'classes_' are not {count} classes, or the temperature is not positive")


def _plain(value: Any) -> str:
    """A class or classes in a message, without the names of NumPy's types."""
    plain = np.asarray(value).tolist()
    return f"{plain[:MOST_NAMED]!r}"[:-1] + ", …]" if np.size(value) > MOST_NAMED else repr(plain)
