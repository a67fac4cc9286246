"""Labelled images to learn from: scikit-learn's digits, MNIST, Fashion-MNIST and CIFAR, fetched once and verified."""

from eqprop.data.loading import NAMES, Entry, catalogue, fetch, load, outline
from eqprop.data.splits import Dataset, Split

__all__ = ["NAMES", "Dataset", "Entry", "Split", "catalogue", "fetch", "load", "outline"]
