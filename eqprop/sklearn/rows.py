"""Which examples a network sees, how often, and in arrays of which size."""

from collections.abc import Sequence

import numpy as np

MOST_COPIES = 10  # on average; whole weights above it count as relative


def in_order(*columns: np.ndarray) -> np.ndarray:
    """The numbers of the rows, sorted by content, so that the order in which they came does not matter."""
    rows = np.ascontiguousarray(np.hstack(columns))
    return rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel().argsort(kind="stable")


def drawn(weight: np.ndarray, offset: float) -> np.ndarray:
    """The examples of an epoch, by systematic sampling: each as often as its positive weight says.

    Whole weights are numbers of copies: an example of weight 2 is drawn twice. Other weights are relative: as many
    examples are drawn as there are, and `offset`, in (0, 1), decides which fractions are rounded up.
    """
    count, copies = len(weight), weight / weight.max()  # divided, as a sum of very large weights would be infinite
    if np.all(weight == np.floor(weight)) and weight.max() <= MOST_COPIES * count / copies.sum():
        count, copies = int(weight.sum()), weight
    edges = np.cumsum(copies) * (count / copies.sum())
    return np.minimum(np.searchsorted(edges, np.arange(count) + offset, side="right"), len(weight) - 1)


def minibatches(examples: np.ndarray, size: int, nobody: int) -> tuple[np.ndarray, int]:
    """The minibatches as rows of `size` examples, and how many rows are in use.

    The array is filled up with the number `nobody`, so that few different shapes occur.
    """
    count = -(-len(examples) // size)
    rows = np.full(room(count) * size, nobody)
    rows[: len(examples)] = examples
    return rows.reshape(-1, size), count


def room(count: int, least: int = 1) -> int:
    """The next power of two, at least `least`: so data of different sizes share a compiled program."""
    return max(least, 1 << (count - 1).bit_length())


def padded(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The array, filled up with zeros to `shape`."""
    return np.pad(array, [(0, wanted - there) for there, wanted in zip(array.shape, shape, strict=True)])
