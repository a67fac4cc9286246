"""Anderson's acceleration of depth one: two steps tell where many more would lead."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from optax.tree_utils import tree_sub, tree_vdot

from eqprop.state import Space
from eqprop.types import Array, State


class Memory(NamedTuple):
    """The last step: where it led from s, g = s + f, and its move f."""

    g: State
    f: State


def extrapolate(space: Space, s: State, g: State, last: Memory) -> tuple[State, Memory]:
    """Where to go after a step has led from s to g, for one example.

        s ← Π(g − α (g − g')),   α = ⟨f − f', f⟩ / ‖f − f'‖²,   f = g − s

    with g' and f' of the step before: the point on the line through g and g' where the moves would be least. Where
    the moves grow, because a unit has reached or left a bound, it is g itself.
    """
    f = tree_sub(g, s)
    turn = tree_sub(f, last.f)
    length = _dot(turn, turn)
    shrinks = (_dot(f, f) < _dot(last.f, last.f)) & (length > 0)
    alpha = jnp.where(shrinks, _dot(turn, f) / jnp.where(shrinks, length, 1), 0)
    return space.project(jax.tree.map(lambda u, w: u - alpha * (u - w), g, last.g)), Memory(g, f)


def _dot(a: State, b: State) -> Array:
    return jnp.real(tree_vdot(a, b))
