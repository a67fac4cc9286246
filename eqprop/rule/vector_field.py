"""Learning without an energy: Equilibrium Propagation in a vector field (section 6; Scellier et al. 2018)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import TotalEnergy
from eqprop.nudge import Nudge, Symmetric
from eqprop.relax import Block, Relaxation
from eqprop.rule.equilibrium import Phases, settle
from eqprop.rule.lagrangian import by_theta


class VectorField(eqx.Module):
    """Δθ ∝ (∂μ/∂θ)ᵀ Σ_k w_k s^{β_k} at the free fixed point, of the dynamics ds/dt = μ(θ, v, s) − β ∂C/∂s.

    Each weight needs what the units before it did in the free phase, and how the unit after it moved under the nudge.
    If μ = −∂E/∂s, it tends to the gradient of J as β → 0, by Theorem 1. If not, it does not: the less symmetric the
    Jacobian of μ, the further it is from it.
    """

    nudge: Nudge = Symmetric(0.5)
    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    nudged: Relaxation = Block(steps=100, tol=1e-4, accelerate=True, backward=True)

    def check(self, F: TotalEnergy) -> None:
        """Refuse an F that the nudge cannot be used with."""
        self.nudge.check(F)

    @compiled
    def __call__(
        self, F: TotalEnergy, theta: Any, v: Any, s: Any, key: Array, weight: Array | None = None
    ) -> tuple[Any, Any, Phases]:
        """The update, shaped like θ and averaged over the batch; the free fixed points; and how the phases went."""
        self.check(F)
        s_free, _, w, states, phases = settle(self, F, theta, v, s, key)
        moved = jax.tree.map(lambda u: jnp.real(jnp.tensordot(w, u, 1)), states)
        return by_theta(F, theta, v, s_free, moved, weight), s_free, phases
