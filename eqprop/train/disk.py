"""A feed of examples on disk: shuffled without reading single rows, read by a thread while the device computes."""

import copy
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from eqprop.boundary import require_whole, short
from eqprop.errors import InputError
from eqprop.train.feed import Augment, Batch, Feed, Window, epoch_keys, view
from eqprop.train.layout import EXAMPLES, UNITS, lay_rows, own_rows
from eqprop.types import Array, Data, Int, Key

BLOCK_BYTES = 2**17  # that are read at once: rows of a kilobyte, read one by one, took six times as long from a disk
WINDOWS = 4  # in memory at the most: the one in use, the next, and the arrays that the next is made from

Decode = Callable[[Data], Data]
"""v as it is stored → v as F takes it, for a minibatch; it is compiled into the loop."""


@runtime_checkable
class Rows(Protocol):
    """What can be a part of the examples: a memory-mapped array, `eqprop.data.Shards`, a data set of h5py, …."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...

    def __getitem__(self, numbers: np.ndarray) -> np.ndarray:
        """The rows of these numbers, which increase."""
        ...


class OnDisk(Feed):
    """Examples that do not fit in memory, in a new random order in each epoch.

    Blocks of neighbouring rows are visited in a random order, and all that are in memory at once are shuffled. Which
    minibatch has which examples follows from the key and the epoch, so that training that goes on from a checkpoint
    reads what comes next and nothing else. A thread reads ahead while the device computes.

    v: the examples, a tree of parts whose rows can be read: memory-mapped arrays, or `eqprop.data.Shards`.
    batch_size: examples in a minibatch; the last of an epoch is filled up with padding rows.
    augment: (key, v) → v for one example, compiled into the loop and drawn anew each time that the example is seen.
    decode: from rows as they are stored, such as bytes, to what F takes; compiled into the loop.
    shuffle: False keeps the order of the rows, and so the same minibatches in each epoch.
    carry: for states that persist: row i of a minibatch begins where row i of the one before ended. There are no
        particles for single examples.
    megabytes: what the feed may hold in memory at once. Examples are shuffled within a fourth of it.
    rows: only these rows of every minibatch are read and given, where other processes have the others.

        >>> x = np.arange(10)
        >>> feed = OnDisk(x, batch_size=4)
        >>> [batch.v.shape for batch in feed.epoch(jax.random.key(0))], feed.batches
        ([(4,), (4,), (4,)], 3)
    """

    def __init__(
        self,
        v: Data,
        batch_size: int = 20,
        augment: Augment | None = None,
        *,
        decode: Decode | None = None,
        shuffle: bool = True,
        carry: bool = False,
        megabytes: float = 64.0,
        rows: slice | None = None,
    ):
        require_whole(1, batch_size=batch_size)
        if not megabytes > 0:
            raise InputError(f"megabytes={megabytes!r}: give a positive number")
        self.parts: list[Rows]
        self.parts, self._tree = jax.tree.flatten(v)
        for part in self.parts:
            if not isinstance(part, Rows) or not part.shape:
                raise InputError(f"v has {short(part)}, which has no rows: give arrays, one row for each example")
        lengths = sorted({part.shape[0] for part in self.parts})
        if len(lengths) != 1 or not lengths[0]:
            raise InputError(f"the parts have {lengths} examples: give parts of one length, with at least one example")
        self.examples, self.batch_size = lengths[0], batch_size
        self.augment, self.decode, self.shuffle, self.carry = augment, decode, shuffle, carry
        self.batches = -(-self.examples // batch_size)
        self.rows = range(batch_size)[slice(None) if rows is None else rows]
        if not self.rows or self.rows.step != 1:
            raise InputError(f"rows={rows!r}: give some of the {batch_size} rows of a minibatch that follow each other")
        self.slots = batch_size if carry else 0
        row = sum(part.dtype.itemsize * int(np.prod(part.shape[1:])) for part in self.parts)
        kept = int(1e6 * megabytes / WINDOWS) // (row * len(self.rows))
        self.ahead = max(1, min(kept, self.batches))
        self.block = max(1, BLOCK_BYTES // row)
        self._mesh: Mesh | None = None
        self._on: dict[Mesh, OnDisk] = {}
        self._loading: dict[tuple[Any, ...], Future[Stored]] = {}
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="eqprop-reader")

    def on(self, mesh: Mesh) -> "OnDisk":
        """Each process reads its own rows of a minibatch; all of them, if the devices cannot divide it."""
        if len(self.rows) < self.batch_size or self.batch_size % mesh.shape[EXAMPLES] or mesh.shape[UNITS] > 1:
            return self
        if mesh not in self._on:
            self._on[mesh] = feed = copy.copy(self)
            feed._mesh, feed._loading, feed.rows = mesh, {}, own_rows(mesh, self.batch_size)
        return self._on[mesh]

    def window(self, key: Key, epoch: int, first: int, most: int) -> tuple[Window, int]:
        """Those minibatches that are in memory together with the first one."""
        number, last = first // self.ahead, -(-self.batches // self.ahead) - 1
        following = (epoch, number + 1) if number < last else (epoch + 1, 0)
        seed = tuple(map(int, jax.random.key_data(key).ravel()))
        wanted = {(seed, *at): at for at in dict.fromkeys([(epoch, number), following])}
        self._loading = {name: there for name, there in self._loading.items() if name in wanted}
        for name, at in wanted.items():
            if name not in self._loading:
                self._loading[name] = self._reader.submit(self._load, key, *at)
        return self._loading[seed, epoch, number].result(), min((number + 1) * self.ahead, self.batches)

    def numbers(self, key: Key, epoch: int, number: int) -> Int[np.ndarray, "batches size"]:
        """The numbers of the examples of a window's minibatches; one beyond the last example is a padding row."""
        start, size = number * self.ahead * self.batch_size, self.ahead * self.batch_size
        stop = min(start + size, self.examples)
        found = np.arange(start, stop)
        if self.shuffle:
            seed = [int(word) for word in jax.random.key_data(epoch_keys(key, epoch)[0]).ravel()]
            found = self._in_blocks(np.random.default_rng(seed), start, stop)
            np.random.default_rng([*seed, number]).shuffle(found)
        padded = np.pad(found, (0, size - len(found)), constant_values=self.examples)
        return padded.reshape(self.ahead, self.batch_size)

    def _in_blocks(self, draw: np.random.Generator, start: int, stop: int) -> np.ndarray:
        """The rows from `start` to `stop` of the epoch, in which blocks of rows follow each other in a random order."""
        order = draw.permutation(-(-self.examples // self.block))
        ends = np.cumsum(np.minimum(self.block, self.examples - order * self.block))
        some = slice(np.searchsorted(ends, start, "right"), np.searchsorted(ends, stop) + 1)
        rows = (order[some, None] * self.block + np.arange(self.block)).ravel()
        rows = rows[rows < self.examples]
        before = int(ends[some.start - 1]) if some.start else 0
        return rows[start - before : stop - before]

    def _load(self, key: Key, epoch: int, number: int) -> "Stored":
        """A window, read in the order of the files."""
        all_numbers = self.numbers(key, epoch, number)
        numbers = all_numbers[:, self.rows.start : self.rows.stop]
        flat = numbers.ravel()
        order = np.argsort(flat, kind="stable")
        order = order[: np.searchsorted(flat, self.examples, sorter=order)]  # without padding rows

        def read(part: Rows) -> Array:
            there = np.zeros((len(flat), *part.shape[1:]), part.dtype)
            there[order] = part[flat[order]]
            if np.issubdtype(part.dtype, np.inexact) and not np.isfinite(there).all():
                row = flat[np.argwhere(~np.isfinite(there))[0][0]]
                raise InputError(f"the data hold a value that is not finite, in example {row}: remove it")
            there = there.reshape(*numbers.shape, *part.shape[1:])
            return jnp.asarray(there) if self._mesh is None else lay_rows(there, self.batch_size, self._mesh)

        v = jax.tree.unflatten(self._tree, [read(part) for part in self.parts])
        draw = None if self.augment is None else jax.random.fold_in(epoch_keys(key, epoch)[0], 1)
        together = self._mesh is not None  # the rows of all processes are one minibatch
        real = jnp.asarray((all_numbers if together else numbers) < self.examples)
        place = (0 if together else self.rows.start, self.batch_size)
        return Stored(v, real, number * self.ahead, draw, self.augment, self.decode, self.carry, place)


class Stored(Window):
    """Minibatches as they are stored, the first of which is number `first` of the epoch.

    `place` is the first row of a minibatch that is here, and the number of rows that it has in all.
    """

    v: Data
    real: Array
    first: Any
    draw: Key | None
    augment: Augment | None
    decode: Decode | None
    carry: bool = eqx.field(static=True)
    place: tuple[int, int] = eqx.field(static=True)

    def batch(self, i: Int[Array, ""]) -> Batch:
        v, real = jax.tree.map(lambda a: a[i - self.first], (self.v, self.real))
        v = v if self.decode is None else self.decode(v)
        start, size = self.place
        if self.augment is not None and self.draw is not None:
            v = view(self.augment, self.draw, i, v, slice(start, start + len(real)), size)
        rows = jnp.arange(start, start + len(real))
        return Batch(v, real.astype(jnp.float32), jnp.where(real, rows, size) if self.carry else rows)
