"""The door to the data sets: load one by name, fetch it beforehand, list what there is."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eqprop.data import digits
from eqprop.data.cache import cache_folder, fill_cache, read_cached, read_given
from eqprop.data.idx import parse_idx
from eqprop.data.registry import IDX_SETS, TEST, TRAIN, IdxSet
from eqprop.data.sources import Missing
from eqprop.data.splits import Dataset, Split, check_valid
from eqprop.errors import InputError

NAMES = (digits.NAME, *IDX_SETS)

Folder = str | os.PathLike[str]
OnEvent = Callable[[str], None]


@dataclass(frozen=True)
class Entry:
    """A line of the catalogue; `where` is the cache folder, "bundled", "not fetched" or what is damaged."""

    name: str
    description: str
    examples: int
    shape: tuple[int, ...]
    where: str


def load(name: str, folder: Folder | None = None, valid: int | None = None, on_event: OnEvent | None = None) -> Dataset:
    """The data set, with `valid` examples held out of the training data for validation.

    The files are read from `folder` if given, else from the cache, into which they are fetched if they
    are not there. Their sums are verified every time. `on_event` receives messages on the progress.
    """
    if is_bundled(name, folder):
        return digits.load_digits(valid)
    idx_set = IDX_SETS[name]
    if folder is not None:
        return assemble(idx_set, read_given(idx_set, folder), valid)
    try:
        files = read_cached(idx_set)
    except Missing:
        fill_cache(idx_set, None, on_event or ignore)
        files = read_cached(idx_set)
    return assemble(idx_set, files, valid)


def fetch(name: str, folder: Folder | None = None, on_event: OnEvent | None = None) -> Path:
    """Make sure that the data set is in the cache, whole, and return its folder there.

    Missing and damaged files are taken from `folder` if given, else from the public sources in turn.
    """
    if is_bundled(name, folder):
        return digits.bundled_folder()
    return fill_cache(IDX_SETS[name], folder, on_event or ignore)


def catalogue() -> list[Entry]:
    """All data sets, and where each is on this machine."""
    bundled = Entry(digits.NAME, digits.DESCRIPTION, digits.EXAMPLES, digits.SHAPE, "bundled")
    return [bundled] + [
        Entry(idx_set.name, idx_set.description, idx_set.examples, idx_set.shape, whereabouts(idx_set))
        for idx_set in IDX_SETS.values()
    ]


def whereabouts(idx_set: IdxSet) -> str:
    """Where the files are, for the catalogue."""
    try:
        read_cached(idx_set)
    except Missing:
        return "not fetched"
    except InputError:
        return f"damaged in {cache_folder(idx_set.name)}"
    return str(cache_folder(idx_set.name))


def is_bundled(name: str, folder: Folder | None) -> bool:
    """Whether the data set needs no files; refuses unknown names, and a folder that would go unused."""
    if name not in NAMES:
        raise InputError(f"there is no data set {name!r}; choose one of {', '.join(NAMES)}")
    if name in IDX_SETS:
        return False
    if folder is not None:
        raise InputError(
            f"the data set {name} comes with scikit-learn and is read from no folder: "
            f"leave {os.fspath(folder)!r} (--data-dir, folder=) out"
        )
    return True


def assemble(idx_set: IdxSet, files: Mapping[str, bytes], valid: int | None) -> Dataset:
    """Make arrays of the files; the last `valid` training examples become the validation split."""

    def split(images: str, labels: str) -> Split:
        pixels = parse_idx(files[images], 3, images)
        x = np.divide(pixels.reshape(len(pixels), -1), 255, dtype=np.float32)
        return Split.from_labels(x, parse_idx(files[labels], 1, labels), len(idx_set.classes))

    train = split(*TRAIN)
    kept = len(train) - check_valid(valid, idx_set.valid, len(train))
    return Dataset(
        idx_set.name,
        train=train[:kept],
        valid=train[kept:],
        test=split(*TEST),
        shape=idx_set.shape,
        classes=idx_set.classes,
    )


def ignore(message: str) -> None:
    """What becomes of progress messages that nobody asked for."""
