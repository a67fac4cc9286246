"""Feeds: where minibatches come from, and in which order.

A feed is asked for a window on the epoch that is running, and compiled code takes minibatches from the window. So data
in memory are gathered inside of the compiled loop, and data that are not are loaded a few minibatches ahead. Which
minibatch comes when follows from the key, the epoch and its number alone: training that goes on from a checkpoint sees
what it would have seen.
"""

import abc
import copy
import functools
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from eqprop.boundary import entrance, require_whole
from eqprop.compile import is_known
from eqprop.errors import InputError
from eqprop.given import as_arrays
from eqprop.total import require_finite
from eqprop.train.layout import everywhere, lay
from eqprop.types import Any, Array, Data, Int, Key, Weight

Augment = Callable[[Key, Data], Data]
"""(key, v) → v, for one example: what is seen in its place."""


class Batch(NamedTuple):
    """A minibatch.

    v: its examples, along the first axis.
    weight: the share of each example in averages, as a rule 1; 0 for a padding row, which is settled but neither
        learned nor measured.
    slot: the number of the particle of each example; a number beyond the last for none.
    """

    v: Data
    weight: Weight
    slot: Int[Array, " batch"]


class Window(eqx.Module):
    """What compiled code takes minibatches from."""

    @abc.abstractmethod
    def batch(self, i: Int[Array, ""]) -> Batch:
        """The i-th minibatch of the epoch; i lies within the window."""


class Feed(abc.ABC):
    """Where minibatches come from."""

    batches: int
    """The number of minibatches in an epoch."""
    slots: int
    """How many particles there are for states that persist; 0 if states cannot."""
    carry: bool = False
    """Whether a row begins where another example of the same row ended: examples for validation begin at rest then."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.batches:,} minibatches in an epoch>"

    @abc.abstractmethod
    def window(self, key: Key, epoch: int, first: int, most: int) -> tuple[Window, int]:
        """A window on an epoch that begins at minibatch `first`, and the number at which it ends.

        Whoever asks wants `most` minibatches, and may be given fewer.
        """

    def on(self, mesh: Mesh) -> "Feed":
        """The same feed, whose windows lie on the devices of a mesh.

        The minibatches of its windows are those of all devices together, whatever a process has read of them: as an
        array of `jax.make_array_from_process_local_data`, divided along the axis `examples` of the mesh (`OnDisk`
        does). Arrays that a window has whole, as by default, are copied to every device.
        """
        return self

    def sample(self, key: Key) -> Data:
        """Examples to look at before training: by default those of the first minibatch."""
        v, weight, _ = next(self.epoch(key))
        return jax.tree.map(lambda a: a[weight > 0], v)

    @entrance
    def epoch(self, key: Key, epoch: int = 0, first: int = 0) -> Iterator[Batch]:
        """The minibatches of an epoch one by one, for a loop that is not compiled."""
        while first < self.batches:
            window, stop = self.window(key, epoch, first, self.batches - first)
            yield from (window.batch(jnp.array(i)) for i in range(first, stop))
            first = stop


def require_feed(feed: Any) -> None:
    """Refuse what is no feed, as the arrays themselves."""
    if not isinstance(feed, Feed):
        raise InputError(f"feed={type(feed).__name__}: give a feed, as eqprop.Shuffled(v, batch_size=20)")


class Arrays(Feed):
    """A feed of arrays in memory, whose first axis counts examples; `order` says which come when.

    v: the examples, an array or a tree of arrays.
    batch_size: examples in a minibatch; the last of an epoch is filled up with padding rows.
    augment: (key, v) → v for one example, compiled into the loop and drawn anew each time that the example is seen.
    carry: for states that persist: row i of a minibatch begins where row i of the one before ended, whatever example
        that was. So there are as few particles as rows.
    """

    def __init__(self, v: Data, batch_size: int = 20, augment: Augment | None = None, *, carry: bool = False):
        require_whole(1, batch_size=batch_size)
        self.v = jax.tree.map(jnp.asarray, checked(v))
        self.examples = len(jax.tree.leaves(self.v)[0])
        if not self.examples:
            raise InputError("the training set is empty: give at least one example")
        self.batch_size = batch_size
        self.augment = augment
        self.batches = -(-self.examples // batch_size)
        self.carry = carry
        self._on: dict[Mesh, Arrays] = {}
        self.slots = batch_size if carry else self.examples

    def on(self, mesh: Mesh) -> "Arrays":
        """All examples on every device, copied once."""
        if mesh not in self._on:
            self._on[mesh] = feed = copy.copy(self)
            feed.v = lay(self.v, everywhere(mesh))
        return self._on[mesh]

    def sample(self, key: Key) -> Data:
        """All examples, but for what is augmented, which is another thing once it is seen."""
        return self.v if self.augment is None else super().sample(key)

    @abc.abstractmethod
    def order(self, key: Key, epoch: int) -> Int[Array, "batches size"]:
        """The numbers of the examples of each minibatch; a number beyond the last example is a padding row."""

    def window(self, key: Key, epoch: int, first: int, most: int) -> tuple[Window, int]:
        """All of the epoch."""
        draw = None if self.augment is None else jax.random.fold_in(epoch_keys(key, epoch)[0], 1)
        return Gathered(self.v, self.order(key, epoch), draw, self.augment, self.carry), self.batches


class Shuffled(Arrays):
    """Arrays in memory, in a new random order in each epoch.

    >>> feed = Shuffled(jnp.arange(5.0), batch_size=2)
    >>> [batch.v.shape for batch in feed.epoch(jax.random.key(0))], feed.batches
    ([(2,), (2,), (2,)], 3)
    """

    _latest: tuple[Any, Array] | None = None

    def order(self, key: Key, epoch: int) -> Array:
        """Drawn once for all pieces of an epoch: to draw it takes as long as some minibatches."""
        latest, of = self._latest, (np.asarray(jax.random.key_data(key)).tobytes(), int(epoch))
        if latest is None or latest[0] != of:
            latest = self._latest = of, _order(True, key, epoch, self.examples, self.batch_size)
        return latest[1]


class InOrder(Arrays):
    """Arrays in memory, in the order that they have, in the same minibatches in each epoch."""

    def order(self, key: Key, epoch: int) -> Array:
        return _order(False, key, epoch, self.examples, self.batch_size)


class Given(Arrays):
    """Arrays in memory, in an order that is given: a row of example numbers for each minibatch of an epoch.

    A number beyond the last example is a padding row. `batches` may be fewer than there are rows.
    """

    def __init__(self, v: Data, order: np.ndarray, batches: int | None = None, augment: Augment | None = None):
        if np.ndim(order) != 2:
            raise InputError(f"order of shape {np.shape(order)}: give a row of example numbers for each minibatch")
        super().__init__(v, int(np.shape(order)[1]), augment)
        self._order = jnp.asarray(order)
        self.batches = len(order) if batches is None else batches

    def order(self, key: Key, epoch: int) -> Array:
        return self._order


class Lanes(Feed):
    """A stream: at each time a minibatch of one example per lane, whose states carry over from time to time.

    v: arrays whose first axis is time and whose second counts lanes. Train with `persistent=True`: the particle of a
    lane goes on through the stream.
    """

    def __init__(self, v: Data):
        self.v = jax.tree.map(jnp.asarray, checked(v))
        if not all(leaf.ndim > 1 for leaf in jax.tree.leaves(self.v)):
            raise InputError("v has arrays of one axis: the first counts times, and the second lanes")
        self.batches, self.slots = jax.tree.leaves(self.v)[0].shape[:2]

    def window(self, key: Key, epoch: int, first: int, most: int) -> tuple[Window, int]:
        """All of the stream."""
        return Stacked(self.v, jnp.ones((self.batches, self.slots)), 0), self.batches


class Iterated(Feed):
    """Minibatches from an iterator, for data that do not fit in memory.

    make: epoch → an iterator over its minibatches, arrays whose first axis counts examples. It must give the same
        minibatches for the same epoch: training that goes on from a checkpoint skips those that it has seen.
    batches: how many minibatches there are in an epoch.
    batch_size: examples in a minibatch; a smaller one is filled up with padding rows.
    lanes: whether row i of a minibatch goes on from row i of the one before, with its state (`persistent=True`).
    ahead: how many minibatches are loaded at a time, at the most.
    """

    def __init__(
        self,
        make: Callable[[int], Iterator[Data]],
        batches: int,
        batch_size: int,
        *,
        lanes: bool = False,
        ahead: int = 16,
    ):
        require_whole(1, batches=batches, batch_size=batch_size, ahead=ahead)
        self.make, self.batch_size, self.lanes, self.ahead = make, batch_size, lanes, ahead
        self.batches, self.slots = batches, batch_size if lanes else 0
        self._open: tuple[int, int, Iterator[Data]] | None = None  # epoch, next minibatch, the rest

    def window(self, key: Key, epoch: int, first: int, most: int) -> tuple[Window, int]:
        """The next minibatches, as many as are loaded ahead."""
        rest = self._rest(int(epoch), first)
        stop = min(first + min(most, self.ahead), self.batches)
        loaded = [self._padded(v, epoch, i) for i, v in enumerate(islice(rest, stop - first), first)]
        if len(loaded) < stop - first:
            ended = first + len(loaded)
            raise InputError(f"batches={self.batches}, but the iterator of epoch {epoch} ended after {ended}")
        self._open = (int(epoch), stop, rest)
        # The same shape each time, whatever is left of the epoch, so that it compiles once.
        loaded += loaded[-1:] * (self.ahead - len(loaded))
        v, weight = jax.tree.map(lambda *parts: jnp.stack(parts), *loaded)
        return Stacked(v, weight, first, self.lanes), stop

    def _rest(self, epoch: int, first: int) -> Iterator[Data]:
        """The iterator of an epoch from a minibatch on: the one that is open, or a new one."""
        if self._open is not None and self._open[:2] == (epoch, first):
            return self._open[2]
        return islice(self.make(epoch), first, None)

    def _padded(self, v: Data, epoch: int, i: int) -> tuple[Data, np.ndarray]:
        v = checked(v)
        count = len(jax.tree.leaves(v)[0])
        if not 1 <= count <= self.batch_size:
            raise InputError(
                f"minibatch {i} of epoch {epoch} has {count} examples: give 1 to batch_size={self.batch_size}"
            )
        return pad_rows(v, self.batch_size), (np.arange(self.batch_size) < count).astype(np.float32)


class Gathered(Window):
    """Examples gathered from arrays by their numbers."""

    v: Data
    order: Int[Array, "batches size"]
    draw: Key | None
    augment: Augment | None
    carry: bool = eqx.field(static=True)

    def batch(self, i: Int[Array, ""]) -> Batch:
        index = self.order[i]
        v = jax.tree.map(lambda a: a.at[index].get(mode="clip"), self.v)  # a padding row reads the last example
        if self.augment is not None and self.draw is not None:
            v = view(self.augment, self.draw, i, v)
        real = index < len(jax.tree.leaves(self.v)[0])
        return Batch(v, real.astype(jnp.float32), _rows(real) if self.carry else index)


class Stacked(Window):
    """Minibatches in a row, from number `first` of the epoch on; slots are rows if states carry over."""

    v: Data
    weight: Array
    first: Any
    lanes: bool = eqx.field(default=True, static=True)

    def batch(self, i: Int[Array, ""]) -> Batch:
        v, weight = jax.tree.map(lambda a: a[i - self.first], (self.v, self.weight))
        return Batch(v, weight, _rows(weight > 0) if self.lanes else jnp.arange(len(weight)))


def view(augment: Augment, draw: Key, i: Array, v: Data, rows: slice = slice(None), size: int | None = None) -> Data:
    """What is seen of minibatch i. v may be some of its `size` rows: each is seen as it is in the whole minibatch."""
    keys = jax.random.split(jax.random.fold_in(draw, i), size or len(jax.tree.leaves(v)[0]))
    return jax.vmap(augment)(keys[rows], v)


def _rows(real: Array) -> Array:
    """The slots of rows that carry over; that of a padding row lies beyond the last."""
    return jnp.where(real, jnp.arange(len(real)), len(real))


def epoch_keys(key: Key, epoch: int | Array) -> Array:
    """The keys of an epoch: for the order of its examples, and for the rule."""
    return jax.random.split(jax.random.fold_in(key, epoch))


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def _order(shuffle: bool, key: Key, epoch: Array, examples: int, size: int) -> Array:
    """The minibatches of an epoch; padding rows fill up the last, so that all have one shape."""
    order = jax.random.permutation(epoch_keys(key, epoch)[0], examples) if shuffle else jnp.arange(examples)
    return jnp.pad(order, (0, -examples % size), constant_values=examples).reshape(-1, size)


def rows_of(tree: Data, first: int, count: int) -> Data:
    """At most `count` rows of each array, from `first` on."""
    return jax.tree.map(lambda a: a[first : first + count], tree)


def pad_rows(tree: Data, size: int) -> Data:
    """Rows of zeros added to each array, up to `size` of them."""
    pad = np.pad if is_known(tree) else jnp.pad
    return jax.tree.map(lambda a: pad(a, [(0, size - len(a))] + [(0, 0)] * (np.ndim(a) - 1)), tree)


def checked(v: Data) -> Data:
    """The data as arrays; refused if these are not of one length, or not finite."""
    v = as_arrays(v)
    leaves = jax.tree.leaves(v)
    if not leaves or not all(leaf.ndim for leaf in leaves):
        raise InputError(f"the data are {v!r}: give arrays, whose first axis counts examples")
    if len({len(leaf) for leaf in leaves}) > 1:
        raise InputError(f"the parts of the data differ in length: {', '.join(str(len(leaf)) for leaf in leaves)}")
    require_finite(v)
    return v
