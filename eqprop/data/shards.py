"""Arrays in several files, of which just the rows that are asked for are read; never through pickle."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from eqprop.data.idx import UNSIGNED_BYTES
from eqprop.errors import InputError


@dataclass(frozen=True)
class Shard:
    """One array in a file: where its values begin, and what they are."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype

    def map(self) -> np.ndarray:
        """The array, mapped into memory: pages are read as they are looked at, and given back with the array."""
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)


class Shards:
    """Files whose rows follow each other as those of one array: parts of a data set that does not fit in memory.

    paths: files in NumPy's format (.npy), or in that of MNIST (IDX, not compressed), in order; all of one type and with
        rows of one shape.

    They are opened for each reading, so that what was read takes no memory afterwards.
    """

    def __init__(self, paths: Sequence[str | Path]):
        if not paths:
            raise InputError("there are no files: give at least one")
        self.files = [_open(Path(path)) for path in paths]
        first = self.files[0]
        for other in self.files[1:]:
            if (other.shape[1:], other.dtype) != (first.shape[1:], first.dtype):
                raise InputError(
                    f"{other.path} has rows of the shape {other.shape[1:]} and the type {other.dtype}, but "
                    f"{first.path} {first.shape[1:]} and {first.dtype}: give files that are alike"
                )
        self.ends = np.cumsum([file.shape[0] for file in self.files])
        self.shape, self.dtype = (int(self.ends[-1]), *first.shape[1:]), first.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        """The rows of a slice, or of numbers that increase."""
        numbers = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        found = np.empty((len(numbers), *self.shape[1:]), self.dtype)
        for file, part, inside in self._by_file(numbers):
            found[part] = file.map()[inside]
        return found

    def _by_file(self, numbers: np.ndarray) -> Iterator[tuple[Shard, slice, np.ndarray]]:
        """Each file that has some of the numbers, where those are among all, and which rows of the file they are."""
        bounds = [0, *np.searchsorted(numbers, self.ends)]
        starts = [0, *self.ends[:-1]]
        for file, start, first, last in zip(self.files, starts, bounds, bounds[1:], strict=False):
            if last > first:
                yield file, slice(first, last), numbers[first:last] - start


def _open(path: Path) -> Shard:
    """What a file holds, by its first bytes."""
    try:
        with open(path, "rb") as file:
            shard = _npy(path, file) if path.suffix == ".npy" else _idx(path, file.read(16))
            size = file.seek(0, 2)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    needed = shard.offset + shard.dtype.itemsize * math.prod(shard.shape)
    if size < needed:
        raise InputError(f"{path} is cut off: it has {size} of {needed} bytes")
    return shard


def _npy(path: Path, file: BinaryIO) -> Shard:
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"version {version} of the format is for names of fields; save a plain array")
    shape, by_columns, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which take pickle: save an array of numbers")
    if by_columns and len(shape) > 1:
        raise ValueError("its values are stored by columns: save np.ascontiguousarray of it")
    if not shape:
        raise ValueError("it holds a single number: save an array whose first axis counts examples")
    return Shard(path, file.tell(), shape, dtype)


def _idx(path: Path, head: bytes) -> Shard:
    magic = int.from_bytes(head[:4], "big")
    dimensions = magic - UNSIGNED_BYTES
    if dimensions not in (1, 2, 3) or len(head) < 4 + 4 * dimensions:
        raise ValueError("it is neither a .npy file nor an IDX file of bytes")
    shape = tuple(int(size) for size in np.frombuffer(head, ">u4", dimensions, offset=4))
    return Shard(path, 4 + 4 * dimensions, shape, np.dtype(np.uint8))
