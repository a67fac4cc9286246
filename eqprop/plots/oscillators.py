"""Coupled oscillators: their phases while they settle."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from eqprop.errors import InputError
from eqprop.plots.style import FIRST, SECOND

SHOWN = 40
"""Units of a layer that are drawn, at the most."""


def locking(free: Mapping[str, np.ndarray], nudged: Mapping[str, np.ndarray], *, target: int | None = None) -> Figure:
    """The phase of each oscillator over the steps, a panel for each layer: first freely, then nudged.

    free, nudged: phases by layer, of shape (steps, units). In the output layer, that of the class `target` is orange.
    """
    if not free or free.keys() != nudged.keys():
        raise InputError(f"layers {list(free)} and {list(nudged)}: give the same layers for both phases")
    figure = Figure(figsize=(4.2 * len(free), 3.6), layout="constrained")
    for axes, layer in zip(figure.subplots(1, len(free), squeeze=False)[0], free, strict=True):
        before, after = np.asarray(free[layer]), np.asarray(nudged[layer])
        path = np.concatenate([before, after[1:]]) / np.pi
        axes.plot(path[:, :SHOWN], color=FIRST["color"], linewidth=0.8, alpha=0.6)
        if target is not None and layer == list(free)[-1]:
            axes.plot(path[:, target], linewidth=1.8, **(SECOND | {"linestyle": "-"}))
        axes.axvline(len(before) - 1, color="grey", linewidth=0.8)
        axes.set(xlabel="step (nudged to the right of the line)", ylabel="phase φ / π", title=layer)
        axes.grid(alpha=0.3)
    return figure
