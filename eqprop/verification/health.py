"""Whether a subject is what the theory asks for; in words where it is not."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from eqprop.relax import Flow, Gradient, Stepwise
from eqprop.types import Array, Data, Scalar, State
from eqprop.verification.base import Check, Subject, at_most, rows
from eqprop.verification.calculus import unit

LEAST = 1e-9
"""A residual that counts as none: claims are checked by differences over 1e-6 or more."""

DENSE = 2000
"""The largest number of units whose Hessian is looked at as a matrix."""

Function = Callable[[Array], Array]
"""Of the state of one example as a vector."""


def words(subject: Subject) -> str:
    """The faults of the subject itself, with which no claim can hold; empty if it has none."""
    return " ".join(dict.fromkeys(check.advice for check in checkup(subject) if not check.passed))


def explained(subject: Subject, checks: list[Check], otherwise: str = "") -> list[Check]:
    """The checks, with advice for those that failed: what is wrong with the subject, or `otherwise`."""
    if all(check.passed for check in checks):
        return checks
    advice = words(subject) or otherwise
    return [check if check.passed else replace(check, advice=check.advice or advice) for check in checks]


@lru_cache(maxsize=8)
def checkup(subject: Subject) -> tuple[Check, ...]:
    """The conditions of every claim: F is smooth, ∂F/∂s is its derivative, and both phases come to rest."""
    s, info = subject.free
    met = _residual(subject, 0.0, s)
    advice = "" if met <= LEAST else _unsettled(subject, s, met, float(jnp.max(info.residual)))
    settled = at_most("residual of the free phase", met, LEAST, advice)
    if not np.isfinite(met):
        return (settled,)
    checks = [_force(subject, s), _symmetry(subject, s), _jump(subject, s), settled]
    if settled.passed:
        beta = 1e-3 * unit(subject)
        met = _residual(subject, beta, subject.nudged(beta))
        advice = f"Nudged phase not converged: residual {met:.1e}; raise `steps` of the nudged relaxation."
        checks.append(at_most(f"residual of the nudged phase, β = {beta:.2g}", met, LEAST, advice))
        checks.append(_minimum(subject, s))
    return tuple(checks)


def _residual(subject: Subject, beta: float, s: State) -> float:
    """The largest residual of all examples, computed from F itself and not taken from the relaxation."""

    def one(v: Data, s: State) -> Scalar:
        return subject.F.space.residual(s, subject.F.force(subject.theta, v, beta, s))

    return float(jnp.max(jax.jit(jax.vmap(one))(subject.v, s)))


def _unsettled(subject: Subject, s: State, met: float, told: float) -> str:
    """Why the free phase did not come to rest: let it go on, or begin again with shorter steps, and see.

    `met` is the residual that F has there, and `told` the one that the relaxation reports.
    """
    free = subject.rule.free
    if np.isfinite(met):
        if told <= LEAST:
            return (
                f"The free phase rests where ∂F/∂s is not 0 but {met:.1e}: its steps do not follow ∂F/∂s. Is a factor, "
                "such as ρ', left out of them?"
            )
        if isinstance(free, Stepwise | Flow) and free.tol is not None and told <= free.tol:
            return f"Free phase not converged far enough: residual {met:.1e}; lower `tol` (now {free.tol:g}) to 1e-12."
        later, _ = subject.at_rest.free
        if _residual(subject, 0.0, later) < 0.9 * met:
            more = f"raise `steps` (now {free.steps})" if isinstance(free, Stepwise) else "let it settle for longer"
            return f"Free phase not converged: residual {met:.1e}, still falling; {more}."
    if isinstance(free, Gradient):
        shorter = replace(free, epsilon=free.epsilon / 1000)
        near, _ = shorter(subject.F, subject.theta, subject.v, 0.0, subject.s)
        before, after = (_residual(subject, 0.0, state) for state in (subject.s, near))
        if after < 0.5 * np.nanmin([before, met]):
            return (
                f"Free phase not converged: residual {met:.1e}. It overshoots: take smaller steps (`epsilon`, now "
                f"{free.epsilon:g}), and more of them."
            )
        if not (jump := _jump(subject, near, 2 * shorter.epsilon)).passed:
            return f"Free phase not converged: residual {met:.1e}, as it goes to and fro. {jump.advice}"
    if np.isfinite(met):
        return (
            f"Free phase not converged: residual {met:.1e}, and as many steps again do not help; take smaller steps, "
            "and see that F is bounded from below."
        )
    return (
        "The free phase runs away to infinity: F has no minimum that it could find. Give F a leak such as ½‖s‖², or "
        "bounds by eqprop.Space, or take smaller steps."
    )


def _of_each(subject: Subject, s: State, one: Callable[..., Array], vectors: int = 0) -> np.ndarray:
    """one(energy, force, x, here, *vectors) of every example.

    energy(x) and force(x) are those of F at β = 0, of a state that is a vector x instead of a tree. `here` says which
    units are between their bounds; the `vectors` are random there, and 0 elsewhere.
    """
    _, restore = ravel_pytree(subject.one()[1])
    x, here = rows(s), rows(subject.F.space.inside(s))
    random = here * np.random.default_rng(0).normal(size=(vectors, *x.shape))

    def example(v: Data, x: Array, here: Array, *random: Array) -> Array:
        def energy(x: Array) -> Scalar:
            return subject.F(subject.theta, v, 0.0, restore(x))

        def force(x: Array) -> Array:
            return ravel_pytree(subject.F.force(subject.theta, v, 0.0, restore(x)))[0]

        return one(energy, force, x, here, *random)

    return np.asarray(jax.jit(jax.vmap(example))(subject.v, x, here, *random))


def _force(subject: Subject, s: State) -> Check:
    """The force beside differences of F itself, near the fixed point, where it is not 0, in a random direction."""

    def one(energy: Function, force: Function, x: Array, here: Array, d: Array) -> Array:
        x = x + 0.01 * here
        near, far = (energy(x + delta * d) - energy(x - delta * d) for delta in (1e-4, 2e-4))
        expected = (8 * near - far) / 12e-4
        return jnp.abs(force(x) @ d + expected) / (jnp.abs(expected) + 1e-6)

    advice = (
        "∂F/∂s is not the derivative of F: a custom derivative or a stop_gradient in it takes part of the force away. "
        "Without that part the network does not go downhill."
    )
    return at_most("∂F/∂s beside differences of F", np.median(_of_each(subject, s, one, 1)), 1e-4, advice)


def _symmetry(subject: Subject, s: State) -> Check:
    """∂²F/∂s² is symmetric, tested by two random vectors: ⟨a, H b⟩ = ⟨b, H a⟩.

    By differences of the force: a stop_gradient would hide from a second derivative what it hides from the first.
    """

    def one(energy: Function, force: Function, x: Array, here: Array, a: Array, b: Array) -> Array:
        Ha, Hb = ((force(x + 1e-6 * d) - force(x - 1e-6 * d)) / 2e-6 for d in (a, b))
        return jnp.abs(a @ Hb - b @ Ha) / (jnp.linalg.norm(a) * jnp.linalg.norm(Hb) + 1e-30)

    advice = (
        "The force is not that of an energy: ∂²F/∂s² is not symmetric. Are the weights symmetric, W_ij = W_ji, and "
        "does each unit feel every unit that feels it?"
    )
    return at_most("asymmetry of ∂²F/∂s²", np.max(_of_each(subject, s, one, 2)), 1e-6, advice)


def _jump(subject: Subject, s: State, reach: float = 1e-6) -> Check:
    """How far ∂F/∂s changes within a distance `reach` of s: hardly at all, if F is smooth."""

    def one(energy: Function, force: Function, x: Array, here: Array, d: Array) -> Array:
        move = reach * jnp.sign(d)
        return jnp.max(jnp.abs(force(x + move) - force(x - move)))

    size = float(np.max(_of_each(subject, s, one, 1)))
    advice = (
        f"∂F/∂s jumps by {size:.2g} where the network rests: F has a kink there (|s|, max, a step, …), but the theory "
        "needs it twice differentiable. Smooth it, or make the kink a bound of its eqprop.Space."
    )
    return at_most(f"change of ∂F/∂s over {2 * reach:g}", size, 1e3 * reach, advice)


def _minimum(subject: Subject, s: State) -> Check:
    """The least curvature of F among the units that can move: positive at a proper minimum."""
    units = len(ravel_pytree(subject.one()[1])[0])
    if units > DENSE:
        return Check(f"curvature: not looked at, as there are {units} units", 0.0, "", True)

    def one(energy: Function, force: Function, x: Array, here: Array) -> Array:
        # Units at a bound count as held by a spring.
        return jnp.where(here[:, None] & here[None, :], jax.hessian(energy)(x), jnp.eye(len(x)))

    least = float(np.min(np.linalg.eigvalsh(_of_each(subject, s, one))))
    advice = f"The free phase rests where F is not curved upwards (least curvature {least:.1e}): not at a minimum."
    passed = least > 1e-6
    return Check("least curvature at the free fixed point", least, "> 0", passed, "" if passed else advice)
