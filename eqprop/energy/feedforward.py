"""The feed-forward network of the same layers: what backpropagation trains."""

import jax.numpy as jnp
from jax import Array

from eqprop.energy.hopfield import State, Theta
from eqprop.energy.synapse import name
from eqprop.energy.total import UNBOUNDED
from eqprop.energy.variant import Variant, require_forward


class Feedforward(Variant):
    """s_k = ρ(Σ_{j<k} s_j W_jk + b_k), without ρ in the last layer;    E(θ, x, s) = ½ Σ_k ‖s_k − ρ(…)‖².

    The forward pass is where E has its minimum, 0. So it is the free fixed point of an energy like the others, that of
    predictive coding, which `forward` finds at once.
    """

    def __check_init__(self) -> None:
        require_forward(self.net)

    @property
    def box(self) -> tuple[float, float]:
        """None: states take any value."""
        return UNBOUNDED

    def __call__(self, theta: Theta, x: Array, s: State) -> Array:
        self.net.check(theta, x, s)
        off = [jnp.sum((u - self._asked(theta, x, s, layer)) ** 2) for layer, u in s.items()]
        return jnp.sum(jnp.stack(off)) / 2

    def forward(self, theta: Theta, x: Array) -> State:
        """The forward pass of one example."""
        s: State = {}
        for layer in self.free:
            s[layer] = self._asked(theta, x, s, layer)
        return s

    def _asked(self, theta: Theta, x: Array, s: State, layer: str) -> Array:
        """What the layers before a layer ask of it."""
        rates = s | {self.net.clamped: x}
        fields = [rates[syn.pre] @ theta["W"][name(syn)] for syn in self.net.synapses if syn.post == layer]
        field = sum(fields, start=theta["b"][layer])
        return field if layer == list(self.free)[-1] else self.net.activation(field)
