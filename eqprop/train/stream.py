"""Streams: examples that stay for a while, move, and give way to others, without an end."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.boundary import require_arguments, require_whole
from eqprop.errors import InputError
from eqprop.train.feed import Batch, Feed, Window, checked
from eqprop.types import Any, Array, Data, Int, Key

Move = Callable[[Array, Data], Data]
"""(t, v) → v, for one example: what is seen of it at time t."""


class Stream(Feed):
    """A stream of lanes, each of which shows an example for `dwell` times, moved by `move`, and then another.

    v: the examples, arrays whose first axis counts them; those that are shown are drawn at random.
    lanes: how many examples are there at a time.
    dwell: how many times in a row a lane shows an example; lanes take turns to change.
    move: (t, v) → v for one example at time t, compiled into the loop: how the world drifts. None: it stands still.
    batches: times in an epoch; t goes on from epoch to epoch.

    Train with `persistent=True`, and the state of a lane follows what it shows. Nothing is computed ahead or
    kept, so memory does not depend on how long the stream lasts.
    """

    carry = True

    def __init__(self, v: Data, lanes: int = 20, dwell: int = 1, move: Move | None = None, *, batches: int = 100):
        require_whole(1, lanes=lanes, dwell=dwell, batches=batches)
        v = checked(v)
        if not len(jax.tree.leaves(v)[0]):
            raise InputError("the data have no examples: give one or more")
        if move is not None:
            require_arguments(move, "move", "t", "v")
        self.v = jax.tree.map(jnp.asarray, v)
        self.dwell, self.move, self.batches, self.slots = dwell, move, batches, lanes

    def window(self, key: Key, epoch: int, first: int, most: int) -> tuple[Window, int]:
        """All of the epoch."""
        return Passing(self.v, key, jnp.asarray(epoch * self.batches), self.slots, self.dwell, self.move), self.batches


class Passing(Window):
    """What the lanes show, from time `start` on."""

    v: Data
    key: Key
    start: Int[Array, ""]
    lanes: int = eqx.field(static=True)
    dwell: int = eqx.field(static=True)
    move: Move | None

    def batch(self, i: Int[Array, ""]) -> Batch:
        t = self.start + i
        lane = jnp.arange(self.lanes)
        turn = (t + lane * self.dwell // self.lanes) // self.dwell
        examples = len(jax.tree.leaves(self.v)[0])

        def drawn(turn: Any, lane: Any) -> Array:
            return jax.random.randint(jax.random.fold_in(jax.random.fold_in(self.key, turn), lane), (), 0, examples)

        v = jax.tree.map(lambda a: a[jax.vmap(drawn)(turn, lane)], self.v)
        if self.move is not None:
            v = jax.vmap(self.move, in_axes=(None, 0))(t, v)
        return Batch(v, jnp.ones(self.lanes), lane)
