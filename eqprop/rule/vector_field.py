"""Learning without an energy: Equilibrium Propagation in a vector field (section 6; Scellier et al. 2018)."""

import jax
import jax.numpy as jnp

from eqprop.rule.equilibrium import Settled, TwoPhase
from eqprop.rule.lagrangian import by_theta
from eqprop.total import System
from eqprop.types import Data, Theta, Weight


class VectorField(TwoPhase):
    """Δθ ∝ (∂μ/∂θ)ᵀ Σ_k w_k s^{β_k} at the free fixed point, of the dynamics ds/dt = μ(θ, v, s) − β ∂C/∂s.

    Each weight needs what the units before it did in the free phase, and how the unit after it moved under the nudge.
    If μ = −∂E/∂s, it tends to the gradient of J as β → 0, by Theorem 1. If not, it does not: the less symmetric the
    Jacobian of μ, the further it is from it.
    """

    def gradient(self, F: System, theta: Theta, v: Data, settled: Settled, weight: Weight | None) -> Theta:
        """−(∂μ/∂θ)ᵀ Σ_k w_k s^{β_k}: the update, with the sign of a gradient."""
        moved = jax.tree.map(lambda u: jnp.real(jnp.tensordot(settled.w, u, 1)), settled.states)
        return by_theta(F, theta, v, settled.free, moved, weight)
