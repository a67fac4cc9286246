"""What came of a comparison: a table for each data set, learning curves, and what the paper says of the relatives."""

from pathlib import Path
from typing import Any

from eqprop import plots
from eqprop.store.reading import read_json
from eqprop.store.run import Record
from eqprop.study.campaign import Outcome
from eqprop.study.methods import METHODS
from eqprop.study.pages import left_to_do, table
from eqprop.study.relatives import LIMIT, MODES, Comparison


def to_dict(outcome: Outcome) -> dict[str, Any]:
    """All that is known about a trial, for JSON."""
    method, last = METHODS[outcome.trial.kind], outcome.history[-1]
    extra = {name: last[name] for name in ("train_objective", "train_other_mode", "angle") if name in last}
    return {
        "method": outcome.trial.kind,
        "title": method.title,
        "first_phase": method.first,
        "second_phase": method.second,
        "cosine": outcome.notes["cosine"],
        "steps": outcome.notes["steps"],
        **outcome.result,
        "milliseconds_per_update": outcome.notes["milliseconds_per_update"],
        **extra,
    }


def by_dataset(done: list[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes on each data set."""
    found: dict[str, list[Outcome]] = {}
    for outcome in done:
        found.setdefault(outcome.trial.experiment.dataset, []).append(outcome)
    return found


def row(outcome: Outcome, some: list[Outcome]) -> dict[str, str]:
    """A line of the table."""
    method, result, notes = METHODS[outcome.trial.kind], outcome.result, outcome.notes
    ratio = relative_time(outcome, some)
    return {
        "": method.title,
        "first phase": method.first,
        "second phase": method.second,
        "cosine": f"{notes['cosine']:.3f}",
        "training error": f"{100 * result['train_error']:.2f} %",
        "test error": f"{100 * result['test_error']:.2f} %",
        "steps": f"{notes['steps']:.0f}",
        "seconds": f"{result['seconds']:.1f}",
        "update": "–" if ratio is None else f"{ratio:.2g} ×",
    }


def relative_time(outcome: Outcome, some: list[Outcome]) -> float | None:
    """How many times as long an update takes as one of backpropagation; None before they are timed."""
    times = {o.trial.kind: o.notes["milliseconds_per_update"] for o in some}
    ours, theirs = times[outcome.trial.kind], times.get("backpropagation")
    return None if ours is None or theirs is None else ours / theirs


def page(comparison: Comparison, folder: Path, done: list[Outcome]) -> tuple[list[str], dict[str, Any]]:
    """The lines of the page, and its figures."""
    grouped = by_dataset(done)
    figures = {"learning_curves": plots.rivals({heading(some): histories(some) for some in grouped.values()})}
    if angles := feedback_angles(done):
        figures["feedback"] = plots.angles(angles)
    if (kept := folder / MODES).exists():
        figures["modes"] = plots.modes(read_json(kept, dict[str, dict[str, list[float]]]))
    return markdown(comparison, folder, grouped), figures


def heading(some: list[Outcome]) -> str:
    """The data set and the network."""
    return f"{some[0].result['dataset']}, {some[0].result['net']}"


def histories(some: list[Outcome]) -> dict[str, dict[str, list[Record]]]:
    """By family, and in each by method."""
    found: dict[str, dict[str, list[Record]]] = {}
    for outcome in some:
        method = METHODS[outcome.trial.kind]
        found.setdefault(method.family, {})[method.title] = outcome.history
    return found


def feedback_angles(done: list[Outcome]) -> dict[str, list[float]]:
    """The angle between forward and feedback weights after each epoch, where feedback has weights of its own."""
    with_angles = [outcome for outcome in done if "angle" in outcome.history[0]]
    return {f"{title(o)}, {o.result['dataset']}": [record["angle"] for record in o.history] for o in with_angles}


def title(outcome: Outcome) -> str:
    """The name of the method."""
    return METHODS[outcome.trial.kind].title


def markdown(comparison: Comparison, folder: Path, grouped: dict[str, list[Outcome]]) -> list[str]:
    """The lines of the page."""
    done = [outcome for some in grouped.values() for outcome in some]
    lines = ["# Equilibrium Propagation and its relatives", "", INTRODUCTION.strip(), ""]
    for some in grouped.values():
        lines += [f"## {heading(some)}", "", settings(some[0]), "", *table([row(o, some) for o in some]), ""]
        lines += [line for line in (beside_backpropagation(some), other_modes(some)) if line]
        lines.append("")
    for line in left_to_do(len(done), len(comparison.trials())):
        lines += [line, ""]
    lines += ["![Validation error of all methods](learning_curves.png)"]
    if (folder / MODES).exists():
        lines += ["", "## Different modes", "", DIFFERENT.strip(), ""]
        lines += ["![Cost and objective where the phases end in different modes](modes.png)"]
    if feedback_angles(done):
        lines += ["", "## Feedback weights of their own", "", FEEDBACK.strip(), ""]
        lines += ["![Angle between forward and feedback weights](feedback.png)"]
    if (kept := folder / LIMIT).exists():
        rows = [
            {name: f"{value:.6g}" for name, value in entry.items()} for entry in read_json(kept, list[dict[str, float]])
        ]
        lines += ["", "## Weak feedback", "", WEAK.strip(), "", *table(rows)]
    return lines


def settings(outcome: Outcome) -> str:
    """What all methods have in common."""
    chosen = outcome.trial.experiment
    return (
        f"{outcome.result['epochs']} epochs, minibatches of {chosen.learning.batch_size}, Adam at a rate of "
        f"{chosen.learning.learning_rate[0]} that is multiplied by {chosen.learning.decay} after each epoch, seed "
        f"{chosen.learning.seed}; β = {chosen.settling.beta}; {chosen.settling.free_steps} sweeps in the free phase, "
        f"{chosen.settling.nudged_steps} in the second."
    )


def beside_backpropagation(some: list[Outcome]) -> str:
    """What Equilibrium Propagation reaches, and what it costs, in words."""
    by_method = {outcome.trial.kind: outcome for outcome in some}
    if not {"equilibrium", "backpropagation"} <= by_method.keys():
        return ""
    ours, theirs = by_method["equilibrium"], by_method["backpropagation"]
    points = 100 * (ours.result["test_error"] - theirs.result["test_error"])
    words = f"Equilibrium Propagation's test error differs from backpropagation's by {points:+.2f} points"
    ratio = relative_time(ours, some)
    return words + ("." if ratio is None else f", at {ratio:.2g} times the time for an update.")


def other_modes(some: list[Outcome]) -> str:
    """In how many examples the two phases of a contrastive method ended in different modes."""
    shares = {title(o): o.history[-1]["train_other_mode"] for o in some if "train_other_mode" in o.history[-1]}
    told = ", ".join(f"{method} {100 * share:.2f} %" for method, share in shares.items())
    return f"Training examples with J_CHL < 0 in the last epoch: {told}." if shares else ""


INTRODUCTION = """
The methods that sections 3.5 and 4 of Scellier & Bengio, *Equilibrium Propagation* (2017) compare in words, trained on
the same network and data, from the same seed, for the same number of epochs. The first columns are the paper's
correspondence of the phases (section 4), continued for those that it does not list. Boltzmann machines learn at ten
times the rate, coupled learning clamps outputs half of the way, the feedback of Xie & Seung is γ = 0.1, and with Kolen
& Pollack weights decay by the learning rate. STDP learns along gradient steps of ε = 0.5. With noise, every phase has
as many steps of ε = 0.5 as the free one, states are averaged over the second half, and ρ is tanh, not the hard sigmoid.
The layers are a single block, which is pulled by β = 0.1, and predictive coding is by β = 0.05. *Cosine*: between the
method's gradient and the true one at the initial weights, on 200 examples. For Boltzmann machines the true one is the
exact log-likelihood gradient; for noisy methods, the noise-free gradient. *Errors*: at the end of training. *Steps*: of
all phases of an example, a step being one visit to every layer; in contrastive divergence, 15 of them are for the
prediction by which it is measured while it learns. *Seconds*: of the training, compilation included. *Update*: the time
of one, in units of backpropagation's; all were timed in turns, the median of five.
"""

DIFFERENT = """
If the free and the clamped phase of contrastive Hebbian learning end in different modes of the energy, its objective
J_CHL = E(u^∞) − E(u⁰) can be negative, and learning usually deteriorates (section 4.1). A network where it does: two
hidden units inhibit each other, and the input switches one of them on. The output is to be 0.8 when the first is on and
0.2 when the second is, and its synapses begin with the opposite. An output that is held at 0.8 switches the flip-flop
over, so that the wrong unit learns the answer: J_CHL falls as it should, and the cost rises. A nudge, or an output that
is held a tenth of the way, leaves the flip-flop as it is.
"""

FEEDBACK = """
Section 6 calls the symmetric weights of the model troubling. Here, feedback has weights V of its own, drawn apart from
the forward weights W, at right angles to them. In the vector field, each weight learns from what it sees itself. With
Kolen & Pollack's update, W and V change alike and decay, and come ever closer.
"""

WEAK = """
As γ → 0, Xie & Seung's network becomes a feed-forward one, and its update that of backpropagation (section 4.4).
*Cosine* and *error* (relative): of the two updates; *state*: how far the free fixed point is from the forward pass,
relative to it. On the first hundred examples of the first data set, with 500 hidden units of seed 0, at the initial
weights, with outputs in the interior of their box.
"""
