"""Synapses whose weights take two values: real ones are remembered behind them (Laydevant et al. 2021)."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from eqprop.energy.hopfield import Hopfield
from eqprop.energy.synapse import Synapse
from eqprop.types import Array, Key, Layers, Scalar, Shape


@dataclass(frozen=True)
class Binarised(Synapse):
    """Another synapse with the weights ±α in place of its own: α sign(W), α the mean of |W| over the synapse.

    The network settles by two values and one number α (Rastegari et al. 2016), of all matrices of that form the one
    nearest to W. What learns are the latent weights W behind them: the derivative by α sign(W) counts as that by W
    ("straight through", Courbariaux et al. 2015). Laydevant et al. (2021) trained such networks by Equilibrium
    Propagation; their optimizer had thresholds for flips in place of latent weights. Biases stay real.
    """

    of: Synapse

    @property
    def pre(self) -> str:
        """As of the other synapse."""
        return self.of.pre

    @property
    def post(self) -> str:
        """As of the other synapse."""
        return self.of.post

    @property
    def shape(self) -> Shape:
        """That of the latent weights."""
        return self.of.shape

    @property
    def smooth(self) -> bool:
        return self.of.smooth

    @property
    def bilinear(self) -> bool:
        return self.of.bilinear

    def init(self, key: Key, gain: float) -> Array:
        return self.of.init(key, gain)

    def fit(self, shapes: dict[str, Shape]) -> None:
        self.of.fit(shapes)

    def phi(self, w: Array, rho: Layers) -> Scalar:
        return self.of.phi(two_valued(w), rho)

    def coupling(self, w: Array, rho: Layers, layer: str) -> Array | float:
        return self.of.coupling(two_valued(w), rho, layer)

    def products(self, shapes: Mapping[str, Shape]) -> int:
        return self.of.products(shapes)

    def drive(self, w: Array, rho: Layers, layer: str) -> Array:
        return self.of.drive(two_valued(w), rho, layer)


def two_valued(w: Array) -> Array:
    """α sign(W) with α = mean |W|, and the derivative of W itself; the sign of 0 counts as +.

    >>> two_valued(jnp.array([0.5, -1.0, 0.0])).tolist(), jax.grad(lambda w: two_valued(w)[0])(jnp.ones(2)).tolist()
    ([0.5, -0.5, 0.5], [1.0, 0.0])
    """
    values = jnp.mean(jnp.abs(w)) * jnp.where(w < 0, -1, 1)
    return w + jax.lax.stop_gradient(values.astype(w.dtype) - w)


def binarised(net: Hopfield) -> Hopfield:
    """The same layers, with every synapse `Binarised`.

    >>> binarised(Hopfield.layered(64, 100, 10)).synapses[0].of.shape
    (64, 100)
    """
    synapses = [Binarised(synapse) for synapse in net.synapses]
    return Hopfield(dict(net.layers), synapses, clamped=net.clamped, activation=net.rho)
