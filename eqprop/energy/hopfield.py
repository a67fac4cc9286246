"""The continuous Hopfield model on any symmetric architecture (paper, section 2.1)."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from eqprop.energy.base import Blockwise, Energy, Interacting
from eqprop.energy.graph import Graph
from eqprop.state import Space
from eqprop.types import Array, Layers, Scalar, Theta


@dataclass(frozen=True, init=False, repr=False)
class Hopfield(Graph, Energy, Blockwise, Interacting):
    """Named layers joined by symmetric synapses.

        E(θ, x, s) = ½ Σ_i s_i² − Φ(ρ(x), ρ(s)),    Φ = ½ Σ_{i≠j} W_ij ρ(u_i) ρ(u_j) + Σ_i b_i ρ(u_i)

    where u = (x, s): the layer `clamped` holds the input x and never moves, all others form the state s, a
    dict with one array per layer. θ is {"W": {"pre-post": …}, "b": {layer: …}}. The constant ½ Σ x_i² and
    the inputs' biases, which no state can change, are left out. Mind that inputs act through ρ(x): the hard
    sigmoid hears nothing outside [0, 1], so scale them to it.

    Layered, skip-connected and fully connected networks differ in their list of `synapses` only: pairs of
    layer names, where a layer paired with itself has every pair of its own units connected, or objects of any
    `Synapse`. Layers may have any shape. The object holds no weights, is hashable, and is called as an energy.
    """

    def __call__(self, theta: Theta, x: Array, s: Layers) -> Scalar:
        self.check(theta, x, s)
        leak = sum(jnp.sum(u**2) for u in s.values()) / 2
        return leak - self.phi(theta, self.rates(x, s))

    @property
    def space(self) -> Space:
        """The layers that settle; their bounds are those of the activation."""
        return Space(self.shapes, self.activation.low, self.activation.high)

    def rest(self, batch: int) -> Layers:
        """The state s = 0 for `batch` examples."""
        return self.space.rest(batch)

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The layers one by one: the first sweep from rest is then a feed-forward pass."""
        return tuple((layer,) for layer in self.free)

    def curvature(self, theta: Theta, x: Array, s: Layers, block: tuple[str, ...]) -> dict[str, Array | float]:
        """For each layer of `block` a bound on ∂²E/∂s² while the other blocks stay put.

        Exactly 1 for the hard sigmoid without lateral synapses, where E is ½ s² − a s in a unit; in general
        1 + sup|ρ''| |a| with a the field ∂Φ/∂ρ. With lateral weights, whose absolute row sums are r, the
        field may change by 2 r on the way and Gershgorin's theorem adds sup|ρ'|² r.
        """
        rho = self.activation
        rates = self.rates(x, s)
        bounds: dict[str, Array | float] = {}
        for layer in block:
            r = self._coupling(theta, layer)
            bend: Array | float = 0.0
            if rho.bend:
                field = jax.grad(self.phi, argnums=1)(theta, rates)[layer]
                bend = rho.bend * (jnp.abs(field) + 2 * r)
            bounds[layer] = 1 + bend + rho.slope**2 * r
        return bounds

    def _coupling(self, theta: Theta, layer: str) -> Array | float:
        """Σ_j |∂²Φ/∂ρ_i∂ρ_j| over the units of one layer."""
        within = [syn for syn in self.synapses if syn.pre == syn.post == layer]
        rows = [jnp.reshape(syn.coupling(theta["W"][syn.name]), self.shapes[layer]) for syn in within]
        return sum(rows[1:], rows[0]) if rows else 0.0


ARCHITECTURES: dict[str, Callable[..., Hopfield]] = {
    "layered": Hopfield.layered,
    "skip": Hopfield.skip,
    "fully-connected": Hopfield.fully_connected,
}
