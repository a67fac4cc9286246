"""Labelled images to learn from: scikit-learn's digits, MNIST, Fashion-MNIST and CIFAR, fetched once and verified."""

from eqprop.boundary import guard
from eqprop.data.files import FiledSplit, write_part
from eqprop.data.loading import NAMES, Entry, catalogue, fetch, full_name, load, outline
from eqprop.data.shards import Shards
from eqprop.data.splits import Dataset, Split

__all__ = [
    "NAMES",
    "Dataset",
    "Entry",
    "FiledSplit",
    "Shards",
    "Split",
    "catalogue",
    "fetch",
    "full_name",
    "load",
    "outline",
    "write_part",
]

globals().update(guard(globals(), __all__))
