"""Constrained optimisation: the Lagrange multiplier is what the nudge measures."""

from dataclasses import dataclass, field
from typing import Any

import jax

from eqprop.claims.base import Claim, Finding, Subject, at_most, relative
from eqprop.claims.calculus import derivative
from eqprop.claims.health import explained
from eqprop.rule.implicit import multiplier
from eqprop.train.naming import named


@dataclass(frozen=True)
class Multiplier(Claim):
    """min C(θ, v, s) subject to ∂E/∂s = 0:   ∂C/∂s + λ*·∂²E/∂s² = 0,   λ* = ds^β/dβ at β = 0   (Appendix B).

    λ* by a linear solve, beside the fixed points of two small nudges. `solve` is what is asked for λ*.
    """

    name = "constrained optimisation"
    section = "Appendix B"
    solve: Any = field(default=multiplier)

    def check(self, subject: Subject) -> Finding:
        free, _ = subject.free()
        solved, _ = self.solve(subject.F, subject.theta, subject.v, free, 1e-12)

        def nudged(beta: Any) -> Any:
            return subject.rule.nudged(subject.F, subject.theta, subject.v, beta, free)[0]

        moved = derivative(subject, nudged)
        checks = [
            at_most(f"λ* of {layer} beside ds/dβ", relative(ours, theirs), 1e-4)
            for (layer, ours), theirs in zip(named(solved).items(), jax.tree.leaves(moved), strict=True)
        ]
        return self.found(subject, explained(subject, checks))
