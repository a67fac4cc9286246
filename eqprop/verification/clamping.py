"""Contrastive Hebbian learning: outputs clamped for good, which is what a nudge becomes as β → ∞ (section 4.1)."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.energy import Hopfield
from eqprop.errors import InputError
from eqprop.rule import ContrastiveHebbian
from eqprop.total import Outputs, need
from eqprop.types import Array, Theta
from eqprop.verification.base import Claim, Finding, Subject, at_most, near, order, relative
from eqprop.verification.calculus import along, differences, is_smooth, parts
from eqprop.verification.health import explained
from eqprop.verification.zoo import precise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTLED = precise(block=True)
BETAS = np.array([3.0, 10.0, 30.0, 100.0, 300.0])


def clampable(subject: Subject) -> bool:
    """Whether it is a network that contrastive Hebbian learning takes: outputs can be clamped, and C has no penalty."""
    try:
        ContrastiveHebbian(SETTLED, SETTLED).check(subject.F)
    except InputError:
        return False
    return subject.F.offer(Hopfield) is not None


class FullClamping(Claim):
    """s^β = s^∞ + O(1/β) as β → ∞, where s^∞ is the fixed point with outputs held at their targets   (section 4.1)

    The clamped fixed point is found without a cost. The distance to it over β has the order −1, and two β give it by
    extrapolation: (β₂ s^{β₂} − β₁ s^{β₁}) / (β₂ − β₁) = s^∞ + O(1/β²).
    """

    name = "full clamping"
    section = "4.1"

    def applies(self, subject: Subject) -> bool:
        return clampable(subject)

    def check(self, subject: Subject) -> Finding:
        F, (free, _) = subject.F, subject.free
        outputs = need(F, Outputs, "The outputs are clamped", "ask `applies` first")
        held = jax.vmap(outputs.clamp)(subject.v)
        others = {layer: u for layer, u in free.items() if layer not in held}
        clamped = held
        if others:
            rest = outputs.clamped(tuple(held))
            clamped = held | SETTLED(rest, subject.theta, (subject.v, held), 0.0, others)[0]
        states = [SETTLED(F, subject.theta, subject.v, float(beta), free)[0] for beta in BETAS]
        states = [jax.tree.map(np.asarray, s) for s in states]
        errors = np.array([relative(s, clamped) for s in states])
        (b1, b2), (s1, s2) = BETAS[-2:], states[-2:]
        limit = jax.tree.map(lambda u1, u2: (b2 * u2 - b1 * u1) / (b2 - b1), s1, s2)
        why = "are the outputs clamped where the cost is least?"
        checks = [
            near("order in 1/β of the distance to clamped outputs", -order(BETAS[-3:], errors[-3:]), 1, 0.05, why),
            at_most("two β, extrapolated to β = ∞, beside clamped outputs", relative(limit, clamped), 1e-3, why),
        ]
        return self.found(subject, explained(subject, checks), betas=BETAS, errors=errors)

    def picture(self, finding: Finding) -> "Figure":
        from eqprop.plots.laws import power_law

        return power_law(
            finding.curves["betas"],
            {"all units": finding.curves["errors"]},
            -1,
            xlabel="strength of the nudge β",
            ylabel="distance to the clamped fixed point, relative",
            title=f"A strong nudge clamps. {finding.subject}",
            law=r"$1/\beta$",
        )


@dataclass(frozen=True)
class ContrastiveHebbianLearning(Claim):
    """∂J_CHL/∂θ = ∂E/∂θ(u^∞) − ∂E/∂θ(u⁰) with J_CHL = E(u^∞) − E(u⁰)   (section 4.1)

    The update of contrastive Hebbian learning beside differences of its objective, as long as both phases end in one
    mode of E: there J_CHL ≥ 0. (`eqprop compare` shows what happens where they do not.)
    """

    name: ClassVar[str] = "contrastive Hebbian learning"
    section: ClassVar[str] = "4.1"
    rule: ContrastiveHebbian = field(default=ContrastiveHebbian(SETTLED, SETTLED))

    def applies(self, subject: Subject) -> bool:
        return clampable(subject)

    def check(self, subject: Subject) -> Finding:
        F, (free, _) = subject.F, subject.free
        learned = self.rule(F, subject.theta, subject.v, free)

        def objective(theta: Theta) -> Array:
            return jnp.mean(self.rule(F, theta, subject.v, free).measured["objective"])

        ours, theirs = along(learned.gradient), differences(subject, objective, subject.theta)
        limit = 1e-6 if is_smooth(subject) else 1e-4
        why = "do both phases settle, and in the same mode of E?"
        checks = [
            at_most(f"{name} beside differences of J_CHL", relative(ours[part], theirs[part]), limit)
            for name, part in parts(subject.theta).items()
        ]
        checks.append(at_most("−J_CHL of the lowest example", -np.min(np.asarray(learned.measured["objective"])), 1e-9))
        return self.found(subject, explained(subject, checks, why))
