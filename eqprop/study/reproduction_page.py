"""What came of the paper's networks, beside the paper: a table, the curves of Figure 3, and why."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eqprop import plots
from eqprop.relax import Stepwise
from eqprop.store import Run
from eqprop.study.campaign import Outcome, Trial
from eqprop.study.diagnosis import EXAMPLES
from eqprop.study.experiment import Experiment
from eqprop.study.pages import left_to_do, mean_and_deviation, table
from eqprop.study.paper import CHOICES, NETS, PUBLISHED, TABLE_2
from eqprop.study.reproduction import Reproduction


def page(campaign: Reproduction, folder: Path, done: list[Outcome]) -> tuple[list[str], dict[str, Any]]:
    """The lines of the page, and its figures: learning_curves and weight_changes."""
    by_net = by_network(done)
    figures = {
        "learning_curves": plots.learning_curves({net: [o.history for o in some] for net, some in by_net.items()}),
        "weight_changes": plots.weight_changes({net: weight_changes(some[0]) for net, some in by_net.items()}),
    }
    return markdown(campaign, folder, by_net), figures


def markdown(campaign: Reproduction, folder: Path, by_net: Mapping[str, list[Outcome]]) -> list[str]:
    """The lines of the page."""
    lines = [
        f"# The paper's experiments, {campaign.mode.replace('-', ' ')}",
        "",
        INTRODUCTION.strip(),
        "",
    ]
    for line in shortened(campaign):
        lines += [line, ""]
    lines += table([row(net, some) for net, some in by_net.items()])
    for line in left_to_do(sum(map(len, by_net.values())), len(campaign.trials())):
        lines += ["", line]
    if lost := [given_up(trial, folder) for trial in campaign.given_up(folder)]:
        lines += ["", f"{GIVEN_UP.strip()} {'; '.join(lost)}."]
    lines += ["", "![Training and validation error](learning_curves.png)", ""]
    lines += ["![Relative change of the weights](weight_changes.png)", ""]
    lines += ["## How much the weights change", "", CHANGES.strip(), ""]
    lines += table([changes(net, some[0]) for net, some in by_net.items()])
    some_examples = min(EXAMPLES, campaign.train or EXAMPLES)
    lines += ["", "## Why", "", WHY.format(examples=some_examples).strip(), ""]
    lines += table([row for net, some in by_net.items() for row in diagnosis_rows(net, some[0])])
    if campaign.mode == "as-published":
        lines += [
            "",
            "## What the paper says, and what its authors' code does",
            "",
            CODE.strip(),
            "",
            *table(code_rows()),
        ]
    if campaign.mode == "as-written":
        lines += [
            "",
            "## What the paper leaves open",
            "",
            "We chose:",
            "",
            CHOICES.format(valid=campaign.valid or 10_000).strip(),
        ]
    lines += ["", "## Settings", ""]
    lines += [f"- {net}: {settings(some[0].trial.experiment)}" for net, some in by_net.items()]
    return lines


def shortened(campaign: Reproduction) -> list[str]:
    """A line on the epochs, the examples and the time that were asked for in place of the full ones, if any."""
    asked = {
        "{} epochs": campaign.epochs,
        "{:,} images to train on": campaign.train,
        "{:,} for validation": campaign.valid,
        "at most {:g} minutes for each network": campaign.minutes,
    }
    words = [pattern.format(value) for pattern, value in asked.items() if value is not None]
    return [f"Not the full experiments: {', '.join(words)}."] if words else []


INTRODUCTION = """
Section 5 of Scellier & Bengio, *Equilibrium Propagation* (2017). The paper reports a training error of 0.00 % for all
three networks, and between 2 and 3 % on images not trained on. *Iterations* are those of the free and of the nudged
phase; in one of them, each layer moves once. *Wall clock*: training, and validation after each epoch, compilation
included. Several seeds: mean ± standard deviation. The paper's numbers of epochs are those of its authors' code;
the text does not have them.
"""

GIVEN_UP = """
An output that its input holds below −β at 0, whatever the image, feels no nudge and never learns; its images, a tenth
of all, stay wrong. So a seed is given up, and the next one taken, if the validation error is above 10 % after 2 epochs,
or after 5 with three hidden layers. Validation errors of these seeds, epoch by epoch:
"""

CODE = """
The paper's footnote links to the code that its results are from (`model.py` and `train_model.py`; `model2.py` beside
them is a variant). In all its versions, that code takes ‖y − d‖² as the
cost, where the paper has ½ ‖y − d‖². So its β is worth twice as much in the paper's terms, which all numbers here are
in. Its rates multiply a contrast divided by its own β, and so are worth twice as much too. It visits the images in the
order of the data, in the same minibatches in every epoch. Particles and biases begin at 0, and biases learn at the
rate α_k of the weights that lead to their layer. An *accelerated* network goes as far in its free phases by a sixth of
the steps, from the same particles, and has the nudged phase of the authors:
[both forms, side by side](../accelerated/README.md).
"""

CHANGES = """
‖ΔW_k‖/‖W_k‖ after a minibatch, averaged over the last epoch, from the input's weights to the output's. The paper chose
its rates α_k so that these are about the same for all k.
"""

WHY = """
With the initial and with the final weights, on the first {examples} training images, settled as in training, from the
particles if they persist. *Residual*: of the free phase at its end, the median image. *At 0, at 1*: the share of units
that rest at an end of the box, where they pass no error on; layers from the first hidden one to the output. *Dead*:
outputs that rest at 0 for all of these images. *Cosine* and *norm*: the gradient of each layer's weights beside the
exact one, which the implicit function theorem gives at the converged fixed point.
"""


def by_network(done: list[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each network; there are several if it was trained from several seeds."""
    found: dict[str, list[Outcome]] = {}
    for outcome in done:
        form = ", accelerated" if outcome.trial.kind.endswith("-accelerated") else ""
        found.setdefault(f"{outcome.result['dataset']}, {outcome.result['net']}{form}", []).append(outcome)
    return found


def row(net: str, some: list[Outcome]) -> dict[str, str]:
    """A line of the table: a network, from one seed or several, beside the paper's."""
    dataset, depth = NETS[some[0].trial.kind]
    paper, theirs = TABLE_2[depth], dataset == "mnist"
    return {
        "network": net + (f", {len(some)} seeds" if len(some) > 1 else ""),
        "epochs": _over([o.result["epochs"] for o in some], "{:.0f}"),
        "paper's epochs": str(paper.epochs) if theirs else "–",
        "iterations": iterations(some[0].trial.experiment),
        "paper's iterations": f"{paper.free_steps} / {paper.nudged_steps}" if theirs else "–",
        "training error": _error(some, "train"),
        "validation error": _error(some, "valid"),
        "test error": _over([100 * o.result["test_error"] for o in some], "{:.2f} %"),
        "paper's": "0.00 % / 2–3 %" if theirs else "–",
        "wall clock": _over([(o.result["seconds"] + o.result["valid_seconds"]) / 60 for o in some], "{:.1f} min"),
    }


def iterations(experiment: Experiment) -> str:
    """Those of the free and of the nudged phase."""
    free, nudged, nudge, *_ = experiment.phases
    assert isinstance(free, Stepwise) and isinstance(nudged, Stepwise)
    most = "≤ " if free.tol is not None else ""
    return f"{most}{free.steps} / {nudged.steps}" + ("" if nudge.uses_free else ", twice")


def _error(some: list[Outcome], part: str) -> str:
    """At rest, from s = 0; and before it, where particles persist, from the particles in the last epoch."""
    fresh = _over([100 * o.result[f"{part}_error"] for o in some], "{:.2f} %")
    if not some[0].trial.experiment.settling.persistent:
        return fresh
    return f"{_over([100 * o.history[-1][f'{part}_error'] for o in some], '{:.2f} %')} ({fresh} from s = 0)"


def weight_changes(outcome: Outcome) -> dict[str, list[float]]:
    """‖ΔW_k‖/‖W_k‖ over epochs, by synapse from the input to the output."""
    names = [synapse.name for synapse in outcome.trial.experiment.layers(1, 1).synapses]
    return {name: [record[f"change W/{name}"] for record in outcome.history] for name in names}


def changes(net: str, outcome: Outcome) -> dict[str, str]:
    """A line of the table of relative changes."""
    found = [f"{ratios[-1]:.1e}" for ratios in weight_changes(outcome).values()]
    return {"network": net, "‖ΔW_k‖/‖W_k‖": ", ".join(found)}


def diagnosis_rows(net: str, outcome: Outcome) -> list[dict[str, str]]:
    """Two lines of the table that says why: at the start and at the end."""
    layers = list(outcome.trial.experiment.layers(1, 1).free)

    def words(values: Mapping[str, float | None], pattern: str) -> str:
        return ", ".join("–" if (value := values[layer]) is None else pattern.format(value) for layer in layers)

    return [
        {
            "network": net,
            "weights": when,
            "residual": f"{found['residual']:.0e}",
            "at 0": words(found["at_0"], "{:.0%}"),
            "at 1": words(found["at_1"], "{:.0%}"),
            "dead": f"{found['dead']}",
            "cosine": words(found["cosine"], "{:.2f}"),
            "norm": words(found["norm"], "{:.2f}"),
        }
        for when, found in outcome.notes.items()
    ]


def given_up(trial: Trial, folder: Path) -> str:
    """A trial that was given up, and how it went."""
    errors = [f"{100 * record['valid_error']:.1f}" for record in Run(folder / trial.name).read_history()]
    return f"{trial.name} {', '.join(errors)} %"


def code_rows() -> list[dict[str, str]]:
    """A line for each network: the paper's text, and what the code of its authors does in the same terms."""
    return [
        {
            "network": "-".join(map(str, (784, *text.hidden, 10))),
            "β, text": "±1",
            "β, code": f"±{beta:g}",
            "rates, text": ", ".join(map(str, text.rates)),
            "rates, code": ", ".join(map(str, code.rates)),
            "iterations, text": f"{text.free_steps} / {text.nudged_steps}",
            "iterations, code": f"{code.free_steps} / {code.nudged_steps}",
        }
        for text, (beta, code) in zip(TABLE_2.values(), PUBLISHED.values(), strict=True)
    ]


def settings(experiment: Experiment) -> str:
    """The settings that differ from those of `eqprop train`."""
    usual = Experiment(experiment.dataset).flat()
    return ", ".join(f"{name} {value}" for name, value in experiment.flat().items() if value != usual[name])


def _over(values: list[float], pattern: str) -> str:
    """One value, or mean ± standard deviation where several differ."""
    return mean_and_deviation(values if len(set(values)) > 1 else values[:1], pattern)
