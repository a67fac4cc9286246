"""Theorem 1: what the rule computes is the gradient of the objective."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.compile import compiled
from eqprop.nudge import Holomorphic
from eqprop.relax import Stepwise
from eqprop.rule import BackpropagationThroughTime
from eqprop.total import System
from eqprop.types import Data, Number, State, Theta
from eqprop.verification.base import Check, Claim, Finding, Subject, at_most, cosine, flat, relative
from eqprop.verification.calculus import along, implicit, is_smooth, parts, settled_by_theta, unit
from eqprop.verification.health import explained


class Theorem1(Claim):
    """∂J/∂θ = lim_{β→0} Σ_k w_k ∂F/∂θ(θ, v, β_k, s^{β_k}),   J(θ, v) = C(θ, v, s⁰)   (section 3.3).

    The right-hand side is the subject's rule with a small β. The left-hand side is computed in three other ways:

    - implicitly: ∂C/∂θ + λ*·∂²F/∂θ∂s, with λ* from a linear solve by Lineax (Appendix B);
    - by differences: from values of J with other weights;
    - by backpropagation through time: through many steps of the relaxation at the fixed point, if it takes steps.
    """

    name = "theorem 1"
    section = "3.3"

    def check(self, subject: Subject) -> Finding:
        gradient, exact = small_nudge(subject), implicit(subject)
        limit = 1e-6 if isinstance(subject.rule.nudge, Holomorphic) else 1e-4
        ours = along(gradient)
        others = {
            "the implicit gradient": along(exact),
            "differences": objective(subject),
        }
        if isinstance(subject.rule.free, Stepwise):
            others["backpropagation through time"] = along(backpropagated(subject, subject.rule.free))
        checks = [
            at_most(f"{name} beside {other} (cosine {cosine(ours[part], theirs[part]):.6f})", error, limit)
            for name, part in parts(subject.theta).items()
            for other, theirs in others.items()
            for error in [relative(ours[part], theirs[part])]
        ]
        wrong = {other for other, theirs in others.items() if relative(ours, theirs) > limit}
        return self.found(subject, explained(subject, checks, hint(gradient, exact, wrong)))


class SecondForm(Claim):
    """∂J/∂θ = ∂C/∂θ(θ, v, s⁰) + lim_{β→0} 1/β (∂E/∂θ(θ, v, s^β) − ∂E/∂θ(θ, v, s⁰))   (section 3.3, Theorem 1)

    For a C that depends on θ, by a penalty on weights for instance. The limit alone, which is the energy's part, is
    then not the gradient.
    """

    name = "theorem 1, second form"
    section = "3.3"

    def applies(self, subject: Subject) -> bool:
        s = jax.tree.map(lambda u: np.asarray(u) + 0.3, subject.s)
        return bool(np.any(flat(_direct(subject.F, subject.theta, subject.v, s))))

    def check(self, subject: Subject) -> Finding:
        exact, contrast = implicit(subject), self.contrast(subject)
        direct = _direct(subject.F, subject.theta, subject.v, subject.free[0])
        found = along(direct) + along(contrast)
        others = {"the implicit gradient": along(exact), "the first form": along(small_nudge(subject))}
        checks = [
            at_most(f"{name} beside {other}", relative(found[part], theirs[part]), 1e-4)
            for name, part in parts(subject.theta).items()
            for other, theirs in others.items()
        ]
        without = relative(contrast, exact)
        checks.append(Check("error of the limit alone, without ∂C/∂θ", without, "> 0.001", without > 1e-3))
        why = "is ∂E/∂θ contrasted, without the ∂C/∂θ of the cost, which is to be added once?"
        return self.found(subject, explained(subject, checks, why))

    def contrast(self, subject: Subject) -> Theta:
        """1/2β (∂E/∂θ(s^β) − ∂E/∂θ(s^{−β})) for a small β."""
        beta = (1e-3 if is_smooth(subject) else 1e-5) * unit(subject)
        up, down = (self.slope(subject, b, subject.nudged(b)) for b in (beta, -beta))
        return jax.tree.map(lambda a, b: (np.asarray(a) - np.asarray(b)) / (2 * beta), up, down)

    def slope(self, subject: Subject, beta: float, s: State) -> Theta:
        """∂E/∂θ at the states s, which settled at β."""
        return slope_at(subject.F, subject.theta, subject.v, 0.0, s)


@compiled
def slope_at(F: System, theta: Theta, v: Data, beta: Number, s: State) -> Theta:
    """∂F/∂θ(θ, v, β, s), averaged over the examples."""
    return jax.grad(lambda theta: jnp.mean(jax.vmap(F, in_axes=(None, 0, None, 0))(theta, v, beta, s)))(theta)


@compiled
def _direct(F: System, theta: Theta, v: Data, s: State) -> Theta:
    """∂C/∂θ(θ, v, s), averaged over the examples."""
    return jax.grad(lambda theta: jnp.mean(jax.vmap(F.cost_at, in_axes=(None, 0, 0))(theta, v, s)))(theta)


def small_nudge(subject: Subject) -> Theta:
    """The rule's gradient, with the nudge of its kind that errs least: small, but not lost in rounding."""
    kind = subject.rule.nudge
    beta = 0.01 if isinstance(kind, Holomorphic) else 1e-3 if is_smooth(subject) else 1e-5
    rule = replace(subject.rule, nudge=replace(kind, beta=beta * unit(subject)))
    return rule(subject.F, subject.theta, subject.v, subject.free[0], jax.random.key(0)).gradient


def objective(subject: Subject) -> np.ndarray:
    """How J(θ), averaged over the examples, changes along each direction in θ: by settling anew."""
    return settled_by_theta(subject)["C"].mean(axis=1)


def backpropagated(subject: Subject, free: Stepwise) -> Theta:
    """∂C(s_T)/∂θ through T steps s_{t+1} = s_t − … of the free relaxation, which all stay at the fixed point."""
    rule = BackpropagationThroughTime(replace(free, steps=min(free.steps, 2000), accelerate=False))
    return rule(subject.F, subject.theta, subject.v, subject.free[0]).gradient


def hint(found: Theta, exact: Theta, wrong: set[str]) -> str:
    """A guess at the fault, from how two gradients differ, and from which others are `wrong` beside the first."""
    if "the implicit gradient" not in wrong:
        return (
            "all derivatives agree with each other but not with F itself: does a custom derivative, a stop_gradient or "
            "a rounding in F hide part of ∂F/∂θ or ∂C/∂s?"
        )
    angle, ratio = cosine(found, exact), np.linalg.norm(flat(found)) / (np.linalg.norm(flat(exact)) or 1)
    if angle < -0.99:
        return "the gradient has the wrong sign: is Σ w_k β_k = 1?"
    if angle > 0.999:
        return f"the gradient points the right way but is {ratio:.3g} times as long: is Σ w_k β_k = 1? Is it a mean?"
    return "the fixed points are right and their contrast is not: is it ∂F/∂θ, all of it, at each β_k?"
