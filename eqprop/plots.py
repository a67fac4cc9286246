"""Pictures: numbers in, a matplotlib figure out. Nothing here opens a window or writes a file."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from eqprop.relax import Trace

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

History = Sequence[Mapping[str, float]]
"""The records of `fit`."""


def learning_curve(history: History, title: str = "") -> Figure:
    """Training and validation error in percent over epochs."""
    return learning_curves({title: [history]})


def learning_curves(histories: Mapping[str, Sequence[History]]) -> Figure:
    """Training and validation error over epochs, a panel for each title (the paper's Figure 3).

    A title may have several histories, of the same network from different seeds.
    """
    figure, panels = _panels(list(histories))
    curves = {"train_error": ("training, while learning", FIRST), "valid_error": ("validation", SECOND)}
    for axes, runs in zip(panels, histories.values(), strict=True):
        for history in runs:
            epochs = [record["epoch"] for record in history]
            for key, (label, style) in curves.items():
                if all(key in record for record in history):
                    errors = [100 * record[key] for record in history]
                    first = history is runs[0]
                    axes.plot(epochs, errors, marker="o", markersize=3, label=label if first else None, **style)
        axes.set(ylabel="error (%)", ylim=(0, None))
        axes.legend()
    return figure


def weight_changes(ratios: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """‖ΔW_k‖/‖W_k‖ of each synapse, averaged over the minibatches of each epoch, a panel for each title.

    `ratios` has for each title the synapses from input to output, with a value for each epoch.
    """
    figure, panels = _panels(list(ratios))
    for axes, synapses in zip(panels, ratios.values(), strict=True):
        for k, (name, values) in enumerate(synapses.items()):
            epochs = range(1, len(values) + 1)
            axes.plot(epochs, values, marker="o", markersize=3, label=f"$W_{k + 1}$, {name}", **STYLES[k % len(STYLES)])
        axes.set(ylabel="‖ΔW‖ / ‖W‖ per minibatch", yscale="log")
        axes.legend()
    return figure


def rivals(curves: Mapping[str, Mapping[str, Mapping[str, History]]]) -> Figure:
    """Validation error of several methods over epochs: a row for each title, a panel for each family of methods.

    The first method of all is drawn in the other panels too, in grey, to compare with.
    """
    families = list(dict.fromkeys(family for row in curves.values() for family in row))
    figure = Figure(figsize=(3.4 * len(families), 3.3 * len(curves)), layout="constrained")
    grid = figure.subplots(len(curves), len(families), squeeze=False, sharey="row", sharex="row")
    for panels, (title, row) in zip(grid, curves.items(), strict=True):
        reference, shown = next(iter(next(iter(row.values())).items()))
        for axes, family in zip(panels, families, strict=True):
            if reference not in row.get(family, {}):
                axes.plot(*_validation(shown), color="lightgrey", linewidth=4, label=reference)
            for style, (name, history) in zip(STYLES, row.get(family, {}).items(), strict=False):
                axes.plot(*_validation(history), marker="o", markersize=3, label=name, **style)
            axes.set(xlabel="epoch", yscale="log", title=f"{title}:\n{family}")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.yaxis.set_major_locator(LogLocator(10, (1, 2, 3, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("")
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
        panels[0].set_ylabel("validation error (%)")
    return figure


def _validation(history: History) -> tuple[list[float], list[float]]:
    return [record["epoch"] for record in history], [100 * record["valid_error"] for record in history]


def angles(degrees: Mapping[str, Sequence[float]]) -> Figure:
    """The angle between forward and feedback weights after each epoch."""
    figure, (axes,) = _panels(["forward and feedback weights"])
    for style, (name, values) in zip(STYLES, degrees.items(), strict=False):
        axes.plot(range(1, len(values) + 1), values, marker="o", markersize=3, label=name, **style)
    axes.set(ylabel="angle (degrees)", ylim=(0, 95), yticks=range(0, 91, 15))
    axes.legend()
    return figure


def modes(learned: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """The cost and J_CHL of each rule over its updates, where the two phases may end in different modes."""
    figure, panels = _panels(["what is wanted", "what contrastive rules descend"])
    labels = {"cost": "cost C", "objective": r"$J_\mathrm{CHL} = E(u^\infty) - E(u^0)$"}
    for axes, (key, label) in zip(panels, labels.items(), strict=True):
        for style, (name, values) in zip(STYLES, learned.items(), strict=False):
            if key in values:
                axes.plot(values[key], label=name, **style)
        axes.axhline(0, color="grey", linewidth=0.8)
        axes.set(xlabel="update", ylabel=label)
        axes.legend(fontsize=8)
    return figure


def against_residual(residuals: Sequence[float], rows: Mapping[str, Mapping[str, Mapping[str, list[float]]]]) -> Figure:
    """Errors, cosines and norms over the residual that phases are run to: a row of panels for each title."""
    figure = Figure(figsize=(11, 3.1 * len(rows)), layout="constrained")
    labels = {
        "errors": "validation error (%)",
        "cosine": "cosine with the exact gradient",
        "norm": "norm / norm of the exact gradient",
    }
    for (title, row), panels in zip(rows.items(), figure.subplots(len(rows), 3, squeeze=False), strict=True):
        for axes, (key, label) in zip(panels, labels.items(), strict=True):
            for style, (name, values) in zip(STYLES, row[key].items(), strict=False):
                shown = f"${name}$" if name.startswith("W_") else name
                axes.plot(residuals, values, marker="o", markersize=3, label=shown, **style)
            axes.set(xscale="log", xlabel="residual of both phases", ylabel=label, title=title)
            axes.invert_xaxis()
            axes.grid(alpha=0.3)
            axes.legend()
        panels[0].set_ylim(0, None)
        panels[2].set_yscale("log")
    return figure


def _panels(titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Panels over epochs, up to three in a row, and four as two rows of two."""
    columns = len(titles) if len(titles) <= 3 else 2
    rows = -(-len(titles) // columns)
    figure = Figure(figsize=(4.2 * columns if columns > 1 else 5, 3.5 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[len(titles) :]:
        axes.set_axis_off()
    panels = list(grid[: len(titles)])
    for axes, title in zip(panels, titles, strict=True):
        axes.set(xlabel="epoch", title=title)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
    return figure, panels


def settling(
    free: Trace, nudged: Trace, *, beta: float, target: int | None = None, example: int = 0, epsilon: float = 1.0
) -> Figure:
    """Energy and the units of each layer while one example settles freely and then under a nudge.

    `free` and `nudged` are the traces of two relaxations, the second begun where the first ended; time is the
    number of steps times ε. `target` marks the output unit that ought to win.
    """
    layers = list(free.state)
    figure = Figure(figsize=(7.5, 1.9 * (len(layers) + 1)), layout="constrained")
    axes = figure.subplots(len(layers) + 1, 1, sharex=True)
    border = free.energy.shape[1] - 1
    times = epsilon * np.arange(border + nudged.energy.shape[1])
    axes[0].plot(times[: border + 1], free.energy[example], label="free phase, β = 0", **FIRST)
    axes[0].plot(times[border:], nudged.energy[example], label=f"nudged phase, β = {beta:g}", **SECOND)
    axes[0].set_ylabel("total energy F")
    axes[0].legend()
    for layer, axis in zip(layers, axes[1:], strict=True):
        path = np.concatenate([free.state[layer][example], nudged.state[layer][example][1:]])
        if path.shape[1] <= 12:
            _lines(axis, times, path, target if layer == layers[-1] else None)
        else:
            image = axis.pcolormesh(
                times,
                np.arange(path.shape[1]),
                path.T,
                cmap="cividis",
                vmin=min(0, path.min()),
                vmax=max(1, path.max()),
            )
            figure.colorbar(image, ax=axis, label="state", pad=0.01)
        axis.set_ylabel(f"{layer} units")
    for axis in axes:
        axis.axvline(times[border], color="grey", linewidth=1)
    axes[-1].set_xlabel("time (units of the neurons' time constant)" if epsilon != 1 else "settling step")
    return figure


def _lines(axis: Axes, times: np.ndarray, path: np.ndarray, target: int | None) -> None:
    for unit, values in enumerate(path.T):
        if unit == target:
            axis.plot(times, values, label=f"target, unit {unit}", linewidth=2, **SECOND)
        else:
            axis.plot(times, values, color="grey", alpha=0.7, linewidth=1)
    winner = int(path[len(path) // 2].argmax())
    if target is not None and winner != target:
        axis.plot(times, path[:, winner], label=f"prediction, unit {winner}", linewidth=2, **FIRST)
    if target is not None:
        axis.legend()
