"""Pictures: numbers in, a matplotlib figure out. Nothing here opens a window or writes a file."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Distinct in greyscale and to colour-blind eyes (Okabe & Ito), each with its own line style.
STYLES = [("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"), ("#000000", "-")]


def learning_curve(history: Sequence[Mapping[str, float]], title: str = "") -> Figure:
    """Training and validation error in percent over epochs, from the records of `fit`."""
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    epochs = [record["epoch"] for record in history]
    for (colour, line), part in zip(STYLES, ("train", "valid"), strict=False):
        if history and f"{part}_error" in history[0]:
            errors = [100 * record[f"{part}_error"] for record in history]
            name = {"train": "training (while learning)", "valid": "validation"}[part]
            axes.plot(epochs, errors, line, color=colour, marker="o", markersize=3, label=name)
    axes.set(xlabel="epoch", ylabel="error (%)", title=title, ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def settling(free: Any, nudged: Any, example: int = 0, beta: float | None = None) -> Figure:
    """Energy and the units of each layer while one example settles freely and then under a nudge.

    `free` and `nudged` are the traces of two relaxations, the second begun where the first ended.
    """
    layers = list(free.state)
    figure = Figure(figsize=(8, 1.8 * (len(layers) + 1)), layout="constrained")
    axes = figure.subplots(len(layers) + 1, 1, sharex=True, squeeze=False)[:, 0]
    border = free.energy.shape[1] - 1
    after = border + np.arange(nudged.energy.shape[1])
    axes[0].plot(np.arange(border + 1), free.energy[example], color=STYLES[0][0], label="free phase, β = 0")
    label = "nudged phase" if beta is None else f"nudged phase, β = {beta:g}"
    axes[0].plot(after, nudged.energy[example], "--", color=STYLES[1][0], label=label)
    axes[0].set_ylabel("total energy F")
    axes[0].legend()
    for layer, axis in zip(layers, axes[1:], strict=True):
        path = np.concatenate([free.state[layer][example], nudged.state[layer][example][1:]])
        axis.imshow(
            path.T,
            aspect="auto",
            cmap="viridis",
            interpolation="nearest",
            extent=(-0.5, len(path) - 0.5, path.shape[1] - 0.5, -0.5),
        )
        axis.set_ylabel(f"{layer}\nunit")
    for axis in axes:
        axis.axvline(border, color="white" if axis is not axes[0] else "grey", linewidth=1)
    axes[-1].set_xlabel("settling step")
    return figure
