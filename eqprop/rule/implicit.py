"""The exact gradient of what the settled network does, by the implicit function theorem: what EP must agree with."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import TotalEnergy, cost_of, energy_of, has_field
from eqprop.errors import InputError
from eqprop.relax import Block, Info, Relaxation
from eqprop.relax.box import inside
from eqprop.rule.lagrangian import by_theta


class Solved(NamedTuple):
    """How the free phase settled, and whether λ* was found; it is, where every fixed point is a proper minimum."""

    free: Info
    solved: Array


class ImplicitGradient(eqx.Module):
    """∂J/∂θ = ∂L/∂θ of the Lagrangian L = C + λ*·∂E/∂s, at the free fixed point (Appendix B).

    The gradient is as exact as the fixed point that `free` finds, and as λ*, which is found to the relative precision
    `tol`.
    """

    free: Relaxation = Block(steps=1000, tol=1e-5, accelerate=True)
    tol: float = 1e-6

    def check(self, F: TotalEnergy) -> None:
        """Refuse a vector field, whose Jacobian is not symmetric."""
        if has_field(F):
            raise InputError(f"F={F!r} is a vector field, and the solve is for energies: use RecurrentBackpropagation")

    @compiled
    def __call__(
        self, F: TotalEnergy, theta: Any, v: Any, s: Any, key: Array | None = None, weight: Array | None = None
    ) -> tuple[Any, Any, Solved]:
        """The gradient, shaped like θ and averaged over the batch; the free fixed points; and how the phase went."""
        self.check(F)
        s, free = self.free(F, theta, v, 0.0, s)
        costate, solved = multiplier(F, theta, v, s, self.tol)
        return by_theta(F, theta, v, s, costate, weight), s, Solved(free, solved)


@compiled
def multiplier(F: TotalEnergy, theta: Any, v: Any, s: Any, tol: float) -> tuple[Any, Array]:
    """λ* with ∂C/∂s + λ*·∂²E/∂s² = 0 at free fixed points s (Appendix B), and whether it was found.

    By Lineax's conjugate gradients. In units that rest at an end of the box it is 0, for they stay there.
    """

    def by_s(part: Any, s: Any) -> Any:
        return jax.vmap(jax.grad(part, argnums=2), in_axes=(None, 0, 0))(theta, v, s)

    def hessian(d: Any) -> Any:
        return jax.jvp(lambda s: by_s(energy_of(F), s), (s,), (d,))[1]

    return _solve(hessian, jax.tree.map(jnp.negative, by_s(cost_of(F), s)), inside(F, s), tol)


def _solve(hessian: Any, b: Any, here: Any, tol: float) -> tuple[Any, Array]:
    """x with (H x)_i = b_i for units that are `here`, and x_i = 0 for the others; and whether it was found."""
    import lineax as lx  # takes its time to load, and few need it

    def keep(x: Any) -> Any:
        return jax.tree.map(lambda u, free: jnp.where(free, u, 0), x, here)

    def matvec(x: Any) -> Any:
        return jax.tree.map(lambda h, u, free: jnp.where(free, h, u), hessian(keep(x)), x, here)

    operator = lx.FunctionLinearOperator(matvec, jax.eval_shape(lambda: b), lx.positive_semidefinite_tag)
    # Precision is asked for unit by unit, and b is 0 in most of them: so relative to the largest.
    b = keep(b)
    size = jnp.max(jnp.stack([jnp.max(jnp.abs(u)) for u in jax.tree.leaves(b)]))
    scaled = jax.tree.map(lambda u: u / jnp.where(size > 0, size, 1), b)
    solution = lx.linear_solve(operator, scaled, lx.CG(rtol=tol, atol=tol, max_steps=2000), throw=False)
    return jax.tree.map(lambda u: size * u, solution.value), solution.result == lx.RESULTS.successful
