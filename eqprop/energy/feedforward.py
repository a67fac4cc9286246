"""The feed-forward network of the same layers: what backpropagation trains."""

from math import inf

import equinox as eqx
import jax.numpy as jnp

from eqprop.energy.base import Predictive
from eqprop.energy.variant import Variant
from eqprop.state import Space
from eqprop.types import Array, Layers, Scalar, Theta


class Feedforward(Variant, Predictive):
    """s_k = ρ(Σ_{j<k} s_j W_jk + b_k), without ρ in a `linear` last layer;    E(θ, x, s) = ½ Σ_k ‖s_k − ρ(…)‖².

    The forward pass is where E has its minimum, 0. So it is the free fixed point of an energy like the others, that of
    predictive coding (Whittington & Bogacz 2017), which `forward` finds at once. `ErrorDescent` settles it when it is
    nudged. As s⁰ is the forward pass, Theorem 1 says that Equilibrium Propagation tends to the gradient of
    backpropagation as β → 0, whatever the error of the outputs.
    """

    linear: bool = eqx.field(default=True, static=True)
    """Whether the last layer is without ρ, as outputs are; layers that a readout reads have it."""

    def __check_init__(self) -> None:
        self.net.require_forward()

    @property
    def heard(self) -> tuple[float, float]:
        """Any: ρ does not act on inputs."""
        return -inf, inf

    @property
    def space(self) -> Space:
        """Without bounds: states take any value."""
        return Space(self.net.shapes)

    def __call__(self, theta: Theta, x: Array, s: Layers) -> Scalar:
        self.net.check(theta, x, s)
        return jnp.sum(jnp.stack([jnp.sum(e**2) for e in self.errors(theta, x, s).values()])) / 2

    def errors(self, theta: Theta, x: Array, s: Layers) -> Layers:
        """e_k = s_k − ρ(…)."""
        return {layer: u - self._predicted(theta, x, s, layer) for layer, u in s.items()}

    def forward(self, theta: Theta, x: Array) -> Layers:
        """The forward pass of one example."""
        return self.erring(theta, x, {})

    def erring(self, theta: Theta, x: Array, errors: Layers) -> Layers:
        """The forward pass with errors: s_k = ρ(…) + e_k; a layer that is not named has none."""
        s: Layers = {}
        for layer in self.free:
            predicted = self._predicted(theta, x, s, layer)
            s[layer] = predicted + errors[layer] if layer in errors else predicted
        return s

    def _predicted(self, theta: Theta, x: Array, s: Layers, layer: str) -> Array:
        """What the layers before a layer predict of it."""
        rates = s | self.net.inputs(x) | {layer: jnp.zeros(self.net.shapes[layer], theta["b"][layer].dtype)}
        fields = [syn.drive(theta["W"][syn.name], rates, layer) for syn in self.net.synapses if syn.post == layer]
        field = sum(fields, start=theta["b"][layer])
        return field if self.linear and layer == [*self.free][-1] else self.net.rho[layer](field)
