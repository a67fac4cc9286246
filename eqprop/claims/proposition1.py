"""Proposition 1: a small nudge lowers the cost."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.claims.base import SMALL, Claim, Finding, Subject, at_most
from eqprop.claims.calculus import derivative, is_smooth
from eqprop.claims.health import explained
from eqprop.energy.total import cost_of

BETAS = np.concatenate([np.linspace(-0.9, 1, 39), np.linspace(1.1, 4, 30)])


class Proposition1(Claim):
    """d/dβ C(θ, v, s^β) ≤ 0 at β = 0; in fact it is −λᵀ ∂²F/∂s² λ with λ = ds^β/dβ   (section 3.3, Appendix A).

    For larger β the proposition says nothing; the picture shows what happens.
    """

    name = "proposition 1"
    section = "3.3"

    def check(self, subject: Subject) -> Finding:
        free, _ = subject.free()

        def nudged(beta: Any) -> Any:
            return subject.rule.nudged(subject.F, subject.theta, subject.v, beta, free)[0]

        def cost(s: Any) -> Any:
            return jax.vmap(cost_of(subject.F), in_axes=(None, 0, 0))(subject.theta, subject.v, s)

        slopes, move = derivative(subject, lambda beta: (cost(s := nudged(beta)), s))
        stiff = jax.jit(jax.vmap(lambda v, s, d: self.curvature(subject, v, s, d)))(subject.v, free, move)
        size = jnp.maximum(jnp.max(jnp.abs(stiff)), SMALL)
        checks = [
            at_most("largest slope of C over β at 0, relative", jnp.max(slopes) / size, 1e-4),
            at_most("slope beside −λᵀHλ", jnp.max(jnp.abs(slopes + stiff)) / size, 1e-4),
        ]
        betas = BETAS if is_smooth(subject) else BETAS[BETAS > -0.75]
        costs = jax.jit(lambda: jax.lax.map(lambda beta: cost(nudged(beta)), jnp.asarray(betas)))()
        return self.found(
            subject, explained(subject, checks), betas=betas, costs=np.asarray(costs), slopes=np.asarray(slopes)
        )

    def curvature(self, subject: Subject, v: Any, s: Any, direction: Any) -> Any:
        """dᵀ ∂²F/∂s² d for one example."""

        def slope(s: Any) -> Any:
            return jax.grad(subject.F, argnums=3)(subject.theta, v, 0.0, s)

        bent = jax.jvp(slope, (s,), (direction,))[1]
        return sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(bent), jax.tree.leaves(direction), strict=True))

    def picture(self, finding: Finding) -> Any:
        from matplotlib.figure import Figure

        from eqprop.plots import STYLES

        figure = Figure(figsize=(7, 4.4), layout="constrained")
        axes = figure.subplots()
        betas, costs = finding.curves["betas"], finding.curves["costs"]
        at_zero = np.argmin(np.abs(betas))
        for k, (style, cost, slope) in enumerate(zip(STYLES, costs.T, finding.curves["slopes"], strict=False)):
            axes.plot(betas, cost, label=f"example {k + 1}", **style)
            near = np.array([-0.5, 0.7])
            axes.plot(near, cost[at_zero] + slope * near, color=style["color"], linewidth=0.8)
            axes.plot(0, cost[at_zero], "o", color=style["color"])
        axes.set_ylim(-0.05 * (top := 2 * costs[at_zero].max()), top)  # strong negative nudges lead far away
        axes.axvline(0, color="grey", linewidth=0.8)
        axes.set(
            xlabel="strength of the nudge β",
            ylabel="cost C at the nudged fixed point",
            title=f"A small nudge lowers the cost (thin: slope at β = 0). {finding.subject}",
        )
        axes.grid(alpha=0.3)
        axes.legend()
        return figure
