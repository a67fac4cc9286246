"""Is an accelerated network trained as the published one is? Both go on from one checkpoint, side by side."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from eqprop import data
from eqprop.compile import compiled
from eqprop.energy.total import slope
from eqprop.errors import InputError
from eqprop.experiment import Experiment, start, training_part
from eqprop.markdown import table
from eqprop.relax.box import residual
from eqprop.reproduce.diagnosis import cosine, ratio
from eqprop.reproduce.paper import ACCELERATED, as_published
from eqprop.reproduce.study import Entry, Study, paragraph
from eqprop.train import Run, Trainer, TrainState

FORMS = ("published", "accelerated")
PIECES = 5
"""in which the time is taken; the two forms take turns"""


@dataclass(frozen=True)
class Pair:
    """The published and the accelerated trainer of a network, and the part of a checkpoint that both go on from.

    Minibatches come in a fixed order, so that the next ones have examples of their own: only these, with their
    particles, are kept.
    """

    net: str
    epochs: int
    trainers: dict[str, Trainer]
    state: TrainState
    v: Any


def pair_of(folder: Path, examples: data.Dataset, batches: int) -> Pair:
    """The next `batches` minibatches of a run of `eqprop reproduce as-published`, of either form."""
    run = Run.open(folder)
    experiment = Experiment.from_dict(run.config)
    net = _net(experiment, folder)
    nets: dict[str, Any] = {"published": net, "accelerated": f"{net}-accelerated"}
    settlings = {form: as_published(nets[form]).experiment.settling for form in FORMS}
    started = {form: start(replace(experiment, settling=settlings[form]), examples) for form in FORMS}
    state, history, _ = run.load(started["published"][1])
    if not run.saved:
        raise InputError(f"{folder} has no checkpoint yet: train it first")
    size = experiment.learning.batch_size
    first = size * int(state.batch)
    some = slice(first, first + size * batches)
    v = jax.tree.map(lambda a: a[some], training_part(experiment, examples).v)
    if len(v[0]) < size * batches:
        raise InputError(f"batches={batches}: only {len(v[0]) // size} are left of the epoch that {folder} is in")
    particles = jax.tree.map(lambda u: u[some], state.particles)
    state = state._replace(particles=particles, valid_particles=None, batch=jnp.zeros_like(state.batch))
    return Pair(net, len(history), {form: trainer for form, (trainer, _) in started.items()}, state, v)


def _net(experiment: Experiment, folder: Path) -> str:
    """The network that a run is of, whatever its form, its seed and its number of epochs."""
    for net in ("2", "3", "2-accelerated", "3-accelerated"):
        asked = as_published(net).experiment
        if (asked.network, asked.settling) == (experiment.network, experiment.settling):
            return net[0]
    raise InputError(f"{folder} is not a run of `eqprop reproduce as-published --nets 2` or 3, in either form")


def compare(pair: Pair) -> Entry:
    """Both forms, minibatch by minibatch, in double precision; then the time that they take in training's own.

    cosine, norm: between the two updates of each layer's weights, for each minibatch.
    residual: of the free phase at its end, for each form and example.
    apart: ‖θ_published − θ_accelerated‖ at the end, relative to how far the published θ went.
    seconds: for each form, those of each of several pieces; the two take turns.
    """
    size, layers = pair.trainers["published"].batch_size, list(pair.state.theta["W"])
    batches = len(pair.v[0]) // size
    found: Entry = {"net": pair.net, "epochs": pair.epochs, "batches": batches}
    found |= {"cosine": {k: [] for k in layers}, "norm": {k: [] for k in layers}, "residual": {f: [] for f in FORMS}}
    piece = ceil(batches / PIECES)
    with jax.enable_x64(True):
        v = jax.tree.map(lambda a: jnp.asarray(a, float), pair.v)
        begin = jax.tree.map(lambda a: a.astype(float) if jnp.issubdtype(a.dtype, jnp.floating) else a, pair.state)
        states: dict[str, Any] = dict.fromkeys(FORMS, begin)
        for batch in range(batches):
            changes = {}
            for form in FORMS:
                before = states[form]
                after = states[form] = pair.trainers[form].advance(before, v, 1)
                changes[form] = jax.tree.map(jnp.subtract, after.theta["W"], before.theta["W"])
                mine = jax.tree.map(lambda a, k=batch: a[k * size : (k + 1) * size], (v, after.particles))
                found["residual"][form] += _residuals(pair.trainers[form], before.theta, *mine).tolist()
            for layer in layers:
                two = [changes[form][layer] for form in reversed(FORMS)]
                found["cosine"][layer].append(cosine(*two))
                found["norm"][layer].append(ratio(*two))
        first, *ends = (ravel_pytree(state.theta)[0] for state in (begin, *states.values()))
        found["apart"] = float(jnp.linalg.norm(ends[1] - ends[0]) / jnp.linalg.norm(ends[0] - first))
    found["seconds"] = {form: [] for form in FORMS}
    v, states = jax.tree.map(jnp.asarray, pair.v), dict.fromkeys(FORMS, pair.state)
    for form in FORMS:
        jax.block_until_ready(pair.trainers[form].advance(pair.state, v, 1))  # compiles
    for _ in range(PIECES):
        for form in FORMS:
            began = time.perf_counter()
            more = min(piece, batches - int(states[form].batch))
            states[form] = jax.block_until_ready(pair.trainers[form].advance(states[form], v, more))
            found["seconds"][form].append(time.perf_counter() - began)
    return found


@compiled
def _residuals(trainer: Trainer, theta: Any, v: Any, s: Any) -> Array:
    """Of states s of examples v with weights θ."""

    def one(v: Any, s: Any) -> Array:
        return residual(trainer.F, s, jax.tree.map(jnp.negative, slope(trainer.F, theta, v, 0.0, s)))

    return jax.vmap(one)(v, s)


@dataclass(frozen=True)
class Question(Study):
    """From which runs of `eqprop reproduce as-published`, and for how many minibatches."""

    name: ClassVar[str] = "accelerated"
    caption: ClassVar[str] = "Cosine of the updates, and residuals, of both forms"
    short: ClassVar[dict[str, Any]] = {"batches": 10}

    folders: tuple[str, ...] = ()
    batches: int = 200

    def __post_init__(self) -> None:
        if not self.folders:
            raise InputError("folders=(): name the folder of a run of `eqprop reproduce as-published --nets 2` or 3")
        if self.batches < 1:
            raise InputError(f"batches={self.batches}: give a positive whole number")
        for folder in self.folders:
            _net(Experiment.from_dict(Run.open(folder).config), Path(folder))

    def runs(self) -> Iterator[tuple[Any, ...]]:
        return ((folder,) for folder in self.folders)

    def carry_out(self, run: tuple[Any, ...], examples: data.Dataset) -> Entry:
        return compare(pair_of(Path(run[0]), examples, self.batches))

    def report(self, entries: list[Entry]) -> list[str]:
        lines = ["# The accelerated form beside the published one", "", paragraph(TEXT.format(q=self, **ACCELERATED))]
        lines += ["", *table([_updates(entry, layer) for entry in entries for layer in entry["cosine"]])]
        lines += ["", paragraph(RESIDUALS), "", *table([_rests(entry, form) for entry in entries for form in FORMS])]
        return lines

    def figure(self, entries: list[Entry]) -> Any:
        from matplotlib.figure import Figure

        from eqprop.plots.style import styled

        figure = Figure(figsize=(9, 3.4 * len(entries)), layout="constrained")
        for axes, entry in zip(figure.subplots(len(entries), 2, squeeze=False), entries, strict=True):
            for style, layer, values in styled(entry["cosine"]):
                axes[0].plot(np.arange(1, len(values) + 1), values, label=layer, **style)
            axes[0].set(xlabel="minibatch", ylabel="cosine of the two updates", title=_title(entry))
            for style, form, values in styled(entry["residual"]):
                ordered = np.maximum(np.sort(values), 1e-16)
                axes[1].semilogy(np.linspace(0, 100, len(ordered)), ordered, label=form, **style)
            axes[1].set(xlabel="% of the examples", ylabel="residual of the free phase, at most", title=_title(entry))
            for one in axes:
                one.grid(alpha=0.3)
                one.legend()
        return figure


TEXT = """
From one checkpoint of a run, the published and the accelerated form each train on the next {q.batches} minibatches, in
double precision. The published free phase takes its fixed number of steps s ← Π(s − ε ∂F/∂s). The accelerated one goes
by accelerated block descent until the residual of each example is at most {tol:g}, for {free_steps} sweeps at the most.
Both start from their own particles, which are the same at first, and the nudged phase is the same. *Cosine* is
that between the two updates of a layer's weights for the same minibatch, *norm* the length of the accelerated one
relative to the published one's. *Time* is for training in single precision, the published form's divided by the
accelerated one's, median of pieces in which the two took turns.
"""

RESIDUALS = """
The residuals of the free phases at their end, over all examples of these minibatches. *Apart*: the distance of the two
θ at the end, relative to the way that the published one has gone.
"""


def _title(entry: Entry) -> str:
    sizes = "-".join(map(str, (784, *as_published(entry["net"]).experiment.network.hidden, 10)))
    return f"{sizes}, after {entry['epochs']} epochs"


def _updates(entry: Entry, layer: str) -> dict[str, str]:
    cosines = [value for value in entry["cosine"][layer] if value is not None]
    norms = [value for value in entry["norm"][layer] if value is not None]
    return {
        "network": _title(entry),
        "weights": layer,
        "least cosine": f"{min(cosines):.4f}",
        "median cosine": f"{median(cosines):.6f}",
        "median norm": f"{median(norms):.4f}",
        "time": f"{factor(entry):.1f} times",
    }


def factor(entry: Entry) -> float:
    """How many times sooner the accelerated form is done."""
    return median(a / b for a, b in zip(*(entry["seconds"][form] for form in FORMS), strict=True))


def _rests(entry: Entry, form: str) -> dict[str, str]:
    at = {"median": 50, "90 %": 90, "99 %": 99, "largest": 100, "mean": None}
    found = entry["residual"][form]
    values = {name: np.mean(found) if share is None else np.percentile(found, share) for name, share in at.items()}
    return {
        "network": _title(entry),
        "form": form,
        **{name: f"{value:.0e}" for name, value in values.items()},
        "apart": f"{entry['apart']:.3f}",
    }
