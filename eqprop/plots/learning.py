"""How learning went, over epochs."""

from collections.abc import Mapping, Sequence

from matplotlib.ticker import LogLocator, MaxNLocator

from eqprop.errors import InputError
from eqprop.plots.style import DOTS, FIRST, SECOND, Figure, from_zero, over_epochs, styled

History = Sequence[Mapping[str, float]]
"""The records of `fit`."""

CURVES = {"train_error": ("training, while learning", FIRST), "valid_error": ("validation", SECOND)}


def learning_curve(history: History, title: str = "") -> Figure:
    """Training and validation error in percent over epochs."""
    return learning_curves({title: [history]})


def learning_curves(histories: Mapping[str, Sequence[History]]) -> Figure:
    """Training and validation error over epochs, a panel for each title (the paper's Figure 3).

    A title may have several histories, of the same network from different seeds.
    """
    figure, panels = over_epochs(list(histories))
    for axes, (title, runs) in zip(panels, histories.items(), strict=True):
        shown = [key for key in CURVES if runs and all(has(history, key) for history in runs)]
        if not shown:
            raise InputError(
                f"the histories of {title!r} have no record with train_error or valid_error: train at least an epoch, "
                "with Trainer(metrics={'error': F.cost.misclassified})"
            )
        for history in runs:
            for key in shown:
                label, style = CURVES[key]
                axes.plot(*percent(history, key), label=label if history is runs[0] else None, **DOTS, **style)
        axes.set_ylabel("error (%)")
        from_zero(axes)
        axes.legend()
    return figure


def weight_changes(ratios: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """‖ΔW_k‖/‖W_k‖ of each synapse, averaged over the minibatches of each epoch, a panel for each title.

    `ratios` has for each title the synapses from input to output, with a value for each epoch.
    """
    figure, panels = over_epochs(list(ratios))
    for axes, synapses in zip(panels, ratios.values(), strict=True):
        for k, (style, name, values) in enumerate(styled(synapses), start=1):
            axes.plot(range(1, len(values) + 1), values, label=f"$W_{k}$, {name}", **DOTS, **style)
        axes.set(ylabel="‖ΔW‖ / ‖W‖ per minibatch", yscale="log")
        axes.legend()
    return figure


def rivals(curves: Mapping[str, Mapping[str, Mapping[str, History]]]) -> Figure:
    """Validation error of several methods over epochs: a row for each title, a panel for each family of methods.

    The first method of all is drawn in the other panels too, in grey, to compare with.
    """
    families = list(dict.fromkeys(family for row in curves.values() for family in row))
    if not families or not all(row and all(row.values()) for row in curves.values()):
        raise InputError("there is nothing to draw: give at least one title, and each a family with a method")
    figure = Figure(figsize=(3.4 * len(families), 3.3 * len(curves)), layout="constrained")
    grid = figure.subplots(len(curves), len(families), squeeze=False, sharey="row", sharex="row")
    for panels, (title, row) in zip(grid, curves.items(), strict=True):
        reference, shown = next(iter(next(iter(row.values())).items()))
        for axes, family in zip(panels, families, strict=True):
            if reference not in row.get(family, {}):
                axes.plot(*percent(shown, "valid_error"), color="lightgrey", linewidth=4, label=reference)
            for style, name, history in styled(row.get(family, {})):
                if not has(history, "valid_error"):
                    raise InputError(f"the history of {name!r} has no valid_error: give `fit` validation examples")
                axes.plot(*percent(history, "valid_error"), label=name, **DOTS, **style)
            axes.set(xlabel="epoch", yscale="log", title=f"{title}:\n{family}")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.yaxis.set_major_locator(LogLocator(10, (1, 2, 3, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("")
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
        panels[0].set_ylabel("validation error (%)")
    return figure


def angles(degrees: Mapping[str, Sequence[float]]) -> Figure:
    """The angle between forward and feedback weights after each epoch."""
    figure, (axes,) = over_epochs(["forward and feedback weights"])
    for style, name, values in styled(degrees):
        axes.plot(range(1, len(values) + 1), values, label=name, **DOTS, **style)
    most = 95 if float(axes.dataLim.y1) <= 90 else 185
    axes.set(ylabel="angle (degrees)", ylim=(0, most), yticks=range(0, most, 15 if most < 100 else 30))
    axes.legend()
    return figure


def modes(learned: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """The cost and J_CHL of each rule over its updates, where the two phases may end in different modes."""
    figure, panels = over_epochs(["what is wanted", "what contrastive rules descend"])
    labels = {"cost": "cost C", "objective": r"$J_\mathrm{CHL} = E(u^\infty) - E(u^0)$"}
    for axes, (key, label) in zip(panels, labels.items(), strict=True):
        for style, name, values in styled(learned):
            if key in values:
                axes.plot(values[key], label=name, **style)
        axes.axhline(0, color="grey", linewidth=0.8)
        axes.set(xlabel="update", ylabel=label)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.legend(fontsize=8)
    return figure


def has(history: History, key: str) -> bool:
    """Whether there are records, and each has the key."""
    return len(history) > 0 and all(key in record for record in history)


def percent(history: History, key: str) -> tuple[list[float], list[float]]:
    """The epochs, and the value of each in percent."""
    return [record["epoch"] for record in history], [100 * record[key] for record in history]
