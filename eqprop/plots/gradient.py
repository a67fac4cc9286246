"""How near a gradient comes to the exact one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqprop.errors import InputError
from eqprop.plots.style import DOTS, Figure, from_zero, require_lengths, styled


def gradient_error(
    betas: Sequence[float] | np.ndarray,
    errors: Mapping[str, Sequence[float]],
    *,
    orders: Sequence[float] = (),
    title: str = "",
) -> Figure:
    """The relative error of the gradient over the strength of the nudge β, a line for each nudge, both logarithmic.

    An error of order p falls along a line of slope p. For each p in `orders` there is such a line in grey to compare
    with, from the largest error at the largest β where there is one. An error of 0 has no place on these axes and is
    left out.
    """
    x = np.asarray(betas, float)
    if x.ndim != 1 or not len(x) or not (x > 0).all():
        raise InputError(f"betas={betas!r}: give positive strengths of the nudge, the axis is logarithmic")
    if not errors:
        raise InputError("errors is empty: give the errors of at least one nudge")
    require_lengths(errors, len(x), "betas")
    if not all(p > 0 for p in orders):
        raise InputError(f"orders={orders!r}: give positive orders p of an error O(β^p)")
    shown = {name: np.where(np.asarray(values) > 0, values, np.nan) for name, values in errors.items()}
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log")
    lines = [axes.plot(x, values, label=name, **DOTS, **style)[0] for style, name, values in styled(shown)]
    bottom, top = axes.get_ylim()
    above = np.fmax.reduce([*shown.values()])  # the largest error at each β
    largest = np.where(np.isnan(above), 0, x).argmax()
    highest = above[largest]
    for p in orders:
        # As far as it stays within the axes.
        ends = np.array([max(x.min(), x[largest] * (bottom / highest) ** (1 / p)), x[largest]])
        reference = highest * (ends / x[largest]) ** p
        axes.plot(ends, reference, color="grey", linewidth=0.8, zorder=1)
        beside: Any = {"xytext": (-3, 3), "textcoords": "offset points", "ha": "right", "color": "dimgrey"}
        axes.annotate(rf"$\beta^{{{p:g}}}$", (ends[0], reference[0]), **beside)
    axes.set_ylim(bottom, top)
    axes.set(xlabel="strength of the nudge β", ylabel="relative distance to the exact gradient", title=title)
    axes.grid(alpha=0.3)
    figure.legend(handles=lines, loc="outside lower center", ncols=2)  # the curves may be anywhere
    return figure


def against_residual(residuals: Sequence[float], rows: Mapping[str, Mapping[str, Mapping[str, list[float]]]]) -> Figure:
    """Errors, cosines and norms over the residual that phases are run to: a row of panels for each title.

    A row has the `errors` in percent by name, and by layer the `cosine` of the gradient with the exact one and their
    ratio of lengths, the `norm`; each with a value for each residual.
    """
    labels = {
        "errors": "validation error (%)",
        "cosine": "cosine with the exact gradient",
        "norm": "norm / norm of the exact one",
    }
    if not rows:
        raise InputError("rows is empty: give at least one title with errors, cosine and norm")
    figure = Figure(figsize=(9, 3 * len(rows)), layout="constrained")
    for (title, row), panels in zip(rows.items(), figure.subplots(len(rows), 3, squeeze=False), strict=True):
        for axes, (key, label) in zip(panels, labels.items(), strict=True):
            require_lengths(row[key], len(residuals), "residuals")
            for style, name, values in styled(row[key]):
                shown = f"${name}$" if name.startswith("W_") else name
                axes.plot(residuals, values, label=shown, **DOTS, **style)
            axes.set(xscale="log", xlabel="residual of both phases", ylabel=label, title=title)
            axes.invert_xaxis()
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
        from_zero(panels[0])
        panels[2].set_yscale("log")
    return figure
