"""The exact gradient of what the settled network does, by the implicit function theorem: what EP must agree with."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import UNBOUNDED, TotalEnergy, cost_of
from eqprop.relax import Block, Info, Relaxation


class Solved(NamedTuple):
    """How the free phase settled, and whether λ* was found; it is, where every fixed point is a proper minimum."""

    free: Info
    solved: Array


class ImplicitGradient(eqx.Module):
    """∂J/∂θ = ∂C/∂θ − λ*·∂²F/∂θ∂s with ∂²F/∂s² λ* = ∂C/∂s, at the free fixed point (Appendix B).

    λ* is solved for by Lineax's conjugate gradients, to the relative precision `tol`. In units that rest at an end of
    the box it is 0, for they stay there. The gradient is as exact as the fixed point that `free` finds.
    """

    free: Relaxation = Block(steps=1000, tol=1e-5, accelerate=True)
    tol: float = 1e-6

    @compiled
    def __call__(
        self, F: TotalEnergy, theta: Any, v: Any, s: Any, key: Array | None = None, weight: Array | None = None
    ) -> tuple[Any, Any, Solved]:
        """The gradient, shaped like θ and averaged over the batch; the free fixed points; and how the phase went."""
        s, free = self.free(F, theta, v, 0.0, s)

        def mean(values: Array) -> Array:
            return jnp.average(values, weights=weight)

        def cost(theta: Any, s: Any) -> Array:
            return mean(jax.vmap(cost_of(F), in_axes=(None, 0, 0))(theta, v, s))

        def slope(theta: Any, s: Any) -> Any:
            """∂F/∂s of every example."""
            return jax.vmap(jax.grad(F, argnums=3), in_axes=(None, 0, None, 0))(theta, v, 0.0, s)

        low, high = getattr(F, "box", UNBOUNDED)
        inside = jax.tree.map(lambda u: (u > low) & (u < high), s)
        by_theta, by_s = jax.grad(cost, argnums=(0, 1))(theta, s)
        multiplier, solved = _solve(lambda d: jax.jvp(lambda s: slope(theta, s), (s,), (d,))[1], by_s, inside, self.tol)
        _, pull = jax.vjp(lambda theta: slope(theta, s), theta)
        return jax.tree.map(jnp.subtract, by_theta, pull(multiplier)[0]), s, Solved(free, solved)


def _solve(hessian: Any, b: Any, inside: Any, tol: float) -> tuple[Any, Array]:
    """x with (H x)_i = b_i for the units inside the box, and x_i = 0 for the others; and whether it was found."""
    import lineax as lx  # takes its time to load, and few need it

    def keep(x: Any) -> Any:
        return jax.tree.map(lambda u, here: jnp.where(here, u, 0), x, inside)

    def matvec(x: Any) -> Any:
        return jax.tree.map(lambda h, u, here: jnp.where(here, h, u), hessian(keep(x)), x, inside)

    operator = lx.FunctionLinearOperator(matvec, jax.eval_shape(lambda: b), lx.positive_semidefinite_tag)
    # Precision is asked for unit by unit, and b is 0 in most of them: so relative to the largest.
    b = keep(b)
    size = jnp.max(jnp.stack([jnp.max(jnp.abs(u)) for u in jax.tree.leaves(b)]))
    scaled = jax.tree.map(lambda u: u / jnp.where(size > 0, size, 1), b)
    solution = lx.linear_solve(operator, scaled, lx.CG(rtol=tol, atol=tol, max_steps=2000), throw=False)
    return jax.tree.map(lambda u: size * u, solution.value), solution.result == lx.RESULTS.successful
