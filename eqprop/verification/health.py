"""Whether a subject is what the theory asks for; in words where it is not."""

from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.sparse.linalg import LinearOperator, eigsh

from eqprop.compile import compiled
from eqprop.relax import Flow, Gradient, Stepwise
from eqprop.total import System
from eqprop.types import Array, Data, Number, Scalar, State, Theta
from eqprop.verification.base import Check, Subject, at_most, rows
from eqprop.verification.calculus import unit

LEAST = 1e-9
"""A residual that counts as none: claims are checked by differences over 1e-6 or more."""

SMALL = 50
"""The largest number of units, of all examples, whose Hessian is looked at as a matrix."""

NAMES = {"beta": "β", "theta": "θ"}

AT_ONCE = 8
"""Points at which F is looked at by one call of its program."""


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
    advice = "" if met <= LEAST else _unsettled(subject, s, met, float(np.max(info.residual)))
    settled = at_most("residual of the free phase", met, LEAST, advice)
    if not np.isfinite(met):
        return (settled,)
    around = _around(subject, s)
    if not (given := _given(around)).passed:
        return (given,)
    checks = [_force(around), _symmetry(around), _jump(around), settled]
    if settled.passed:
        beta = 1e-3 * unit(subject)
        met = _residual(subject, beta, subject.nudged(beta))
        advice = f"Nudged phase not converged: residual {met:.1e}; raise `steps` of the nudged relaxation."
        checks.append(at_most(f"residual of the nudged phase, β = {beta:.2g}", met, LEAST, advice))
        checks.append(_minimum(around))
    return tuple(checks)


def _residual(subject: Subject, beta: float, s: State) -> float:
    """The largest residual of all examples, computed from F itself and not taken from the relaxation."""
    return float(_largest_residual(subject.F, subject.theta, subject.v, beta, s))


@compiled
def _largest_residual(F: System, theta: Theta, v: Data, beta: Number, s: State) -> Array:
    def one(v: Data, s: State) -> Scalar:
        return F.space.residual(s, F.force(theta, v, beta, s))

    return jnp.max(jax.vmap(one)(v, s))


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
        jump = _jump(_around(subject, near), 2 * shorter.epsilon)
        if not jump.passed and np.isfinite(jump.value):
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


class Around(NamedTuple):
    """Settled states of a subject as vectors x, a row for each example, and which units are between their bounds."""

    subject: Subject
    x: np.ndarray
    here: np.ndarray

    def vectors(self, count: int) -> np.ndarray:
        """Random ones, which are 0 for units at a bound; always the same."""
        return self.here * np.random.default_rng(0).normal(size=(count, *self.x.shape))

    def look(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F at β = 0 and the force on all units, for any number of points like x (first axis), a few at a time."""
        F, theta, v, s = self.subject.F, self.subject.theta, self.subject.v, self.subject.s
        count = -len(points) % AT_ONCE
        points = np.concatenate([points, *[points[-1:]] * count]).reshape(-1, AT_ONCE, *self.x.shape)
        energies, forces = zip(*[map(np.asarray, _look(F, theta, v, s, some)) for some in points], strict=True)
        end = len(points) * AT_ONCE - count
        return np.concatenate(energies)[:end], np.concatenate(forces)[:end]


def _around(subject: Subject, s: State) -> Around:
    s = jax.tree.map(np.asarray, s)
    return Around(subject, rows(s), rows(subject.F.space.inside(s)))


@compiled
def _look(F: System, theta: Theta, v: Data, s: State, points: Array) -> tuple[Array, Array]:
    _, restore = ravel_pytree(jax.tree.map(lambda u: u[0], s))

    def one(v: Data, x: Array) -> tuple[Array, Array]:
        s = restore(x)
        return F(theta, v, 0.0, s), ravel_pytree(F.force(theta, v, 0.0, s))[0]

    return jax.vmap(jax.vmap(one), in_axes=(None, 0))(v, points)


def _given(around: Around) -> Check:
    """Whether F uses β and θ at all: without, every claim says 0 = 0."""
    subject = around.subject
    points = jnp.asarray(np.concatenate([around.x[None], around.vectors(3)]))
    sizes = _used(subject.F, subject.theta, subject.v, subject.s, points)
    unused = [name for name, size in zip(("beta", "theta"), map(float, sizes), strict=True) if size == 0]
    advice = " ".join(f"∂F/∂{NAMES[name]} is 0 everywhere: does F use its argument {name}?" for name in unused)
    if "beta" in unused:
        advice += " Without a target there is no cost that β could weigh: give targets in v."
    return Check("arguments that F does not use", len(unused), "= 0", not unused, advice)


@compiled
def _used(F: System, theta: Theta, v: Data, s: State, points: Array) -> tuple[Array, Array]:
    """The largest of ∂F/∂β and of ∂F/∂θ at some points, of all examples; the first axis of `points` counts them."""
    _, restore = ravel_pytree(jax.tree.map(lambda u: u[0], s))

    def one(v: Data, x: Array) -> tuple[Array, Array]:
        s = F.space.project(restore(x))
        slopes, pull = jax.grad(F, argnums=(0, 2))(theta, v, jnp.asarray(0.1), s)
        return jnp.abs(pull), jnp.max(jnp.abs(ravel_pytree(slopes)[0]))

    return jax.tree.map(jnp.max, jax.vmap(jax.vmap(one), in_axes=(None, 0))(v, points))


def _force(around: Around) -> Check:
    """The force beside differences of F itself, near the fixed point, where it is not 0, in a random direction."""
    (d,) = around.vectors(1)
    x = around.x + 0.01 * around.here
    energies, forces = around.look(np.stack([x, *(x + delta * d for delta in (1e-4, -1e-4, 2e-4, -2e-4))]))
    expected = (8 * (energies[1] - energies[2]) - (energies[3] - energies[4])) / 12e-4
    errors = np.abs(np.sum(forces[0] * d, axis=1) + expected) / (np.abs(expected) + 1e-6)
    advice = (
        "∂F/∂s is not the derivative of F: a custom derivative, a stop_gradient, a side effect or a random number in F "
        "takes part of the force away. Without that part the network does not go downhill."
    )
    return at_most("∂F/∂s beside differences of F", np.median(errors), 1e-4, advice)


def _symmetry(around: Around) -> Check:
    """∂²F/∂s² is symmetric, tested by two random vectors: ⟨a, H b⟩ = ⟨b, H a⟩.

    By differences of the force: a stop_gradient would hide from a second derivative what it hides from the first.
    """
    a, b = around.vectors(2)
    Ha, Hb = _bent(around, np.stack([a, b]))
    size = np.linalg.norm(a, axis=1) * np.linalg.norm(Hb, axis=1) + 1e-30
    advice = (
        "The force is not that of an energy: ∂²F/∂s² is not symmetric. Are the weights symmetric, W_ij = W_ji, and "
        "does each unit feel every unit that feels it?"
    )
    gap = np.abs(np.sum(a * Hb, axis=1) - np.sum(b * Ha, axis=1)) / size
    return at_most("asymmetry of ∂²F/∂s²", np.max(gap), 1e-6, advice)


def _bent(around: Around, vectors: np.ndarray) -> np.ndarray:
    """∂²F/∂s² d for each of the vectors d, by differences of the force."""
    _, forces = around.look(np.concatenate([around.x - 1e-6 * vectors, around.x + 1e-6 * vectors]))
    return (forces[: len(vectors)] - forces[len(vectors) :]) / 2e-6


def _jump(around: Around, reach: float = 1e-6) -> Check:
    """How far ∂F/∂s changes within a distance `reach` of s: hardly at all, if F is smooth."""
    move = reach * np.sign(around.vectors(1)[0])
    _, forces = around.look(np.stack([around.x + move, around.x - move]))
    size = float(np.max(np.abs(forces[0] - forces[1])))
    advice = (
        f"∂F/∂s jumps by {size:.2g} where the network rests: F has a kink there (|s|, max, a step, …), but the theory "
        "needs it twice differentiable. Smooth it, or make the kink a bound of its eqprop.Space."
    )
    return at_most(f"change of ∂F/∂s over {2 * reach:g}", size, 1e3 * reach, advice)


def _minimum(around: Around) -> Check:
    """The least curvature of F among the units that can move: positive at a proper minimum.

    In a large network Lanczos' method finds it by products ∂²F/∂s² d alone, as the matrix would take the square of all
    units. It is then the least among the directions that were looked at: a negative one is proof of no minimum.
    """
    size, curved = around.x.size, partial(_curved, around)
    if size <= SMALL:
        least = float(np.min(np.linalg.eigvalsh(curved(np.eye(size))))) - 1
    else:
        start = np.random.default_rng(0).normal(size=size)
        operator = LinearOperator((size, size), matvec=curved, dtype=float)  # pyright: ignore[reportCallIssue]
        least = float(eigsh(operator, 1, which="SA", tol=1e-4, v0=start, return_eigenvectors=False)[0]) - 1  # pyright: ignore[reportArgumentType]
    advice = f"The free phase rests where F is not curved upwards (least curvature {least:.1e}): not at a minimum."
    passed = least > 1e-6
    return Check("least curvature at the free fixed point", least, "> 0", passed, "" if passed else advice)


def _curved(around: Around, columns: np.ndarray) -> np.ndarray:
    """(1 + ∂²F/∂s²) d for each column d, in which all examples are in a row; units at a bound are held by a spring.

    1 is added as Lanczos' method finds eigenvalues up to a share of themselves, which of nearly 0 would take for ever.
    """
    d = columns.T.reshape(-1, *around.x.shape)
    few = np.split(d, range(AT_ONCE // 2, len(d), AT_ONCE // 2))
    bent = np.concatenate([_bent(around, around.here * some) for some in few])
    return (d + np.where(around.here, bent, d)).reshape(columns.T.shape).T
