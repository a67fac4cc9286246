"""What the classifier and the regressor share: parameters, scaling, training, and a file to exchange."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from eqprop.energy import Hopfield
from eqprop.sklearn import files
from eqprop.sklearn.boxed import WIDTH, Boxed, Theta
from eqprop.sklearn.rows import drawn, in_order


class Network(BaseEstimator):
    """A subclass says what is to be learned: `_encode` makes rows of y, and `_aims` targets of rows."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hidden_layer_sizes": ["array-like", Interval(Integral, 1, None, closed="left")],
        "beta": [Interval(Real, 0, 1, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    # What fitting finds beside what scikit-learn finds itself.
    n_features_in_: int
    n_outputs_: int
    theta_: Theta
    mean_: np.ndarray
    scale_: np.ndarray
    loss_curve_: list[float]
    validation_scores_: list[float]

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (100,),
        *,
        beta: float = 0.5,
        alpha: float = 0.1,
        batch_size: int = 32,
        learning_rate_init: float = 0.005,
        max_iter: int = 100,
        tol: float = 1e-5,
        n_iter_no_change: int = 10,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        verbose: bool = False,
        random_state: Any = None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.beta = beta
        self.alpha = alpha
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    # ---- what a subclass says ----

    def _encode(self, y: np.ndarray, fresh: bool) -> np.ndarray:
        """A row for each y; if `fresh`, find out first what there is to be learned."""
        raise NotImplementedError

    def _aims(self, rows: np.ndarray) -> np.ndarray:
        """The targets of the outputs, within the box."""
        raise NotImplementedError

    def _goodness(self, theta: Theta, X: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> float:
        """The score of weights and biases, by which training stops early."""
        raise NotImplementedError

    def _scale(self, rows: np.ndarray) -> None:
        """Find out how targets are had of rows, given those of the training examples."""

    def _finish(self, X: np.ndarray, rows: np.ndarray) -> None:
        """What is left to do after training, given the examples held out, or those trained with if there are none."""

    # ---- fitting ----

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for `max_iter` epochs at the most, at a rate that falls to 0.

        A weight of 2 is the same as an example that is there twice, and one of 0 as one that is not there. Weights that
        are not whole are relative to each other.
        """
        fresh = not (self.warm_start and hasattr(self, "theta_"))
        return self._learn(*self._checked(X, y, sample_weight, fresh), fresh=fresh, epochs=self.max_iter)

    def _checked(self, X: Any, y: Any, sample_weight: Any, fresh: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features, rows of y and weights, as they ought to be."""
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, reset=fresh)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        rows = self._encode(y, fresh)
        if not fresh and self._wanted_sizes != self._sizes:
            raise ValueError(
                f"hidden_layer_sizes={self.hidden_layer_sizes!r}, but the network has the layers {self._sizes}: "
                "fit it anew, with warm_start=False"
            )
        return X, rows, weight

    def _learn(self, X: np.ndarray, Y: np.ndarray, weight: np.ndarray, *, fresh: bool, epochs: int) -> Self:
        rng = check_random_state(self.random_state)
        rows = in_order(X, Y)
        rows = rows[weight[rows] > 0]
        learned, held_out = self._split(rows, Y, rng) if self.early_stopping and epochs > 1 else (rows, rows[:0])
        usual = learned[drawn(weight[learned], 0.5)]
        if fresh:
            self._begin(X[usual], Y[usual], rng)

        def draw() -> np.ndarray:
            return learned[rng.permutation(drawn(weight[learned], rng.uniform()))]

        plan = ((self.learning_rate_init * (1 - k / epochs), draw()) for k in range(epochs))
        patience = Patience(self.tol, self.n_iter_no_change)
        with _shown(self.verbose) as show:
            for state, loss in self._course((self._inputs(X), self._aims(Y)), plan):
                if not math.isfinite(loss):
                    raise ValueError(f"learning_rate_init={self.learning_rate_init!r}: training diverged; lower it")
                theta, self._optimizer = self._boxed.cut(state.theta), state.optimizer
                score, figures = -loss, f"loss {loss:.5f}"
                if len(held_out):
                    score = self._goodness(theta, X[held_out], Y[held_out], weight[held_out])
                    self.validation_scores_.append(score)
                    figures += f"  validation score {score:.4f}"
                if not len(held_out) or score > patience.best:
                    self.theta_ = theta
                self.loss_curve_.append(loss)
                show(len(self.loss_curve_), self.n_iter_ + epochs, figures)
                if patience.ended(score):
                    break
        self.n_iter_ = len(self.loss_curve_)
        self._optimizer = jax.tree.map(np.asarray, self._optimizer)
        last = held_out if len(held_out) else usual
        self._finish(X[last], Y[last])
        return self

    def _course(self, v: tuple[np.ndarray, np.ndarray], plan: Iterator[Any]) -> Iterator[Any]:
        settings = {"beta": self.beta, "alpha": self.alpha, "batch_size": int(self.batch_size)}
        return self._boxed.course(self.theta_, self._optimizer, v, plan, **settings)

    def _begin(self, X: np.ndarray, Y: np.ndarray, rng: np.random.RandomState) -> None:
        """Scales and first weights, given the examples to learn from."""
        self.mean_, self.scale_ = X.mean(0), X.std(0)
        self.scale_[self.scale_ <= 1e-12 * np.abs(self.mean_)] = 1.0  # constant, but for rounding
        self._scale(Y)
        self._sizes = self._wanted_sizes
        self.theta_, self._optimizer = self._boxed.init(rng), None
        self.loss_curve_, self.validation_scores_, self.n_iter_ = [], [], 0

    @property
    def _wanted_sizes(self) -> tuple[int, ...]:
        asked: Any = self.hidden_layer_sizes
        hidden = (asked,) if isinstance(asked, Integral) else tuple(asked)
        if not all(isinstance(size, Integral) and int(size) > 0 for size in hidden):
            raise ValueError(f"hidden_layer_sizes={self.hidden_layer_sizes!r}: give positive whole numbers of units")
        return (self.n_features_in_, *map(int, hidden), self.n_outputs_)

    def _split(self, rows: np.ndarray, Y: np.ndarray, rng: np.random.RandomState) -> Any:
        """The rows to learn from, and those held out."""
        return train_test_split(rows, test_size=self.validation_fraction, random_state=rng)

    # ---- predicting ----

    @property
    def _boxed(self) -> Boxed:
        return Boxed(self._sizes)

    @property
    def network_(self) -> Hopfield:
        """The network, whose weights and biases are `theta_`."""
        check_is_fitted(self)
        return self._boxed.net

    def _inputs(self, X: np.ndarray) -> np.ndarray:
        return np.clip((X - self.mean_) / (WIDTH * self.scale_), -1, 1)

    def _outputs(self, X: Any) -> np.ndarray:
        """The outputs of the settled network, of features as they come."""
        check_is_fitted(self)
        features: Any = validate_data(self, X, dtype=np.float64, reset=False)
        return self._boxed.answer(self.theta_, self._inputs(features))

    # ---- files ----

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator into one safetensors file, to hand on: there is no code in it that could be run.

        Training can go on from it, though Adam's averages are not kept.
        """
        check_is_fitted(self)
        files.save(self, Path(path), left_out=("_optimizer",))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The estimator that was saved."""
        return files.load(cls, Path(path), added={"_optimizer": None})


@dataclass
class Patience:
    """Ends what has not become better by `tol` for so many `epochs`."""

    tol: float
    epochs: int
    best: float = -math.inf
    idle: int = 0

    def ended(self, score: float) -> bool:
        """Whether that was enough."""
        self.idle = 0 if score > self.best + self.tol else self.idle + 1
        self.best = max(self.best, score)
        return self.idle >= self.epochs


@contextmanager
def _shown(verbose: bool) -> Iterator[Callable[[int, int, str], None]]:
    """What hears of each epoch: a progress bar, or nothing."""
    if not verbose:
        yield lambda *_: None
        return
    from eqprop.progress import CountBar

    with CountBar("epoch") as bar:
        yield bar.update
