"""How the overlaps of a state with stored patterns add up: from the classical Hopfield network to attention."""

import abc
from math import inf
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.errors import InputError
from eqprop.types import Array, Scalar


class Separation(eqx.Module):
    """Q(z), a convex function of the overlaps z_μ = ξ_μ·s with all patterns of a `Memory`."""

    low: ClassVar[float] = -inf
    """The lower bound of units."""
    high: ClassVar[float] = inf
    """The upper bound of units."""

    @property
    def smooth(self) -> bool:
        """Whether Q has all derivatives."""
        return True

    @abc.abstractmethod
    def __call__(self, z: Array, units: int) -> Scalar:
        """Q, for a memory of `units` units."""


class Power(Separation):
    """Q(z) = N/n Σ_μ |z_μ/N|^n, with units in [−1, 1]: dense associative memory (Krotov & Hopfield 2016).

    n = 2 is the classical Hopfield network, which recalls up to 0.138 N random patterns of ±1. In general their number
    grows as N^{n−1}. Units in which the patterns are ±1 settle by `Flip`.
    """

    n: int = eqx.field(default=3, static=True)
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0

    def __check_init__(self) -> None:
        if not isinstance(self.n, int) or self.n < 2:
            raise InputError(f"n={self.n!r}: give a whole number, 2 (the classical network) or more")

    @property
    def smooth(self) -> bool:
        return self.n % 2 == 0

    def __call__(self, z: Array, units: int) -> Scalar:
        return units / self.n * jnp.sum(((z if self.smooth else jnp.abs(z)) / units) ** self.n)


class LogSumExp(Separation):
    """Q(z) = 1/b log Σ_μ exp(b z_μ), with units of any value: the modern Hopfield network (Ramsauer et al. 2020).

    A step s ← s − ∂E/∂s is attention, s ← Ξᵀ softmax(b Ξ s), and `Gradient(epsilon=1)` takes it. The larger the
    `sharpness` b, the fewer patterns a settled state is a mixture of. The number of patterns that can be told apart
    grows exponentially with N.
    """

    sharpness: float = 1.0

    def __check_init__(self) -> None:
        if not 0 < self.sharpness < inf:
            raise InputError(f"sharpness={self.sharpness!r}: give a positive number")

    def __call__(self, z: Array, units: int) -> Scalar:
        # `jax.nn.logsumexp` has no complex derivative; subtracting the largest is what keeps it finite.
        top = jax.lax.stop_gradient(jnp.max(jnp.real(self.sharpness * z)))
        return (jnp.log(jnp.sum(jnp.exp(self.sharpness * z - top))) + top) / self.sharpness
