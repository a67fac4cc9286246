"""An experiment carried out: from settings and data to a run folder and a result."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np

from eqprop.data import Dataset, Split
from eqprop.errors import DivergedError, InputError
from eqprop.experiment.settings import Experiment
from eqprop.relax import Relaxation
from eqprop.rule import EquilibriumPropagation
from eqprop.train import Progress, Run, Trainer, TrainState, fit


def perform(
    experiment: Experiment,
    data: Dataset,
    run: Run,
    *,
    checkpoint_seconds: float = 10.0,
    enough: Callable[[list[dict[str, float]]], bool] = lambda _: False,
    observe: Callable[[Progress], None] = lambda _: None,
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """Train, from where the run was left, and return the result and the history.

    The state is saved every `checkpoint_seconds` at the most, and at the end. Training ends before its last epoch
    when the history is `enough`.
    """
    trainer, fresh = start(experiment, data)
    state, history, seconds = run.load(fresh)
    epochs = experiment.learning.epochs
    begun = len(history) + (int(state.batch) > 0)
    if begun > epochs:
        raise InputError(f"epochs={epochs}, but {run.folder} has already begun epoch {begun}: ask for more")
    if run.config != (config := experiment.to_dict()):  # more epochs than at first
        run.write_config(config)
    run.write_history(history)
    saved, latest = time.monotonic(), None

    def keep(progress: Progress) -> None:
        nonlocal saved, latest
        latest = progress
        if progress.record:
            history.append(progress.record)
            run.write_history(history)
        if time.monotonic() - saved >= checkpoint_seconds:
            save(run, progress, history)
            saved = time.monotonic()
        observe(progress)

    try:
        train = training_part(experiment, data).v
        if int(state.batch) or not enough(history):  # an epoch that was begun is finished
            state, _ = fit(
                trainer,
                state,
                train,
                data.valid.v,
                epochs=epochs,
                seconds=seconds,
                enough=lambda _: enough(history),
                observe=keep,
            )
    except KeyboardInterrupt:
        if latest is not None:
            save(run, latest, history)
        raise
    except DivergedError as error:
        kept = f"The last good checkpoint is in {run.folder}" if run.saved else "Nothing had been saved yet"
        raise DivergedError(f"{error}. {kept}") from error
    run.save(state, history, 0.0)
    measured = errors(experiment, data, trainer, state.theta, len(history))
    result = measured | times(history) | {"run_dir": str(run.folder)}
    run.write_result(result)
    return result, history


def reopen(folder: Path, experiment: Experiment) -> Run:
    """The experiment's run in a folder, begun if there is none; a kill may come before its settings are written."""
    run = Run(folder)
    run.clear_leftovers()
    if not (folder / "config.json").exists():
        return Run.create(folder, experiment.to_dict())
    before = Experiment.from_dict(run.config)
    epochs = replace(before, learning=replace(before.learning, epochs=experiment.learning.epochs))
    if epochs != experiment:
        raise InputError(f"{folder} was begun with other settings, by another version perhaps: start anew elsewhere")
    return run


def times(history: list[dict[str, float]]) -> dict[str, float]:
    """The seconds of training and validation in all, and of training per epoch."""
    seconds = [record["seconds"] for record in history]
    return {
        "seconds": round(sum(seconds), 3),
        "valid_seconds": round(sum(record.get("valid_seconds", 0.0) for record in history), 3),
        "seconds_per_epoch": round(median(seconds), 3),
    }


def save(run: Run, progress: Progress, history: list[dict[str, float]]) -> None:
    """Keep where training is; an epoch that just ended leaves no seconds of a next one."""
    run.save(progress.state, history, 0.0 if progress.record else progress.seconds)


def evaluate(experiment: Experiment, data: Dataset, run: Run) -> tuple[dict[str, Any], np.ndarray]:
    """The errors of a run's weights, and the class that each test example is taken for."""
    trainer, fresh = start(experiment, data)
    theta, epochs = run.load_weights(fresh.theta)
    result = errors(experiment, data, trainer, theta, epochs) | {"run_dir": str(run.folder)}
    settled = tester(experiment, trainer).settle(theta, data.test.v)
    return result, np.asarray(settled["output"]).argmax(axis=1)


def start(experiment: Experiment, data: Dataset) -> tuple[Trainer, TrainState]:
    """The trainer and its state before the first minibatch: the seed decides both."""
    net, trainer = experiment.build(*data.widths)
    init_key, train_key = jax.random.split(jax.random.key(experiment.learning.seed))
    theta = net.init(init_key, experiment.network.gain)
    theta["b"]["output"] += experiment.network.bias
    return trainer, trainer.init(theta, len(training_part(experiment, data)), train_key, valid=len(data.valid))


def training_part(experiment: Experiment, data: Dataset) -> Split:
    """The training examples that the experiment uses."""
    wanted, available = experiment.learning.train, len(data.train)
    if wanted is not None and wanted > available:
        raise InputError(f"train={wanted}: there are {available} training examples besides the held-out ones")
    return data.train[:wanted]


def tester(experiment: Experiment, trainer: Trainer) -> Trainer:
    """The trainer as its weights are measured with in the end.

    Where particles persist, training takes just the steps that they need to follow the weights. Here all begin at rest,
    and so they settle until they rest again.
    """
    if experiment.settling.persistent and isinstance(trainer.rule.free, Relaxation):
        return replace(trainer, rule=EquilibriumPropagation())
    return trainer


def errors(experiment: Experiment, data: Dataset, trainer: Trainer, theta: Any, epochs: int) -> dict[str, Any]:
    """The errors, in percent, of the weights θ on each part of the data."""
    trainer = tester(experiment, trainer)
    parts = {"train": training_part(experiment, data), "valid": data.valid, "test": data.test}
    percent = {
        f"{part}_error": round(100 * trainer.measure(theta, split.v)["error"], 4) if len(split) else None
        for part, split in parts.items()
    }
    return {
        "dataset": data.name,
        "net": experiment.name(*data.widths),
        "epochs": epochs,
        **percent,
        "seed": experiment.learning.seed,
    }
