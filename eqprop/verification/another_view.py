"""Another view of the framework: F comes first, E and C are read off it."""

import jax
import jax.numpy as jnp

from eqprop.total import energy_of
from eqprop.verification.base import Claim, Finding, Subject, at_most, relative
from eqprop.verification.calculus import along, differences, parts
from eqprop.verification.health import explained
from eqprop.verification.theorem1 import objective, small_nudge


class AnotherView(Claim):
    """For any F(θ, v, β, s), E := F(θ, v, 0, s) and C := ∂F/∂β(θ, v, 0, s); Theorem 1 holds   (section 3.4).

    Checked where F is not E + βC: there the contrast is that of ∂F/∂θ, and the objective that of the C defined here.
    """

    name = "another view"
    section = "3.4"

    def applies(self, subject: Subject) -> bool:
        return self.bend(subject) > 1e-9

    def bend(self, subject: Subject) -> float:
        """How far F is from E + βC at β = 1, relative to C, at states off the start."""
        v, s = subject.one()
        s = jax.tree.map(lambda u: u + 0.3, s)
        E, C = (part(subject.theta, v, s) for part in (energy_of(subject.F), subject.F.cost_at))
        return float(jnp.abs(subject.F(subject.theta, v, 1.0, s) - E - C) / (jnp.abs(C) + 1e-30))

    def check(self, subject: Subject) -> Finding:
        ours = along(small_nudge(subject))
        theirs = differences(subject, lambda theta: objective(subject.at_rest, theta), subject.theta)
        checks = [
            at_most(f"{name} beside differences of J", relative(ours[part], theirs[part]), 1e-4)
            for name, part in parts(subject.theta).items()
        ]
        return self.found(subject, explained(subject, checks))
