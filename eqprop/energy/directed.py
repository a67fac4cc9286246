"""A network whose feedback has weights of its own: no energy, only a vector field (section 6)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from optax.tree_utils import tree_norm, tree_vdot

from eqprop.boundary import entrance
from eqprop.energy.base import Blockwise, Reversible
from eqprop.energy.hopfield import Hopfield
from eqprop.energy.variant import Variant
from eqprop.errors import InputError
from eqprop.state import check_shapes
from eqprop.types import Array, Gain, Key, Layers, Numbers, Scalar, Shape, Theta


class Directed(Variant, Blockwise, Reversible):
    """ds_k/dt = −s_k + ρ'(s_k) (W_k ρ(s_{k−1}) + V_{k+1} ρ(s_{k+1}) + b_k): forward weights W, feedback weights V.

    θ is {"W": …, "V": …, "b": …}, with V shaped like W and without feedback to the inputs. Where V = W, these are the
    dynamics of the Hopfield network. Where not, there is no energy that they descend. Called as one, the network gives
    the Hopfield energy of the mean weights ½ (W + V), by which `EquilibriumPropagation` changes W and V alike, as Kolen
    and Pollack did (1994): their difference stays, and vanishes if weights decay. With `VectorField`, forward and
    feedback weights learn each from what it sees; with `AsymmetricEquilibriumPropagation`, both by the exact gradient.

    fixed: feedback weights V that do not learn, as `with_fixed_feedback` draws them (feedback alignment, Lillicrap et
        al. 2016). They are then no part of θ, so that no optimizer and no penalty changes them.
    """

    conservative: ClassVar[bool] = False
    net: Hopfield = eqx.field(static=True)
    fixed: Annotated[dict[str, Array] | None, Numbers()] = None

    def __check_init__(self) -> None:
        self.net.require_forward()
        if self.fixed is not None:
            check_shapes("fixed", self._shapes, self.fixed)

    @classmethod
    def with_fixed_feedback(cls, net: Hopfield, key: Key, gain: Gain | Mapping[str, Gain] = 0.5) -> Self:
        """Feedback weights that are drawn once, as `init` draws them, and never learn.

        >>> directed = Directed.with_fixed_feedback(Hopfield.layered(64, 100, 10), jax.random.key(0))
        >>> sorted(directed.init(jax.random.key(1))), list(directed.fixed)
        (['W', 'b'], ['hidden-output'])
        """
        return cls(net, cls(net).init(key, gain)["V"])

    @property
    def feedback(self) -> tuple[str, ...]:
        """The synapses that have weights V."""
        return tuple(synapse.name for synapse in self.net.synapses if synapse.pre != self.net.clamped)

    @entrance
    def init(self, key: Key, gain: Gain | Mapping[str, Gain] = 0.5) -> Theta:
        """W and b as `net` begins with, and V, if it learns, drawn independently."""
        theta = self.net.init(key, gain)
        if self.fixed is not None:
            return theta
        other = self.net.init(jax.random.fold_in(key, 1), gain)["W"]
        return theta | {"V": {synapse: other[synapse] for synapse in self.feedback}}

    def per_layer(self, values: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """A tree like θ, as of the network; feedback weights V go with the W of the same synapse."""
        tree = self.net.per_layer(values)
        return (
            tree if self.fixed is not None else tree | {"V": {synapse: tree["W"][synapse] for synapse in self.feedback}}
        )

    def __call__(self, theta: Theta, x: Array, s: Layers) -> Scalar:
        mean = theta["W"] | {synapse: (theta["W"][synapse] + v) / 2 for synapse, v in self._back(theta).items()}
        return self.net({"W": mean, "b": theta["b"]}, x, s)

    def field(self, theta: Theta, x: Array, s: Layers) -> Layers:
        """ds/dt."""
        fields = self.fields_at(theta, x, s)
        # ρ'(s) times the field, by the derivative that the activation itself defines.
        return {layer: jax.vjp(self.net.rho[layer], u)[1](fields[layer])[0] - u for layer, u in s.items()}

    def curvature(self, theta: Theta, x: Array, s: Layers, block: tuple[str, ...]) -> dict[str, Array | float]:
        """A bound on how fast the slope of a layer changes with its own state, as in the Hopfield network.

        With the others put, a layer does descend an energy: its feedback comes from the Φ of the weights V.
        """
        rates, back = self.net.rates(x, s), self._back(theta)

        def bound(layer: str) -> Array | float:
            heard = theta["W"] | {syn.name: back[syn.name] for syn in self.net.synapses if syn.pre == layer}
            r = self.net.coupling(heard, rates, layer)
            return 1 + self.net.rho[layer].curvature(lambda: self.fields_at(theta, x, s)[layer], r)

        return {layer: bound(layer) for layer in block}

    def angle(self, theta: Theta) -> Array:
        """The angle in degrees between all W that have feedback and their V: 0 in a network with symmetric weights."""
        forward, back = {synapse: theta["W"][synapse] for synapse in self.feedback}, self._back(theta)
        lengths = tree_norm(forward) * tree_norm(back)
        return jnp.degrees(jnp.arccos(jnp.clip(tree_vdot(forward, back) / lengths, -1, 1)))

    @property
    def reversed(self) -> "Exchanged":
        """The network with its forward and its feedback weights exchanged."""
        return Exchanged(self.net, self)

    def held_at(self, theta: Theta, x: Array, s: Layers) -> tuple[Array, Layers]:
        """x, and the currents by which the layers of the exchanged network hear what they hear in this one."""
        plain, there = Directed(self.net), self.exchanged(theta)
        return x, jax.tree.map(jnp.subtract, self.fields_at(theta, x, s), plain.fields_at(there, x, s))

    def exchanged(self, theta: Theta) -> Theta:
        """θ with W and V exchanged where there is feedback."""
        back = self._back(theta)
        return {"W": theta["W"] | back, "V": {synapse: theta["W"][synapse] for synapse in back}, "b": theta["b"]}

    def fields_at(self, theta: Theta, x: Array, s: Layers) -> Layers:
        """What each layer hears from the layers before it through W, and from those after it through V."""
        self.net.check(theta, x, s)
        rho, fields, back = self.net.rates(x, s), dict(theta["b"]), self._back(theta)
        for synapse in self.net.synapses:
            forward = theta["W"][synapse.name]
            fields[synapse.post] = fields[synapse.post] + synapse.drive(forward, rho, synapse.post)
            if (feedback := back.get(synapse.name)) is not None:
                fields[synapse.pre] = fields[synapse.pre] + synapse.drive(feedback, rho, synapse.pre)
        return fields

    def _back(self, theta: Theta) -> dict[str, Array]:
        """The feedback weights V, which learn or are fixed."""
        if self.fixed is not None:
            return self.fixed
        if "V" not in theta:
            raise InputError(f"theta has {sorted(theta)} and lacks 'V', the feedback weights: make it with init")
        check_shapes("theta['V']", self._shapes, theta["V"])
        return theta["V"]

    @property
    def _shapes(self) -> dict[str, Shape]:
        """Those of the feedback weights."""
        return {synapse.name: synapse.shape for synapse in self.net.synapses if synapse.name in self.feedback}


class Exchanged(Variant, Blockwise):
    """A directed network with W and V exchanged, and currents c into its layers; its inputs are (x, c).

    Where unit j acts on i by M_ij, the network's Jacobian is J_ij = ρ'(s_i) M_ij ρ'(s_j) for i ≠ j: with Mᵀ in the
    place of M it is transposed. The currents c = (M − Mᵀ) ρ(s⁰) leave what units hear at s⁰ as it is, so that s⁰ stays
    a fixed point and the diagonal of J as it was. For clipped activations it is the same as to add −(J − Jᵀ)(s − s⁰).
    """

    conservative: ClassVar[bool] = False
    net: Hopfield = eqx.field(static=True)
    of: Directed

    def __call__(self, theta: Theta, x: tuple[Array, Layers], s: Layers) -> Scalar:
        """The Hopfield energy of the mean weights, which it does not descend."""
        return self.of(theta, x[0], s)

    def field(self, theta: Theta, x: tuple[Array, Layers], s: Layers) -> Layers:
        """ds/dt."""
        return Directed(self.net).field(*self._there(theta, x), s)

    def curvature(
        self, theta: Theta, x: tuple[Array, Layers], s: Layers, block: tuple[str, ...]
    ) -> dict[str, Array | float]:
        """As of the network itself."""
        return Directed(self.net).curvature(*self._there(theta, x), s, block)

    def _there(self, theta: Theta, x: tuple[Array, Layers]) -> tuple[Theta, Array]:
        there = self.of.exchanged(theta)
        return there | {"b": {layer: b + x[1][layer] for layer, b in there["b"].items()}}, x[0]
