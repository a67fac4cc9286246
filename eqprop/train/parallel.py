"""A minibatch shared by several devices.

Each device learns from its rows inside of `shard_map`, so that devices settle without a word to each other: a loop that
went on while any example of any device moves would take a message in every step. One sum per update makes the gradient
and the metrics of the whole minibatch. Where θ is divided too, XLA divides the products as the shardings of θ say.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, PartitionSpec

from eqprop.train.layout import EXAMPLES, UNITS
from eqprop.train.rows import key_of_rows
from eqprop.types import Array, Key

NOWHERE = np.iinfo(np.int32).max
"""The slot of a row that has no particle."""


def spread(mesh: Mesh, function: Callable[[Any, Key], tuple[Any, Any]], rows: Any, key: Key) -> tuple[Any, Any]:
    """What function(rows, key) returns on each device: its sums, added up over all, and its states, beside each other.

    `rows` are arrays whose first axis counts examples, and each device has its part of them. Its key draws for each row
    what `key` would for that row of the whole. All sums are one message.
    """
    if mesh.shape[EXAMPLES] == 1:  # θ may be divided, the examples are not
        return function(rows, key)
    row, whole = PartitionSpec(EXAMPLES), PartitionSpec()

    def one(rows: Any, key: Key) -> tuple[Any, Any]:
        count = len(jax.tree.leaves(rows)[0])
        sums, states = function(rows, key_of_rows(key, jax.lax.axis_index(EXAMPLES) * count, count))
        return _total(sums, mesh), states

    shared = jax.shard_map(
        one, mesh=mesh, in_specs=(row, whole), out_specs=(whole, row), axis_names={EXAMPLES}, check_vma=False
    )
    return shared(rows, key)


def _total(sums: Any, mesh: Mesh) -> Any:
    """The sums of all devices, in one message, as a message for each array takes four times as long between processes.

    Where θ is divided, its parts are not put together for that.
    """
    if mesh.shape[UNITS] > 1:
        return jax.lax.psum(sums, EXAMPLES)
    message, unpack = ravel_pytree(sums)
    return unpack(jax.lax.psum(message, EXAMPLES))


def fill_up(rows: Any, mesh: Mesh, value: int = 0) -> Any:
    """Arrays with more rows behind the last, if need be, so that every device has as many as the others."""

    def one(array: Array) -> Array:
        more = -len(array) % mesh.shape[EXAMPLES]
        return jnp.pad(array, [(0, more)] + [(0, 0)] * (array.ndim - 1), constant_values=value) if more else array

    return jax.tree.map(one, rows)
