"""Pooling: what a field of units is summed up to, window by window."""

import abc
from dataclasses import dataclass
from math import exp, log

import jax
import jax.numpy as jnp

from eqprop.errors import InputError
from eqprop.types import Array


@dataclass(frozen=True)
class Pooling(abc.ABC):
    """From a field of shape (height, width, channels) to one value for each `window` × `window` of every channel."""

    window: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.window, int) or self.window < 1:
            raise InputError(f"window={self.window!r}: give the side of the windows, a positive whole number")

    @property
    def smooth(self) -> bool:
        """Whether it has all derivatives, as the holomorphic nudge needs."""
        return True

    @property
    def bend(self) -> float:
        """A bound on |∂²pool/∂field²|, the norm of the matrix for one window; 0 where it is linear."""
        return 0.0

    def __call__(self, field: Array) -> Array:
        """The values of all windows."""
        return self.summed_up(self._windows(field))

    @abc.abstractmethod
    def summed_up(self, windows: Array) -> Array:
        """The value of each window; its pixels are axes 1 and 3."""

    def spread(self, pooled: Array) -> Array:
        """Each value at all pixels of its window."""
        return jnp.repeat(jnp.repeat(pooled, self.window, axis=0), self.window, axis=1)

    def size(self, side: int) -> int:
        """How many windows cover a side of this number of pixels; refused if they do not cover it."""
        if side % self.window:
            raise InputError(
                f"pooling windows of {self.window} pixels do not divide a side of {side}: "
                "take fewer layers, another kernel, padding or window, or pool=None and stride=2 (--pool none)"
            )
        return side // self.window

    def _windows(self, field: Array) -> Array:
        height, width, channels = field.shape
        p = self.window
        return field.reshape(self.size(height), p, self.size(width), p, channels)


@dataclass(frozen=True)
class MaxPool(Pooling):
    """The largest value of a window; of several that are equal, each counts as much.

    Which one it is, the switch, follows the state at every step. The largest of linear functions is convex. So where
    the layer above is not negative, −Φ is concave in the layer below: it lies below its tangent, and a step of block
    descent that minds the leak alone cannot raise the energy. Where a unit above is negative there is a kink that no
    parabola lies above; then nothing is promised.
    """

    @property
    def smooth(self) -> bool:
        return False

    def summed_up(self, windows: Array) -> Array:
        return windows.max((1, 3))


@dataclass(frozen=True)
class AveragePool(Pooling):
    """The mean of a window."""

    def summed_up(self, windows: Array) -> Array:
        return windows.mean((1, 3))


@dataclass(frozen=True)
class SoftmaxPool(Pooling):
    """Σ_i p_i f_i with p = softmax(f) over a window: near the largest value, but smooth, for the holomorphic nudge."""

    @property
    def bend(self) -> float:
        """1 + ½ log n for windows of n pixels.

        With g the value of the window, xᵀ ∂²g/∂f² x = Σ_i p_i (2 + f_i − g) (x_i − Σ_j p_j x_j)². Here f_i − g is
        log p_i plus the entropy of p, at most log n; and a variance is at most ½ ‖x‖². From below, p_i ≤ e^(f_i − g)
        gives −n e⁻³.
        """
        n = self.window**2
        return max(1 + log(n) / 2, n * exp(-3))

    def summed_up(self, windows: Array) -> Array:
        largest = jax.lax.stop_gradient(jnp.real(windows).max((1, 3), keepdims=True))  # keeps exp from overflowing
        e = jnp.exp(windows - largest)
        return (e * windows).sum((1, 3)) / e.sum((1, 3))


POOLINGS: dict[str, type[Pooling]] = {"max": MaxPool, "average": AveragePool, "softmax": SoftmaxPool}
