"""Pictures: numbers in, a matplotlib figure out. Nothing here opens a window or writes a file."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from eqprop.relax import Trace

# Distinct to colour-blind eyes (Okabe & Ito), and each with its own line style, distinct in greyscale.
FIRST: dict[str, Any] = {"color": "#0072B2", "linestyle": "-"}
SECOND: dict[str, Any] = {"color": "#D55E00", "linestyle": "--"}


def learning_curve(history: Sequence[Mapping[str, float]], title: str = "") -> Figure:
    """Training and validation error in percent over epochs, from the records of `fit`."""
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    epochs = [record["epoch"] for record in history]
    curves = {"train_error": ("training, while learning", FIRST), "valid_error": ("validation", SECOND)}
    for key, (label, style) in curves.items():
        if all(key in record for record in history):
            axes.plot(epochs, [100 * record[key] for record in history], marker="o", markersize=3, label=label, **style)
    axes.set(xlabel="epoch", ylabel="error (%)", title=title, ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


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
