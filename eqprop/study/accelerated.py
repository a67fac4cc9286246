"""Is an accelerated network trained as the published one is? Their updates from the same states, along one training."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from statistics import mean, median
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from eqprop import data
from eqprop.errors import InputError
from eqprop.store import Run
from eqprop.store.ranges import HeldOut, check_options
from eqprop.study.base import Entry, Study
from eqprop.study.diagnosis import cosine_or_none
from eqprop.study.experiment import Experiment
from eqprop.study.pages import paragraph, table
from eqprop.study.paper import OMEGA, as_published, time_of_a_sweep
from eqprop.study.training import experiment_of
from eqprop.train import InOrder, Trainer, TrainState

LONGER = 10
"""times the published iterations: what these would come to if they were not cut short"""
PAIRS = (("accelerated", "published"), ("longer", "published"), ("accelerated", "longer"))
LEAST = 0.01
"""of the mean length: updates of single minibatches that are shorter say nothing"""
ALIKE = 0.99
PIECES = 5
"""in which the time is taken; the two forms take turns"""


@dataclass(frozen=True)
class Forms:
    """The trainers of a network by form, and the part of a checkpoint that they go on from.

    Minibatches come in a fixed order, so that the next ones have examples of their own: only these, with their
    particles, are kept.
    """

    net: str
    epochs: int
    trainers: dict[str, Trainer]
    state: TrainState
    feed: InOrder


def forms_of(folder: Path, examples: data.Dataset, batches: int) -> Forms:
    """The next `batches` minibatches of a run of `eqprop reproduce as-published`, of either form."""
    run = Run.open(folder)
    experiment = experiment_of(run)
    net = _net(experiment, folder)
    if experiment.learning.valid is not None:
        examples = examples.hold_out(experiment.learning.valid)
    nets: dict[str, Any] = {"published": net, "accelerated": f"{net}-accelerated"}
    settlings = {form: as_published(name).experiment.settling for form, name in nets.items()}
    settlings["longer"] = replace(settlings["published"], free_steps=LONGER * (settlings["published"].free_steps or 0))
    setup = experiment.build(examples)
    sizes = (*examples.widths, setup.feed.batches)
    trainers = {form: replace(experiment, settling=kind).assemble(*sizes)[1] for form, kind in settlings.items()}
    state, history, _ = run.load(setup.state)
    if not run.saved:
        raise InputError(f"{folder} has no checkpoint yet: train it first")
    size = experiment.learning.batch_size
    first = size * int(state.batch)
    some = slice(first, first + size * batches)
    left = setup.train[some]
    if len(left) < size * batches:
        raise InputError(f"batches={batches}: only {len(left) // size} are left of the epoch that {folder} is in")
    particles = jax.tree.map(lambda u: u[some], state.particles)
    state = state._replace(particles=particles, valid_particles=None, batch=jnp.zeros_like(state.batch))
    return Forms(net, len(history), trainers, state, InOrder(left.v, size))


def _net(experiment: Experiment, folder: Path) -> str:
    """The network that a run is of, whatever its form, its seed and its number of epochs."""
    for net in ("2", "3", "2-accelerated", "3-accelerated"):
        asked = as_published(net).experiment.without_idle()
        if (asked.network, asked.settling) == (experiment.network, experiment.settling):
            return net[0]
    raise InputError(f"{folder} is not a run of `eqprop reproduce as-published --nets 2` or 3, in either form")


def compare(forms: Forms) -> Entry:
    """The updates of all forms from the same θ and particles, minibatch by minibatch; θ moves by the published ones.

    cosine: by pair and layer, between the two updates of the layer's weights, for each minibatch.
    total: by pair and layer, between the sums of the updates over all minibatches.
    norm: by layer, of the published update of each minibatch relative to their mean.
    residuals: of the free phase at its end, by form, for each minibatch and example.
    seconds: for the published and the accelerated form, those of several pieces of training in single precision.
    """
    published, feed, layers = forms.trainers["published"], forms.feed, list(forms.state.theta["W"])
    size, batches = feed.batch_size, feed.batches
    found: Entry = {"net": forms.net, "epochs": forms.epochs, "batches": batches}
    found["cosine"] = {_pair(pair): {layer: [] for layer in layers} for pair in PAIRS}
    found["residuals"] = {form: [] for form in forms.trainers}
    norms: dict[str, list[float]] = {layer: [] for layer in layers}
    with jax.enable_x64(True):
        v, theta, particles = jax.tree.map(
            lambda a: jnp.asarray(a, float), (feed.v, forms.state.theta, forms.state.particles)
        )
        optimizer = published.optimizer.init(theta)
        total = {form: jax.tree.map(jnp.zeros_like, theta["W"]) for form in forms.trainers}
        for batch in range(batches):
            v_i, s = jax.tree.map(lambda a, k=batch: a[k * size : (k + 1) * size], (v, particles))
            key, gradients = jax.random.fold_in(forms.state.key, batch), {}
            for form, trainer in forms.trainers.items():
                learned = trainer.rule(trainer.F, theta, v_i, s, key)
                gradients[form] = learned.gradient
                total[form] = jax.tree.map(jnp.add, total[form], learned.gradient["W"])
                found["residuals"][form].append(learned.phases["free"].residual.tolist())
            for pair in PAIRS:
                for layer in layers:
                    two = (gradients[form]["W"][layer] for form in pair)
                    found["cosine"][_pair(pair)][layer].append(cosine_or_none(*two))
            for layer in layers:
                norms[layer].append(float(jnp.linalg.norm(gradients["published"]["W"][layer])))
            updates, optimizer = published.optimizer.update(gradients["published"], optimizer, theta)
            theta = optax.apply_updates(theta, updates)
        found["total"] = {
            _pair(pair): {layer: cosine_or_none(*(total[form][layer] for form in pair)) for layer in layers}
            for pair in PAIRS
        }
    found["norm"] = {layer: [value / mean(values) for value in values] for layer, values in norms.items()}
    return found | {"seconds": _times(forms)}


def _pair(pair: tuple[str, str]) -> str:
    return " and ".join(pair)


def _times(forms: Forms) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {"published": [], "accelerated": []}
    feed, states = forms.feed, dict.fromkeys(seconds, forms.state)
    for form in seconds:
        jax.block_until_ready(forms.trainers[form].advance(forms.state, feed, 1))  # compiles
    for _ in range(PIECES):
        for form in seconds:
            began = time.perf_counter()
            more = min(ceil(feed.batches / PIECES), feed.batches - int(states[form].batch))
            states[form] = jax.block_until_ready(forms.trainers[form].advance(states[form], feed, more))
            seconds[form].append(time.perf_counter() - began)
    return seconds


@dataclass(frozen=True)
class Question(Study):
    """From which runs of `eqprop reproduce as-published`, and for how many minibatches."""

    name: ClassVar[str] = "accelerated"
    caption: ClassVar[str] = "Cosine of the updates over their length"
    short: ClassVar[dict[str, Any]] = {"batches": 10}

    folders: tuple[str, ...] = ()
    batches: HeldOut = 200

    def __post_init__(self) -> None:
        check_options(self)
        if not self.folders:
            raise InputError("no runs: name with --runs a folder of `eqprop reproduce as-published --nets 2` or 3")
        if self.batches < 1:
            raise InputError(f"batches={self.batches}: give a positive whole number")
        for folder in self.folders:
            _net(experiment_of(Run.open(folder)), Path(folder))

    def runs(self) -> Iterator[tuple[Any, ...]]:
        return ((folder,) for folder in self.folders)

    def carry_out(self, run: tuple[Any, ...], examples: data.Dataset) -> Entry:
        return compare(forms_of(Path(run[0]), examples, self.batches))

    def report(self, entries: list[Entry]) -> list[str]:
        steps = time_of_a_sweep(OMEGA) / as_published("2").experiment.settling.epsilon
        text = TEXT.format(q=self, longer=LONGER, least=LEAST, omega=OMEGA, steps=steps).strip()
        paragraphs = [*text.split("\n\n"), *map(sentence, entries)]
        lines = ["# The accelerated form beside the published one", ""]
        lines += [line for words in paragraphs for line in (paragraph(words), "")]
        lines += table([_updates(entry, pair) for entry in entries for pair in entry["cosine"]])
        lines += ["", "Residuals of the free phases at their end, over all examples of these minibatches:", ""]
        lines += table([_rests(entry, form) for entry in entries for form in entry["residuals"]])
        return lines

    def figure(self, entries: list[Entry]) -> Any:
        from matplotlib.figure import Figure

        from eqprop.plots.style import styled

        figure = Figure(figsize=(9, 3.6 * len(entries)), layout="constrained")
        panels = figure.subplots(len(entries), 2, squeeze=False, sharey=True)
        for row, entry in zip(panels, entries, strict=True):
            for axes, pair in zip(row, ("accelerated and published", "longer and published"), strict=True):
                for style, layer, values in styled(entry["cosine"][pair]):
                    heights = [np.nan if value is None else value for value in values]
                    style = {"color": style["color"], "marker": "o", "markersize": 3, "linestyle": ""}
                    axes.semilogx(entry["norm"][layer], heights, label=layer, alpha=0.6, **style)
                axes.set(xlabel="length of the published update / mean", title=f"{pair}\n{_title(entry)}")
                axes.grid(alpha=0.3)
            row[0].set_ylabel("cosine of the two updates")
            row[0].legend()
        return figure


TEXT = """
From a checkpoint of a run, the next {q.batches} minibatches in double precision. In each of them, three forms of the
free phase start from the same weights and the same particles: the *published* one, with its fixed number of steps
s ← Π(s − ε ∂F/∂s); the *accelerated* one, by as many sweeps of block descent as take the same time, where one with
ω = {omega:g} goes as far in slow modes as {steps:g} published steps; and the published steps for {longer} times as
*long*. The nudged phase is the same for all. Then the weights move by the published update. Cosines are those between
two forms' updates of a layer's weights: of the sums over all minibatches, and of single minibatches, as far as their
published update is longer than {least:.0%} of the mean. Most images are learned, and what is left of shorter updates
is rounding.

The published iterations leave a few images far from rest, and these are among those that still teach: so the fixed
points, to which the longer form goes on, lead to other updates. The same time leaves each image in the same place of
its way.
"""


def sentence(entry: Entry) -> str:
    """What the numbers say."""
    sums = {pair: min(values.values()) for pair, values in entry["total"].items()}
    shares = {pair: _share(_cosines(entry, pair)) for pair in entry["total"]}
    ours, theirs = (_pair(pair) for pair in PAIRS[:2])
    return (
        f"**{_title(entry)}: the accelerated form is {factor(entry):.1f} times as fast. Over all {entry['batches']} "
        f"minibatches, its update and the published one have a cosine of {sums[ours]:.4f} in the layer where it is "
        f"least.** Of the updates of single minibatches and layers, {shares[ours]} have a cosine of {ALIKE:g} or "
        f"more. Running the published steps {LONGER} times as long gives a least cosine of {sums[theirs]:.4f}, and "
        f"{shares[theirs]} of single updates at {ALIKE:g} or above."
    )


def _cosines(entry: Entry, pair: str) -> np.ndarray:
    """Of all minibatches and layers with an update worth the name."""
    found = [
        value
        for layer, values in entry["cosine"][pair].items()
        for value, norm in zip(values, entry["norm"][layer], strict=True)
        if norm > LEAST and value is not None
    ]
    return np.array(found)


def _share(values: np.ndarray) -> str:
    """Those that are alike, in percent: 100 only if it is all of them."""
    share = np.mean(values >= ALIKE)
    return "> 99%" if 0.995 <= share < 1 else f"{share:.0%}"


def _title(entry: Entry) -> str:
    sizes = "-".join(map(str, (784, *as_published(entry["net"]).experiment.network.hidden, 10)))
    return f"{sizes} after {entry['epochs']} epochs"


def _updates(entry: Entry, pair: str) -> dict[str, str]:
    cosines = _cosines(entry, pair)
    return {
        "network": _title(entry),
        "updates": pair,
        "cosine of the sums, by layer": ", ".join(f"{value:.4f}" for value in entry["total"][pair].values()),
        "of single ones, median": f"{median(cosines):.5f}",
        f"{ALIKE:g} or more": _share(cosines),
        "least": f"{min(cosines):.2f}",
    }


def factor(entry: Entry) -> float:
    """How many times sooner the accelerated form is done."""
    return median(a / b for a, b in zip(entry["seconds"]["published"], entry["seconds"]["accelerated"], strict=True))


def _rests(entry: Entry, form: str) -> dict[str, str]:
    found = np.ravel(entry["residuals"][form])
    values = {f"{share} %": np.percentile(found, share) for share in (50, 90, 99)} | {"largest": np.max(found)}
    return {"network": _title(entry), "form": form, **{name: f"{value:.0e}" for name, value in values.items()}}
