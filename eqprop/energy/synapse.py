"""Synapses: the symmetric connections between two layers, or among the units of one.

A synapse is the part of the interaction Φ that two layers share. What it sends to a layer is a derivative of Φ.
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod, sqrt

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.errors import InputError
from eqprop.types import Array, Key, Layers, Scalar, Shape


class Synapse(abc.ABC):
    """What a network asks of a synapse: a frozen dataclass, as it is part of compiled programs."""

    pre: str
    """The layer that it leads from."""
    post: str
    """The layer that it leads to; the same as `pre` for synapses within a layer."""

    shape: Shape
    """The shape of the weights W."""

    @property
    def name(self) -> str:
        """The weights of this synapse are `θ["W"][name]`."""
        return f"{self.pre}-{self.post}"

    @property
    def smooth(self) -> bool:
        """Whether Φ has all derivatives by the layers, as the holomorphic nudge needs."""
        return True

    @abc.abstractmethod
    def init(self, key: Key, gain: float) -> Array:
        """Fresh weights W."""

    @abc.abstractmethod
    def phi(self, w: Array, rho: Layers) -> Scalar:
        """Its part of Φ, given the firing rates of all layers."""

    def fit(self, shapes: dict[str, Shape]) -> None:
        """Refuse layers, of these shapes, that it does not fit; by default those that Φ makes no number of."""
        real = jnp.result_type(float)
        rates = {layer: jax.ShapeDtypeStruct(shapes[layer], real) for layer in (self.pre, self.post)}
        try:
            shape = jax.eval_shape(self.phi, jax.ShapeDtypeStruct(self.shape, real), rates).shape
        except (TypeError, ValueError) as error:
            raise InputError(f"synapse {self!r} does not fit the layers {shapes}: {error}") from error
        if shape != ():
            raise InputError(f"synapse {self!r} gives a Φ of shape {shape} instead of one number")

    def coupling(self, w: Array, rho: Layers, layer: str) -> Array | float:
        """How strongly the units of one of its layers feel each other, the other layer being given.

        A number c_i for each unit, such that diag(c) bounds the matrix ∂²Φ/∂ρ_i∂ρ_j of the layer from both sides. It
        is 0 where Φ is linear in each layer, as it is by default.
        """
        return 0.0

    @property
    def bilinear(self) -> bool:
        """Whether Φ is linear in each of its layers, so that what one hears does not depend on its own state."""
        return True

    def products(self, shapes: Mapping[str, Shape]) -> int:
        """The multiply-adds of one pass through it, in either direction, between layers of these shapes."""
        return prod(self.shape)

    def drive(self, w: Array, rho: Layers, layer: str) -> Array:
        """∂Φ/∂ρ of one of its two layers: what the synapse sends there."""
        smooth = jnp.iscomplexobj(rho[layer])
        return jax.grad(lambda rate: self.phi(w, rho | {layer: rate}), holomorphic=smooth)(rho[layer])


def glorot(key: Key, shape: Shape, fan_in: int, fan_out: int, gain: float) -> Array:
    """Glorot & Bengio's uniform initialisation: `gain` times ±√(6 / (fan_in + fan_out))."""
    limit = gain * sqrt(6 / (fan_in + fan_out))
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


@dataclass(frozen=True)
class Dense(Synapse):
    """Every unit of layer `pre` with every unit of layer `post`: Φ = Σ_ij W_ij ρ(u_i) ρ(u_j).

    Layers of any shape will do: W joins their units in the order in which `ravel` lists them.
    """

    pre: str
    post: str
    shape: tuple[int, int]

    def init(self, key: Key, gain: float) -> Array:
        return glorot(key, self.shape, *self.shape, gain)

    def fit(self, shapes: dict[str, Shape]) -> None:
        if (sizes := (prod(shapes[self.pre]), prod(shapes[self.post]))) != self.shape:
            raise InputError(f"synapse {self!r} does not fit its layers, which have {sizes} units: give it that shape")

    def phi(self, w: Array, rho: Layers) -> Scalar:
        return jnp.dot(jnp.ravel(rho[self.pre]) @ w, jnp.ravel(rho[self.post]))


@dataclass(frozen=True)
class Lateral(Synapse):
    """Every pair of units within one layer, none with itself: Φ = Σ_{i<j} W_ij ρ(u_i) ρ(u_j).

    Only the n(n−1)/2 weights above the diagonal exist, so symmetry holds by construction and each weight
    has the paper's gradient, −ρ(u_i) ρ(u_j).
    """

    layer: str
    size: int

    @property
    def pre(self) -> str:
        """The layer itself."""
        return self.layer

    @property
    def post(self) -> str:
        """The layer itself."""
        return self.layer

    @property
    def shape(self) -> Shape:
        """(n(n−1)/2,), the weights above the diagonal."""
        return (self.size * (self.size - 1) // 2,)

    def init(self, key: Key, gain: float) -> Array:
        return glorot(key, self.shape, self.size, self.size, gain)

    def fit(self, shapes: dict[str, Shape]) -> None:
        if (size := prod(shapes[self.layer])) != self.size:
            raise InputError(f"synapse {self!r} does not fit its layer, which has {size} units: give it that size")

    @property
    def bilinear(self) -> bool:
        return False

    def products(self, shapes: Mapping[str, Shape]) -> int:
        return self.size**2

    def phi(self, w: Array, rho: Layers) -> Scalar:
        rate = jnp.ravel(rho[self.layer])
        return jnp.dot(rate @ self.upper(w), rate)

    def coupling(self, w: Array, rho: Layers, layer: str) -> Array:
        """The absolute row sums of the symmetric matrix of the weights (Gershgorin)."""
        upper = jnp.abs(self.upper(w))
        return jnp.reshape(upper.sum(0) + upper.sum(1), rho[layer].shape)

    def upper(self, w: Array) -> Array:
        """The weights as the strictly upper triangle of a square matrix."""
        return jnp.zeros((self.size, self.size), w.dtype).at[np.triu_indices(self.size, k=1)].set(w)


def between(pre: str, post: str, sizes: dict[str, Shape]) -> Synapse:
    """The synapse of a pair of layers: all units with all others."""
    if pre == post:
        return Lateral(pre, prod(sizes[pre]))
    return Dense(pre, post, (prod(sizes[pre]), prod(sizes[post])))
