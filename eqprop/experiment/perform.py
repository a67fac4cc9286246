"""An experiment carried out: from settings and data to a run folder and a result."""

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import jax

from eqprop.data import Dataset
from eqprop.errors import DivergedError, InputError
from eqprop.experiment.settings import Experiment
from eqprop.train import Progress, Run, Trainer, TrainState, fit

PARTS = ("train", "valid", "test")


def perform(
    experiment: Experiment,
    data: Dataset,
    run: Run,
    *,
    checkpoint_seconds: float = 10.0,
    observe: Callable[[Progress], None] = lambda _: None,
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """Train, from where the run was left, and return the result and the history.

    The state is saved every `checkpoint_seconds` at the most, and at the end.
    """
    trainer, fresh = start(experiment, data)
    state, history, seconds = run.load(fresh)
    epochs = experiment.learning.epochs
    if len(history) > epochs:
        raise InputError(f"epochs={epochs}, but {run.folder} has already done {len(history)}: ask for more")
    if run.config != (config := experiment.to_dict()):  # more epochs than at first
        run.write_config(config)
    run.write_history(history)
    saved = time.monotonic()

    def keep(progress: Progress) -> None:
        nonlocal saved
        if progress.record:
            history.append(progress.record)
            run.write_history(history)
        if time.monotonic() - saved >= checkpoint_seconds:
            run.save(progress.state, history, 0.0 if progress.record else progress.seconds)
            saved = time.monotonic()
        observe(progress)

    try:
        train = data.train[: experiment.learning.train]
        state, _ = fit(trainer, state, train.v, data.valid.v, epochs=epochs, seconds=seconds, observe=keep)
    except DivergedError as error:
        kept = f"The last good checkpoint is in {run.folder}" if run.saved else "Nothing had been saved yet"
        raise DivergedError(f"{error}. {kept}") from error
    run.save(state, history, 0.0)
    times = [record["seconds"] for record in history]
    result = measure(experiment, data, trainer, state.theta, len(history)) | {
        "seconds": round(sum(times), 3),
        "seconds_per_epoch": round(median(times), 3),
        "run_dir": str(run.folder),
    }
    run.write_result(result)
    return result, history


def evaluate(experiment: Experiment, data: Dataset, run: Run) -> dict[str, Any]:
    """The errors of a run's weights."""
    trainer, fresh = start(experiment, data)
    theta, epochs = run.load_weights(fresh.theta)
    return measure(experiment, data, trainer, theta, epochs) | {"run_dir": str(run.folder)}


def start(experiment: Experiment, data: Dataset) -> tuple[Trainer, TrainState]:
    """The trainer and its state before the first minibatch: the seed decides both."""
    net, trainer = experiment.build(*data.widths)
    init_key, train_key = jax.random.split(jax.random.key(experiment.learning.seed))
    theta = net.init(init_key, experiment.network.gain)
    return trainer, trainer.init(theta, len(data.train[: experiment.learning.train]), train_key)


def measure(experiment: Experiment, data: Dataset, trainer: Trainer, theta: Any, epochs: int) -> dict[str, Any]:
    """The errors, in percent, of the weights θ on each part of the data."""
    used = replace(data, train=data.train[: experiment.learning.train])
    errors = {}
    for part in PARTS:
        split = getattr(used, part)
        errors[f"{part}_error"] = round(100 * trainer.measure(theta, split.v)["error"], 4) if len(split) else None
    return {
        "dataset": data.name,
        "net": "-".join(map(str, experiment.sizes(*data.widths))),
        "epochs": epochs,
        **errors,
        "seed": experiment.learning.seed,
    }
