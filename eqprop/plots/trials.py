"""What came of many settings."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from eqprop.errors import InputError
from eqprop.plots.style import require_lengths

MOST_TICKS = 12


def parallel_coordinates(
    settings: Mapping[str, Sequence[Any]],
    errors: Sequence[float],
    *,
    log: Sequence[str] = (),
    title: str = "",
    label: str = "validation error (%)",
) -> Figure:
    """A line for each trial through its settings, an axis for each setting; the darker, the smaller its error.

    settings: for each setting its value in each trial: numbers, or words, which are evenly spaced in their order.
    errors: that of each trial.
    log: those of the settings whose axis is logarithmic.
    """
    if not settings or not errors:
        raise InputError("there is nothing to draw: give at least one setting, and one trial")
    require_lengths(settings, len(errors), "trials")
    columns = {name: _axis(values, name in log) for name, values in settings.items()}
    spread = min(errors) > 0 and max(errors) > 4 * min(errors)  # so that the good ones can be told apart
    columns[label] = _axis(errors, spread)
    heights = np.stack([height for height, _ in columns.values()])
    figure = Figure(figsize=(max(5.0, 1.7 * len(columns) + 1.5), 4.0), layout="constrained")
    axes = figure.subplots()
    greatest = max(errors) if max(errors) > min(errors) else min(errors) + 1
    shade = (LogNorm if spread else Normalize)(min(errors), greatest)
    colours = colormaps["viridis"]
    for trial in np.argsort(errors)[::-1]:  # the best are drawn last, above the others
        best = trial == int(np.argmin(errors))
        axes.plot(heights[:, trial], color=colours(shade(errors[trial])), lw=2.5 if best else 1.0, alpha=0.9)
    for place, (_, ticks) in enumerate(columns.values()):
        axes.axvline(place, color="black", lw=0.8)
        for height, word in ticks:
            paper = {"facecolor": "white", "alpha": 0.7, "pad": 0.5, "linewidth": 0}
            at = {"xytext": (-4, 0), "textcoords": "offset points", "ha": "right", "va": "center", "fontsize": 8}
            axes.annotate(word, (place, height), bbox=paper, **at)
    axes.set_xticks(range(len(columns)), list(columns))
    axes.set(yticks=[], ylim=(-0.04, 1.06), xlim=(-0.6, len(columns) - 0.9), title=title)
    axes.set_xlabel("settings, and what came of them")
    axes.set_ylabel("each from its least to its greatest value")
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    bar = figure.colorbar(ScalarMappable(shade, colours), ax=axes, label=label, format="{x:.3g}")
    bar.set_ticks((np.geomspace if spread else np.linspace)(min(errors), greatest, 5).tolist())
    bar.minorticks_off()
    return figure


def _axis(values: Sequence[Any], log: bool) -> tuple[np.ndarray, list[tuple[float, str]]]:
    """Where each value lies between 0 and 1, and which places have words beside them."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if not numbers:
        words = [str(value) for value in values]
        order = list(dict.fromkeys(words))
        places = {word: k / max(1, len(order) - 1) for k, word in enumerate(order)}
        return np.array([places[word] for word in words]), [(place, word) for word, place in places.items()]
    lengths = np.log(np.asarray(values, float)) if log else np.asarray(values, float)
    low, high = float(lengths.min()), float(lengths.max())
    heights = (lengths - low) / (high - low) if high > low else np.full(len(lengths), 0.5)
    if len(different := sorted(set(values))) <= MOST_TICKS // 2:
        return heights, [(float(heights[values.index(value)]), f"{value:g}") for value in different]
    shown = np.linspace(low, high, 5)
    return heights, [((at - low) / (high - low), f"{np.exp(at) if log else at:.3g}") for at in shown]
