"""The 1797 small digits that come with scikit-learn, always split in the same three parts."""

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np

from eqprop.data.splits import Dataset, Split, check_valid
from eqprop.errors import InputError

NAME = "digits"
DESCRIPTION = "handwritten digits that come with scikit-learn"
EXAMPLES, SHAPE, LEVELS = 1797, (8, 8), 16
CLASSES = tuple("0123456789")
TEST, VALID = 360, 180  # a fifth and a tenth of all
SEED = 0  # never the seed of a training run: every run is measured on the same examples


def load_digits(valid: int | None) -> Dataset:
    """The digits scaled to [0, 1]; the test split is the same for any `valid`."""
    kept = EXAMPLES - TEST - check_valid(valid, VALID, EXAMPLES - TEST)
    x, labels = scikit_learn("datasets").load_digits(return_X_y=True)
    train, test = scikit_learn("model_selection").train_test_split(
        np.arange(EXAMPLES), test_size=TEST, stratify=labels, random_state=SEED
    )
    examples = Split.from_labels((x / LEVELS).astype(np.float32), labels, len(CLASSES))
    return Dataset(
        NAME,
        train=examples[train[:kept]],
        valid=examples[train[kept:]],
        test=examples[test],
        shape=SHAPE,
        classes=CLASSES,
    )


def bundled_folder() -> Path:
    """Where scikit-learn keeps the digits."""
    return Path(str(scikit_learn("datasets").__file__)).parent / "data"


def scikit_learn(module: str) -> ModuleType:
    """A module of scikit-learn, which is imported here and not at the top: `import eqprop` does without it."""
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError as error:
        raise InputError(
            "the data set digits comes with scikit-learn, which is not installed: pip install scikit-learn"
        ) from error
