"""Which examples a network sees, how often, and in arrays of which size."""

from collections.abc import Sequence

import numpy as np

MOST_COPIES = 10  # of an example in an epoch, on average, before weights count as relative only


def in_order(*columns: np.ndarray) -> np.ndarray:
    """The numbers of the rows, sorted by content: so it does not matter in which order they came."""
    rows = np.ascontiguousarray(np.hstack(columns))
    return rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel().argsort(kind="stable")


def drawn(weight: np.ndarray, offset: float) -> np.ndarray:
    """The examples of an epoch, by systematic sampling: each as often as its positive weight says.

    Whole weights are numbers of copies: a weight of 2 is the same as an example that is there twice. Others are
    relative, as many examples are drawn as there are, and of the fractions the `offset` in (0, 1) decides.
    """
    count, copies = len(weight), weight / weight.max()  # sums of the largest numbers there are would not be finite
    if np.all(weight == np.floor(weight)) and weight.max() <= MOST_COPIES * count / copies.sum():
        count, copies = int(weight.sum()), weight
    edges = np.cumsum(copies) * (count / copies.sum())
    return np.minimum(np.searchsorted(edges, np.arange(count) + offset, side="right"), len(weight) - 1)


def minibatches(examples: np.ndarray, size: int, nobody: int) -> tuple[np.ndarray, int]:
    """Rows of `size` examples, in arrays of few different shapes: how many rows count; beyond them is `nobody`."""
    count = -(-len(examples) // size)
    rows = np.full(room(count) * size, nobody)
    rows[: len(examples)] = examples
    return rows.reshape(-1, size), count


def room(count: int, least: int = 1) -> int:
    """The next power of two: as there are few of them, data of different sizes share a compiled program."""
    return max(least, 1 << (count - 1).bit_length())


def padded(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The array with zeros around it."""
    return np.pad(array, [(0, wanted - there) for there, wanted in zip(array.shape, shape, strict=True)])
