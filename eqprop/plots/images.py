"""What convolutional networks see: their first filters, and their feature maps while an image settles."""

from collections.abc import Mapping
from math import ceil, sqrt
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from eqprop.errors import InputError


def filters(kernel: Any, *, title: str = "") -> Figure:
    """The filters of a first layer, each as a small image: in colour if they see three channels.

    `kernel` has axes (height, width, channels before, channels after), as `theta["W"]["input-conv1"]` has. Of one
    channel, or of any other number of channels, whose mean is shown, red excites and blue inhibits. In colour, grey is
    0.
    """
    kernel = np.asarray(kernel)
    if kernel.ndim != 4 or not kernel.size or not np.isfinite(kernel).all():
        raise InputError(f"kernel of shape {kernel.shape}: give finite weights of shape (height, width, before, after)")
    height, width, before, after = kernel.shape
    limit = float(np.abs(kernel).max()) or 1.0
    tiles = np.moveaxis(kernel, 3, 0)
    tiles = tiles if before == 3 else tiles.mean(axis=3)
    columns = ceil(sqrt(after))
    figure = Figure(figsize=(4.4, 4.4 * ceil(after / columns) / columns * height / width + 0.4), layout="constrained")
    axes = figure.subplots()
    if before == 3:
        axes.imshow(_mosaic(0.5 + tiles / (2 * limit), columns, 1.0))
    else:
        picture = axes.imshow(_mosaic(tiles, columns, np.nan), cmap="RdBu_r", vmin=-limit, vmax=limit)
        figure.colorbar(picture, ax=axes, label="weight", shrink=0.8)
    axes.set_axis_off()
    axes.set_title(title or f"{after} filters of {height} × {width}")
    return figure


def feature_maps(path: Mapping[str, Mapping[str, Any]], *, channels: int = 16, title: str = "") -> Figure:
    """What layers come to, moment by moment: a row for each layer, a column for each moment.

    `path` has for each layer, by moment, its state: (height, width, channels), of which up to `channels` are shown side
    by side, the most active ones, or a vector, which is shown as bars. All moments of a layer have one scale; a layer
    that has one moment only, as the input, is an image.
    """
    if not path or not all(path.values()):
        raise InputError("path is empty: give states by layer and moment")
    moments = max((list(layer) for layer in path.values()), key=len)
    size = (1.5 * len(moments) + 0.8, 1.5 * len(path) + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(path), len(moments), squeeze=False, gridspec_kw={"wspace": 0.12})
    for row, (layer, states) in zip(grid, path.items(), strict=True):
        shown = {moment: np.asarray(state) for moment, state in states.items()}
        last = list(shown.values())[-1]
        low, high = (float(end([float(end(state)) for state in shown.values()])) for end in (np.min, np.max))
        high = high if high > low else low + 1.0
        row[0].text(-0.08, 0.5, layer, rotation=90, ha="right", va="center", transform=row[0].transAxes)
        for axes in row:
            axes.set_axis_off()
        for axes, moment in zip(row, shown if len(shown) == 1 else moments, strict=False):
            state = shown[moment]
            if state.ndim == 1:
                axes.bar(range(len(state)), state, color=_colours(state))
                axes.set_ylim(min(low, 0.0), high)
            elif len(shown) == 1:
                axes.imshow((state - low) / (high - low) if state.shape[2] == 3 else state[..., 0], cmap="gray")
            else:
                active = np.argsort(-last.std(axis=(0, 1)), kind="stable")[:channels]
                tiles = np.moveaxis(state[..., np.sort(active)], 2, 0)
                axes.imshow(_mosaic(tiles, ceil(sqrt(len(tiles))), np.nan), cmap="magma", vmin=low, vmax=high)
    for axes, moment in zip(grid[min(1, len(grid) - 1)], moments, strict=True):
        axes.set_title(moment, fontsize=9)
    if title:
        figure.suptitle(title)
    return figure


def _colours(state: np.ndarray) -> list[str]:
    """The largest output stands out."""
    return ["C1" if k == int(np.argmax(state)) else "C0" for k in range(len(state))]


def _mosaic(tiles: np.ndarray, columns: int, gap: float) -> np.ndarray:
    """Images side by side in rows, with a pixel between them."""
    count, height, width, *colours = tiles.shape
    rows = -(-count // columns)
    out = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1, *colours), gap)
    for place, tile in enumerate(tiles):
        top, left = (place // columns) * (height + 1), (place % columns) * (width + 1)
        out[top : top + height, left : left + width] = tile
    return out
