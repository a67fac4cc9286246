"""What came of a comparison: a table for each data set, learning curves, and what the paper says of the relatives."""

from pathlib import Path
from typing import Any, NamedTuple

from eqprop.compare.contest import LIMIT, MODES, Contest, Trial, first, is_done, speed
from eqprop.experiment import METHODS
from eqprop.files import read_json, write_atomic, write_figure
from eqprop.machine import footer
from eqprop.markdown import table
from eqprop.train import Run


class Outcome(NamedTuple):
    """A trial that is done; `pace` is the time of an update in milliseconds, once all have been timed."""

    trial: Trial
    result: dict[str, Any]
    history: list[dict[str, float]]
    first: dict[str, float]
    pace: float | None

    @property
    def title(self) -> str:
        return METHODS[self.trial.method].title

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        method = METHODS[self.trial.method]
        last = self.history[-1]
        extra = {name: last[name] for name in ("train_objective", "train_other_mode", "angle") if name in last}
        return {
            "method": self.trial.method,
            "title": method.title,
            "first_phase": method.first,
            "second_phase": method.second,
            **self.first,
            **self.result,
            "milliseconds_per_update": self.pace,
            **extra,
        }


def outcomes(contest: Contest, folder: Path) -> dict[str, list[Outcome]]:
    """Of the trials that are done, by data set."""
    found: dict[str, list[Outcome]] = {}
    for trial in contest.trials():
        name, run = trial.experiment.dataset, Run(folder / trial.name)
        if is_done(run):
            timed = speed(folder, name)
            pace = read_json(timed)[trial.method] if timed.exists() else None
            outcome = Outcome(trial, run.read_result(), run.read_history(), read_json(first(run)), pace)
            found.setdefault(name, []).append(outcome)
    return found


def row(outcome: Outcome, some: list[Outcome]) -> dict[str, str]:
    """A line of the table."""
    method, result = METHODS[outcome.trial.method], outcome.result
    ratio = relative_pace(outcome, some)
    return {
        "": method.title,
        "first phase": method.first,
        "second phase": method.second,
        "cosine": f"{outcome.first['cosine']:.3f}",
        "training error": f"{result['train_error']:.2f} %",
        "test error": f"{result['test_error']:.2f} %",
        "steps": f"{outcome.first['steps']:.0f}",
        "seconds": f"{result['seconds']:.1f}",
        "update": "–" if ratio is None else f"{ratio:.2g} ×",
    }


def relative_pace(outcome: Outcome, some: list[Outcome]) -> float | None:
    """How many times as long an update takes as one of backpropagation."""
    reference = next((o.pace for o in some if o.trial.method == "backpropagation"), None)
    return None if reference is None or outcome.pace is None else outcome.pace / reference


def write(contest: Contest, folder: Path, commands: list[str]) -> None:
    """README.md with its figures, of what is done so far."""
    from eqprop import plots  # matplotlib takes its time to load

    done = outcomes(contest, folder)
    if not done:
        return
    figures = {"learning_curves": plots.rivals({heading(some): histories(some) for some in done.values()})}
    if angles := feedback_angles(done):
        figures["feedback"] = plots.angles(angles)
    if (kept := folder / MODES).exists():
        figures["modes"] = plots.modes(read_json(kept))
    for name, figure in figures.items():
        write_figure(folder / f"{name}.png", figure)
    write_atomic(folder / "README.md", markdown(contest, folder, done, commands).encode())


def heading(some: list[Outcome]) -> str:
    return f"{some[0].result['dataset']}, {some[0].result['net']}"


def histories(some: list[Outcome]) -> dict[str, dict[str, list[dict[str, float]]]]:
    """By family, and in each by method."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for outcome in some:
        found.setdefault(METHODS[outcome.trial.method].family, {})[outcome.title] = outcome.history
    return found


def feedback_angles(done: dict[str, list[Outcome]]) -> dict[str, list[float]]:
    """The angle between forward and feedback weights after each epoch, where feedback has weights of its own."""
    with_angles = [outcome for some in done.values() for outcome in some if "angle" in outcome.history[0]]
    return {f"{o.title}, {o.result['dataset']}": [record["angle"] for record in o.history] for o in with_angles}


def markdown(contest: Contest, folder: Path, done: dict[str, list[Outcome]], commands: list[str]) -> str:
    """The report."""
    left = len(contest.trials()) - sum(map(len, done.values()))
    lines = ["# Equilibrium Propagation and its relatives", "", INTRODUCTION.strip(), ""]
    for some in done.values():
        lines += [f"## {heading(some)}", "", settings(some[0]), "", *table([row(o, some) for o in some]), ""]
        lines += [line for line in (beside_backpropagation(some), other_modes(some)) if line]
        lines.append("")
    if left:
        lines += [f"{left} of {len(contest.trials())} runs are still to be done.", ""]
    lines += ["![Validation error of all methods](learning_curves.png)", ""]
    if (folder / MODES).exists():
        lines += ["## Different modes", "", DIFFERENT.strip(), ""]
        lines += ["![Cost and objective where the phases end in different modes](modes.png)", ""]
    if feedback_angles(done):
        lines += ["## Feedback weights of their own", "", FEEDBACK.strip(), ""]
        lines += ["![Angle between forward and feedback weights](feedback.png)", ""]
    if (kept := folder / LIMIT).exists():
        rows = [{name: f"{value:.6g}" for name, value in entry.items()} for entry in read_json(kept)]
        lines += ["## Weak feedback", "", WEAK.strip(), "", *table(rows), ""]
    return "\n".join([*lines, footer(commands), ""])


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
    by_method = {outcome.trial.method: outcome for outcome in some}
    if not {"equilibrium", "backpropagation"} <= by_method.keys():
        return ""
    ours, theirs = by_method["equilibrium"], by_method["backpropagation"]
    points = ours.result["test_error"] - theirs.result["test_error"]
    words = f"Equilibrium Propagation's test error differs from backpropagation's by {points:+.2f} points"
    ratio = relative_pace(ours, some)
    return words + ("." if ratio is None else f", at {ratio:.2g} times the time for an update.")


def other_modes(some: list[Outcome]) -> str:
    """In how many examples the two phases of a contrastive method ended in different modes."""
    shares = {o.title: o.history[-1]["train_other_mode"] for o in some if "train_other_mode" in o.history[-1]}
    told = ", ".join(f"{title} {100 * share:.2f} %" for title, share in shares.items())
    return f"Training examples with J_CHL < 0 in the last epoch: {told}." if shares else ""


INTRODUCTION = """
The methods that sections 3.5 and 4 of Scellier & Bengio, *Equilibrium Propagation* (2017) compare in words, trained on
the same network and data, from the same seed, for the same number of epochs. The first columns are the paper's
correspondence of the phases (section 4), continued for those that it does not list. Boltzmann machines learn at ten
times the rate, coupled learning clamps outputs half of the way, the feedback of Xie & Seung is γ = 0.1, and with Kolen
& Pollack weights decay by the learning rate. STDP learns along gradient steps of ε = 0.5. With noise, every phase has
as many steps of ε = 0.5 as the free one, states are averaged over the second half, and ρ is tanh, not the hard sigmoid.
*Cosine*: between the method's gradient and the true one of what its network predicts, at the initial weights, on 200
examples; for Boltzmann machines, the gradient of their log-likelihood, whole; with noise, the gradient without.
*Errors*: at the end of training. *Steps*: of all phases of an example, a step being one visit to every layer; in
contrastive divergence, 15 of them are for the prediction by which it is measured while it learns. *Seconds*: of the
training, compilation included. *Update*: the time of one, in units of backpropagation's; all were timed in turns, the
median of five.
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
