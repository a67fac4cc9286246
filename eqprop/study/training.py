"""An experiment carried out: from settings and data to a run folder and a result."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from eqprop.errors import DivergedError, InputError
from eqprop.relax import Stepwise
from eqprop.rule import EquilibriumPropagation
from eqprop.store import Run
from eqprop.store.run import Record
from eqprop.study.experiment import Experiment, Setup
from eqprop.train import Progress, Trainer, TrainState, fit
from eqprop.train.layout import agreed, require_same, spans_processes
from eqprop.types import Theta


class Trained(NamedTuple):
    """What came of a training.

    setup: what was trained, with the state at the start.
    state: the state at the end.
    result: the errors and the time spent.
    history: a record for each epoch.
    """

    setup: Setup
    state: TrainState
    result: dict[str, Any]
    history: list[Record]


def perform(
    setup: Setup,
    run: Run,
    *,
    checkpoint_seconds: float = 10.0,
    enough: Callable[[list[Record]], bool] = lambda _: False,
    observe: Callable[[Progress], None] = lambda _: None,
) -> Trained:
    """Train, from where the run was left.

    The state is saved every `checkpoint_seconds` at the most, and at the end. Training ends before its last epoch
    when the history is `enough`.
    """
    experiment = setup.experiment
    state, history, seconds = run.load(setup.state)
    epochs = experiment.learning.epochs
    begun = len(history) + (int(state.batch) > 0)
    if begun > epochs:
        raise InputError(f"epochs={epochs}, but {run.folder} has already begun epoch {begun}: ask for more")
    mesh = setup.trainer.mesh
    require_same(mesh, json.dumps([experiment.to_dict(), history, int(state.step)]), "the settings or the checkpoint")
    run.write_config(experiment.to_dict())  # more epochs than at first, or a setting that is new
    run.write_history(history)
    saved, latest = time.monotonic(), None

    def keep(progress: Progress) -> None:
        nonlocal saved, latest
        latest = progress
        if progress.record:
            history.append(progress.record)
            run.write_history(history)
        if agreed(mesh, time.monotonic() - saved) >= checkpoint_seconds:
            save(run, progress, history)
            saved = time.monotonic()
        observe(progress)

    try:
        if int(state.batch) or not enough(history):  # an epoch that was begun is finished
            state, _ = fit(
                setup.trainer,
                state,
                setup.feed,
                setup.data.valid.v,
                epochs=epochs,
                seconds=seconds,
                enough=lambda _: enough(history),
                observe=keep,
            )
    except KeyboardInterrupt:
        if latest is not None and not spans_processes(mesh):  # of which others may still be computing
            save(run, latest, history)
        raise
    except DivergedError as error:
        kept = f"The last good checkpoint is in {run.folder}" if run.saved else "Nothing had been saved yet"
        rates = ", ".join(f"{rate:g}" for rate in experiment.rates)
        raise DivergedError(f"{error} (learning_rate={rates}). {kept}") from error
    run.save(state, history, 0.0)
    result = errors(setup, state.theta, len(history)) | times(history) | {"run_dir": str(run.folder)}
    run.write_result(result)
    return Trained(setup, state, result, history)


def experiment_of(run: Run) -> Experiment:
    """The experiment whose settings a run has kept."""
    return Experiment.from_dict(run.config, f"{run.folder / 'config.json'}: the settings")


def reopen(folder: Path, experiment: Experiment) -> Run:
    """The run of an experiment in a folder; it is begun if there is none, or if a kill came before its settings."""
    run = Run(folder)
    run.clear_leftovers()
    if not (folder / "config.json").exists():
        return Run.create(folder, experiment.to_dict())
    before = experiment_of(run)
    epochs = replace(before, learning=replace(before.learning, epochs=experiment.learning.epochs))
    if epochs != experiment:
        raise InputError(f"{folder} was begun with other settings, by another version perhaps: start anew elsewhere")
    return run


def times(history: list[Record]) -> dict[str, float]:
    """The seconds of training and validation in all, and of training per epoch."""
    seconds = [record["seconds"] for record in history]
    return {
        "seconds": round(sum(seconds), 3),
        "valid_seconds": round(sum(record.get("valid_seconds", 0.0) for record in history), 3),
        "seconds_per_epoch": round(median(seconds), 3),
    }


def save(run: Run, progress: Progress, history: list[Record]) -> None:
    """Keep where training is; an epoch that just ended leaves no seconds of a next one."""
    run.save(progress.state, history, 0.0 if progress.record else progress.seconds)


def evaluate(setup: Setup, run: Run) -> tuple[dict[str, Any], np.ndarray]:
    """The errors of a run's weights, and the class that each test example is taken for."""
    theta, epochs = run.load_weights(setup.state.theta)
    result = errors(setup, theta, epochs) | {"run_dir": str(run.folder)}
    outputs = tester(setup).predict(theta, setup.data.test.v)
    return result, np.asarray(outputs).argmax(axis=1)


def tester(setup: Setup) -> Trainer:
    """The trainer by which weights are measured in the end.

    Where particles persist, training takes just the steps that they need to follow the weights. In the end all
    examples begin at rest, and so they settle until they rest again.
    """
    if setup.experiment.settling.persistent and isinstance(setup.trainer.rule.free, Stepwise):
        return replace(setup.trainer, rule=EquilibriumPropagation())
    return setup.trainer


def errors(setup: Setup, theta: Theta, epochs: int) -> dict[str, Any]:
    """The errors, in percent, of the weights θ on each part of the data."""
    trainer, data = tester(setup), setup.data
    parts = {"train": setup.train, "valid": data.valid, "test": data.test}
    percent = {
        f"{part}_error": round(100 * trainer.measure(theta, split.v)["error"], 4) if len(split) else None
        for part, split in parts.items()
    }
    return {
        "dataset": data.name,
        "net": setup.name,
        "epochs": epochs,
        **percent,
        "seed": setup.experiment.learning.seed,
    }
