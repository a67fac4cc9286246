"""What convolutional networks see: their first filters, and their feature maps while an image settles."""

from collections.abc import Mapping
from math import ceil, sqrt
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from eqprop.errors import InputError
from eqprop.plots.style import Figure
from eqprop.types import Values


def filters(kernel: Values, *, title: str = "") -> Figure:
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


def feature_maps(path: Mapping[str, Mapping[str, Values]], *, channels: int = 16, title: str = "") -> Figure:
    """What layers come to, moment by moment: a row for each layer, a column for each moment.

    `path` has for each layer, by moment, its state for one image: (height, width, channels), of which up to `channels`
    are shown side by side, the most active ones, or a vector, which is shown as bars, the largest with its number. All
    moments of a layer have one scale; a layer that has one moment only, as the input, is an image.
    """
    if not path or not all(path.values()):
        raise InputError("path is empty: give states by layer and moment")
    if channels < 1:
        raise InputError(f"channels={channels!r}: give how many to show of each layer, 1 or more")
    rows = {name: {moment: _state(name, state) for moment, state in layer.items()} for name, layer in path.items()}
    moments = list(max(rows.values(), key=len))
    moments += [moment for row in rows.values() for moment in row if len(row) > 1 and moment not in moments]
    figure = Figure(figsize=(1.5 * len(moments) + 0.8, 1.5 * len(rows) + 0.5), layout="constrained")
    grid = figure.subplots(len(rows), len(moments), squeeze=False, gridspec_kw={"wspace": 0.12})
    untitled = True
    for row, (layer, states) in zip(grid, rows.items(), strict=True):
        for axes in row:
            axes.set_axis_off()
        several = len(states) > 1
        columns = moments if several else list(states)
        for axes, moment in zip(row, columns, strict=False):
            if not several or untitled:
                axes.set_title(moment, fontsize=9)
        untitled = untitled and not several
        name = _draw_row(dict(zip(columns, row, strict=False)), layer, states, channels)
        row[0].text(-0.08, 0.5, name, rotation=90, ha="right", va="center", transform=row[0].transAxes)
    if title:
        figure.suptitle(title)
    return figure


def _state(layer: str, state: Any) -> np.ndarray:
    """The state of a layer for one image; a matrix is an image of one channel."""
    state = np.asarray(state)
    state = state[..., None] if state.ndim == 2 else state
    if state.ndim not in (1, 3) or not state.size or not np.isfinite(state).all():
        raise InputError(
            f"{layer!r} has a state of shape {state.shape}: give finite numbers of one image, a vector or (height, "
            "width, channels); of several images, draw one at a time"
        )
    return state


def _draw_row(cells: Mapping[str, Axes], layer: str, states: Mapping[str, np.ndarray], channels: int) -> str:
    """One layer at all its moments; what to call the row."""
    low, high = min(float(state.min()) for state in states.values()), max(float(u.max()) for u in states.values())
    high = high if high > low else low + 1.0
    last = list(states.values())[-1]
    if last.ndim == 1:
        for moment, state in states.items():
            _draw_vector(cells[moment], state, min(low, 0.0), max(high, 0.0))
        return layer
    if len(states) == 1:
        ((moment, image),) = states.items()
        shown = (image - low) / (high - low) if image.shape[2] == 3 else image.mean(axis=2)
        cells[moment].imshow(shown, cmap="gray")
        return layer
    active = np.sort(np.argsort(-last.std(axis=(0, 1)), kind="stable")[:channels])
    for moment, state in states.items():
        tiles = np.moveaxis(state[..., active], 2, 0)
        picture = _mosaic(tiles, ceil(sqrt(len(tiles))), np.nan)
        cells[moment].imshow(picture, cmap="magma", vmin=low, vmax=high)
    return f"{layer}\n{len(active)} of {last.shape[2]}" if len(active) < last.shape[2] else layer


def _draw_vector(axes: Axes, state: np.ndarray, low: float, high: float) -> None:
    """Bars, of which the largest stands out and has its number."""
    best = int(np.argmax(state))
    axes.bar(range(len(state)), state, color=["C1" if k == best else "C0" for k in range(len(state))])
    axes.set_ylim(low, high + 0.15 * (high - low))
    axes.text(best, max(state[best], 0.0), str(best), ha="center", va="bottom", fontsize=8)


def _mosaic(tiles: np.ndarray, columns: int, gap: float) -> np.ndarray:
    """Images side by side in rows, with a pixel between them, unless they are pixels themselves."""
    count, height, width, *colours = tiles.shape
    rows, between = -(-count // columns), int(height * width > 1)
    out = np.full((rows * (height + between) - between, columns * (width + between) - between, *colours), gap)
    for place, tile in enumerate(tiles):
        top, left = (place // columns) * (height + between), (place % columns) * (width + between)
        out[top : top + height, left : left + width] = tile
    return out
