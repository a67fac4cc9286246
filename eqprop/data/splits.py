"""Data sets in memory: rows of inputs in [0, 1], and one-hot rows of targets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from eqprop.errors import InputError
from eqprop.memory import check_memory
from eqprop.train import Feed, InOrder, Shuffled
from eqprop.train.feed import Augment

if TYPE_CHECKING:
    from eqprop.data.files import FiledSplit

Part = Literal["train", "test"]  # of the files that a data set is published in
Piece = tuple[np.ndarray, np.ndarray]  # what a file holds: images of bytes, and the class of each
LOOKED_AT = 100  # inputs of a part by which it is told from another


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Examples: `x` is float32 (n, features) in [0, 1], `y` is float32 one-hot (n, classes)."""

    x: np.ndarray
    y: np.ndarray

    @classmethod
    def from_labels(cls, x: np.ndarray, labels: np.ndarray, classes: int) -> Split:
        """Pair the inputs with the one-hot form of their integer labels, which go from 0 to `classes` − 1."""
        labels = np.asarray(labels)
        if not np.issubdtype(labels.dtype, np.integer) or labels.shape != (len(x),):
            raise InputError(
                f"labels of type {labels.dtype} and shape {labels.shape} for {len(x)} examples: "
                "give a whole number for each"
            )
        if len(wrong := np.flatnonzero((labels < 0) | (labels >= classes))):
            raise InputError(
                f"example {wrong[0]} has the label {labels[wrong[0]]}, where labels go from 0 to {classes - 1}: "
                "count classes from 0, or give more of them"
            )
        check_memory(4 * len(labels) * classes, f"targets of {classes:,} classes", "give the number that there is")
        y = np.zeros((len(labels), classes), np.float32)
        y[np.arange(len(labels)), labels] = 1
        return cls(x, y)

    @classmethod
    def from_pieces(cls, pieces: Sequence[Piece], classes: int) -> Split:
        """The images of all pieces, scaled and flattened. Each piece is copied once, into its place in x."""
        if not pieces:
            raise InputError("there are no pieces: give at least one, (images, labels)")
        images, labels = zip(*pieces, strict=True)
        x = np.empty((sum(map(len, images)), *images[0].shape[1:]), np.float32)
        start = 0
        for piece in images:
            stop = start + len(piece)
            np.divide(piece, 255, out=x[start:stop], dtype=np.float32)
            start = stop
        return cls.from_labels(x.reshape(len(x), -1), np.concatenate(labels), classes)

    def __repr__(self) -> str:
        return f"<Split: {len(self):,} examples, x {self.x.shape}, y {self.y.shape}>"

    @property
    def v(self) -> tuple[np.ndarray, np.ndarray]:
        """(x, y): the examples in the form that total energies and trainers take."""
        return self.x, self.y

    @property
    def labels(self) -> np.ndarray:
        """The class of each example as an integer."""
        return self.y.argmax(axis=1)

    def colours(self, image: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the standard deviation of each channel, the last axis of the shape `image`, over all images."""
        pixels = self.x.reshape(-1, image[-1])
        mean, square = pixels.mean(axis=0, dtype=np.float64), np.square(pixels).mean(axis=0, dtype=np.float64)
        return mean.astype(np.float32), np.sqrt(np.maximum(square - mean**2, 1e-12)).astype(np.float32)

    def as_images(self, image: tuple[int, ...], mean: np.ndarray | None, unit: np.ndarray | float) -> Split:
        """The same examples with images of this shape for x; with a mean, (x − mean) / unit of each channel."""
        x = self.x.reshape(-1, *image)
        return replace(self, x=x if mean is None else (x - mean) / unit)

    def feed(self, batch_size: int, augment: Augment | None = None, *, shuffle: bool, carry: bool) -> Feed:
        """Minibatches of these examples."""
        return (Shuffled if shuffle else InOrder)(self.v, batch_size, augment, carry=carry)

    def in_memory(self) -> Split:
        """Itself; examples in files are read."""
        return self

    def pieces(self) -> Iterator[Split]:
        """All examples, in pieces that fit in memory: as they are there, one."""
        yield self

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: slice | np.ndarray) -> Split:
        """The examples of a slice (without copying) or of an index array."""
        require_several(rows)
        return Split(self.x[rows], self.y[rows])


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set in three parts; `shape` is that of one input before it was flattened.

    The training examples may be in files, from which they are read as they are needed.
    """

    name: str
    train: Split | FiledSplit
    valid: Split
    test: Split
    shape: tuple[int, ...]
    classes: tuple[str, ...]

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {len(split):,}" for name, split in self._parts)
        return f"<Dataset {self.name}: {parts} inputs of {_times(self.shape)}, {len(self.classes)} classes>"

    def _repr_html_(self) -> str:
        """For notebooks: a table of the parts."""
        rows = "".join(
            f"<tr><td>{name}</td><td>{len(split):,}</td><td>{_times(split.x.shape[1:])}</td>"
            f"<td>{_times(split.y.shape[1:])}</td></tr>"
            for name, split in self._parts
        )
        head = "<tr><th>part</th><th>examples</th><th>inputs</th><th>targets</th></tr>"
        about = f"{escape(self.name)}: inputs of {_times(self.shape)}, {len(self.classes)} classes"
        return f"<table><caption>{about}</caption>{head}{rows}</table>"

    @property
    def _parts(self) -> tuple[tuple[str, Split | FiledSplit], ...]:
        return ("train", self.train), ("valid", self.valid), ("test", self.test)

    @property
    def widths(self) -> tuple[int, int]:
        """The numbers of inputs and of classes."""
        return prod(self.shape), len(self.classes)

    @property
    def image(self) -> tuple[int, ...]:
        """(height, width, channels) of one input; refused if it is no image."""
        if len(self.shape) not in (2, 3):
            raise InputError(f"the inputs of {self.name} have the shape {self.shape}, which is not that of an image")
        return (*self.shape, 1) if len(self.shape) == 2 else self.shape

    @property
    def marks(self) -> dict[str, str]:
        """For each part what tells it from another: its size, all of its labels, and inputs from all over it."""
        return {name: _mark(split) for name, split in self._parts}

    def hold_out(self, valid: int) -> Dataset:
        """The same data with the last `valid` training examples held out for validation, as by `load`."""
        whole = Split(*(np.concatenate(pair) for pair in zip(self.train.v, self.valid.v, strict=True)))
        kept = len(whole) - check_valid(valid, valid, len(whole))
        return replace(self, train=whole[:kept], valid=whole[kept:])


def _mark(split: Split | FiledSplit) -> str:
    count = len(split)
    digest = hashlib.sha256(np.asarray(split.labels, np.int64).tobytes())
    for row in range(0, count, max(1, count // LOOKED_AT)):
        digest.update(split[row : row + 1].x.tobytes())
    return f"{count} examples, {digest.hexdigest()[:16]}"


def require_several(rows: Any) -> None:
    """Refuse a number in the place of a slice: what it gave would have no axis that counts examples."""
    if isinstance(rows, int | np.integer):
        raise InputError(
            f"[{rows}] is one example, and a split has several: take [{rows}:{rows + 1 or ''}], or .x[{rows}]"
        )


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def check_valid(valid: int | None, default: int, available: int) -> int:
    """How many of the `available` training examples to hold out for validation."""
    valid = default if valid is None else valid
    if isinstance(valid, bool) or not isinstance(valid, int | np.integer) or not 0 <= valid < available:
        raise InputError(
            f"valid must be a whole number of examples from 0 to {available - 1} "
            f"(there are {available} to train on and one has to remain), not {valid!r}"
        )
    return int(valid)
