"""The model by Xie & Seung: with weak feedback, contrastive Hebbian learning is backpropagation (section 4.4)."""

from typing import Any

import jax
import numpy as np

from eqprop.claims.backward import ErrorsTravelBackwards
from eqprop.claims.base import Claim, Finding, Subject, at_most, cosine, near, order, relative
from eqprop.claims.clamping import clampable
from eqprop.claims.health import explained
from eqprop.claims.power import power_law
from eqprop.energy import Feedforward, Total, XieSeung
from eqprop.relax import Block
from eqprop.rule import Backpropagation, ContrastiveHebbian

GAMMAS = np.array([0.1, 0.03, 0.01, 0.003, 0.001])


class WeakFeedback(Claim):
    """lim_{γ→0} γ^{j−N} (ρ(u_i^∞) ρ(u_j^∞) − ρ(u_i⁰) ρ(u_j⁰)) = −∂J/∂W_ij of the feed-forward network   (section 4.4)

    The update of contrastive Hebbian learning for the energy of Xie & Seung, beside backpropagation's, and the free
    fixed point beside the forward pass: both err by O(γ). For layered networks of clipped units, at biases that bring
    the outputs to the middle of their box: at its ends they are not those of a feed-forward network.
    """

    name = "weak feedback"
    section = "4.4"

    def applies(self, subject: Subject) -> bool:
        return clampable(subject) and ErrorsTravelBackwards().applies(subject) and not self.net(subject).activation.bend

    def check(self, subject: Subject) -> Finding:
        net, cost, v = self.net(subject), subject.F.cost, subject.v  # pyright: ignore[reportAttributeAccessIssue]
        theta = self.centred(subject)
        gradient, passed, _ = Backpropagation()(Total(Feedforward(net), cost), theta, v, subject.s)
        rule = ContrastiveHebbian(Block(steps=100, omega=1.0), Block(steps=100, omega=1.0, backward=True))
        updates, states = [], []
        for gamma in GAMMAS:
            found, settled, _ = rule(Total(XieSeung(net, float(gamma)), cost), theta, v, subject.s)
            updates.append(self.update(subject, float(gamma), found))
            states.append(relative(settled, passed))
        errors = [relative(update, gradient) for update in updates]
        checks = [
            near("order in γ of the distance to the forward pass", order(GAMMAS[-3:], states[-3:]), 1, 0.1),
            near("order in γ of the distance to backpropagation", order(GAMMAS[-3:], errors[-3:]), 1, 0.15),
            at_most(f"1 − cosine with backpropagation at γ = {GAMMAS[-1]:g}", 1 - cosine(updates[-1], gradient), 1e-4),
        ]
        why = "is each weight's update multiplied by its γ^j? Are the outputs inside their box?"
        curves = {"γ": GAMMAS, "update": np.array(errors), "state": np.array(states)}
        return self.found(subject, explained(subject, checks, why), **curves)

    def net(self, subject: Subject) -> Any:
        """The network whose layers and synapses are used."""
        return subject.F.energy  # pyright: ignore[reportAttributeAccessIssue]  (a Total, as it applies)

    def centred(self, subject: Subject) -> Any:
        """θ, but for biases with which the outputs of the forward pass are in the middle of their box on average."""
        net, layer = self.net(subject), [*self.net(subject).free][-1]
        outputs = jax.vmap(Feedforward(net).forward, in_axes=(None, 0))(subject.theta, subject.v[0])[layer]
        b = subject.theta["b"]
        return subject.theta | {"b": b | {layer: b[layer] + sum(net.box) / 2 - outputs.mean(0)}}

    def update(self, subject: Subject, gamma: float, gradient: Any) -> Any:
        """What the weights change by, for they learn at rates γ^j: as the energy says."""
        return gradient

    def picture(self, finding: Finding) -> Any:
        curves = finding.curves
        return power_law(
            curves["γ"],
            {"update, from backpropagation": curves["update"], "free state, from the forward pass": curves["state"]},
            1,
            xlabel="strength of the feedback γ",
            ylabel="relative distance",
            title=f"With weak feedback it is backpropagation. {finding.subject}",
            law="γ",
        )
