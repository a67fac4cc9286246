"""Proposition 1: a small nudge lowers the cost."""

from typing import TYPE_CHECKING

import jax
import numpy as np
from optax.tree_utils import tree_vdot

from eqprop.compile import compiled
from eqprop.total import System
from eqprop.types import Array, Data, Scalar, State, Theta
from eqprop.verification.base import SMALL, Claim, Finding, Subject, at_most
from eqprop.verification.calculus import derivative, is_smooth
from eqprop.verification.health import explained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETAS = np.concatenate([np.linspace(-0.9, 1, 39), np.linspace(1.1, 4, 30)])


class Proposition1(Claim):
    """d/dβ C(θ, v, s^β) ≤ 0 at β = 0; in fact it is −λᵀ ∂²F/∂s² λ with λ = ds^β/dβ   (section 3.3, Appendix A).

    For larger β the proposition says nothing; the figure shows what happens.
    """

    name = "proposition 1"
    section = "3.3"

    def check(self, subject: Subject) -> Finding:
        free, _ = subject.free

        def cost(s: State) -> np.ndarray:
            return np.asarray(_costs(subject.F, subject.theta, subject.v, s))

        slopes, move = derivative(subject, lambda beta: (cost(s := subject.nudged(beta)), s))
        stiff = jax.jit(jax.vmap(lambda v, s, d: self.curvature(subject, v, s, d)))(subject.v, free, move)
        stiff = np.asarray(stiff)
        size = max(np.max(np.abs(stiff)), SMALL)
        checks = [
            at_most("largest slope of C over β at 0, relative", np.max(slopes) / size, 1e-4),
            at_most("slope beside −λᵀHλ", np.max(np.abs(slopes + stiff)) / size, 1e-4),
        ]
        betas = BETAS if is_smooth(subject) else BETAS[BETAS > -0.75]
        costs = np.stack([cost(subject.nudged(float(beta))) for beta in betas])
        return self.found(subject, explained(subject, checks), betas=betas, costs=costs, slopes=slopes)

    def curvature(self, subject: Subject, v: Data, s: State, direction: State) -> Scalar:
        """dᵀ ∂²F/∂s² d for one example."""
        bent = jax.jvp(lambda s: jax.grad(subject.F, argnums=3)(subject.theta, v, 0.0, s), (s,), (direction,))[1]
        return tree_vdot(bent, direction)  # pyright: ignore[reportReturnType]

    def picture(self, finding: Finding) -> "Figure":
        from eqprop.plots.laws import nudged_cost

        title = f"A small nudge lowers the cost (thin: slope at β = 0). {finding.subject}"
        return nudged_cost(**finding.curves, title=title)


@compiled
def _costs(F: System, theta: Theta, v: Data, s: State) -> Array:
    """C of every example."""
    return jax.vmap(F.cost_at, in_axes=(None, 0, 0))(theta, v, s)
