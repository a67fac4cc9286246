"""What all figures share: how lines look, and panels in a grid."""

import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any, TypeVar

import matplotlib.figure
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from eqprop.errors import InputError

# Distinct to colour-blind eyes (Okabe & Ito), and each with its own line style, distinct in greyscale.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "linestyle": "-"},
    {"color": "#D55E00", "linestyle": "--"},
    {"color": "#009E73", "linestyle": "-."},
    {"color": "#000000", "linestyle": ":"},
    {"color": "#CC79A7", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
    {"color": "#E69F00", "linestyle": (0, (8, 3))},
)
FIRST, SECOND = STYLES[:2]
DOTS: dict[str, Any] = {"marker": "o", "markersize": 3}
"""For curves that were measured at a few points only."""

Values = TypeVar("Values")


class Figure(matplotlib.figure.Figure):
    """A matplotlib figure that a notebook shows as a picture.

    Notebooks show figures that pyplot has made, once pyplot is imported. These are made without it, so that nothing
    opens a window and no figure stays in memory; hence they say themselves how they look.
    """

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=110)
        return picture.getvalue()


def styled(curves: Mapping[str, Values]) -> Iterator[tuple[dict[str, Any], str, Values]]:
    """Each curve with a style of its own, for `axes.plot(values, label=name, **style)`; they repeat after six."""
    return ((style, name, values) for style, (name, values) in zip(cycle(STYLES), curves.items(), strict=False))


def over_epochs(titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Panels over epochs, up to three in a row, and four as two rows of two."""
    if not titles:
        raise InputError("there is nothing to draw: give at least one title with its curves")
    columns = len(titles) if len(titles) <= 3 else 2
    rows = -(-len(titles) // columns)
    figure = Figure(figsize=(3.5 * columns if columns > 1 else 5, 3.3 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[len(titles) :]:
        axes.set_axis_off()
    panels = list(grid[: len(titles)])
    for axes, title in zip(panels, titles, strict=True):
        axes.set_xlabel("epoch")
        axes.set_title(title, fontsize="medium")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
    return figure, panels


def from_zero(axes: Axes) -> None:
    """The y-axis from 0 to a little above what is drawn."""
    axes.set_ylim(0, 1.05 * float(axes.dataLim.y1) or 1)


def require_lengths(curves: Mapping[str, Sequence[float]], count: int, what: str) -> None:
    """Refuse curves that do not have a value for each of the `count` things, called `what`."""
    for name, values in curves.items():
        if len(values) != count:
            raise InputError(f"{name!r} has {len(values)} values for {count} {what}: give one for each")
