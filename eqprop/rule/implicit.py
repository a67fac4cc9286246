"""The exact gradient of what the settled network does, by the implicit function theorem: what EP must agree with."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from eqprop.compile import compiled
from eqprop.errors import InputError
from eqprop.relax import Block, Relaxation
from eqprop.rule.base import Learned, Rule
from eqprop.rule.lagrangian import by_theta
from eqprop.total import System, TotalEnergy, energy_of, system
from eqprop.types import Array, Data, Key, Number, Scalar, State, Theta, Weight


class ImplicitGradient(Rule):
    """∂J/∂θ = ∂L/∂θ of the Lagrangian L = C + λ*·∂E/∂s, at the free fixed point (Appendix B).

    The gradient is as exact as the fixed point that `free` finds, and as λ*, which is found to the relative precision
    `tol`. It measures, as `solved`, whether λ* was found; it is, where every fixed point is a proper minimum.
    """

    measures: ClassVar[tuple[str, ...]] = ("solved",)
    free: Relaxation = Block(steps=1000, tol=1e-5, accelerate=True)
    tol: float = 1e-6

    def check(self, F: System) -> None:
        """Refuse a vector field, whose Jacobian is not symmetric."""
        if not F.conservative:
            raise InputError(f"F={F!r} is a vector field, and the solve is for energies: use RecurrentBackpropagation")
        super().check(F)

    def learn(self, F: System, theta: Theta, v: Data, s: State, key: Key, weight: Weight | None = None) -> Learned:
        """The gradient, and the free fixed points."""
        s, free = self.free.settle(F, theta, v, 0.0, s)
        costate, solved = costate_of(F, theta, v, s, self.tol)
        measured = {"solved": jnp.full(len(free.steps), solved, float)}
        return Learned(by_theta(F, theta, v, s, costate, weight), s, {"free": free}, measured)


def multiplier(F: TotalEnergy, theta: Theta, v: Data, s: State, tol: Number) -> tuple[State, Array]:
    """λ* with ∂C/∂s + λ*·∂²E/∂s² = 0 at free fixed points s (Appendix B), and whether it was found."""
    return _multiplier(system(F), theta, v, s, tol)


@compiled
def _multiplier(F: System, theta: Theta, v: Data, s: State, tol: Number) -> tuple[State, Array]:
    return costate_of(F, theta, v, s, tol)


def costate_of(F: System, theta: Theta, v: Data, s: State, tol: Number) -> tuple[State, Array]:
    """`multiplier`, as a part of a larger program.

    By Lineax's conjugate gradients. In units that rest at a bound it is 0, for they stay there.
    """

    widest = jnp.result_type(*jax.tree.leaves(s))  # the solver takes one type for all layers
    s = jax.tree.map(lambda u: u.astype(widest), s)

    def by_s(part: Callable[..., Scalar], s: State) -> State:
        return jax.vmap(jax.grad(part, argnums=2), in_axes=(None, 0, 0))(theta, v, s)

    def hessian(d: State) -> State:
        return jax.jvp(lambda s: by_s(energy_of(F), s), (s,), (d,))[1]

    return _solve(hessian, jax.tree.map(jnp.negative, by_s(F.cost_at, s)), F.space.inside(s), tol)


def _solve(hessian: Callable[[State], State], b: State, here: State, tol: Any) -> tuple[State, Array]:
    """x with (H x)_i = b_i for units that are `here`, and x_i = 0 for the others; and whether it was found."""
    import lineax as lx  # takes its time to load, and few need it

    def keep(x: State) -> State:
        return jax.tree.map(lambda u, free: jnp.where(free, u, 0), x, here)

    def matvec(x: State) -> State:
        return jax.tree.map(lambda h, u, free: jnp.where(free, h, u), hessian(keep(x)), x, here)

    operator = lx.FunctionLinearOperator(matvec, jax.eval_shape(lambda: b), lx.positive_semidefinite_tag)
    # Precision is asked for unit by unit, and b is 0 in most of them: so relative to the largest.
    b = keep(b)
    size = jnp.max(jnp.stack([jnp.max(jnp.abs(u)) for u in jax.tree.leaves(b)]))
    scaled = jax.tree.map(lambda u: u / jnp.where(size > 0, size, 1), b)
    solution = lx.linear_solve(operator, scaled, lx.CG(rtol=tol, atol=tol, max_steps=2000), throw=False)
    return jax.tree.map(lambda u: size * u, solution.value), solution.result == lx.RESULTS.successful
