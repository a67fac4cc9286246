"""The lemma from which Theorem 1 follows: θ and β play symmetric roles. With both of its proofs, step by step."""

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from eqprop.types import Data, Number, State, Theta
from eqprop.verification.base import Claim, Finding, Subject, at_most, relative
from eqprop.verification.calculus import along, derivative, differences, hessian, parts, unit
from eqprop.verification.health import explained

BETA = 0.2
"""The β at which the lemma is checked, times the `unit` of the subject."""


class Derivatives(NamedTuple):
    """At the nudged fixed point s of the first example v.

    by_theta, by_beta: total derivatives, by settling anew, of s, of G := F at s, and of a partial derivative of F; the
        first axis of those by θ counts the directions in θ.
    F_theta, F_beta, F_theta_beta: partial derivatives, at fixed s; the first and the last have a component for each
        direction in θ.
    F_ss: ∂²F/∂s², a matrix.
    """

    beta: float
    v: Data
    s: State
    by_theta: dict[str, np.ndarray]
    by_beta: dict[str, Any]
    F_theta: np.ndarray
    F_beta: np.ndarray
    F_theta_beta: np.ndarray
    F_ss: np.ndarray


@lru_cache(maxsize=8)
def derivatives(subject: Subject) -> Derivatives:
    """All that the claims of this file compare: most of it comes from the same settled states."""
    one = replace(subject, v=jax.tree.map(lambda a: a[:1], subject.v), s=jax.tree.map(lambda a: a[:1], subject.s))
    beta, F = BETA * unit(subject), subject.F
    start = one.nudged(beta)
    v = jax.tree.map(lambda a: a[0], one.v)

    def settled(theta: Theta, beta: Number, of: int) -> dict[str, Any]:
        """s, G := F at s, and the partial derivative of F by its argument `of`."""
        s, _ = one.rule.nudged(F, theta, one.v, beta, start)
        s = jax.tree.map(lambda a: a[0], s)
        return {"s": ravel_pytree(s)[0], "G": F(theta, v, beta, s), "F": jax.grad(F, argnums=of)(theta, v, beta, s)}

    by_theta = differences(one, lambda theta: settled(theta, beta, of=2), one.theta)
    by_beta = derivative(subject, lambda beta: settled(one.theta, beta, of=0), beta)
    s = jax.tree.map(lambda a: a[0], one.rule.nudged(F, one.theta, one.v, beta, start)[0])

    @jax.jit
    def partial(v: Data, s: State, beta: Array) -> tuple[Any, ...]:
        F_theta, F_theta_beta = jax.jvp(lambda beta: jax.grad(F)(one.theta, v, beta, s), (beta,), (jnp.ones(()),))
        return F_theta, jax.grad(F, argnums=2)(one.theta, v, beta, s), F_theta_beta, hessian(one, v, beta, s)

    F_theta, F_beta, F_theta_beta, F_ss = partial(v, s, jnp.asarray(beta))
    by_beta["F"] = along(by_beta["F"])
    found = (by_theta, by_beta, along(F_theta), F_beta, along(F_theta_beta), F_ss)
    return Derivatives(beta, v, s, *jax.tree.map(np.asarray, found))


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
        checks = [at_most("dG/dβ beside ∂F/∂β", relative(found.by_beta["G"], found.F_beta), 1e-6)]
        checks += [
            at_most(f"{name}: dG/dθ beside ∂F/∂θ", relative(found.by_theta["G"][part], found.F_theta[part]), 1e-6)
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
        left, right = found.by_theta["F"], found.by_beta["F"]
        explicit = found.F_theta_beta - found.by_theta["s"] @ self.bend(found.F_ss, found.by_beta["s"])
        formula = along(jax.jit(lambda v, s, beta: self.formula(subject, v, s, beta))(found.v, found.s, found.beta))
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

    def formula(self, subject: Subject, v: Data, s: State, beta: Array) -> Theta:
        """∂²F/∂θ∂β − ∂²F/∂θ∂s (∂²F/∂s²)⁻¹ ∂²F/∂s∂β for one example; units at a bound do not move."""
        F, theta = subject.F, subject.theta
        flat, restore = ravel_pytree(s)
        here = ravel_pytree(F.space.inside(s))[0]

        def by_theta(beta: Array, s: Array) -> Theta:
            return jax.grad(F)(theta, v, beta, restore(s))

        def by_s(beta: Array) -> Array:
            return ravel_pytree(jax.grad(F, argnums=3)(theta, v, beta, s))[0]

        pull = jax.jvp(by_s, (beta,), (jnp.ones_like(beta),))[1]
        # Units at a bound count as held by a spring that nothing pulls at.
        curvature = jnp.where(here[:, None] & here[None, :], hessian(subject, v, beta, s), jnp.eye(len(flat)))
        move = self.respond(curvature, jnp.where(here, pull, 0))
        return jax.jvp(by_theta, (beta, flat), (jnp.ones_like(beta), -move))[1]

    def bend(self, curvature: np.ndarray, move: np.ndarray) -> np.ndarray:
        """∂²F/∂s² ∂s/∂β."""
        return curvature @ move

    def respond(self, curvature: Array, pull: Array) -> Array:
        """(∂²F/∂s²)⁻¹ ∂²F/∂s∂β."""
        return jnp.linalg.solve(curvature, pull)
