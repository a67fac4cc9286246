"""A picture that several claims draw: something that goes with a power of something else."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def power_law(
    x: np.ndarray, curves: Mapping[str, np.ndarray], p: float, *, xlabel: str, ylabel: str, title: str, law: str
) -> "Figure":
    """Each curve over x, both logarithmic, and the power p in grey, from the least of the curves at their lower end."""
    from matplotlib.figure import Figure

    from eqprop.plots.style import DOTS, styled

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for style, label, values in styled(curves):
        axes.loglog(x, values, label=label, **DOTS, **style)
    far = int(np.argmax(x) if p < 0 else np.argmin(x))
    least: Any = min(values[far] for values in curves.values())
    axes.loglog(x, least / 2 * (x / x[far]) ** p, color="grey", linewidth=0.8, label=law)
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
