"""How the time of the default training step grows with width, depth, minibatch and number of examples."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

from benchmarks.report import Report
from benchmarks.timing import race
from eqprop.plots import FIRST, SECOND
from eqprop.study import PRESETS, Experiment
from eqprop.train import Shuffled, TrainState

DEFAULT = PRESETS["mnist"]
TURN = 0.2
"""Seconds that a turn of a race should take, at least a minibatch."""

TEXT = """
Training with the defaults of `eqprop train mnist` (784-500-10, minibatches of {batch}), one thing varied at a
time: the width of two hidden layers; the number of hidden layers of 500, with the sweeps of the default, which
grow with depth, and with {free} free and {nudged} nudged ones; the minibatch; the number of training examples. Random
data of MNIST's shape. The exponent is the slope of the least-squares line through the logarithms: 1 is proportional,
0 constant. Wide networks tend to 2 in the width (weights between hidden layers). Deep ones tend to 1 at fixed sweeps
and to 2 at the default ones, from above: a single hidden layer is cheap, as only the product with ten outputs is
repeated. Small minibatches pay for updating all weights after few examples.
"""


@dataclass(frozen=True)
class Sweep:
    """An experiment for each size; `per` says what the time is for, an example or an epoch."""

    what: str
    sizes: Sequence[int]
    experiment: Callable[[int], Experiment]
    per: str = "example"


def hidden(experiment: Experiment, *units: int) -> Experiment:
    return replace(experiment, network=replace(experiment.network, hidden=units))


def learning(**options: Any) -> Experiment:
    return replace(DEFAULT, learning=replace(DEFAULT.learning, **options))


FIXED = replace(DEFAULT, settling=replace(DEFAULT.settling, free_steps=10, nudged_steps=6))
SWEEPS = (
    Sweep("units of two hidden layers", (125, 250, 500, 1000, 2000), lambda n: hidden(DEFAULT, n, n)),
    Sweep("hidden layers, default sweeps", (1, 2, 3, 4, 5, 6), lambda n: hidden(DEFAULT, *n * [500])),
    Sweep("hidden layers, fixed sweeps", (1, 2, 3, 4, 5, 6), lambda n: hidden(FIXED, *n * [500])),
    Sweep("examples in a minibatch", (5, 15, 50, 150, 500), lambda n: learning(batch_size=n)),
    Sweep("training examples", (1000, 3000, 10000, 50000), lambda n: learning(train=n), per="epoch"),
)


class Training:
    """An experiment on random data of MNIST's shape, with as many minibatches a turn as `TURN` allows."""

    def __init__(self, experiment: Experiment, whole_epoch: bool):
        chosen, random = experiment.learning, np.random.default_rng(0)
        examples = chosen.train or 100 * chosen.batch_size
        x = random.random((examples, 784), np.float32)
        self.feed = Shuffled((x, jax.nn.one_hot(random.integers(10, size=examples), 10)), chosen.batch_size)
        self.batches = self.feed.batches
        net, self.trainer = experiment.assemble(784, 10, self.batches)
        theta = net.init(jax.random.key(0), experiment.network.gain)
        self.state = self.trainer.init(theta, self.feed, jax.random.key(1))
        if not whole_epoch:
            self.train(1)  # compiles
            began = time.perf_counter()
            self.train(1)
            self.batches = int(np.clip(TURN / (time.perf_counter() - began), 1, self.batches))
        self.examples = self.batches * chosen.batch_size

    def train(self, batches: int | None = None) -> TrainState:
        return jax.block_until_ready(self.trainer.advance(self.state, self.feed, batches or self.batches))


def measure(sweep: Sweep, rounds: int) -> np.ndarray:
    """Milliseconds for each size, the median over rounds."""
    whole = sweep.per == "epoch"
    trainings = {str(size): Training(sweep.experiment(size), whole) for size in sweep.sizes}
    times = race({size: training.train for size, training in trainings.items()}, rounds)
    shares = [1 if whole else training.examples for training in trainings.values()]
    return np.array([1e3 * np.median(spent) / share for spent, share in zip(times.values(), shares, strict=True)])


def fit(sizes: Sequence[int], milliseconds: np.ndarray) -> np.poly1d:
    """The line through the logarithms."""
    return np.poly1d(np.polyfit(np.log(sizes), np.log(milliseconds), 1))


def run(short: bool) -> Report:
    """Measure every sweep; in short mode every other size but the largest, and fewer rounds."""
    sweeps = [replace(sweep, sizes=sweep.sizes[:-1:2]) for sweep in SWEEPS] if short else list(SWEEPS)
    found = [measure(sweep, rounds=2 if short else 7) for sweep in sweeps]
    rows = [
        {
            "time against": sweep.what,
            "sizes": ", ".join(f"{size:,}" for size in sweep.sizes),
            "milliseconds": ", ".join(f"{value:.3g}" if value < 1000 else f"{value:,.0f}" for value in milliseconds),
            "per": sweep.per,
            "exponent": float(fit(sweep.sizes, milliseconds).coeffs[0]),
        }
        for sweep, milliseconds in zip(sweeps, found, strict=True)
    ]
    fixed = FIXED.settling
    text = TEXT.format(batch=DEFAULT.learning.batch_size, free=fixed.free_steps, nudged=fixed.nudged_steps)
    return Report("How training time grows", text, rows, lambda: draw(sweeps, found))


def draw(sweeps: list[Sweep], found: list[np.ndarray]) -> Figure:
    """Four panels with the measured times and the fitted lines; both kinds of depth share one."""
    figure = Figure(figsize=(9, 7), layout="constrained")
    panels = dict(
        zip(dict.fromkeys(sweep.what.split(",")[0] for sweep in sweeps), figure.subplots(2, 2).flat, strict=True)
    )
    for sweep, milliseconds in zip(sweeps, found, strict=True):
        title, _, kind = sweep.what.partition(", ")
        axes, line = panels[title], fit(sweep.sizes, milliseconds)
        style = SECOND if axes.lines else FIRST
        axes.loglog(sweep.sizes, milliseconds, "o", color=style["color"])
        label = f"{kind + ': ' if kind else ''}exponent {line.coeffs[0]:.2f}"
        axes.loglog(sweep.sizes, np.exp(line(np.log(sweep.sizes))), label=label, **style)
        axes.set(xlabel=title, ylabel=f"time per {sweep.per} (ms)")
        axes.set_xticks(sweep.sizes, [f"{size:,}" for size in sweep.sizes])
        axes.xaxis.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend()
    return figure
