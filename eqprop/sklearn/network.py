"""What the classifier and the regressor share: parameters, scaling, training and files."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from eqprop.compile import keep_programs
from eqprop.data.cache import cache_folder
from eqprop.energy import ARCHITECTURES, Hopfield
from eqprop.errors import InputError, warn
from eqprop.memory import check_memory
from eqprop.sklearn import auto, files
from eqprop.sklearn.boxed import WIDTH, Boxed, Theta
from eqprop.sklearn.rows import drawn, in_order, room
from eqprop.tree import named

ENOUGH = 10_000  # examples, at most, from which probabilities are found: evenly spaced ones in sorted order
BEYOND = 1 / 8  # of later values may be clipped; of the first ones, by Chebyshev's inequality, at most 1/9 are
RECENT = 32  # examples over which the share of clipped values is averaged, where calls bring fewer
TRIED = 10  # epochs, at least, before training is said to have found nothing
FALLEN = 0.7  # of the first loss is left, at most, where training is slow and not lost


class Network(BaseEstimator):
    """A subclass says what is learned: `_encode` turns y into rows, and `_aims` turns rows into targets."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hidden_layer_sizes": ["array-like", Interval(Integral, 1, None, closed="left")],
        "architecture": [StrOptions(set(ARCHITECTURES))],
        "beta": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="neither")],
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    # What fitting finds: what a file of a fitted estimator must have, and what it may have, by type.
    _found: ClassVar[dict[str, Any]] = {
        **dict.fromkeys(("n_features_in_", "n_outputs_", "n_iter_", "_seen"), int),
        **dict.fromkeys(("loss_curve_", "validation_scores_"), list[float]),
        **dict.fromkeys(("mean_", "scale_"), np.ndarray),
        "_sizes": tuple[int, ...],
        "theta_": dict[str, dict[str, np.ndarray]],
    }
    _maybe_found: ClassVar[dict[str, Any]] = {"_architecture": str, "feature_names_in_": np.ndarray}
    n_features_in_: int
    n_outputs_: int
    theta_: Theta
    mean_: np.ndarray
    scale_: np.ndarray
    loss_curve_: list[float]
    validation_scores_: list[float]
    _drive: ClassVar[float]  # see `Boxed.init`
    _architecture: str = "layered"  # of the network that was fitted; older files lack it
    _clipped: tuple[float, ...] | None = (0.0, 0.0)  # of recent features and targets; None: it was told

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
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.architecture = architecture
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
        """A row for each y. If `fresh`, the classes or the number of targets are found first."""
        raise NotImplementedError

    def _aims(self, rows: np.ndarray) -> np.ndarray:
        """The targets of the outputs for these rows, within the box."""
        raise NotImplementedError

    def _excess(self, r: float) -> float:
        """What the squared error of an output beyond its target counts, for r examples per feature."""
        return 1.0

    def _goodness(self, theta: Theta, X: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> float:
        """The score of weights and biases θ on examples, for early stopping."""
        raise NotImplementedError

    def _scale(self, rows: np.ndarray, all_rows: np.ndarray) -> None:
        """Decide how rows are scaled, given the rows of examples as they are drawn, and of all that may be drawn."""

    def _rescale(self, rows: np.ndarray, all_rows: np.ndarray) -> None:
        """Decide, from rows of a later call, what those of earlier calls left open."""

    def _beyond(self, rows: np.ndarray) -> float:
        """The share of targets that are clipped."""
        return 0.0

    def _finish(self, X: np.ndarray, rows: np.ndarray, share: float) -> None:
        """What is done after training, with the examples held out, or the training examples if there are none.

        `share` is the part that this call has in all examples that were learned from, in earlier calls too.
        """

    # ---- fitting ----

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for `max_iter` epochs at the most, at a rate that falls to 0.

        An example of weight 2 counts as two examples, and one of weight 0 is left out. Weights that are not whole
        numbers, or are more than ten on average, are relative to each other.
        """
        fresh = not (self.warm_start and hasattr(self, "theta_"))
        examples = self._checked(X, y, sample_weight, fresh)
        return self._learn(*examples, fresh=fresh, hold_out=self.early_stopping)

    def _learn_part(self, X: Any, y: Any, sample_weight: Any, fresh: bool) -> Self:
        """One epoch, as `partial_fit` has it."""
        if self.early_stopping:
            raise ValueError(
                "early_stopping=True: partial_fit learns from all that it is given, and holds nothing out: "
                "set early_stopping=False, or call fit with warm_start=True"
            )
        return self._learn(*self._checked(X, y, sample_weight, fresh), fresh=fresh, epochs=1)

    def _checked(self, X: Any, y: Any, sample_weight: Any, fresh: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features, rows of y and weights, checked and converted."""
        self._validate_params()
        hidden = self._hidden  # refuses wrong sizes before anything changes
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, reset=fresh)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weight.any():  # newer versions of scikit-learn refuse it themselves
            raise ValueError("sample_weight is 0 for all examples: give at least one non-zero weight")
        rows = self._encode(y, fresh)
        if not fresh and hidden != self._sizes[1:-1]:
            raise ValueError(
                f"hidden_layer_sizes={self.hidden_layer_sizes!r}, but the network has the layers {self._sizes}: "
                "fit it anew, with warm_start=False"
            )
        if not fresh and self.architecture != self._architecture:
            raise ValueError(
                f"architecture={self.architecture!r}, but the network is {self._architecture}: "
                "fit it anew, with warm_start=False"
            )
        return X, rows, weight

    def _learn(
        self,
        X: np.ndarray,
        Y: np.ndarray,
        weight: np.ndarray,
        *,
        fresh: bool,
        epochs: int | None = None,
        hold_out: bool = False,
    ) -> Self:
        """Train for `max_iter` epochs, or the number that is given; `hold_out` keeps some examples for scoring."""
        keep_programs(cache_folder("programs"))  # else each worker of n_jobs would compile all of them
        rng = check_random_state(self.random_state)
        rows = in_order(X, Y)
        rows = rows[weight[rows] > 0]
        learned, held_out = self._split(rows, Y, rng) if hold_out else (rows, rows[:0])
        usual = learned[drawn(weight[learned], 0.5)]
        if fresh:
            self._begin(X[usual], Y[usual], Y[learned], rng)
        else:
            self._rescale(Y[usual], Y[learned])
            self._tell_of_clipped(X[usual], Y[usual])
        n, seen = len(usual), self._seen + len(usual)
        epochs = int(epochs or auto.chosen(self.max_iter, auto.epochs, n))
        each = seen / self.n_features_in_
        settings = {
            "beta": auto.chosen(self.beta, auto.nudge, each),
            "alpha": auto.chosen(self.alpha, auto.decay, each),
            "excess": self._excess(each),
            "batch_size": min(int(auto.chosen(self.batch_size, auto.minibatch, n)), room(n)),
        }

        def draw() -> np.ndarray:
            return learned[rng.permutation(drawn(weight[learned], rng.uniform()))]

        plan = ((self.learning_rate_init * (1 - k / epochs), draw()) for k in range(epochs))
        validation = X[held_out], Y[held_out], weight[held_out]
        patience = Patience(self.tol, self.n_iter_no_change)
        if hold_out and not fresh:
            patience.best = self._goodness(self.theta_, *validation)
        v = self._inputs(X), self._aims(Y)
        with _shown(self.verbose) as show:
            for state, loss in self._boxed.course(self.theta_, self._optimizer, v, plan, **settings):
                theta = self._boxed.cut(state.theta)
                if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((loss, theta))):
                    raise ValueError(
                        f"learning_rate_init={self.learning_rate_init!r}, alpha={settings['alpha']!r}: training "
                        "diverged; lower them"
                    )
                score, figures = -loss, f"loss {loss:.5f}"
                if hold_out:
                    score = self._goodness(theta, *validation)
                    self.validation_scores_.append(score)
                    figures += f"  validation score {score:.4f}"
                if not hold_out or score > patience.best:
                    self.theta_, self._optimizer = theta, state.optimizer
                self.loss_curve_.append(loss)
                show(len(self.loss_curve_), self.n_iter_ + epochs, figures)
                if patience.ended(score) if hold_out else self._still(len(self.loss_curve_) - self.n_iter_):
                    break
        losses, self.n_iter_ = self.loss_curve_[self.n_iter_ :], len(self.loss_curve_)
        self._optimizer = jax.tree.map(np.asarray, self._optimizer)
        last = held_out[drawn(weight[held_out], 0.5)] if hold_out else usual
        last = last[:: -(-len(last) // ENOUGH)]
        self._finish(X[last], Y[last], n / seen)
        self._seen = seen
        self._tell_of_chance(losses, v[1][usual], hold_out)
        return self

    def _still(self, epochs: int) -> bool:
        """Whether the loss has stood still in the last of the `epochs` that were trained.

        That it has not improved is not enough: at a high rate it goes up and down, and falls when the rate does.
        """
        count = self.n_iter_no_change + 1
        return epochs >= count and float(np.ptp(self.loss_curve_[-count:])) < self.tol

    def _tell_of_chance(self, losses: list[float], aims: np.ndarray, hold_out: bool) -> None:
        """Warn if the loss has hardly fallen, and costs far more than one answer for all, the mean of their targets.

        At a high rate units get stuck at the ends of their box. With examples held out, training may end while the
        loss still falls slowly: then it must not have fallen at all.
        """
        last, guess = float(np.mean(losses[-max(1, len(losses) // 10) :])), float(aims.var(0).sum()) / 2
        left = losses[0] * (1.0 if hold_out else FALLEN)
        if len(losses) >= TRIED and guess > 0 and last > max(2 * guess, left):
            warn(
                f"learning_rate_init={self.learning_rate_init!r}: the loss ended at {last:.2g}, and the mean of the "
                f"targets for every example would cost {guess:.2g}. Try another rate (0.01 is usual), or raise "
                "max_iter if loss_curve_ still falls",
                ConvergenceWarning,
            )

    def _tell_of_clipped(self, X: np.ndarray, Y: np.ndarray) -> None:
        """Warn, once, if many values of later calls are beyond the scales that the first call decided."""
        if (before := self._clipped) is None:
            return
        new = min(1.0, len(X) / RECENT)
        here = float(np.mean(np.abs(self._scaled(X)) > 1)), self._beyond(Y)
        self._clipped = shares = tuple(old + new * (now - old) for old, now in zip(before, here, strict=True))
        for name, share in zip("Xy", shares, strict=True):
            if share > BEYOND:
                self._clipped = None
                warn(
                    f"{name}: {share:.0%} of the recent values are beyond the scale that the first call decided, and "
                    "count as its ends: begin with a large, shuffled batch, or fit anew on all examples",
                )
                return

    def _begin(self, X: np.ndarray, Y: np.ndarray, all_rows: np.ndarray, rng: np.random.RandomState) -> None:
        """Find scales and first weights, from examples as they are drawn and the rows of all that may be drawn."""
        with np.errstate(over="ignore"):
            self.mean_, self.scale_ = X.mean(0), X.std(0)
        if not np.isfinite(self.scale_).all():
            raise ValueError("X has values too large for their variance to be a number: divide them")
        self.scale_[self.scale_ <= 1e-12 * np.abs(self.mean_)] = 1.0  # constant up to rounding
        self._scale(Y, all_rows)
        self._sizes = (self.n_features_in_, *self._hidden, self.n_outputs_)
        self._architecture = self.architecture
        self.theta_, self._optimizer = self._boxed.init(rng, self._drive), None
        self.loss_curve_, self.validation_scores_, self.n_iter_, self._seen = [], [], 0, 0
        self._clipped = (0.0, 0.0)

    @property
    def _hidden(self) -> tuple[int, ...]:
        asked: Any = self.hidden_layer_sizes
        hidden = np.atleast_1d(asked).tolist()
        if not all(type(size) is int and size > 0 for size in hidden):
            raise ValueError(f"hidden_layer_sizes={asked!r}: give positive whole numbers of units")
        if self.architecture == "fully-connected" and len(hidden) != 1:
            raise ValueError(
                f"hidden_layer_sizes={asked!r} with architecture='fully-connected', where all units are joined and "
                "hidden ones are one layer: give one number of units"
            )
        return tuple(hidden)

    def _split(self, rows: np.ndarray, Y: np.ndarray, rng: np.random.RandomState) -> Any:
        """The rows to learn from, and those held out."""
        return train_test_split(rows, test_size=self.validation_fraction, random_state=rng)

    # ---- predicting ----

    @property
    def _boxed(self) -> Boxed:
        return Boxed(self._sizes, self._architecture)

    @property
    def network_(self) -> Hopfield:
        """The network, whose weights and biases are `theta_`."""
        check_is_fitted(self)
        return self._boxed.net

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return (X - self.mean_) / (WIDTH * self.scale_)

    def _inputs(self, X: np.ndarray) -> np.ndarray:
        return np.clip(self._scaled(X), -1, 1)

    def _outputs(self, X: Any) -> np.ndarray:
        """The outputs of the settled network, for features that are not scaled yet."""
        check_is_fitted(self)
        features: Any = validate_data(self, X, dtype=np.float64, reset=False)
        return self._boxed.answer(self.theta_, self._inputs(features))

    # ---- files ----

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator into one safetensors file, which is safe to share: it contains no code.

        Training can go on from it, but Adam's averages are not kept.
        """
        check_is_fitted(self)
        files.save(self, Path(path), left_out=("_optimizer", "_clipped"))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The estimator that was saved."""
        estimator = files.load(cls, Path(path), {"_optimizer": None}, cls._found, cls._maybe_found)
        estimator._check_found(str(path))
        return estimator

    def _check_found(self, path: str) -> None:
        """Refuse what no fitting leads to, before it fails elsewhere; a subclass adds what it finds itself."""
        sizes, ends = self._sizes, (self.n_features_in_, self.n_outputs_)
        if len(sizes) < 2 or min(sizes) < 1 or ends != (sizes[0], sizes[-1]) or self._architecture not in ARCHITECTURES:
            raise InputError(f"{path} holds a network {self._architecture!r} of {sizes} for {ends} ends: save it again")
        check_memory(sum(8 * a * b for a, b in combinations(sizes, 2)), f"the network in {path}", "make a smaller one")
        try:
            net = self._boxed.net
        except InputError as error:
            raise InputError(f"{path} holds no network: {error}") from error
        wanted = {f"theta_/W/{synapse.name}": synapse.shape for synapse in net.synapses}
        wanted |= {f"theta_/b/{layer}": (size,) for layer, size in net.free.items()} | self._shapes()
        arrays = named({name: vars(self)[name] for name in {name.split("/")[0] for name in wanted}})
        if odd := sorted(wanted.keys() ^ arrays.keys()):
            raise InputError(f"{path} holds another network than it says: look at {odd[0]!r}, and save it again")
        for name, array in arrays.items():
            if array.shape != wanted[name] or array.dtype.kind != "f" or not np.isfinite(array).all():
                raise InputError(
                    f"{path}: {name!r} has the type {array.dtype} and the shape {array.shape}, or is not finite, and "
                    f"ought to be finite numbers of the shape {wanted[name]}: save the estimator again"
                )

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays that fitting finds beside θ."""
        return dict.fromkeys(("mean_", "scale_"), (self.n_features_in_,))


@dataclass
class Patience:
    """Ends training when the score has not improved by `tol` for `epochs` epochs."""

    tol: float
    epochs: int
    best: float = -math.inf
    idle: int = 0

    def ended(self, score: float) -> bool:
        """Whether training ends with this score of another epoch."""
        self.idle = 0 if score > self.best + self.tol else self.idle + 1
        self.best = max(self.best, score)
        return self.idle >= self.epochs


@contextmanager
def _shown(verbose: bool) -> Iterator[Callable[[int, int, str], None]]:
    """A function that shows each epoch in a progress bar, or does nothing."""
    if not verbose:
        yield lambda *_: None
        return
    from eqprop.progress import CountBar

    with CountBar("epoch") as bar:
        yield bar.update
