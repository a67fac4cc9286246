"""The 1797 small digits that come with scikit-learn, cut in three once and for all."""

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np

from eqprop.data.splits import Dataset, Split, check_valid
from eqprop.errors import InputError

NAME = "digits"
DESCRIPTION = "handwritten digits that come with scikit-learn"
EXAMPLES, SHAPE, LEVELS = 1797, (8, 8), 16
TEST, VALID = 359, 180  # 20 % and 10 % of all
SEED = 20170404  # never the seed of a training run: every run is to be measured on the same examples


def load_digits(valid: int | None) -> Dataset:
    """The digits scaled to [0, 1]; what is in the test split does not depend on `valid`."""
    held = TEST + check_valid(valid, VALID, EXAMPLES - TEST)
    x, labels = import_datasets().load_digits(return_X_y=True)
    rows = stratified_order(labels)
    examples = Split.from_labels((x / LEVELS).astype(np.float32), labels, 10)[rows]
    return Dataset(
        NAME,
        train=examples[held:],
        valid=examples[TEST:held],
        test=examples[:TEST],
        shape=SHAPE,
        classes=tuple("0123456789"),
    )


def bundled_folder() -> Path:
    """Where scikit-learn keeps the digits."""
    return Path(str(import_datasets().__file__)).parent / "data"


def import_datasets() -> ModuleType:
    """`sklearn.datasets`, imported only now since no other part of eqprop needs it."""
    try:
        return importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise InputError(
            "the data set digits comes with scikit-learn, which is not installed: pip install scikit-learn"
        ) from error


def stratified_order(labels: np.ndarray) -> np.ndarray:
    """A random order in which every stretch holds the classes in (nearly) the proportions of the whole.

    Each class is shuffled and then spread evenly over the interval from 0 to 1, with some jitter.
    """
    random = np.random.RandomState(SEED)  # unlike Generator's, its stream is frozen for all numpy versions
    position = np.empty(len(labels))
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        position[rows] = (np.arange(len(rows)) + random.random_sample(len(rows))) / len(rows)
    return np.argsort(position, kind="stable")
