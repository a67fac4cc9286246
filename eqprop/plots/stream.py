"""Streams: what changes over time."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from eqprop.errors import InputError
from eqprop.plots.style import from_zero, styled


def tracking(
    times: Sequence[float],
    curves: Mapping[str, Sequence[Sequence[float]]],
    *,
    onset: float = 0.0,
    label: str = "error (%)",
) -> Figure:
    """Curves over time: the mean of the seeds, and each seed as a thin line; a grey line where the drift begins.

    curves: for each name the values of each seed, one for each of `times`.
    """
    if not curves or any(len(values) != len(times) for seeds in curves.values() for values in seeds):
        raise InputError(f"{len(times)} times: give curves with a value for each of them")
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for style, name, seeds in styled(curves):
        for values in seeds:
            axes.plot(times, values, color=style["color"], linewidth=0.5, alpha=0.4)
        axes.plot(times, np.mean(seeds, axis=0), label=name, **style)
    axes.axvline(onset, color="grey", linewidth=0.8)
    axes.set(xlabel="time (the drift begins at the grey line)", ylabel=label)
    from_zero(axes)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
