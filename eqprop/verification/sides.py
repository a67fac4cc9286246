"""β may have either sign: the limit of Theorem 1 is the same from both sides of 0."""

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.energy import Hopfield, hard_sigmoid
from eqprop.total import Outputs
from eqprop.types import Data, State, Theta
from eqprop.verification.base import Check, Claim, Finding, Subject, at_most, relative, rows
from eqprop.verification.calculus import implicit, is_smooth, unit
from eqprop.verification.clamping import clampable
from eqprop.verification.health import explained
from eqprop.verification.order import slopes_at

STEPS = np.array([0, 1, 2, 3, -1, -2, -3])
FORWARD = np.array([-11, 18, -9, 2]) / 6
"""f'(0) = Σ_k FORWARD_k f(kβ)/β + O(β³), from one side."""


class Sides(Claim):
    """lim_{β→0⁺} 1/β (∂F/∂θ(β, s^β) − ∂F/∂θ(0, s⁰)) = lim_{β→0⁻} … = ∂J/∂θ: β "need not be positive"   (section 3.3)

    Each limit is found from points on its own side of 0. With bounds, both are the same as long as every unit is
    between its bounds, or is held at one by a force. They differ where a unit rests at a bound and feels no force: a
    nudge inwards moves it, and one outwards does not. There s^β, and J too, have a kink, and the theorem says nothing.
    For networks of hard sigmoids such a case is made, by biases that just bring the outputs to 0: nothing moves for
    β < 0.
    """

    name = "both signs of β"
    section = "3.3"

    def check(self, subject: Subject) -> Finding:
        exact = implicit(subject)
        right, left = self.limits(subject, subject.theta, subject.v, subject.free[0])
        limit = 1e-6 if is_smooth(subject) else 1e-4
        checks = [
            at_most("β → 0⁺ beside the implicit gradient", relative(right, exact), limit),
            at_most("β → 0⁻ beside the implicit gradient", relative(left, exact), limit),
            at_most("β → 0⁺ beside β → 0⁻", relative(right, left), limit),
        ]
        net, outputs = subject.F.offer(Hopfield), subject.F.offer(Outputs)
        if net is not None and outputs is not None and clampable(subject) and set(net.rho.values()) == {hard_sigmoid}:
            right, left = (np.linalg.norm(side) for side in self.limits(subject, *_kinked(subject, net, outputs)))
            checks += [
                Check("at an end without a force: ‖β → 0⁺‖", float(right), "> 0.1", bool(right > 0.1)),
                at_most("at an end without a force: ‖β → 0⁻‖", left, 1e-6),
            ]
        why = "does the nudged phase take a negative β for what it is?"
        return self.found(subject, explained(subject, checks, why))

    def limits(self, subject: Subject, theta: Theta, v: Data, s: State) -> tuple[np.ndarray, np.ndarray]:
        """From above and from below, all numbers of θ in a row."""
        beta = (1e-3 if is_smooth(subject) else 1e-5) * unit(subject)
        slopes = np.real(rows(slopes_at(subject.rule.nudged, subject.F, theta, v, s, jnp.asarray(beta * STEPS))))
        return FORWARD @ slopes[:4] / beta, -FORWARD @ slopes[[0, 4, 5, 6]] / beta


def _kinked(subject: Subject, net: Hopfield, outputs: Outputs) -> tuple[Theta, Data, State]:
    """θ, v and s⁰ at which the outputs rest at 0 and feel no force; every example is a copy of the first."""
    layers = [*outputs.clamp(subject.one()[0])]
    low = {layer: jnp.full(net.shapes[layer], -100.0) for layer in layers}  # far below 0
    theta = subject.theta | {"b": subject.theta["b"] | low}
    v = jax.tree.map(lambda a: jnp.broadcast_to(a[:1], a.shape), subject.v)
    s, _ = subject.rule.free(subject.F, theta, v, 0.0, subject.s)
    one = jax.tree.map(lambda a: a[0], (v[0], s))
    fields = jax.jit(lambda theta, x, s: jax.grad(net.phi, argnums=1)(theta, net.rates(x, s)))(theta, *one)
    for layer in layers:
        theta["b"][layer] -= fields[layer]
    return theta, v, s
