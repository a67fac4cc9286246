"""Units that are one of two values: each goes to the one where F is lower, the others waiting."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from eqprop.errors import InputError
from eqprop.relax.base import Stepwise
from eqprop.total import System
from eqprop.types import Array, Data, Int, Number, Scalar, State, Theta


class Flip(Stepwise):
    """One step visits every unit, one after the other: s_i ← low_i or high_i, where F is lower, else it stays.

    This is the update of Hopfield (1982), and of Krotov & Hopfield (2016) for any power: F never rises, and all units
    end at one of their bounds, which F must have. The residual is the largest change in a step. F is evaluated twice
    for each unit, and nothing is differentiated.
    """

    def check(self, F: System) -> None:
        """Refuse an F with units that lack a bound."""
        if F.space.layers is None or not all(jnp.isfinite(u).all() for u in jax.tree.leaves(_ends(F))):
            raise InputError(f"Flip needs two bounds for each unit, and F={F!r} has {F.space!r}: take Gradient")

    def move(self, F: System, theta: Theta, v: Data, beta: Number, s: State, t: Int[Array, ""]) -> tuple[State, Scalar]:
        """One step of one example: the new state, and the largest change of a unit."""
        flat, unravel = ravel_pytree(s)
        low, high = (ravel_pytree(end)[0] for end in _ends(F))

        def energy(u: Array) -> Array:
            return F(theta, v, beta, unravel(u))

        def visit(i: Array, u: Array) -> Array:
            down, up = u.at[i].set(low[i]), u.at[i].set(high[i])
            below, above = energy(down), energy(up)
            return jnp.where(below < above, down, jnp.where(above < below, up, u))

        moved = jax.lax.fori_loop(0, flat.size, visit, flat)
        return unravel(moved), jnp.max(jnp.abs(moved - flat))


def _ends(F: System) -> tuple[State, State]:
    """The state with all units at their lower bounds, and with all at their upper ones."""
    rest = jax.tree.map(lambda u: u[0], F.space.rest(1))
    return tuple(F.space.project(jax.tree.map(lambda u, far=far: u + far, rest)) for far in (-jnp.inf, jnp.inf))  # pyright: ignore
