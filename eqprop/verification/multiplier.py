"""Constrained optimisation: the Lagrange multiplier is what the nudge measures."""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax

from eqprop.rule.implicit import multiplier
from eqprop.tree import named
from eqprop.types import Array, State
from eqprop.verification.base import Claim, Finding, Subject, at_most, relative
from eqprop.verification.calculus import derivative
from eqprop.verification.health import explained


@dataclass(frozen=True)
class Multiplier(Claim):
    """min C(θ, v, s) subject to ∂E/∂s = 0:   ∂C/∂s + λ*·∂²E/∂s² = 0,   λ* = ds^β/dβ at β = 0   (Appendix B).

    λ* by a linear solve, beside the fixed points of two small nudges. `solve` finds λ*.
    """

    name = "constrained optimisation"
    section = "Appendix B"
    solve: Callable[..., tuple[State, Array]] = field(default=multiplier)

    def check(self, subject: Subject) -> Finding:
        solved, _ = self.solve(subject.F, subject.theta, subject.v, subject.free[0], 1e-12)
        moved = derivative(subject, subject.nudged)
        checks = [
            at_most(f"λ* of {layer} beside ds/dβ", relative(ours, theirs), 1e-4)
            for (layer, ours), theirs in zip(named(solved).items(), jax.tree.leaves(moved), strict=True)
        ]
        return self.found(subject, explained(subject, checks))
