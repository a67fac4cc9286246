"""How a network moves in its two phases, as `eqprop verify` finds it."""

from collections.abc import Mapping

import numpy as np

from eqprop.plots.style import FIRST, SECOND, STYLES, Figure

DOTTED = (0, (2, 2))


def downhill(times: np.ndarray, falling: np.ndarray, speed: np.ndarray, *, title: str) -> Figure:
    """−dF/dt and ‖ds/dt‖² along the flow of the first example.

    `falling`, which is dF/dt, and `speed` have axes (examples, times).
    """
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(times, speed[0], label="‖ds/dt‖²", **FIRST)
    axes.semilogy(times, np.maximum(-falling[0], 1e-300), "o", markersize=4, color=SECOND["color"], label="−dF/dt")
    axes.set(
        xlabel="time (time constants of a unit)",
        ylabel="energy lost per time constant",
        ylim=(max(float(speed[0].min()), 1e-14) / 3, None),
        title=title,
    )
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def errors_backwards(
    times: np.ndarray, shares: Mapping[str, np.ndarray], laws: Mapping[str, np.ndarray], *, title: str
) -> Figure:
    """How far each layer has moved in the nudged phase, as a share of its whole way, and dotted the law t^{k+1}.

    The layers are in order from the output.
    """
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    shown = times >= 0.02  # after enough steps that ε matters little
    for k, (layer, share) in enumerate(shares.items()):
        style, law = STYLES[k % len(STYLES)], laws[layer]
        axes.plot(times[shown], share[shown], label=layer, linewidth=2, **style)
        axes.plot(times[shown & (law < 1)], law[shown & (law < 1)], color="black", linewidth=1, linestyle=DOTTED)
        power = "t" if k == 0 else f"t^{k + 1}"
        axes.annotate(f"${power}$", (0.05, np.interp(0.05, times, law)), (-8, 6), textcoords="offset points")
    axes.plot([], [], color="black", linewidth=1, linestyle=DOTTED, label=r"$t^{k+1}/(k+1)!\;\|\delta_k\|$")
    axes.set(xscale="log", yscale="log", ylim=(None, 2), title=title)
    axes.set(xlabel="time since the nudge (time constants of a unit)", ylabel="distance moved / where it ends")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    return figure


def steps_back(steps: Mapping[str, tuple[np.ndarray, np.ndarray]], epsilon: float) -> Figure:
    """The steps of the second phase as dots, and those of backpropagation through time as lines.

    `steps` has both for each part of the state and of θ by name: "s/hidden", "theta/W/input-hidden".
    """
    kinds = {"s": "states", "theta/W": "weights"} if any("theta/W" in name for name in steps) else {"": "parts"}
    figure = Figure(figsize=(5 * len(kinds), 3.8), layout="constrained")
    for axes, (kind, title) in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds.items(), strict=True):
        parts = [(name, *values) for name, values in steps.items() if name.startswith(kind)]
        parts.sort(key=lambda part: np.abs(part[2]).argmax())  # in the order in which the error reaches them
        for k, (name, ep, bptt) in enumerate(parts):
            style = STYLES[k % len(STYLES)]
            axes.plot(bptt / np.abs(bptt).max(), label=name.removeprefix(f"{kind}/"), **style)
            axes.plot(ep / np.abs(bptt).max(), "o", color=style["color"], markersize=3.5)
        axes.axhline(0, color="grey", linewidth=0.8)
        axes.set(xlabel=f"step t (of ε = {epsilon:g} time constants)", title=title)
        axes.set(ylabel="update, relative to its largest")
        axes.legend(loc="upper right")
    figure.suptitle("dots: steps of the second phase;  lines: backpropagation through time")
    return figure
