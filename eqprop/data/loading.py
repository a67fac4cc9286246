"""Data sets by name: load one, fetch it beforehand, list all."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np

from eqprop.data import digits, files
from eqprop.data.cache import cache_folder, fill_cache, read_cached, read_given
from eqprop.data.packing import Missing
from eqprop.data.registry import FILE_SETS, FileSet
from eqprop.data.splits import Dataset, Part, Split, check_valid
from eqprop.errors import InputError

NAMES = (digits.NAME, *FILE_SETS)
MOST_VALID = 10_000  # held out by default of a folder
DatasetName = Literal[*NAMES]  # pyright: ignore[reportInvalidTypeForm]

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

    name: one of `NAMES`, or a folder with files of your own, which has a / in it: ./birds. Its training examples stay
        in their files, the others are read: see `eqprop.data.files`.
    folder: where the files are; None: the cache, into which they are fetched if they are missing.
    valid: None holds out as many as is usual for the data set.
    on_event: is called with messages on the progress.

    The sums of the files are verified every time.
    """
    if is_folder(name):
        return load_folder(name, folder, valid)
    if is_bundled(name, folder):
        return digits.load_digits(valid)
    file_set = FILE_SETS[name]
    if folder is not None:
        return assemble(file_set, read_given(file_set, folder), valid)
    try:
        contents = read_cached(file_set)
    except Missing:
        fill_cache(file_set, None, on_event or ignore)
        contents = read_cached(file_set)
    return assemble(file_set, contents, valid)


def outline(name: str) -> Dataset:
    """The data set without its examples: what is known of it before its files are there."""
    if is_folder(name):
        inputs, targets = files.read_part(Path(name), "train")
        shape, classes = files.input_shape(inputs), files.read_classes(Path(name), targets)
    elif is_bundled(name, None):
        shape, classes = digits.SHAPE, digits.CLASSES
    else:
        shape, classes = FILE_SETS[name].shape, FILE_SETS[name].classes
    none = Split(np.empty((0, prod(shape)), np.float32), np.empty((0, len(classes)), np.float32))
    return Dataset(name, none, none, none, shape, classes)


def is_folder(name: str) -> bool:
    """Whether a data set is named by its folder."""
    return "/" in name or os.sep in name


def full_name(name: str) -> str:
    """The name by which a data set is found from anywhere: a folder's whole path."""
    return str(Path(name).resolve()) if is_folder(name) else name


def load_folder(name: str, folder: Folder | None, valid: int | None) -> Dataset:
    """The data set in a folder; the last training examples become the validation split, a tenth by default."""
    if folder is not None:
        raise InputError(f"{name} is a folder already: leave {os.fspath(folder)!r} (--data-dir, folder=) out")
    train, test = (files.read_part(Path(name), part) for part in ("train", "test"))
    classes = files.read_classes(Path(name), train[1])
    if files.input_shape(test[0]) != files.input_shape(train[0]):
        raise InputError(f"{name} has test inputs of another shape than those for training: make them alike")
    decode = files.flat(train[0], len(classes))
    whole, tested = (files.FiledSplit(*part, decode, 0, len(part[0])) for part in (train, test))
    kept = len(whole) - check_valid(valid, min(len(whole) // 10, MOST_VALID), len(whole))
    return Dataset(
        name,
        train=whole[:kept],
        valid=whole[kept:].in_memory(),
        test=tested.in_memory(),
        shape=files.input_shape(train[0]),
        classes=classes,
    )


def fetch(name: str, folder: Folder | None = None, on_event: OnEvent | None = None) -> Path:
    """Make sure that the whole data set is in the cache, and return its folder there.

    Missing and damaged files are taken from `folder` if given, else from the public sources in turn.
    """
    if is_bundled(name, folder):
        return digits.bundled_folder()
    return fill_cache(FILE_SETS[name], folder, on_event or ignore)


def catalogue() -> list[Entry]:
    """All data sets, and where each is on this machine."""
    bundled = Entry(digits.NAME, digits.DESCRIPTION, digits.EXAMPLES, digits.SHAPE, "bundled")
    return [bundled] + [
        Entry(file_set.name, file_set.description, file_set.examples, file_set.shape, whereabouts(file_set))
        for file_set in FILE_SETS.values()
    ]


def whereabouts(file_set: FileSet) -> str:
    """Where the files are, for the catalogue."""
    try:
        read_cached(file_set)
    except Missing:
        return "not fetched"
    except InputError:
        return f"damaged in {cache_folder(file_set.name)}"
    return str(cache_folder(file_set.name))


def is_bundled(name: str, folder: Folder | None) -> bool:
    """Whether the data set needs no files; refuses unknown names, and a folder that would go unused."""
    if name not in NAMES:
        raise InputError(f"there is no data set {name!r}; choose one of {', '.join(NAMES)}")
    if name in FILE_SETS:
        return False
    if folder is not None:
        raise InputError(
            f"the data set {name} comes with scikit-learn and is read from no folder: "
            f"leave {os.fspath(folder)!r} (--data-dir, folder=) out"
        )
    return True


def assemble(file_set: FileSet, contents: Mapping[str, bytes], valid: int | None) -> Dataset:
    """Make arrays of the files; the last `valid` training examples become the validation split."""

    def split(part: Part) -> Split:
        pieces = file_set.format.pieces(contents, part)
        for images, _ in pieces:
            agree("shape", images.shape[1:], file_set.shape)
        return Split.from_pieces(pieces, len(file_set.classes))

    def agree(what: str, found: object, said: object) -> None:
        if found != said:
            raise InputError(f"{what}={said} of {file_set.name} in the registry, but its files have {found}: mend it")

    train, test = split("train"), split("test")
    agree("examples", len(train) + len(test), file_set.examples)
    kept = len(train) - check_valid(valid, file_set.valid, len(train))
    return Dataset(
        file_set.name,
        train=train[:kept],
        valid=train[kept:],
        test=test,
        shape=file_set.shape,
        classes=file_set.classes,
    )


def ignore(message: str) -> None:
    """Drop a message on the progress."""
