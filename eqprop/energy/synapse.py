"""Synapses: the symmetric connections between two layers, or among the units of one.

A synapse is the part of the interaction Φ that two layers share. It is linear in either of them, so the
field it exerts on a layer is a derivative of it, in one product.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


class Synapse(Protocol):
    """What a network asks of a synapse."""

    @property
    def pre(self) -> str: ...

    @property
    def post(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the weights W."""
        ...

    def init(self, key: Array, gain: float) -> Array:
        """Fresh weights W."""
        ...

    def phi(self, w: Array, rho: dict[str, Array]) -> Array:
        """Φ, given the firing rates of all layers."""
        ...


def name(synapse: Synapse) -> str:
    return f"{synapse.pre}-{synapse.post}"


def drive(synapse: Synapse, w: Array, rho: dict[str, Array], layer: str) -> Array:
    """∂Φ/∂ρ of one of its two layers: what the synapse sends there."""
    return jax.grad(lambda rate: synapse.phi(w, rho | {layer: rate}))(rho[layer])


def glorot(key: Array, shape: tuple[int, ...], fan_in: int, fan_out: int, gain: float) -> Array:
    """Glorot & Bengio's uniform initialisation: `gain` times ±√(6 / (fan_in + fan_out))."""
    limit = gain * sqrt(6 / (fan_in + fan_out))
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


@dataclass(frozen=True)
class Dense:
    """Every unit of layer `pre` with every unit of layer `post`: Φ = Σ_ij W_ij ρ(u_i) ρ(u_j)."""

    pre: str
    post: str
    shape: tuple[int, int]

    def init(self, key: Array, gain: float) -> Array:
        return glorot(key, self.shape, *self.shape, gain)

    def phi(self, w: Array, rho: dict[str, Array]) -> Array:
        return jnp.dot(rho[self.pre] @ w, rho[self.post])


@dataclass(frozen=True)
class Lateral:
    """Every pair of units within one layer, none with itself: Φ = Σ_{i<j} W_ij ρ(u_i) ρ(u_j).

    Only the n(n−1)/2 weights above the diagonal exist, so symmetry holds by construction and each weight
    has the paper's gradient, −ρ(u_i) ρ(u_j).
    """

    layer: str
    size: int

    @property
    def pre(self) -> str:
        return self.layer

    @property
    def post(self) -> str:
        return self.layer

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size * (self.size - 1) // 2,)

    def init(self, key: Array, gain: float) -> Array:
        return glorot(key, self.shape, self.size, self.size, gain)

    def phi(self, w: Array, rho: dict[str, Array]) -> Array:
        return jnp.dot(rho[self.layer] @ self.upper(w), rho[self.layer])

    def upper(self, w: Array) -> Array:
        """The weights as the strictly upper triangle of a square matrix."""
        return jnp.zeros((self.size, self.size), w.dtype).at[np.triu_indices(self.size, k=1)].set(w)
