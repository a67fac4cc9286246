"""The lemma from which Theorem 1 follows: θ and β play symmetric roles."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from eqprop.claims.base import Claim, Finding, Subject, at_most, relative
from eqprop.claims.calculus import along, derivative, differences, hessian, parts
from eqprop.claims.health import explained
from eqprop.relax.box import inside


class Lemma(Claim):
    """(d/dθ ∂F/∂β(θ, β, s^β_θ))ᵀ = d/dβ ∂F/∂θ(θ, β, s^β_θ), at β ≠ 0 too   (Appendix A)

    Both sides by differences, settling anew with other weights and with other β; and both equal

        ∂²F/∂θ∂β − ∂²F/∂θ∂s · (∂²F/∂s²)⁻¹ · ∂²F/∂s∂β.

    For one example.
    """

    name = "lemma"
    section = "Appendix A"
    beta = 0.2

    def check(self, subject: Subject) -> Finding:
        one = replace(subject, v=jax.tree.map(lambda a: a[:1], subject.v), s=jax.tree.map(lambda a: a[:1], subject.s))
        free, _ = one.free()
        start, _ = one.rule.nudged(one.F, one.theta, one.v, self.beta, free)

        def nudged(theta: Any, beta: Any) -> tuple[Any, Any]:
            s, _ = one.rule.nudged(one.F, theta, one.v, beta, start)
            return jax.tree.map(lambda a: a[0], (one.v, s))

        def by_beta(theta: Any) -> Any:
            v, s = nudged(theta, self.beta)
            return jax.grad(one.F, argnums=2)(theta, v, self.beta, s)

        def by_theta(beta: Any) -> Any:
            v, s = nudged(one.theta, beta)
            return jax.grad(one.F)(one.theta, v, beta, s)

        left = differences(one, by_beta, one.theta)
        right = along(derivative(one, by_theta, self.beta))
        formula = along(jax.jit(lambda v, s: self.formula(one, v, s))(*nudged(one.theta, self.beta)))
        pairs = {"d/dθ ∂F/∂β beside d/dβ ∂F/∂θ": left, "by the inverse Hessian beside d/dβ ∂F/∂θ": formula}
        checks = [
            at_most(f"{name}: {what}", relative(found[part], right[part]), 1e-4)
            for name, part in parts(one.theta).items()
            for what, found in pairs.items()
        ]
        return self.found(subject, explained(subject, checks))

    def formula(self, subject: Subject, v: Any, s: Any) -> Any:
        """∂²F/∂θ∂β − ∂²F/∂θ∂s (∂²F/∂s²)⁻¹ ∂²F/∂s∂β for one example; units at an end of the box do not move."""
        F, theta = subject.F, subject.theta
        flat, restore = ravel_pytree(s)
        here = ravel_pytree(inside(subject.F, s))[0]

        def by_theta(beta: Any, s: Array) -> Any:
            return jax.grad(F)(theta, v, beta, restore(s))

        def by_s(beta: Any) -> Array:
            return ravel_pytree(jax.grad(F, argnums=3)(theta, v, beta, s))[0]

        beta = jnp.asarray(self.beta)
        pull = jax.jvp(by_s, (beta,), (jnp.ones_like(beta),))[1]
        # Units at an end of the box count as held by a spring that nothing pulls at.
        curvature = jnp.where(here[:, None] & here[None, :], hessian(subject, v, beta, s), jnp.eye(len(flat)))
        move = self.respond(curvature, jnp.where(here, pull, 0))
        return jax.jvp(by_theta, (beta, flat), (jnp.ones_like(beta), -move))[1]

    def respond(self, curvature: Array, pull: Array) -> Array:
        """(∂²F/∂s²)⁻¹ ∂²F/∂s∂β."""
        return jnp.linalg.solve(curvature, pull)
