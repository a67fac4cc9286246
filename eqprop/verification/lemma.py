"""The lemma from which Theorem 1 follows: θ and β play symmetric roles. With both of its proofs, step by step."""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from eqprop.compile import compiled
from eqprop.total import System
from eqprop.types import Data, Number, State, Theta
from eqprop.verification.base import Claim, Finding, Subject, at_most, relative, rows
from eqprop.verification.calculus import along, derivative, parts, settled_by_theta, unit
from eqprop.verification.health import explained

BETA = 0.2
"""The β at which the lemma is checked, times the `unit` of the subject."""


class Derivatives(NamedTuple):
    """At the nudged fixed point s of the first example v.

    by_theta, by_beta: total derivatives, by settling anew, of s, of G := F at s, and of a partial derivative of F: by
        θ that of ∂F/∂β, called C, and by β that of ∂F/∂θ, called F. The first axis of those by θ counts directions.
    partial: those at fixed s.
    """

    beta: float
    v: Data
    s: State
    by_theta: dict[str, np.ndarray]
    by_beta: dict[str, Any]
    partial: "Partial"


class Partial(NamedTuple):
    """F, its partial derivatives, and which units are between their bounds; s is a vector, and θ still a tree."""

    F: Any
    F_theta: Any
    F_beta: Any
    F_theta_beta: Any
    F_s_beta: Any
    F_ss: Any
    here: Any


@lru_cache(maxsize=8)
def derivatives(subject: Subject) -> Derivatives:
    """All that the claims of this file compare: most of it comes from the same settled states."""
    beta = BETA * unit(subject)

    def first(beta: float) -> tuple[Data, State]:
        return jax.tree.map(lambda a: np.asarray(a)[0], (subject.v, subject.nudged(beta)))

    def settled(beta: float) -> dict[str, Any]:
        v, s = first(beta)
        found = _partial(subject.F, subject.theta, v, beta, s)
        return {"s": ravel(s), "G": found.F, "F": found.F_theta}

    by_beta = derivative(subject, settled, beta)
    by_beta["F"] = along(by_beta["F"])
    by_theta = {name: change[:, 0] for name, change in settled_by_theta(subject, beta).items()}
    v, s = first(beta)
    return Derivatives(beta, v, s, by_theta, by_beta, _partial(subject.F, subject.theta, v, beta, s))


def ravel(s: State) -> np.ndarray:
    """All units in a row."""
    return rows(jax.tree.map(lambda u: u[None], s))[0]


@compiled
def _partial(F: System, theta: Theta, v: Data, beta: Number, s: State) -> Partial:
    beta, one = jnp.asarray(beta), jnp.ones(())
    flat, restore = ravel_pytree(s)

    def force(x: Array, beta: Array) -> Array:
        return ravel_pytree(F.force(theta, v, beta, restore(x)))[0]

    F_theta, F_theta_beta = jax.jvp(lambda beta: jax.grad(F)(theta, v, beta, s), (beta,), (one,))
    value, F_beta = jax.value_and_grad(F, argnums=2)(theta, v, beta, s)
    F_s_beta = -jax.jvp(lambda beta: force(flat, beta), (beta,), (one,))[1]
    here = ravel_pytree(F.space.inside(s))[0]
    return Partial(value, F_theta, F_beta, F_theta_beta, F_s_beta, -jax.jacfwd(force)(flat, beta), here)


class Envelope(Claim):
    """dG/dβ = ∂F/∂β and dG/dθ = ∂F/∂θ at s^β_θ, where G(θ, β) := F(θ, v, β, s^β_θ)   (Appendix A, the concise proof)

    As ∂F/∂s = 0 there, the way in which the fixed point moves with θ and β adds nothing. The left-hand sides are
    differences of G, settling anew; the lemma says that the cross-derivatives of G are equal. For one example, at
    β ≠ 0.
    """

    name = "envelope"
    section = "Appendix A"

    def check(self, subject: Subject) -> Finding:
        found = derivatives(subject)
        checks = [at_most("dG/dβ beside ∂F/∂β", relative(found.by_beta["G"], found.partial.F_beta), 1e-6)]
        F_theta = along(found.partial.F_theta)
        checks += [
            at_most(f"{name}: dG/dθ beside ∂F/∂θ", relative(found.by_theta["G"][part], F_theta[part]), 1e-6)
            for name, part in parts(subject.theta).items()
        ]
        why = "The nudged phase ends at no fixed point of F: does it follow ∂F/∂s at the same β?"
        return self.found(subject, explained(subject, checks, why))


class Lemma(Claim):
    """(d/dθ ∂F/∂β(θ, β, s^β_θ))ᵀ = d/dβ ∂F/∂θ(θ, β, s^β_θ), at β ≠ 0 too   (Appendix A)

    Both sides by differences, settling anew with other weights and with other β; and both equal

        ∂²F/∂θ∂β − (∂s/∂θ)ᵀ · ∂²F/∂s² · ∂s/∂β   and   ∂²F/∂θ∂β − ∂²F/∂θ∂s · (∂²F/∂s²)⁻¹ · ∂²F/∂s∂β,

    the first with differences of the settled states, the second without settling at all. For one example.
    """

    name = "lemma"
    section = "Appendix A"

    def check(self, subject: Subject) -> Finding:
        found = derivatives(subject)
        left, right = found.by_theta["C"], found.by_beta["F"]
        bent = self.bend(np.asarray(found.partial.F_ss), found.by_beta["s"])
        explicit = along(found.partial.F_theta_beta) - found.by_theta["s"] @ bent
        formula = along(self.formula(subject, found))
        pairs = {
            "d/dθ ∂F/∂β beside d/dβ ∂F/∂θ": (left, right),
            "∂²F/∂θ∂β − (∂s/∂θ)ᵀ ∂²F/∂s² ∂s/∂β beside d/dθ ∂F/∂β": (explicit, left),
            "∂²F/∂θ∂β − (∂s/∂θ)ᵀ ∂²F/∂s² ∂s/∂β beside d/dβ ∂F/∂θ": (explicit, right),
            "by the inverse Hessian beside d/dβ ∂F/∂θ": (formula, right),
        }
        checks = [
            at_most(f"{name}: {what}", relative(a[part], b[part]), 1e-4)
            for name, part in parts(subject.theta).items()
            for what, (a, b) in pairs.items()
        ]
        return self.found(subject, explained(subject, checks))

    def formula(self, subject: Subject, found: Derivatives) -> Theta:
        """∂²F/∂θ∂β − ∂²F/∂θ∂s (∂²F/∂s²)⁻¹ ∂²F/∂s∂β; units at a bound do not move."""
        here, curvature, pull = map(np.asarray, (found.partial.here, found.partial.F_ss, found.partial.F_s_beta))
        # Units at a bound count as held by a spring that nothing pulls at.
        curvature = np.where(here[:, None] & here[None, :], curvature, np.eye(len(here)))
        move = self.respond(curvature, np.where(here, pull, 0))
        return _slope_along(subject.F, subject.theta, found.v, found.beta, found.s, -move)

    def bend(self, curvature: np.ndarray, move: np.ndarray) -> np.ndarray:
        """∂²F/∂s² ∂s/∂β."""
        return curvature @ move

    def respond(self, curvature: np.ndarray, pull: np.ndarray) -> np.ndarray:
        """(∂²F/∂s²)⁻¹ ∂²F/∂s∂β."""
        return np.linalg.solve(curvature, pull)


@compiled
def _slope_along(F: System, theta: Theta, v: Data, beta: Number, s: State, move: Array | np.ndarray) -> Theta:
    """How ∂F/∂θ changes with β, while s moves by `move`."""
    flat, restore = ravel_pytree(s)
    beta = jnp.asarray(beta)

    def slope(beta: Array, x: Array) -> Theta:
        return jax.grad(F)(theta, v, beta, restore(x))

    return jax.jvp(slope, (beta, flat), (jnp.ones_like(beta), move))[1]
