"""The Boltzmann machine: binary units that follow the distribution of their energy (section 4.2)."""

from math import inf

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.energy.base import Binary
from eqprop.energy.variant import Variant
from eqprop.errors import InputError
from eqprop.state import Space
from eqprop.types import Array, Layers, Scalar, Theta

LARGEST = 16  # units whose 2^16 configurations are gone through


class BoltzmannMachine(Variant, Binary):
    """p(s | x) ∝ e^{−E(θ, x, s)} with E = −½ Σ_{i≠j} W_ij u_i u_j − Σ_i b_i s_i, u = (x, s) and s_i in {0, 1}.

    This is −Φ of `net` with the rates as they are: its activation plays no part, and there is no leak. Inputs enter
    as they are, best in [0, 1]. A layer is drawn at once, so its units must be independent given all others: lateral
    synapses are refused.
    """

    def __check_init__(self) -> None:
        if odd := next((layer for layer, shape in self.net.layers if len(shape) != 1), None):
            raise InputError(f"net={self.net!r}: layer {odd!r} is no vector; Boltzmann machines are of vectors only")
        for synapse in self.net.synapses:
            if synapse.pre == synapse.post:
                raise InputError(
                    f"net={self.net!r} joins units within layer {synapse.pre!r}, which then cannot be drawn at once: "
                    "leave these synapses out, or split the layer"
                )

    def __call__(self, theta: Theta, x: Array, s: Layers) -> Scalar:
        self.net.check(theta, x, s)
        return -self.net.phi(theta, self._rates(x, s))

    @property
    def space(self) -> Space:
        """Units are 0 or 1, and their means lie between."""
        return Space(self.net.shapes, 0.0, 1.0)

    @property
    def heard(self) -> tuple[float, float]:
        """Inputs enter as they are."""
        return -inf, inf

    @property
    def enumerated(self) -> int:
        """The units whose configurations an exact likelihood goes through: all but those of the largest layer."""
        return sum(self.free.values()) - max(self.free.values())

    def drive(self, theta: Theta, x: Array, s: Layers, layer: str) -> Array:
        """∂Φ/∂s of a layer, which depends on the others only."""
        return jax.grad(lambda u: self.net.phi(theta, self._rates(x, s | {layer: u})))(s[layer])

    def probability(self, theta: Theta, x: Array, s: Layers, layer: str) -> Array:
        """p(s_i = 1 | all other layers) = sigmoid(∂Φ/∂s_i) for the units of a layer."""
        return jax.nn.sigmoid(self.drive(theta, x, s, layer))

    def log_likelihood(self, theta: Theta, x: Array, y: Array, layer: str = "output") -> Array:
        """log p(y | x), exactly, for a y of zeros and ones in `layer`."""
        self.require_enumerable()
        if layer not in self.free or jnp.shape(y) != (self.free[layer],):
            raise InputError(
                f"a target of shape {jnp.shape(y)} for layer={layer!r} does not fit the layers {self.free}"
            )
        return self.log_partition(theta, x, {layer: y}) - self.log_partition(theta, x, {})

    def require_enumerable(self) -> None:
        """Refuse a machine with too many configurations."""
        if self.enumerated > LARGEST:
            raise InputError(
                f"{self.net!r} has {self.enumerated} units beside its largest layer, and the configurations of at most "
                f"{LARGEST} are gone through: take a smaller machine, or rules that sample"
            )

    def log_partition(self, theta: Theta, x: Array, held: Layers) -> Array:
        """log Σ e^Φ over all states of the layers that are not `held`.

        Φ is linear in a layer h, so that Σ_h e^Φ = e^{Φ at h = 0} Π_i (1 + e^{∂Φ/∂h_i}): for the largest one.
        """
        sizes = {layer: size for layer, size in self.free.items() if layer not in held}
        if not sizes:
            return self.net.phi(theta, self._rates(x, held))
        largest = max(sizes, key=lambda layer: sizes[layer])
        zero = jnp.zeros(sizes.pop(largest), theta["b"][largest].dtype)
        total, ends = sum(sizes.values()), np.cumsum(list(sizes.values()))

        def summed(configuration: Array) -> Array:
            bits = ((configuration >> jnp.arange(total)) & 1).astype(zero.dtype)
            s = {layer: bits[end - size : end] for (layer, size), end in zip(sizes.items(), ends, strict=True)}
            phi, field = jax.value_and_grad(lambda h: self.net.phi(theta, self._rates(x, held | s | {largest: h})))(
                zero
            )
            return phi + jnp.sum(jax.nn.softplus(field))

        return jax.nn.logsumexp(jax.vmap(summed)(jnp.arange(2**total)))

    def _rates(self, x: Array, s: Layers) -> Layers:
        return self.net.inputs(x) | s
