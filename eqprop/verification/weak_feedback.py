"""The model by Xie & Seung: with weak feedback, contrastive Hebbian learning is backpropagation (section 4.4)."""

from typing import TYPE_CHECKING

import jax
import numpy as np

from eqprop.energy import Feedforward, Hopfield, XieSeung
from eqprop.errors import InputError
from eqprop.relax import Block
from eqprop.rule import Backpropagation, ContrastiveHebbian
from eqprop.total import Total
from eqprop.types import Theta
from eqprop.verification.backward import ErrorsTravelBackwards
from eqprop.verification.base import Claim, Finding, Subject, at_most, cosine, near, order, relative
from eqprop.verification.calculus import output_cost
from eqprop.verification.clamping import clampable
from eqprop.verification.health import explained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAMMAS = np.array([0.1, 0.03, 0.01, 0.003, 0.001])


class WeakFeedback(Claim):
    """lim_{γ→0} γ^{j−N} (ρ(u_i^∞) ρ(u_j^∞) − ρ(u_i⁰) ρ(u_j⁰)) = −∂J/∂W_ij of the feed-forward network   (section 4.4)

    The update of contrastive Hebbian learning for the energy of Xie & Seung, beside backpropagation's, and the free
    fixed point beside the forward pass: both err by O(γ). For layered networks of clipped units, with biases that bring
    the outputs midway between their bounds: at a bound they are not those of a feed-forward network.
    """

    name = "weak feedback"
    section = "4.4"

    def applies(self, subject: Subject) -> bool:
        if output_cost(subject) is None or not clampable(subject):
            return False
        return ErrorsTravelBackwards().applies(subject) and not any(rho.bend for rho in self.net(subject).rho.values())

    def check(self, subject: Subject) -> Finding:
        net, cost, v = self.net(subject), output_cost(subject), subject.v
        assert cost is not None  # as it applies
        theta = self.centred(subject)
        gradient, passed, *_ = Backpropagation()(Total(Feedforward(net), cost), theta, v, subject.s)
        rule = ContrastiveHebbian(Block(steps=100, omega=1.0), Block(steps=100, omega=1.0, order="backward"))
        updates, states = [], []
        for gamma in GAMMAS:
            found, settled, *_ = rule(Total(XieSeung(net, float(gamma)), cost), theta, v, subject.s)
            updates.append(self.update(subject, float(gamma), found))
            states.append(relative(settled, passed))
        errors = [relative(update, gradient) for update in updates]
        checks = [
            near("order in γ of the distance to the forward pass", order(GAMMAS[-3:], states[-3:]), 1, 0.1),
            near("order in γ of the distance to backpropagation", order(GAMMAS[-3:], errors[-3:]), 1, 0.15),
            at_most(f"1 − cosine with backpropagation at γ = {GAMMAS[-1]:g}", 1 - cosine(updates[-1], gradient), 1e-4),
        ]
        why = "is each weight's update multiplied by its γ^j? Are the outputs between their bounds?"
        curves = {"γ": GAMMAS, "update": np.array(errors), "state": np.array(states)}
        return self.found(subject, explained(subject, checks, why), **curves)

    def net(self, subject: Subject) -> Hopfield:
        """The network whose layers and synapses are used."""
        if (net := subject.F.offer(Hopfield)) is None:
            raise InputError(f"{subject.name!r} is no Hopfield network: ask `applies` first")
        return net

    def centred(self, subject: Subject) -> Theta:
        """θ with other output biases: the outputs of the forward pass are midway between their bounds on average."""
        net, layer = self.net(subject), [*self.net(subject).free][-1]
        outputs = jax.vmap(Feedforward(net).forward, in_axes=(None, 0))(subject.theta, subject.v[0])[layer]
        b, middle = subject.theta["b"], (net.rho[layer].low + net.rho[layer].high) / 2
        return subject.theta | {"b": b | {layer: b[layer] + middle - outputs.mean(0)}}

    def update(self, subject: Subject, gamma: float, gradient: Theta) -> Theta:
        """The update of the weights: the gradient itself, for the energy has the rates γ^j in it."""
        return gradient

    def picture(self, finding: Finding) -> "Figure":
        from eqprop.plots.laws import power_law

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
