"""Seconds of training to an error on MNIST: the paper's schedule beside our default recipe."""

import time
from itertools import pairwise
from typing import NamedTuple

import jax
import numpy as np
import optax
from matplotlib.figure import Figure

import eqprop as ep
from benchmarks.nets import recipe
from benchmarks.report import Report
from benchmarks.timing import race, spread
from eqprop.data import Dataset, Split, load
from eqprop.study import Setup
from eqprop.study.paper import TABLE_2

LEVELS = (5.0, 2.5)
TEXT = """
Training time until the validation error (10,000 of MNIST's training images held out) first falls to a level, measured
eight times an epoch, without compilation and without the time to measure. *Default* is `eqprop train mnist`, *paper*
the paper's schedule: minibatches of 20, ±β = 1, persistent particles, its rates and iterations. Initial
weights are ours, at half the range, in both: at the full range the paper's schedule is at chance for long.

The paper's schedule would take hours with two and three hidden layers, so there its time is **extrapolated**:
examples needed × time per example in our training × the ratio of the two times per example, measured in turns on the
exact schedule. The examples are counted in a training whose free phase goes to the same fixed points by accelerated
block descent (to a residual of 1e-3 or 20 sweeps, from the particles), all else being the paper's. ">" means that the
level was not reached in the {epochs} epochs that this benchmark affords: the figure is a lower bound. The two trainings
ran one after the other, with one seed; test errors are those at their ends.
"""


class Curve(NamedTuple):
    """Minibatches, seconds and validation error (%) along a training, and the test error (%) at its end."""

    batches: np.ndarray
    seconds: np.ndarray
    valid: np.ndarray
    test: float


def run(short: bool) -> Report:
    data = load("mnist", on_event=print)
    epochs = 1 if short else 10
    rows, curves = [], {}
    for hidden in (1, 2, 3):
        experiment = recipe(hidden, epochs=2 if short else 10)
        setup = experiment.build(data)
        print(f"  {hidden} hidden, default", flush=True)
        ours = learn(setup.trainer, setup.state, setup.feed, data, experiment.learning.epochs)
        print(f"  {hidden} hidden, paper", flush=True)
        theirs = learn(*paper(hidden, data.train.in_memory(), exact=hidden == 1), data, epochs)
        times = seconds_per_example(hidden, setup, short)
        if hidden > 1:
            # By the ratio within the race, so that the state of the machine does not matter.
            ratio = np.median(times["paper"] / times["default"])
            ours_per_example = ours.seconds[-1] / ours.batches[-1] / experiment.learning.batch_size
            theirs = theirs._replace(seconds=theirs.batches * 20 * ratio * ours_per_example)
        curves[hidden] = ours, theirs
        for level in LEVELS:
            seconds, reached = first(ours, level)
            longer, there = first(theirs, level)
            rows.append(
                {
                    "hidden layers": hidden,
                    "level, %": level,
                    "default, s": round(seconds, 1) if reached else None,
                    "paper, s": f"{'' if there else '> '}{longer:,.0f}{' (extrapolated)' if hidden > 1 else ''}",
                    "sooner by": f"{'' if there else '> '}{longer / seconds:.0f} ×" if reached else None,
                    "paper / default, time per example": spread(times["paper"] / times["default"]),
                    "default, test error, %": round(ours.test, 2),
                    "in all, s": round(float(ours.seconds[-1]), 1),
                    "paper, test error, %": round(theirs.test, 2),
                }
            )
    return Report("Time to an error on MNIST", TEXT.format(epochs=epochs), rows, lambda: draw(curves))


def paper(hidden: int, train: Split, *, exact: bool) -> tuple[ep.Trainer, ep.TrainState, ep.Arrays]:
    """The paper's recipe, or one that reaches the fixed points of its free phase sooner."""
    row = TABLE_2[hidden]
    net = ep.Hopfield.layered(784, *[500] * hidden, 10)
    F = ep.Total(net, ep.SquaredError())
    settle = ep.Gradient(steps=row.free_steps) if exact else ep.Block(steps=20, tol=1e-3, accelerate=True)
    rates = net.per_layer(dict(zip(net.free, row.rates, strict=True)))
    trainer = ep.Trainer(
        F,
        ep.EquilibriumPropagation(ep.RandomSign(1.0), settle, ep.Gradient(steps=row.nudged_steps)),
        ep.Rated(optax.sgd(1.0), rates),
        persistent=True,
        metrics={"error": F.cost.misclassified},
    )
    feed = ep.Shuffled(train.v, batch_size=20)
    return trainer, trainer.init(net.init(jax.random.key(0)), feed, jax.random.key(1)), feed


def learn(
    trainer: ep.Trainer, state: ep.TrainState, feed: ep.Feed, data: Dataset, epochs: int, times: int = 8
) -> Curve:
    """Train, and look at the validation error `times` times an epoch."""
    jax.block_until_ready(trainer.advance(state, feed, 1))  # compiles
    batches = feed.batches
    stops = np.linspace(0, batches, times + 1).astype(int)
    points, seconds = [], 0.0
    for epoch in range(epochs):
        for begin, end in pairwise(stops):
            began = time.perf_counter()
            state = jax.block_until_ready(trainer.advance(state, feed, int(end - begin)))
            seconds += time.perf_counter() - began
            points.append((epoch * batches + end, seconds, 100 * trainer.measure(state.theta, data.valid.v)["error"]))
        print(f"    epoch {epoch + 1}: {seconds:.1f} s, validation error {points[-1][2]:.2f} %", flush=True)
        state = state._replace(epoch=state.epoch + 1, batch=state.batch * 0)
    passed, spent, valid = np.array(points).T
    return Curve(passed, spent, valid, 100 * trainer.measure(state.theta, data.test.v)["error"])


def seconds_per_example(hidden: int, setup: Setup, short: bool) -> dict[str, np.ndarray]:
    """Of our training step and of the paper's exact schedule, in turns, on the first 2,000 examples."""
    feed = ep.Shuffled(setup.train[:2000].v, setup.experiment.learning.batch_size)
    exact, begin, small = paper(hidden, setup.train[:2000].in_memory(), exact=True)
    ours, theirs = 20, {1: 100, 2: 10, 3: 2}[hidden]
    times = race(
        {
            "default": lambda: jax.block_until_ready(setup.trainer.advance(setup.state, feed, ours)),
            "paper": lambda: jax.block_until_ready(exact.advance(begin, small, theirs)),
        },
        rounds=3 if short else 9,
    )
    return {
        "default": times["default"] / ours / feed.batch_size,
        "paper": times["paper"] / theirs / small.batch_size,
    }


def first(curve: Curve, level: float) -> tuple[float, bool]:
    """The seconds to a level of validation error, and whether it was reached (else: all seconds)."""
    there = np.flatnonzero(curve.valid <= level)
    return float(curve.seconds[there[0] if len(there) else -1]), bool(len(there))


def draw(curves: dict[int, tuple[Curve, Curve]]) -> Figure:
    figure = Figure(figsize=(10, 3.3), layout="constrained")
    for axes, (hidden, (ours, theirs)) in zip(figure.subplots(1, 3, sharey=True), curves.items(), strict=True):
        axes.plot(ours.seconds, ours.valid, color="#0072B2", label="default")
        label = "paper's schedule" + (" (extrapolated)" if hidden > 1 else "")
        axes.plot(theirs.seconds, theirs.valid, color="#D55E00", linestyle="--", label=label)
        for level in LEVELS:
            axes.axhline(level, color="#999999", linewidth=0.6)
        axes.set(xscale="log", yscale="log", xlabel="seconds of training", title=f"{hidden} hidden")
        axes.set_yticks([2, 2.5, 5, 10, 50], ["2", "2.5", "5", "10", "50"], minor=False)
        axes.minorticks_off()
        axes.legend(fontsize="small")
    figure.axes[0].set_ylabel("validation error (%)")
    return figure
