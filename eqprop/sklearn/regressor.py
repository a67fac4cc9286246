"""EqPropRegressor."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import column_or_1d

from eqprop.sklearn.boxed import Theta
from eqprop.sklearn.network import Network

REACH = 4.0  # standard deviations of a target that reach the ends of the box, unless an example is farther off


class EqPropRegressor(RegressorMixin, Network):
    """A regressor that settles: a Hopfield network, trained by Equilibrium Propagation.

    Its units are in [−1, 1] (`hard_tanh`), and each target has an output. Features are standardised, and three standard
    deviations reach the ends of the box. Four standard deviations of a target reach them, or more if a training example
    is farther off. Predictions do not go beyond these ends.

    The parameters are those of `EqPropClassifier` without `class_weight`. The score of `early_stopping` is R².

    Fitting finds `theta_` (weights and biases, as `network_` has them), `mean_` and `scale_` of the features,
    `target_mean_` and `target_scale_`, `n_iter_`, `loss_curve_` (the mean cost ½‖output − target‖² of each epoch, in
    the units of the box), `validation_scores_` with `early_stopping`, and scikit-learn's `n_features_in_` and
    `feature_names_in_`.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> EqPropRegressor(random_state=0).fit(X, y).score(X, y) > 0.5
    True
    """

    target_mean_: np.ndarray
    target_scale_: np.ndarray
    _drive: ClassVar[float] = 0.4  # less than for classes: numbers are smoother in the features
    _found: ClassVar[dict[str, Any]] = Network._found | dict.fromkeys(("target_mean_", "target_scale_"), np.ndarray)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one epoch, at the rate `learning_rate_init`; the first call decides the scales.

        The scale of a target is left open until it varies.
        """
        fresh = not hasattr(self, "theta_")
        return self._learn_part(X, y, sample_weight, fresh)

    def predict(self, X: Any) -> np.ndarray:
        """The predicted targets: a row for each example, or a number if there is one target."""
        found = self._unscaled(self._outputs(X))
        return found[:, 0] if self.n_outputs_ == 1 else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _encode(self, y: np.ndarray, fresh: bool) -> np.ndarray:
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        rows = np.asarray(y, float).reshape(len(y), -1)
        if fresh:
            self.n_outputs_ = rows.shape[1]
        elif rows.shape[1] != self.n_outputs_:
            raise ValueError(f"y has {rows.shape[1]} targets for an example, and the network {self.n_outputs_} outputs")
        return rows

    def _split(self, rows: np.ndarray, Y: np.ndarray, rng: np.random.RandomState) -> Any:
        learned, held_out = super()._split(rows, Y, rng)
        if len(held_out) < 2:
            raise ValueError(
                f"validation_fraction={self.validation_fraction!r} of {len(rows)} examples holds out "
                f"{len(held_out)}, and R² needs two: raise it, or set early_stopping=False"
            )
        return learned, held_out

    def _scale(self, rows: np.ndarray, all_rows: np.ndarray) -> None:
        self.target_mean_, self.target_scale_ = _scales(rows, all_rows)

    def _rescale(self, rows: np.ndarray, all_rows: np.ndarray) -> None:
        still = self.target_scale_ == 0  # targets that have had one value so far, which is their mean
        if still.any():
            found = _scales(*(np.vstack([self.target_mean_, part]) for part in (rows, all_rows)))
            before = self.target_mean_, self.target_scale_
            self.target_mean_, self.target_scale_ = (np.where(still, *two) for two in zip(found, before, strict=True))

    def _beyond(self, rows: np.ndarray) -> float:
        return float(np.mean(np.abs(self._unclipped(rows)) > 1))

    def _unclipped(self, rows: np.ndarray) -> np.ndarray:
        return (rows - self.target_mean_) / np.where(self.target_scale_ > 0, self.target_scale_, np.inf)

    def _aims(self, rows: np.ndarray) -> np.ndarray:
        return np.clip(self._unclipped(rows), -1, 1)

    def _unscaled(self, outputs: np.ndarray) -> np.ndarray:
        return outputs * self.target_scale_ + self.target_mean_

    def _goodness(self, theta: Theta, X: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> float:
        found = self._unscaled(self._boxed.answer(theta, self._inputs(X)))
        return float(r2_score(rows, found, sample_weight=weight))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return super()._shapes() | dict.fromkeys(("target_mean_", "target_scale_"), (self.n_outputs_,))


def _scales(rows: np.ndarray, all_rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The middle of each target, and how far the ends of the box are from it: 0 for a target that is constant."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = rows.mean(0), rows.std(0)
        farthest = np.abs(all_rows - mean).max(0)
        scale = np.maximum(REACH * spread, 1.25 * farthest)
    if not np.isfinite(scale).all():
        raise ValueError("y has values too large for their variance to be a number: divide them")
    scale[scale <= REACH * 1e-12 * np.abs(mean)] = 0.0  # constant up to rounding
    return mean, scale
