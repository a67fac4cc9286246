"""What was measured several times, from other seeds or on other examples."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from eqprop.errors import InputError
from eqprop.plots.style import DOTS, Figure, styled

Samples = Mapping[float, Sequence[float]]
"""x → what was measured there."""

MANY = 8
"""Points from which on quartiles are a band, no longer bars."""


def spread(
    panels: Mapping[str, tuple[str, str, Mapping[str, Samples]]],
    *,
    log: Mapping[str, str] | None = None,
    like: Sequence[str] = (),
    columns: int | None = None,
) -> Figure:
    """Medians over x, with bars or a band from the first to the third quartile: a panel for each title.

    A panel has the labels of its axes, and for each curve's name what was measured at each x, any number of times.
    `log` has for a title which axes are logarithmic: "x", "y" or "xy". The panels `like` each other share
    a y-axis, whose label is at the first of them. `columns`: how many panels are in a row; None: all.
    """
    if not panels or not all(curves for *_, curves in panels.values()):
        raise InputError("there is nothing to draw: give at least one title, and each a curve")
    columns = min(columns or len(panels), len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.6 * columns if columns > 1 else 5, 3.6 * rows), layout="constrained")
    shared = None
    for k, (title, (xlabel, ylabel, curves)) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(rows, columns, k, sharey=shared if title in like else None)
        named = shared is None or title not in like
        shared = axes if title in like else shared
        for style, name, samples in styled(curves):
            x = sorted(samples)
            if not x or not all(len(samples[at]) for at in x):
                raise InputError(f"{name!r} in {title!r} has nothing measured at some x: give at least one value each")
            low, middle, high = np.array([np.quantile(samples[at], (0.25, 0.5, 0.75)) for at in x]).T
            axes.plot(x, middle, label=name or None, **DOTS, **style)
            if len(x) > MANY:
                axes.fill_between(x, low, high, color=style["color"], alpha=0.2, linewidth=0)
            else:
                axes.vlines(x, low, high, color=style["color"], linewidth=1.2)
        logarithmic = (log or {}).get(title, "")
        if "x" in logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator(sorted({at for samples in curves.values() for at in samples})))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter("{x:g}")
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if "y" in logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
        axes.set(xlabel=xlabel, ylabel=ylabel if named else None, title=title)
        axes.grid(alpha=0.3)
        if any(curves):
            axes.legend(fontsize=8)
    return figure
