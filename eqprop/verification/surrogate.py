"""Away from the limit: at a finite β, EP follows the exact gradient of another objective."""

from dataclasses import replace

import jax
import numpy as np

from eqprop.compile import compiled
from eqprop.nudge import Symmetric
from eqprop.total import System, Total
from eqprop.types import Array, Data, Number, State, Theta
from eqprop.verification.base import Check, Claim, Finding, Subject, at_most, cosine, relative
from eqprop.verification.calculus import along, parts, settled_by_theta, unit
from eqprop.verification.health import explained

BETA = 0.5
"""The β at which it is checked, times the `unit` of the subject."""


class Surrogate(Claim):
    """Σ_k w_k ∂F/∂θ(β_k, s^{β_k}) = ∂L/∂θ,   L = Σ_k w_k G(β_k),   G(β) = F(θ, v, β, s^β),   at any β   (section 3.3)

    By the envelope theorem (Appendix A), with no limit: with the symmetric nudge L = (G(β) − G(−β)) / 2β (Scellier et
    al. 2023). Its gradient is found by differences, settling anew. As F is linear in β where it is E + βC, and s^β a
    minimum, dG/dβ = C falls as β grows (Proposition 1), so the one-sided objectives bound the true one, J = C(s⁰):

        (G(β) − G(0)) / β  ≤  J  ≤  (G(0) − G(−β)) / β.
    """

    name = "surrogate of a finite β"
    section = "3.3"

    def applies(self, subject: Subject) -> bool:
        return isinstance(subject.rule.nudge, Symmetric)  # with another nudge, its rule would be one more program

    def check(self, subject: Subject) -> Finding:
        beta = BETA * unit(subject)
        found = along(self.gradient(subject, beta))
        up, down = (settled_by_theta(subject, b)["G"].mean(axis=1) for b in (beta, -beta))
        expected = (up - down) / (2 * beta)
        checks = [
            at_most(
                f"{name} beside differences of L (cosine {cosine(found[part], expected[part]):.6f})",
                relative(found[part], expected[part]),
                1e-5,
            )
            for name, part in parts(subject.theta).items()
        ]
        if isinstance(subject.F, Total):
            free, more, less = (
                np.asarray(_energies(subject.F, subject.theta, subject.v, b, s))
                for b, s in ((0.0, subject.free[0]), (beta, subject.nudged(beta)), (-beta, subject.nudged(-beta)))
            )
            below, above = (more - free) / beta, (free - less) / beta
            gap = float(np.max(below - above))
            checks.append(Check("largest lower bound of J less the upper one", gap, "≤ 1e-9", gap <= 1e-9))
        why = "Do the phases end at fixed points of F at their own β, and is ∂F/∂θ contrasted, all of it?"
        return self.found(subject, explained(subject, checks, why))

    def gradient(self, subject: Subject, beta: float) -> Theta:
        """What the rule learns at ±β."""
        rule = replace(subject.rule, nudge=Symmetric(beta))
        return rule(subject.F, subject.theta, subject.v, subject.free[0]).gradient


@compiled
def _energies(F: System, theta: Theta, v: Data, beta: Number, s: State) -> Array:
    """F of each example."""
    return jax.vmap(F, in_axes=(None, 0, None, 0))(theta, v, beta, s)
