"""Coupled oscillators: the XY model, whose units are angles."""

from collections.abc import Mapping
from math import inf, pi

import jax
import jax.numpy as jnp

from eqprop.boundary import entrance
from eqprop.energy.base import Blockwise
from eqprop.energy.variant import Variant
from eqprop.errors import InputError
from eqprop.state import Space, check_shapes
from eqprop.types import Array, Gain, Key, Layers, Scalar, Theta

STILL = 1e-6
"""Added to the curvature, for a unit that nothing pulls at."""


class Oscillators(Variant, Blockwise):
    """E(θ, x, φ) = −Σ_{i<j} W_ij cos(φ_i − φ_j) − Σ_i (b_i cos φ_i + c_i sin φ_i)

    over the layers and synapses of `net`, whose activations play no part. The state are the phases φ of oscillators
    that have locked to a common frequency, and b, c are fields: (b, c) = h (cos ψ, sin ψ) pulls a phase to ψ with
    strength h. Phases have no bounds. An input x is a clamped oscillator of phase `turn` · x. Wang, Wanjura and
    Marquardt (2024) train such a network by Equilibrium Propagation. `PhaseError` is a cost for phases.

    As cos(φ_i − φ_j) = cos φ_i cos φ_j + sin φ_i sin φ_j, E is −Φ(cos φ) − Φ(sin φ) with the interaction Φ of `net`: so
    dense, lateral and convolutional synapses will do; those whose Φ is not a sum of products of pairs will not.

        >>> import eqprop as ep
        >>> net = Oscillators(ep.Hopfield.layered(1, 1))
        >>> theta = net.init(jax.random.key(0)) | {"W": {"input-output": jnp.array([[2.0]])}}
        >>> F = ep.Total(net, ep.PhaseError())
        >>> settled, _ = ep.Block(50, 1e-6)(F, theta, (jnp.array([[1.0]]), None), 0.0, net.rest(1))
        >>> round(float(jnp.tan(settled["output"][0, 0])), 4)  # the input, at π/2, pulls twice as much as the field
        2.0
    """

    turn: float = pi / 2

    @property
    def heard(self) -> tuple[float, float]:
        """Any: an input is a phase."""
        return -inf, inf

    def __check_init__(self) -> None:
        if not 0 < abs(self.turn) < float("inf"):
            raise InputError(f"turn={self.turn!r}: give the phase of an input of 1, such as π/2")
        for synapse in self.net.synapses:
            if not synapse.bilinear and synapse.pre != synapse.post:
                raise InputError(
                    f"synapse {synapse!r} is no sum over pairs of units, as pooling and resistors are not: take others"
                )

    @property
    def space(self) -> Space:
        """The layers that settle; phases have no bounds."""
        return Space(self.net.shapes)

    @entrance
    def init(self, key: Key, gain: Gain | Mapping[str, Gain] = 0.5) -> Theta:
        """The weights that `net` begins with; fields of strength 1 lock each oscillator to the phase 0."""
        theta = self.net.init(key, gain)
        return theta | {"b": jax.tree.map(jnp.ones_like, theta["b"]), "c": theta["b"]}

    def __call__(self, theta: Theta, x: Array, s: Layers) -> Scalar:
        self.net.check(theta, x, s)
        if "c" not in theta:
            raise InputError(f"theta has {sorted(theta)} and lacks 'c', fields at right angles to b: make it with init")
        check_shapes("theta['c']", self.net.biases, theta["c"])
        return -self._phi(theta, *self._parts(x, s))

    def curvature(self, theta: Theta, x: Array, s: Layers, block: tuple[str, ...]) -> dict[str, Array | float]:
        """√(A² + B²), where a unit feels the energy −A cos φ − B sin φ; and 3 times the row sums of lateral weights.

        While the units of a layer move at once, each may change the field of another by its weight, either way.
        """
        cos, sin = self._parts(x, s)
        pull_cos, pull_sin = jax.grad(self._phi, argnums=(1, 2))(theta, cos, sin)

        def bound(layer: str) -> Array:
            strength = jnp.sqrt(pull_cos[layer] ** 2 + pull_sin[layer] ** 2)
            return strength + 3 * self.net.coupling(theta["W"], cos, layer) + STILL

        return {layer: bound(layer) for layer in block}

    def _parts(self, x: Array, s: Layers) -> tuple[Layers, Layers]:
        """cos φ and sin φ of every layer, the input included."""
        phases = s | self.net.inputs(x, lambda x: self.turn * x)
        return tuple({layer: part(u) for layer, u in phases.items()} for part in (jnp.cos, jnp.sin))  # pyright: ignore

    def _phi(self, theta: Theta, cos: Layers, sin: Layers) -> Scalar:
        """Φ(cos φ) with the fields b, and Φ(sin φ) with the fields c."""
        return self.net.phi(theta, cos) + self.net.phi(theta | {"b": theta["c"]}, sin)
