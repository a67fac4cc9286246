"""Associative memories: what they recall, and how much."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from eqprop.errors import InputError
from eqprop.plots.style import DOTS, styled


def capacity(
    wrong: Mapping[str, Mapping[str, Mapping[float, Sequence[float]]]],
    recalled: Mapping[str, tuple[Mapping[float, float], Mapping[float, float]]],
) -> Figure:
    """Wrong units over the load, a panel for each cue; and the patterns recalled over the units, both logarithmic.

    wrong: for each cue and each kind of memory, {load: [share of wrong units, …]}, of which means are drawn.
    recalled: for each kind {units: patterns}, as measured (dots) and as predicted (thin lines).
    """
    if not wrong or not recalled:
        raise InputError("there is nothing to draw: give at least one cue and one kind of memory")
    figure = Figure(figsize=(3.7 * (len(wrong) + 1), 3.9), layout="constrained")
    *left, right = figure.subplots(1, len(wrong) + 1)
    for axes, (cue, kinds) in zip(left, wrong.items(), strict=True):
        for style, kind, shares in styled(kinds):
            loads = sorted(shares)
            axes.plot(loads, [100 * np.mean(shares[load]) for load in loads], label=kind, **DOTS, **style)
        axes.axvline(1, color="grey", linewidth=0.8)
        axes.set(xlabel="patterns stored / capacity predicted", ylabel="wrong units (%)", title=f"cued by {cue}")
    for style, kind, (measured, predicted) in styled(recalled):
        right.loglog(sorted(predicted), [predicted[n] for n in sorted(predicted)], linewidth=0.8, **style)
        dots = {"color": style["color"], "marker": "o", "linestyle": "none", "markersize": 5}
        right.loglog(sorted(measured), [measured[n] for n in sorted(measured)], label=kind, **dots)
    right.set(xlabel="units N", ylabel="patterns", title="recalled (dots) and predicted (lines)")
    for axes in (*left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    return figure


def completion(pictures: Mapping[str, np.ndarray], captions: Sequence[str] = ()) -> Figure:
    """Images in rows: {what is shown: images of shape (count, height, width)}, such as given, recalled and stored.

    What is not a number, as pixels that are not given, is blue. `captions` stand below the columns.
    """
    shapes = {name: np.shape(images) for name, images in pictures.items()}
    if not shapes or len(set(shapes.values())) > 1 or len(next(iter(shapes.values()))) != 3:
        raise InputError(f"pictures of the shapes {shapes}: give rows of images, (count, height, width), all alike")
    columns = next(iter(shapes.values()))[0]
    if captions and len(captions) != columns:
        raise InputError(f"{len(captions)} captions for {columns} columns: give one for each")
    figure = Figure(figsize=(0.8 * columns + 1.2, 0.95 * len(pictures)), layout="constrained")
    grid = figure.subplots(len(pictures), columns, squeeze=False)
    shades = colormaps["gray_r"].with_extremes(bad="#b0c4de")
    for row, (name, images) in zip(grid, pictures.items(), strict=True):
        low, high = float(np.nanmin(images)), float(np.nanmax(images))
        for axes, image in zip(row, np.asarray(images, float), strict=True):
            axes.imshow(image, cmap=shades, vmin=low, vmax=high)
            axes.set_axis_off()
        row[0].text(-0.1, 0.5, name, transform=row[0].transAxes, ha="right", va="center")
    for axes, caption in zip(grid[-1], captions, strict=False):
        axes.text(0.5, -0.08, caption, transform=axes.transAxes, ha="center", va="top")
    return figure
