"""Another view of the framework: F comes first, E and C are read off it."""

import jax
import jax.numpy as jnp

from eqprop.compile import compiled
from eqprop.total import System, energy_of
from eqprop.types import Array, Data, State, Theta
from eqprop.verification.base import Claim, Finding, Subject, at_most, relative
from eqprop.verification.calculus import along, parts
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
        return float(_bend(subject.F, subject.theta, v, s))

    def check(self, subject: Subject) -> Finding:
        ours = along(small_nudge(subject))
        theirs = objective(subject)
        checks = [
            at_most(f"{name} beside differences of J", relative(ours[part], theirs[part]), 1e-4)
            for name, part in parts(subject.theta).items()
        ]
        return self.found(subject, explained(subject, checks))


@compiled
def _bend(F: System, theta: Theta, v: Data, s: State) -> Array:
    s = jax.tree.map(lambda u: u + 0.3, s)
    E, C = energy_of(F)(theta, v, s), F.cost_at(theta, v, s)
    return jnp.abs(F(theta, v, 1.0, s) - E - C) / (jnp.abs(C) + 1e-30)
