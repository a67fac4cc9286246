"""The feed-forward network of the same layers: what backpropagation trains."""

from math import inf

import equinox as eqx
import jax.numpy as jnp

from eqprop.energy.base import ForwardPass
from eqprop.energy.variant import Variant
from eqprop.state import Space
from eqprop.types import Array, Layers, Scalar, Theta


class Feedforward(Variant, ForwardPass):
    """s_k = ρ(Σ_{j<k} s_j W_jk + b_k), without ρ in a `linear` last layer;    E(θ, x, s) = ½ Σ_k ‖s_k − ρ(…)‖².

    The forward pass is where E has its minimum, 0. So it is the free fixed point of an energy like the others, that of
    predictive coding, which `forward` finds at once.
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
        off = [jnp.sum((u - self._asked(theta, x, s, layer)) ** 2) for layer, u in s.items()]
        return jnp.sum(jnp.stack(off)) / 2

    def forward(self, theta: Theta, x: Array) -> Layers:
        """The forward pass of one example."""
        s: Layers = {}
        for layer in self.free:
            s[layer] = self._asked(theta, x, s, layer)
        return s

    def _asked(self, theta: Theta, x: Array, s: Layers, layer: str) -> Array:
        """What the layers before a layer ask of it."""
        rates = s | self.net.inputs(x) | {layer: jnp.zeros(self.net.shapes[layer], theta["b"][layer].dtype)}
        fields = [syn.drive(theta["W"][syn.name], rates, layer) for syn in self.net.synapses if syn.post == layer]
        field = sum(fields, start=theta["b"][layer])
        return field if self.linear and layer == [*self.free][-1] else self.net.rho[layer](field)
