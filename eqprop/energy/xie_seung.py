"""The energy of Xie & Seung, whose feedback is weak (section 4.4)."""

import jax
import jax.numpy as jnp

from eqprop.energy.base import Blockwise
from eqprop.energy.variant import Variant
from eqprop.errors import InputError
from eqprop.types import Array, Layers, Scalar, Theta


class XieSeung(Variant, Blockwise):
    """E(θ, x, s) = γ^{−N} [ ½ Σ_i γ^i s_i² − Σ_{i<j} γ^j W_ij ρ(u_i) ρ(u_j) − Σ_i γ^i b_i ρ(u_i) ]

    where i counts the layers from the first hidden one to the N-th, the output. Each layer feels the one before it
    fully and the one after it by the factor γ. As γ → 0 the free fixed point becomes s = ρ'(s) (W ρ(u) + b), layer by
    layer, which for the clipped activations is that of `Feedforward` with outputs in the interior of their box; and the
    update of `ContrastiveHebbian`, which for W_ij contains the paper's factor γ^j, that of backpropagation. The paper
    leaves out the constant γ^{−N}, which moves no fixed point: with it, the update tends to the gradient itself.

    Hidden layers are γ^{−1}, γ^{−2}, … times as stiff as the output: settle by `Block`, which minds that, with ω = 1.
    """

    gamma: float = 0.1

    def __check_init__(self) -> None:
        if not 0 < self.gamma <= 1:
            raise InputError(f"gamma={self.gamma!r}: the strength of the feedback lies above 0, and at most at 1")
        self.net.require_forward()

    @property
    def scale(self) -> dict[str, Array | float]:
        """γ^{i−N} of each layer."""
        return {layer: (1 / self.gamma) ** k for k, layer in enumerate(reversed(self.free))}

    def __call__(self, theta: Theta, x: Array, s: Layers) -> Scalar:
        self.net.check(theta, x, s)
        leak = sum(self.scale[layer] * jnp.sum(u**2) for layer, u in s.items()) / 2
        return leak - self._phi(theta, self.net.rates(x, s))

    def curvature(self, theta: Theta, x: Array, s: Layers, block: tuple[str, ...]) -> dict[str, Array | float]:
        """γ^{i−N}, the leak, and what ρ and the units' coupling add, as in the Hopfield network."""
        rates = self.net.rates(x, s)

        def bound(layer: str) -> Array | float:
            r = self.net.coupling(theta["W"], rates, layer, self.scale)
            own = self.net.rho[layer].curvature(lambda: jax.grad(self._phi, argnums=1)(theta, rates)[layer], r)
            return self.scale[layer] + own

        return {layer: bound(layer) for layer in block}

    def _phi(self, theta: Theta, rho: Layers) -> Scalar:
        """Numbers are scaled, not weights: one factor for each synapse and layer."""
        joined = [self.scale[syn.post] * syn.phi(theta["W"][syn.name], rho) for syn in self.net.synapses]
        return sum(
            (self.scale[k] * jnp.sum(b * rho[k]) for k, b in theta["b"].items()), start=sum(joined[1:], joined[0])
        )
