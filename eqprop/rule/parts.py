"""A batch in parts, one after the other, so that what is computed on the way stays in a core's cache."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from eqprop.rule.base import Learned
from eqprop.types import Array, Data, Key, State, Theta, Weight

ENOUGH = 2**20
"""Bytes of states that are enough to keep a core busy."""


def count_parts(theta: Theta, s: State, phases: int) -> int:
    """Into how many parts to divide a batch: each has states of about the size of θ, or of `ENOUGH` bytes if θ is less.

    Only a batch much larger than that is divided. All parts have the same number of examples; a batch that cannot be
    divided so, or only into parts that are far too small, stays whole. So does every batch on a GPU, and every batch
    where there are several devices: it may lie on all of them, which is not known while the program is traced, and
    each of them would then learn from all parts.
    """
    if jax.default_backend() != "cpu" or jax.device_count() > 1:
        return 1
    examples = jax.tree.leaves(s)[0].shape[0]
    many = phases * _bytes(s) / max(_bytes(theta), ENOUGH)
    fitting = (n for n in range(1, examples + 1) if examples % n == 0 and many <= n <= 2 * many)
    return 1 if many <= 4 else next(fitting, 1)


def learn_in_parts(
    learn: Callable[[Data, State, Weight, Key], Learned],
    count: int,
    theta: Theta,
    v: Data,
    s: State,
    weight: Weight | None,
    key: Key,
) -> Learned:
    """What `learn` makes of each part of a batch, as if it had seen all of it; each part has a key of its own."""
    if weight is None:
        weight = jnp.ones(jax.tree.leaves(s)[0].shape[0])
    total = jnp.sum(weight)

    def one(gradient: Theta, part: tuple[Data, State, Array, Key]) -> tuple[Theta, Any]:
        v, s, weight, key = part
        share = jnp.sum(weight) / total
        weight = jnp.where(share > 0, weight, 1)  # an average over a part that weighs nothing would be NaN
        learned = learn(v, s, weight, key)
        gradient = jax.tree.map(lambda all_, more: (all_ + share * more).astype(all_.dtype), gradient, learned.gradient)
        return gradient, (learned.state, learned.phases, learned.measured)

    split = jax.tree.map(lambda a: a.reshape(count, -1, *a.shape[1:]), (v, s, weight))
    gradient, (state, phases, measured) = jax.lax.scan(
        one, jax.tree.map(jnp.zeros_like, theta), (*split, jax.random.split(key, count))
    )
    state, measured = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), (state, measured))
    phases = jax.tree.map(lambda a: jnp.moveaxis(a, 0, -2).reshape(*a.shape[1:-1], -1), phases)
    return Learned(gradient, state, phases, measured)


def _bytes(tree: Any) -> int:
    return sum(jnp.size(leaf) * jnp.result_type(leaf).itemsize for leaf in jax.tree.leaves(tree))
