"""Examples in files that are read as they are needed, for data sets that do not fit in memory.

A folder has the parts `train` and `test`. Each is one or more files with inputs and as many with classes, in the format
of NumPy (.npy), or in that of MNIST (IDX, not compressed). Names begin with the part and x or y, and follow in order:

    train-x-000.npy  train-y-000.npy  train-x-001.npy  train-y-001.npy  …  test-x.npy  test-y.npy  classes.txt

Inputs are bytes, which are divided by 255, or numbers, as they are; their first axis counts examples, and channels are
the last. Classes are whole numbers from 0, each with training examples, or with its name in `classes.txt`, one a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from eqprop.boundary import CHECKED, is_iterable, short
from eqprop.compile import compiled
from eqprop.data.shards import Shards
from eqprop.data.splits import Split, require_several
from eqprop.errors import InputError
from eqprop.store.reading import read_bytes
from eqprop.train import OnDisk
from eqprop.train.feed import Augment
from eqprop.types import Data

PIECE = 10_000  # examples that are in memory at once where all are asked for
PICTURES = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}
CHANNELS = (1, 3, 4)  # that images have: grey, colours, colours and opacity


class Decode(eqx.Module):
    """Stored rows and classes → inputs of a shape, and one-hot targets.

    Numbers are data and not part of the program, as XLA would multiply by the inverse of a constant: so bytes become
    what NumPy makes of them, up to the rounding of one division.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    full: Any = 255.0
    mean: Any = None
    unit: Any = 1.0

    def __call__(self, v: Data) -> Data:
        x, y = v
        whole = jnp.issubdtype(x.dtype, jnp.integer)
        x = x.astype(jnp.float32).reshape(-1, *self.shape)
        x = x / self.full if whole else x
        x = x if self.mean is None else (x - self.mean) / self.unit
        return x, jax.nn.one_hot(y, self.classes, dtype=jnp.float32)


@dataclass(frozen=True, eq=False)
class FiledSplit:
    """Examples in files. `x`, `y` and `v` read all that are left after a slice: `split[:100].v`."""

    inputs: Shards
    targets: Shards
    decode: Decode
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, rows: slice) -> FiledSplit:
        """The examples of a slice, still in their files."""
        require_several(rows)
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise InputError(f"a step of {step}: examples in files can be taken one after the other only")
        return replace(self, start=self.start + start, stop=self.start + max(start, stop))

    @property
    def v(self) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) in memory."""
        rows = slice(self.start, self.stop)
        x, y = _decoded(self.decode, (self.inputs[rows], self.targets[rows]))
        return np.asarray(x), np.asarray(y)

    @property
    def x(self) -> np.ndarray:
        """The inputs, in memory."""
        return self.v[0]

    @property
    def y(self) -> np.ndarray:
        """The targets, in memory."""
        return self.v[1]

    @property
    def labels(self) -> np.ndarray:
        """The class of each example as an integer."""
        return self.targets[self.start : self.stop]

    def in_memory(self) -> Split:
        """The same examples, read."""
        return Split(*self.v)

    def pieces(self) -> Iterator[Split]:
        """All examples, in pieces that fit in memory."""
        for start in range(0, len(self), PIECE):
            yield self[start : start + PIECE].in_memory()

    def colours(self, image: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the standard deviation of each channel, the last axis of the shape `image`, over all images."""
        total, squares, count = np.zeros(image[-1]), np.zeros(image[-1]), 0
        for piece in self.pieces():
            pixels = piece.x.reshape(-1, image[-1])
            total, squares = total + pixels.sum(0, dtype=float), squares + np.square(pixels).sum(0, dtype=float)
            count += len(pixels)
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - mean**2, 1e-12))
        return mean.astype(np.float32), deviation.astype(np.float32)

    def as_images(self, image: tuple[int, ...], mean: np.ndarray | None, unit: np.ndarray | float) -> FiledSplit:
        """The same examples with images of this shape for x; with a mean, (x − mean) / unit of each channel."""
        return replace(self, decode=Decode(image, self.decode.classes, mean=mean, unit=unit))

    def feed(self, batch_size: int, augment: Augment | None = None, *, shuffle: bool, carry: bool) -> OnDisk:
        """Minibatches of these examples."""
        parts = (Part(self.inputs, self.start, self.stop), Part(self.targets, self.start, self.stop))
        return OnDisk(parts, batch_size, augment, decode=self.decode, shuffle=shuffle, carry=carry)


@compiled
def _decoded(decode: Decode, v: Data) -> Data:
    return decode(v)


class Part:
    """Some rows of a whole that follow each other."""

    def __init__(self, whole: Shards, start: int, stop: int):
        self.whole, self.start = whole, start
        self.shape, self.dtype = (stop - start, *whole.shape[1:]), whole.dtype

    def __getitem__(self, numbers: np.ndarray) -> np.ndarray:
        return self.whole[numbers + self.start]


def read_part(folder: Path, part: str) -> tuple[Shards, Shards]:
    """The inputs and the classes of a part of the data set in a folder; refused if they do not fit together."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: give a data set, or a folder with {part}-x.npy and {part}-y.npy")
    x, y = (sorted(path for path in folder.glob(f"{part}-{kind}*") if path.is_file()) for kind in "xy")
    if not x or not y:
        pictures = any(path.suffix.lower() in PICTURES for path in islice(folder.rglob("*"), 10_000))
        remedy = "; pictures are not read: make arrays of them, as docs/large-data.md shows" if pictures else ""
        raise InputError(
            f"{folder} has no {part}-{'y' if x else 'x'}….npy: inputs are {part}-x….npy, classes {part}-y….npy{remedy}"
        )
    inputs, targets = Shards(x), Shards(y)
    if len(inputs) != len(targets):
        raise InputError(
            f"{folder} has {len(inputs)} inputs and {len(targets)} classes for {part}: one for each is needed"
        )
    if not len(inputs):
        raise InputError(f"{x[0]} has no rows: save an array whose first axis counts examples, with at least one")
    whole = np.issubdtype(inputs.dtype, np.integer)
    if (whole and inputs.dtype != np.uint8) or not (whole or np.issubdtype(inputs.dtype, np.floating)):
        raise InputError(f"{x[0]} has values of the type {inputs.dtype}: save bytes (uint8), or float32")
    if targets.shape[1:] or not np.issubdtype(targets.dtype, np.integer):
        raise InputError(
            f"{y[0]} has rows {targets.shape[1:]} of {targets.dtype}: save one whole number for each example"
        )
    return inputs, targets


def read_classes(folder: Path, targets: Shards) -> tuple[str, ...]:
    """The names of the classes: those of classes.txt, or the numbers of those that the training examples have."""
    found: set[int] = set()
    for start in range(0, len(targets), 2**20):
        found |= {*np.unique(targets[start : start + 2**20]).tolist()}
    least, most, named = min(found), max(found), folder / "classes.txt"
    if least < 0:
        raise InputError(f"{folder} has the class {least}: classes are counted from 0")
    if named.exists():
        names = tuple(name.strip() for name in read_bytes(named).decode().splitlines() if name.strip())
        if most >= len(names):
            raise InputError(f"{folder} has the class {most}, but {named} names {len(names)}: name all, from 0 on")
        return names
    if len(found) <= most:
        none = next(number for number in range(most) if number not in found)
        raise InputError(
            f"{folder} has classes up to {most}, and no training example of class {none}: count classes from 0 without "
            f"a gap, or name all {most + 1} of them in {named}, one a line"
        )
    return tuple(map(str, range(most + 1)))


def check_tested(folder: Path, targets: Shards, classes: int) -> None:
    """Refuse test examples of classes that there are none of."""
    values = targets[:]
    if len(odd := np.flatnonzero((values < 0) | (values >= classes))):
        raise InputError(
            f"{folder} has the class {values[odd[0]]} in test example {odd[0]}, and training has classes from 0 to "
            f"{classes - 1}: give examples of it to train on, or leave it out"
        )


def check_bytes(folder: Path, inputs: Shards, decoded: np.ndarray) -> None:
    """Refuse bytes that are 0 and 1, as masks are, where bytes are divided by 255."""
    if np.issubdtype(inputs.dtype, np.integer) and 0 < np.max(decoded, initial=0) < 1.5 / 255:
        raise InputError(
            f"the test inputs in {folder} are bytes of 0 and 1, and bytes are divided by 255: save them as np.float32"
        )


def input_shape(inputs: Shards) -> tuple[int, ...]:
    """The shape of one input; refused if it looks like an image whose channels come first."""
    shape = inputs.shape[1:] or (1,)
    if len(shape) == 3 and shape[0] in CHANNELS and min(shape[1:]) > max(CHANNELS):
        raise InputError(
            f"{inputs.files[0].path} has images of the shape {shape}, whose channels come first, and here they come "
            "last: save np.moveaxis(x, 1, -1)"
        )
    return shape


def flat(inputs: Shards, classes: int) -> Decode:
    """Inputs as vectors."""
    return Decode((prod(input_shape(inputs)),), classes)


def write_part(
    folder: str | Path, part: str, pieces: Annotated[Iterable[tuple[np.ndarray, np.ndarray]], CHECKED]
) -> int:
    """Write (inputs, classes) after (inputs, classes) as files of a part, `train` or `test`; returns their number.

    The folder is a data set for `eqprop train FOLDER` and `eqprop.data.load` once it has both parts.
    """
    remedy = "give pairs of inputs and classes, as [(x, y)]"
    if not is_iterable(pieces):
        raise InputError(f"pieces={short(pieces)}: {remedy}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    count = -1
    for count, piece in enumerate(pieces):
        if not isinstance(piece, tuple | list) or len(piece) != 2:
            raise InputError(f"pieces: number {count} is {short(piece)}: {remedy}")
        for kind, values in zip("xy", piece, strict=True):
            np.save(folder / f"{part}-{kind}-{count:05d}.npy", np.ascontiguousarray(values), allow_pickle=False)
    return count + 1
