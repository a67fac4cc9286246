"""What a network has learned: what its units look for, and what it confuses."""

from collections.abc import Sequence
from math import ceil, prod, sqrt
from typing import Any

import numpy as np

from eqprop.boundary import short
from eqprop.errors import InputError
from eqprop.plots.style import Figure
from eqprop.types import Values


def receptive_fields(weights: Values, shape: Sequence[int], *, count: int = 25, title: str = "") -> Figure:
    """The incoming weights of the `count` units where they are strongest, each as an image; red excites, blue inhibits.

    `weights` has axes (inputs, units), as `theta["W"]["input-hidden"]` has; `shape` is that of an input image, as
    `Dataset.shape` is. Strongest is the unit whose weights have the largest norm; it comes first.
    """
    weights, shape = np.asarray(weights), tuple(shape)
    if len(shape) != 2:
        raise InputError(f"shape={shape}: give the rows and columns of an input image")
    if weights.ndim != 2 or len(weights) != prod(shape):
        hint = "; transpose them" if weights.ndim == 2 and weights.shape[1] == prod(shape) else ""
        raise InputError(f"weights of shape {weights.shape}: give ({prod(shape)}, units) for images of {shape}{hint}")
    if not weights.size or not np.isfinite(weights).all():
        raise InputError(f"weights of shape {weights.shape} are none or not finite: nothing to draw")
    if count < 1:
        raise InputError(f"count={count!r}: give a positive whole number of units")
    strongest = np.argsort(-np.linalg.norm(weights.astype(float), axis=0), kind="stable")[:count]
    columns = ceil(sqrt(len(strongest)))
    rows = -(-len(strongest) // columns)
    figure = Figure(figsize=(columns + 1, 1.1 * rows * shape[0] / shape[1] + 0.3 * bool(title)), layout="constrained")
    axes = figure.subplots()  # one for all: the layout of many takes a second
    limit = float(np.abs(weights[:, strongest]).max()) or 1.0
    height, width = 1.25 * shape[0], 1.1 * shape[1]
    for place, unit in enumerate(strongest):
        bottom, left = -height * (place // columns), width * (place % columns)
        extent = (left, left + shape[1], bottom, bottom + shape[0])
        axes.imshow(weights[:, unit].reshape(shape), cmap="RdBu_r", vmin=-limit, vmax=limit, extent=extent)
        axes.text(left + shape[1] / 2, bottom + shape[0], f"unit {unit}", fontsize=8, ha="center", va="bottom")
    axes.set(xlim=(0, width * columns), ylim=(-height * (rows - 1), height), title=title)
    axes.set_axis_off()
    figure.colorbar(axes.images[-1], ax=axes, label="weight", shrink=0.9, pad=0.01)
    return figure


def confusion_matrix(true: Any, predicted: Any, classes: Any, *, title: str = "") -> Figure:
    """How many examples of each class (rows) were taken for which (columns); no number stands for none.

    `classes` are all labels, in the order of the rows, in a list or an array, as `classes_` of a classifier. `true` and
    `predicted` have a label of each example. Where `classes` are text, whole numbers do as well: 0 is the first class.
    A cell is the darker, the larger its share in the examples of its true class.
    """
    from sklearn.metrics import confusion_matrix as count  # takes its time to load

    labels = _labels(classes)
    if labels.ndim != 1 or not len(labels):
        raise InputError(f"classes={short(classes)}: give the name of each class in a list")
    classes = labels.tolist()
    true, predicted = _places("true", true, classes), _places("predicted", predicted, classes)
    if len(true) != len(predicted):
        raise InputError(f"true has {len(true)} examples, predicted {len(predicted)}: give the same examples")
    counts = count(true, predicted, labels=range(len(classes)))
    share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = max(3.4, 0.4 * len(classes) + 0.6)
    figure = Figure(figsize=(size + 0.6, size), layout="constrained")
    axes = figure.subplots()
    axes.imshow(share, cmap="Blues", vmin=0, vmax=100)
    for (row, column), number in np.ndenumerate(counts):
        if number:
            color = "white" if share[row, column] > 55 else "black"
            axes.text(column, row, str(number), ha="center", va="center", color=color, fontsize=9)
    names = [str(one) for one in classes]
    long = max(map(len, names)) > 2
    axes.set_xticks(range(len(names)), names, rotation=45 if long else 0, ha="right" if long else "center")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="predicted class", ylabel="true class", title=title)
    figure.colorbar(axes.images[-1], ax=axes, label="share of the true class (%)", shrink=0.8)
    return figure


def _labels(values: Any) -> np.ndarray:
    """The values as an array; an empty one where they are rows of different lengths, or keys."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError):
        return np.empty((0, 0))


def _places(name: str, values: Any, classes: list[Any]) -> list[int]:
    """The place of each example's class among `classes`; whole numbers are places where `classes` are text."""
    labels = _labels(values)
    if labels.ndim != 1 or not len(labels):
        raise InputError(f"{name} has shape {labels.shape}: give a class for each example")
    numbered = np.issubdtype(labels.dtype, np.integer) and all(isinstance(one, str) for one in classes)
    known = list(range(len(classes))) if numbered else classes
    try:
        places = {label: place for place, label in enumerate(known)}
        found: list[Any] = labels.tolist()
        unknown = [label for label in found if label not in places]
    except TypeError as error:  # a label that is a list, say
        raise InputError(f"{name} or classes have labels that are neither text nor numbers: give such") from error
    if len(places) < len(known):
        raise InputError(f"classes={short(classes)} has a class twice: give each once")
    if unknown:
        count = f"whole numbers from 0 to {len(known) - 1}" if numbered else f"those in classes={short(classes)}"
        raise InputError(f"{name} has the class {short(unknown[0])}: give {count}")
    return [places[label] for label in found]
