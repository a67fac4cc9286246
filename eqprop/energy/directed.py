"""A network whose feedback has weights of its own: no energy, only a vector field (section 6)."""

from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from optax.tree_utils import tree_norm, tree_vdot

from eqprop.energy.base import Blockwise
from eqprop.energy.hopfield import Hopfield
from eqprop.energy.variant import Variant
from eqprop.types import Array, Key, Layers, Scalar, Theta


class Directed(Variant, Blockwise):
    """ds_k/dt = −s_k + ρ'(s_k) (W_k ρ(s_{k−1}) + V_{k+1} ρ(s_{k+1}) + b_k): forward weights W, feedback weights V.

    θ is {"W": …, "V": …, "b": …}, with V shaped like W and without feedback to the inputs. Where V = W, these are the
    dynamics of the Hopfield network. Where not, there is no energy that they descend. Called as one, the network gives
    the Hopfield energy of the mean weights ½ (W + V), by which `EquilibriumPropagation` changes W and V alike, as Kolen
    and Pollack did (1994): their difference stays, and vanishes if weights decay. With `VectorField`, forward and
    feedback weights learn each from what it sees.
    """

    conservative: ClassVar[bool] = False
    net: Hopfield = eqx.field(static=True)

    def __check_init__(self) -> None:
        self.net.require_forward()

    @property
    def feedback(self) -> tuple[str, ...]:
        """The synapses that have weights V."""
        return tuple(synapse.name for synapse in self.net.synapses if synapse.pre != self.net.clamped)

    def init(self, key: Key, gain: float | Mapping[str, float] = 0.5) -> Theta:
        """W and b as `net` begins with, and V drawn independently."""
        theta = self.net.init(key, gain)
        other = self.net.init(jax.random.fold_in(key, 1), gain)["W"]
        return theta | {"V": {synapse: other[synapse] for synapse in self.feedback}}

    def per_layer(self, values: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """A tree like θ, as of the network; feedback weights V go with the W of the same synapse."""
        tree = self.net.per_layer(values)
        return tree | {"V": {synapse: tree["W"][synapse] for synapse in self.feedback}}

    def __call__(self, theta: Theta, x: Array, s: Layers) -> Scalar:
        mean = theta["W"] | {synapse: (theta["W"][synapse] + v) / 2 for synapse, v in theta["V"].items()}
        return self.net({"W": mean, "b": theta["b"]}, x, s)

    def field(self, theta: Theta, x: Array, s: Layers) -> Layers:
        """ds/dt."""
        fields = self._fields(theta, x, s)
        # ρ'(s) times the field, by the derivative that the activation itself defines.
        return {layer: jax.vjp(self.net.rho[layer], u)[1](fields[layer])[0] - u for layer, u in s.items()}

    def curvature(self, theta: Theta, x: Array, s: Layers, block: tuple[str, ...]) -> dict[str, Array | float]:
        """A bound on how fast the slope of a layer changes with its own state, as in the Hopfield network.

        With the others put, a layer does descend an energy: its feedback comes from the Φ of the weights V.
        """
        rates = self.net.rates(x, s)

        def bound(layer: str) -> Array | float:
            heard = theta["W"] | {syn.name: theta["V"][syn.name] for syn in self.net.synapses if syn.pre == layer}
            r = self.net.coupling(heard, rates, layer)
            return 1 + self.net.rho[layer].curvature(lambda: self._fields(theta, x, s)[layer], r)

        return {layer: bound(layer) for layer in block}

    def angle(self, theta: Theta) -> Array:
        """The angle in degrees between all W that have feedback and their V: 0 in a network with symmetric weights."""
        forward = {synapse: theta["W"][synapse] for synapse in self.feedback}
        lengths = tree_norm(forward) * tree_norm(theta["V"])
        return jnp.degrees(jnp.arccos(jnp.clip(tree_vdot(forward, theta["V"]) / lengths, -1, 1)))

    def _fields(self, theta: Theta, x: Array, s: Layers) -> Layers:
        """What each layer hears from the layers before it through W, and from those after it through V."""
        rho, fields = self.net.rates(x, s), dict(theta["b"])
        for synapse in self.net.synapses:
            forward = theta["W"][synapse.name]
            fields[synapse.post] = fields[synapse.post] + synapse.drive(forward, rho, synapse.post)
            if (feedback := theta["V"].get(synapse.name)) is not None:
                fields[synapse.pre] = fields[synapse.pre] + synapse.drive(feedback, rho, synapse.pre)
        return fields
