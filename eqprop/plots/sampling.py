"""Distributions and chains of samples, as `eqprop verify` finds them."""

from collections.abc import Mapping

import numpy as np

from eqprop.plots.style import DOTS, FIRST, SECOND, STYLES, Figure


def densities(densities: Mapping[str, Mapping[str, np.ndarray]], *, title: str) -> Figure:
    """Histograms of the first unit's samples at each β, and its exact density.

    For each β, a number as a string, there are the `share` of samples between two `edges` and the `density` at `s`.
    """
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for style, hatch, (beta, curve) in zip(STYLES, ("", "///"), densities.items(), strict=False):
        colour = style["color"]
        phase = f"β = {beta} ({'nudged' if float(beta) else 'free'})"
        bars = {"edgecolor": colour, "facecolor": (colour, 0.15), "hatch": hatch, "linewidth": 0.5}
        axes.stairs(curve["share"], curve["edges"], fill=True, label=f"samples, {phase}", **bars)
        axes.plot(curve["s"], curve["density"], label=f"$e^{{-F/T}}/Z$, {phase}", linewidth=2, **style)
    axes.set(xlabel="state s of the first unit", ylabel="probability density")
    axes.set(title=title, ylim=(0, 1.35 * axes.get_ylim()[1]))  # room for the legend
    axes.grid(alpha=0.3)
    axes.legend(ncols=2, loc="upper center")
    return figure


def asymmetry(asymmetry: np.ndarray, *, title: str) -> Figure:
    """The asymmetry of the Jacobian of CD-k for k = 1, 2, …; the last value is that of the exact gradient."""
    *values, exact = asymmetry
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(np.arange(1, len(values) + 1), values, label="CD-k", **DOTS, **FIRST)
    axes.axhline(max(exact, 1e-17), label="exact gradient of log p: rounding", **SECOND)
    axes.set(xlabel="sweeps k of the negative phase", ylabel="asymmetry ‖J − Jᵀ‖ / ‖J + Jᵀ‖", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
