"""Laws in the strength of a nudge or of the feedback, as `eqprop verify` finds them."""

from collections.abc import Mapping

import numpy as np

from eqprop.plots.style import DOTS, Figure, styled


def power_law(
    x: np.ndarray, curves: Mapping[str, np.ndarray], p: float, *, xlabel: str, ylabel: str, title: str, law: str
) -> Figure:
    """Each curve over x, both logarithmic, and below them a grey line of slope p, which is proportional to `law`."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for style, label, values in styled(curves):
        axes.loglog(x, values, label=label, **DOTS, **style)
    far = int(np.argmax(x) if p < 0 else np.argmin(x))
    least = min(float(values[far]) for values in curves.values())
    axes.loglog(x, least / 2 * (x / x[far]) ** p, color="grey", linewidth=0.8, label=f"proportional to {law}")
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def nudged_cost(betas: np.ndarray, costs: np.ndarray, slopes: np.ndarray, *, title: str) -> Figure:
    """The cost at nudged fixed points over β, a line for each example, and its slope at β = 0 as a thin line.

    `costs` has axes (β, examples), and `slopes` a number for each example.
    """
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.subplots()
    at_zero = np.argmin(np.abs(betas))
    examples = {f"example {k + 1}": found for k, found in enumerate(zip(costs.T, slopes, strict=True))}
    for style, name, (cost, slope) in styled(examples):
        axes.plot(betas, cost, label=name, **style)
        near = np.array([-0.5, 0.7])
        axes.plot(near, cost[at_zero] + slope * near, color=style["color"], linewidth=0.8)
        axes.plot(0, cost[at_zero], "o", color=style["color"])
    axes.set_ylim(-0.05 * (top := 2 * costs[at_zero].max()), top)  # strong negative nudges lead far away
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="strength of the nudge β", ylabel="cost C at the nudged fixed point", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
