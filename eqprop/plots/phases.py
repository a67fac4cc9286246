"""How one example settles: freely, and then under a nudge.

`free` and `nudged` are the traces of two relaxations, the second begun where the first ended. Time is the number of
steps times ε. A vertical line stands where the nudge begins.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from eqprop.errors import InputError
from eqprop.plots.style import FIRST, SECOND, Figure
from eqprop.relax import Trace

FEW = 12
"""So many units of a layer are drawn as lines; more, as an image."""


def energy(free: Trace, nudged: Trace, *, beta: float, example: int = 0, epsilon: float = 1.0) -> Figure:
    """The total energy F while one example settles freely and then under a nudge.

    Where the nudge begins F rises at once, by β times the cost.
    """
    course = _course(free, nudged, example, epsilon)
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.subplots()
    _draw_energy(axes, course, beta)
    _finish([axes], course, epsilon)
    return figure


def states(free: Trace, nudged: Trace, *, target: int | None = None, example: int = 0, epsilon: float = 1.0) -> Figure:
    """The units of each layer, a panel for each, while one example settles freely and then under a nudge.

    `target` marks the unit of the last layer that ought to win.
    """
    course = _course(free, nudged, example, epsilon)
    figure = Figure(figsize=(7, 1.9 * len(course.layers) + 0.3), layout="constrained")
    panels = figure.subplots(len(course.layers), 1, sharex=True, squeeze=False)[:, 0]
    _draw_states(figure, panels, course, target)
    _finish(panels, course, epsilon)
    return figure


def settling(
    free: Trace, nudged: Trace, *, beta: float, target: int | None = None, example: int = 0, epsilon: float = 1.0
) -> Figure:
    """`energy` above `states`, over the same time."""
    course = _course(free, nudged, example, epsilon)
    figure = Figure(figsize=(7.5, 1.9 * (len(course.layers) + 1)), layout="constrained")
    panels = figure.subplots(len(course.layers) + 1, 1, sharex=True)
    _draw_energy(panels[0], course, beta)
    _draw_states(figure, panels[1:], course, target)
    _finish(panels, course, epsilon)
    return figure


class _Course(NamedTuple):
    """Both phases of an example in a row. They share the entry `border`; layers have the axes (time, units)."""

    times: np.ndarray
    border: int
    free: np.ndarray
    nudged: np.ndarray
    layers: dict[str, np.ndarray]


def _course(free: Trace, nudged: Trace, example: int, epsilon: float) -> _Course:
    for name, trace in (("free", free), ("nudged", nudged)):
        examples = len(trace.energy)
        if not 0 <= example < examples:
            raise InputError(f"example={example!r}: the trace {name} has examples 0 to {examples - 1}")
    before, after = (
        {layer: np.asarray(path[example]) for layer, path in _named(trace.state).items()} for trace in (free, nudged)
    )
    widths = [{layer: path.shape[1:] for layer, path in some.items()} for some in (before, after)]
    if widths[0] != widths[1] or any(len(width) != 1 for width in widths[0].values()):
        raise InputError(f"free has layers {widths[0]}, nudged {widths[1]}: give traces of the same layers of units")
    for layer, path in before.items():
        if not np.allclose(path[-1], after[layer][0], atol=1e-5):
            raise InputError(
                f"nudged does not begin where free ends, in layer {layer!r}: trace it from "
                "jax.tree.map(lambda path: path[:, -1], free.state)"
            )
    freely, pulled = (np.asarray(trace.energy[example]) for trace in (free, nudged))
    border = len(freely) - 1
    times = epsilon * np.arange(border + len(pulled))
    layers = {layer: np.concatenate([path, after[layer][1:]]) for layer, path in before.items()}
    return _Course(times, border, freely, pulled, layers)


def _named(state: Any) -> Mapping[str, Any]:
    """The layers of a state; that of an energy of one's own may be a plain array."""
    return state if isinstance(state, Mapping) else {"state": state}


def _draw_energy(axes: Axes, course: _Course, beta: float) -> None:
    axes.plot(course.times[: course.border + 1], course.free, label="free phase, β = 0", **FIRST)
    axes.plot(course.times[course.border :], course.nudged, label=f"nudged phase, β = {beta:g}", **SECOND)
    axes.set_ylabel("total energy F")
    axes.legend()


def _draw_states(figure: Figure, panels: Any, course: _Course, target: int | None) -> None:
    output = list(course.layers)[-1]
    units = course.layers[output].shape[1]
    if target is not None and not 0 <= target < units:
        raise InputError(f"target={target!r}: layer {output!r} has units 0 to {units - 1}")
    for axes, (layer, path) in zip(panels, course.layers.items(), strict=True):
        if path.shape[1] <= FEW:
            _lines(axes, course, path, target if layer == output else None)
        else:
            limits = {"vmin": min(0, path.min()), "vmax": max(1, path.max())}
            image = axes.pcolormesh(course.times, np.arange(path.shape[1]), path.T, cmap="cividis", **limits)
            figure.colorbar(image, ax=axes, label="state", pad=0.01)
        axes.set_ylabel(f"{layer} units" if layer != "state" else "units")


def _lines(axes: Axes, course: _Course, path: np.ndarray, target: int | None) -> None:
    prediction = int(path[course.border].argmax())
    marked = {} if target is None else {prediction: ("prediction", FIRST), target: ("target", SECOND)}
    for unit, values in enumerate(path.T):
        if unit not in marked:
            axes.plot(course.times, values, color="grey", alpha=0.7, linewidth=1)
    for unit, (word, style) in marked.items():
        axes.plot(course.times, path[:, unit], label=f"{word}, unit {unit}", linewidth=2, **style)
    if marked:
        axes.legend()


def _finish(panels: Any, course: _Course, epsilon: float) -> None:
    for axes in panels:
        axes.axvline(course.times[course.border], color="grey", linewidth=1)
    panels[-1].set_xlabel("time (units of the neurons' time constant)" if epsilon != 1 else "settling step")
