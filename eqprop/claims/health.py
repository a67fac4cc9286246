"""Whether a subject is what the theory asks for; in words where it is not."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from eqprop.claims.base import Check, Subject, at_most, flat
from eqprop.claims.calculus import unit
from eqprop.energy.total import slope
from eqprop.relax import Gradient
from eqprop.relax.box import inside, residual

LEAST = 1e-9
"""A residual that counts as none: the differences that claims are checked by are of 1e-6."""

DENSE = 2000
"""Up to so many units the Hessian is looked at as a matrix."""


def words(subject: Subject) -> str:
    """What is wrong with the subject itself, so that no claim can hold; empty if nothing is."""
    return " ".join(dict.fromkeys(check.advice for check in checkup(subject) if not check.passed))


def explained(subject: Subject, checks: list[Check], otherwise: str = "") -> list[Check]:
    """The checks, with advice for those that failed: what is wrong with the subject, or `otherwise`."""
    if all(check.passed for check in checks):
        return checks
    advice = words(subject) or otherwise
    return [check if check.passed else replace(check, advice=check.advice or advice) for check in checks]


@lru_cache(maxsize=8)
def checkup(subject: Subject) -> tuple[Check, ...]:
    """What every claim takes for granted: F is smooth, ∂F/∂s is its derivative, and both phases come to rest."""
    s, info = subject.free()
    met = _residual(subject, 0.0, s)
    advice = "" if met <= LEAST else _unsettled(subject, s, met, float(jnp.max(info.residual)))
    settled = at_most("residual of the free phase", met, LEAST, advice)
    if not np.isfinite(met):
        return (settled,)
    checks = [_force(subject, s), _symmetry(subject, s), _jump(subject, s), settled]
    if settled.passed:
        beta = 1e-3 * unit(subject)
        nudged, _ = subject.rule.nudged(subject.F, subject.theta, subject.v, beta, s)
        met = _residual(subject, beta, nudged)
        advice = f"Nudged phase not converged: residual {met:.1e}; raise `steps` of the nudged relaxation."
        checks.append(at_most(f"residual of the nudged phase, β = {beta:.2g}", met, LEAST, advice))
        checks.append(_minimum(subject, s))
    return tuple(checks)


def _residual(subject: Subject, beta: float, s: Any) -> float:
    """The largest of all examples, from F itself and not from what the relaxation says of itself."""

    def one(v: Any, s: Any) -> Any:
        return residual(subject.F, s, jax.tree.map(jnp.negative, slope(subject.F, subject.theta, v, beta, s)))

    return float(jnp.max(jax.jit(jax.vmap(one))(subject.v, s)))


def _unsettled(subject: Subject, s: Any, met: float, told: float) -> str:
    """Why the free phase did not come to rest: let it go on, or begin again with shorter steps, and see."""
    if np.isfinite(met):
        if told <= LEAST:
            return (
                f"The free phase rests where ∂F/∂s is not 0 but {met:.1e}: its steps do not follow ∂F/∂s. Is a factor, "
                "such as ρ', left out of them?"
            )
        if (tol := getattr(subject.rule.free, "tol", None)) is not None and told <= tol:
            return f"Free phase not converged far enough: residual {met:.1e}; lower `tol` (now {tol:g}) to 1e-12."
        later, _ = replace(subject, s=s).free()
        if _residual(subject, 0.0, later) < 0.9 * met:
            steps = getattr(subject.rule.free, "steps", None)
            return f"Free phase not converged: residual {met:.1e}, still falling; raise `steps` (now {steps})."
    if isinstance(free := subject.rule.free, Gradient):
        shorter = replace(free, epsilon=free.epsilon / 1000)
        near, _ = shorter(subject.F, subject.theta, subject.v, 0.0, subject.s)
        before, after = (_residual(subject, 0.0, state) for state in (subject.s, near))
        if after < 0.5 * np.nanmin([before, met]):
            return (
                f"Free phase not converged: residual {met:.1e}. It overshoots: take smaller steps (`epsilon`, now "
                f"{free.epsilon:g}), and more of them."
            )
        if not (jump := _jump(subject, near, 2 * shorter.epsilon)).passed:
            return f"Free phase not converged: residual {met:.1e}, for it goes to and fro. {jump.advice}"
    if np.isfinite(met):
        return (
            f"Free phase not converged: residual {met:.1e}, and as many steps again do not help; take smaller steps, "
            "and see that F is bounded from below."
        )
    return (
        "The free phase runs away to infinity: F has no minimum that it could find. Give F a leak such as ½‖s‖² or a "
        "`box`, or take smaller steps."
    )


def _of_each(subject: Subject, s: Any, one: Callable[..., Any], vectors: int = 0) -> np.ndarray:
    """one(energy, x, here, *vectors) of every example.

    energy(x) is F at β = 0 of a state that is a vector x instead of a tree; `here` says which units are inside the box;
    the `vectors` are random, and 0 elsewhere.
    """
    _, restore = ravel_pytree(subject.one()[1])
    count = len(jax.tree.leaves(s)[0])
    x = np.stack([flat(jax.tree.map(lambda u, i=i: u[i], s)) for i in range(count)])
    here = inside(subject.F, x)
    random = here * np.random.default_rng(0).normal(size=(vectors, *x.shape))

    def example(v: Any, x: Any, here: Any, *random: Any) -> Any:
        def energy(x: Any) -> Any:
            return subject.F(subject.theta, v, 0.0, restore(x))

        return one(energy, x, here, *random)

    return np.asarray(jax.jit(jax.vmap(example))(subject.v, x, here, *random))


def _force(subject: Subject, s: Any) -> Check:
    """∂F/∂s beside differences of F itself, near the fixed point, where the force is not 0, in a random direction."""

    def one(energy: Any, x: Any, here: Any, d: Any) -> Any:
        x = x + 0.01 * here
        near, far = (energy(x + delta * d) - energy(x - delta * d) for delta in (1e-4, 2e-4))
        expected = (8 * near - far) / 12e-4
        return jnp.abs(jax.grad(energy)(x) @ d - expected) / (jnp.abs(expected) + 1e-6)

    advice = (
        "∂F/∂s is not the derivative of F: a custom derivative or a stop_gradient in it takes part of the force away. "
        "Without that part the network does not go downhill."
    )
    return at_most("∂F/∂s beside differences of F", np.median(_of_each(subject, s, one, 1)), 1e-4, advice)


def _symmetry(subject: Subject, s: Any) -> Check:
    """∂²F/∂s² is symmetric, tested by two random vectors: ⟨a, H b⟩ = ⟨b, H a⟩.

    By differences of the force: a stop_gradient would hide from a second derivative what it hides from the first.
    """

    def one(energy: Any, x: Any, here: Any, a: Any, b: Any) -> Any:
        force = jax.grad(energy)
        Ha, Hb = ((force(x + 1e-6 * d) - force(x - 1e-6 * d)) / 2e-6 for d in (a, b))
        return jnp.abs(a @ Hb - b @ Ha) / (jnp.linalg.norm(a) * jnp.linalg.norm(Hb) + 1e-30)

    advice = (
        "The force is not that of an energy: ∂²F/∂s² is not symmetric. Are the weights symmetric, W_ij = W_ji, and "
        "does each unit feel every unit that feels it?"
    )
    return at_most("asymmetry of ∂²F/∂s²", np.max(_of_each(subject, s, one, 2)), 1e-6, advice)


def _jump(subject: Subject, s: Any, reach: float = 1e-6) -> Check:
    """How far ∂F/∂s changes within a distance `reach` of s: next to nothing, if F is smooth."""

    def one(energy: Any, x: Any, here: Any, d: Any) -> Any:
        move = reach * jnp.sign(d)
        return jnp.max(jnp.abs(jax.grad(energy)(x + move) - jax.grad(energy)(x - move)))

    size = float(np.max(_of_each(subject, s, one, 1)))
    advice = (
        f"∂F/∂s jumps by {size:.2g} where the network rests: F has a kink there (|s|, max, a step, …), but the theory "
        "needs it twice differentiable. Smooth it, or make the kink an end of a `box`."
    )
    return at_most(f"change of ∂F/∂s over {2 * reach:g}", size, 1e3 * reach, advice)


def _minimum(subject: Subject, s: Any) -> Check:
    """The least curvature of F among the units that can move: positive at a proper minimum."""
    units = len(ravel_pytree(subject.one()[1])[0])
    if units > DENSE:
        return Check(f"curvature: not looked at, as there are {units} units", 0.0, "", True)

    def one(energy: Any, x: Any, here: Any) -> Any:
        # Units at an end of the box count as held by a spring.
        return jnp.where(here[:, None] & here[None, :], jax.hessian(energy)(x), jnp.eye(len(x)))

    least = float(np.min(np.linalg.eigvalsh(_of_each(subject, s, one))))
    advice = f"The free phase rests where F is not curved upwards (least curvature {least:.1e}): not at a minimum."
    passed = least > 1e-6
    return Check("least curvature at the free fixed point", least, "> 0", passed, "" if passed else advice)
