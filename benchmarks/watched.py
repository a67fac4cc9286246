"""Training with all that watches over it beside its bare compiled loop."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.apart import apart, one_core
from benchmarks.report import Report
from benchmarks.timing import race, spread
from eqprop import data
from eqprop.store import Run
from eqprop.study import PRESETS
from eqprop.train import Progress, TrainState, fit

TEXT = """
Training with the settings of `eqprop train`, but that nothing is held out for validation. *Bare* is the compiled
loop alone, an epoch a call (`Trainer.advance`). *Fit* is `eqprop.fit`: it checks the data and the state, takes the
epoch in pieces, looks after each whether all is finite, and at the end of an epoch whether anything is learned. *In a
run* it does so in a locked folder, in which the record of each epoch is kept, as `eqprop train` does. Checkpoints are
left out: they are spaced so that they take 2 % of the time at the most. Ratios of processor time to that of *bare*;
all take turns on one core; median and quartiles. What watching takes is about a millisecond an epoch and some more at
the start, so that it shows where an epoch is over in a hundredth of a second.
"""


def run(short: bool) -> Report:
    names = ("digits",) if short else ("digits", "mnist")
    rows = [apart(f"watched.measure({name!r}, {3 if short else 9})", one_core()) for name in names]
    return Report("What watching over training costs", TEXT, rows)


def measure(name: str, rounds: int) -> dict[str, Any]:
    preset = PRESETS[name]
    setup = replace(preset, learning=replace(preset.learning, valid=0)).build(data.load(name, valid=0))
    trainer, feed, start, epochs = setup.trainer, setup.feed, setup.state, preset.learning.epochs

    def bare() -> TrainState:
        state = start
        for _ in range(epochs):
            state = trainer.advance(state, feed, feed.batches)
            batch, sums = jax.tree.map(jnp.zeros_like, (state.batch, state.sums))
            state = state._replace(epoch=state.epoch + 1, batch=batch, sums=sums)
        return jax.block_until_ready(state)

    def fitted() -> TrainState:
        return fit(trainer, start, feed, epochs=epochs)[0]

    def in_a_run() -> TrainState:
        history: list[dict[str, float]] = []

        def keep(progress: Progress) -> None:
            if progress.record:
                history.append(progress.record)
                kept.write_history(history)

        with tempfile.TemporaryDirectory() as folder:
            kept = Run.create(Path(folder) / "run", setup.experiment.to_dict())
            with kept.writing():
                return fit(trainer, start, feed, epochs=epochs, observe=keep)[0]

    contenders = {"bare": bare, "fit": fitted, "in a run": in_a_run}
    times = race(contenders, rounds, time.process_time)
    first, *ends = (contender().theta for contender in contenders.values())
    same = all(jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), first, end)) for end in ends)
    ratios = {name: spread(times[name] / times["bare"]) for name in ("fit", "in a run")}
    row = {"data": name, "epochs": epochs, "minibatches each": feed.batches, "bare, s": spread(times["bare"])}
    return row | ratios | {"rounds": rounds, "same weights": "yes" if same else "no"}
