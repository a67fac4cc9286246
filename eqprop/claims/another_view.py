"""Another view of the framework: F comes first, E and C are read off it."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from eqprop.claims.base import Claim, Finding, Subject, at_most, relative
from eqprop.claims.calculus import along, differences, parts
from eqprop.claims.health import explained
from eqprop.claims.theorem1 import objective, small_nudge
from eqprop.energy.total import cost_of, energy_of


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
        E, C = (part(subject.F)(subject.theta, v, s) for part in (energy_of, cost_of))
        return float(jnp.abs(subject.F(subject.theta, v, 1.0, s) - E - C) / (jnp.abs(C) + 1e-30))

    def check(self, subject: Subject) -> Finding:
        s, _ = subject.free()
        at_rest = replace(subject, s=s)
        found = small_nudge(at_rest)

        def J(theta: Any) -> Any:
            return objective(at_rest, theta)

        ours, theirs = along(found), differences(subject, J, subject.theta)
        checks = [
            at_most(f"{name} beside differences of J", relative(ours[part], theirs[part]), 1e-4)
            for name, part in parts(subject.theta).items()
        ]
        return self.found(subject, explained(subject, checks))
