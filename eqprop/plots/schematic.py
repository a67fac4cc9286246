"""A circuit: its nodes in columns, its resistors as lines, its diodes as arrows."""

from collections.abc import Mapping

import numpy as np
from matplotlib.collections import LineCollection

from eqprop.energy import Resistive, Resistors
from eqprop.errors import InputError
from eqprop.plots.style import Figure
from eqprop.types import Theta, Values

MOST_NODES = 60
"""Of a layer: more could not be told apart."""


def circuit(net: Resistive, theta: Theta, voltages: Mapping[str, Values] | None = None, *, title: str = "") -> Figure:
    """The layers as columns, held nodes as squares; a resistor is the darker and thicker, the better it conducts.

    An arrow beside a node is a diode that keeps it above 0 V (up) or below (down). `voltages` of one example colour the
    nodes, as `net.voltages(x, s)` gives them.
    """
    if crowded := [layer for layer, size in net.sizes.items() if size > MOST_NODES]:
        raise InputError(
            f"layer {crowded[0]!r} has {net.sizes[crowded[0]]} nodes, and at most {MOST_NODES} can be told apart: "
            "draw a smaller circuit"
        )
    places = _places(net)
    tallest = max(net.sizes.values())
    figure = Figure(figsize=(2.2 * len(net.sizes) + 1.5, 0.32 * tallest + 1.2), layout="constrained")
    axes = figure.subplots()
    for synapse in net.synapses:
        assert isinstance(synapse, Resistors)
        g = np.asarray(synapse.conductances(theta["W"][synapse.name]))
        part = g / (g.max() or 1.0)
        pre, post = (
            places[layer][nodes] for layer, nodes in zip((synapse.pre, synapse.post), synapse.ends, strict=True)
        )
        lines = LineCollection(list(np.stack([pre, post], 1)), colors=[(0, 0, 0, 0.08 + 0.72 * p) for p in part])
        lines.set_linewidth((0.3 + 1.7 * part).tolist())
        axes.add_collection(lines)
    volts = {layer: np.ravel(voltages[layer]) for layer in net.sizes} if voltages is not None else {}
    limit = max((float(np.abs(u).max()) for layer, u in volts.items() if layer != net.clamped), default=1.0) or 1.0
    drawn = None
    for layer, at in places.items():
        colours = {"c": volts[layer], "cmap": "RdBu_r", "vmin": -limit, "vmax": limit} if volts else {"c": "white"}
        marker = "s" if layer == net.clamped else "o"
        drawn = axes.scatter(*at.T, s=60, marker=marker, edgecolors="black", zorder=3, **colours)
        axes.text(at[0, 0], 0.8, layer, ha="center", va="bottom")
        for (x, y), kind in zip(at, dict(net.diodes).get(layer, ()), strict=False):
            sign = {1: "▲", -1: "▼", 2: "◆", 0: ""}[kind]
            axes.text(x + 0.09, y, sign, fontsize=7, va="center", zorder=4)
    if volts and drawn is not None:
        figure.colorbar(drawn, ax=axes, label="volts", shrink=0.8)
    axes.set(xlim=(-0.4, len(net.sizes) - 0.6), ylim=(-tallest + 0.2, 1.8), title=title)
    axes.set_axis_off()
    return figure


def _places(net: Resistive) -> dict[str, np.ndarray]:
    """Where the nodes are: (nodes, 2) by layer, each column centred."""
    tallest = max(net.sizes.values())
    return {
        layer: np.stack([np.full(size, float(column)), -np.arange(size) - (tallest - size) / 2], 1)
        for column, (layer, size) in enumerate(net.sizes.items())
    }
