"""Spike-timing dependent plasticity, as `eqprop verify` finds it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from eqprop.plots.style import FIRST, SECOND, STYLES, Figure

LABELS = {
    "ρ dρ": r"$\rho(u_i)\,d\rho(u_j)$, both directions",
    "ρ ρ' du": r"$\rho(u_i)\,\rho'(u_j)\,du_j$, both directions",
    "ρ du": r"$\rho(u_i)\,du_j$: without the factor $\rho'(u_j)$",
}


def path_integral(epsilons: Sequence[float], errors: Mapping[str, Sequence[float]], *, title: str) -> Figure:
    """The distance of each integral in `LABELS` to the contrastive update, over the step ε, both logarithmic."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for style, marker, (rule, values) in zip(STYLES, "os^", errors.items(), strict=False):
        axes.plot(epsilons, values, marker=marker, label=LABELS[rule], **style)
    line = np.array(epsilons) * errors["ρ dρ"][-1] / epsilons[-1]
    axes.plot(epsilons, line / 2, color="grey", linewidth=1, label="proportional to ε")
    axes.set(xscale="log", yscale="log", xlabel="step ε (time constants of a unit)")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_xticks([], minor=True)
    axes.set(ylabel="distance to the contrastive update, relative", title=title)
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    return figure


def timing_curve(delays: np.ndarray, found: np.ndarray, one: Mapping[str, Any]) -> Figure:
    """The change of a synapse over the delay between two pulses, and the course of one pair of pulses beside it.

    `one` has the `onsets` of that pair, and at its `times` the states of both `units` and the change `learned` so far.
    """
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplot_mosaic([["curve", "units"], ["curve", "learned"]], width_ratios=[3, 2])
    _draw_curve(axes["curve"], delays, found)
    _draw_pulses(axes["units"], axes["learned"], **one)
    return figure


def _draw_curve(axes: Axes, delays: np.ndarray, found: np.ndarray) -> None:
    sides = {"potentiation": (1, FIRST, "pre before post"), "depression": (-1, SECOND, "post before pre")}
    for what, (sign, style, when) in sides.items():
        delay = sign * np.linspace(0, np.max(delays), 200)
        axes.plot(delay, sign * np.exp(-np.abs(delay)) / 2, **style)
        axes.fill_between(delay, 0, sign * np.exp(-np.abs(delay)) / 2, color=style["color"], alpha=0.12)
        axes.text(sign * 2.6, sign * 0.2, f"{what}:\n{when}", ha="center", va="center", color=style["color"])
    axes.plot([], [], color="black", label=r"$\frac{1}{2}\,\mathrm{sign}(\Delta)\,e^{-|\Delta|}$")
    axes.plot(delays, found, "o", color="black", markersize=4, label="two leaky units")
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set(xlabel=r"delay $\Delta = t_\mathrm{post} - t_\mathrm{pre}$ (time constants)")
    axes.set(ylabel=r"change of the synapse, $\int \rho(u_i)\,\dot u_j\,dt$", title="the STDP curve")
    axes.legend(loc="upper left")


def _draw_pulses(above: Axes, below: Axes, onsets: np.ndarray, times: np.ndarray, units: Any, learned: Any) -> None:
    shift = times - onsets[0]
    shown = (shift > -0.5) & (shift < 5)
    for k, (style, label) in enumerate([(FIRST, "presynaptic $u_i$"), (SECOND, "postsynaptic $u_j$")]):
        above.plot(shift[shown], np.asarray(units)[shown, k], label=label, **style)
    above.set(ylabel="state", title=rf"pulses at a delay of $\Delta$ = {onsets[1] - onsets[0]:g}")
    above.tick_params(labelbottom=False)
    above.legend()
    below.plot(shift[shown], np.asarray(learned)[shown], color="black")
    below.axhline(0, color="grey", linewidth=0.8)
    below.set(xlabel="time since the first pulse (time constants)", ylabel="change\nso far")
