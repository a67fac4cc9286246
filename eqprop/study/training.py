"""An experiment carried out: from settings and data to a run folder and a result."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

from eqprop.data import FiledSplit, Split
from eqprop.errors import DivergedError, InputError
from eqprop.relax import Stepwise
from eqprop.rule import EquilibriumPropagation
from eqprop.store import Run
from eqprop.store.pace import Pace
from eqprop.store.run import UNIT, Record
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
    checkpoint_seconds: float | None = None,
    enough: Callable[[list[Record]], bool] = lambda _: False,
    observe: Callable[[Progress], None] = lambda _: None,
) -> Trained:
    """Train, from where the run was left; no other process can write into its folder meanwhile.

    The state is saved every `checkpoint_seconds` at the most, and at the end; None: every ten, or more seldom, so that
    saving takes no more than 2 % of the time. Training ends before its last epoch when the history is `enough`.
    """
    experiment, config, mesh = setup.experiment, setup.experiment.to_dict(), setup.trainer.mesh
    pace = Pace(checkpoint_seconds)
    with run.writing():
        state, history, seconds = _left(setup, run)
        run.write_config(config)  # more epochs than at first, or a setting that is new
        run.write_marks(setup.marks)
        run.write_history(history)
        latest: tuple[Progress, int] | None = None  # what was last reached, and how many epochs belong to it

        def keep(progress: Progress) -> None:
            nonlocal latest
            if progress.record:
                history.append(progress.record)
            latest = progress, len(history)  # in one step: a signal may come between any two
            if progress.record:
                run.write_history(history)
            if agreed(mesh, pace.due):
                pace.save(lambda: save(run, setup, progress, history, config))
            observe(progress)

        try:
            left = int(state.epoch) < experiment.learning.epochs
            if left and (int(state.batch) or not enough(history)):  # an epoch that was begun is finished
                state, _ = fit(
                    setup.trainer,
                    state,
                    setup.feed,
                    setup.data.valid.v,
                    epochs=experiment.learning.epochs,
                    seconds=seconds,
                    enough=lambda _: enough(history),
                    observe=keep,
                )
        except KeyboardInterrupt:
            if latest is not None and not spans_processes(mesh):  # other processes may still be computing a part of it
                progress, count = latest
                save(run, setup, progress, history[:count], config)
            raise
        except DivergedError as error:
            kept = f"The last good checkpoint is in {run.folder}" if run.saved else "Nothing had been saved yet"
            rates = ", ".join(f"{rate:g}" for rate in experiment.rates)
            raise DivergedError(f"{error} (learning_rate={rates}). {kept}") from error
        run.save(state, history, 0.0, config, predictor(setup))
        result = errors(setup, state.theta, len(history)) | times(history) | {"run_dir": str(run.folder)}
        run.write_result(result)
        return Trained(setup, state, result, history)


def _left(setup: Setup, run: Run) -> tuple[TrainState, list[Record], float]:
    """Where the run was left: the state, the history, and the seconds spent on the epoch that is under way.

    Refused if it is not a training of this setup, or further than it is asked to come.
    """
    experiment, config = setup.experiment, setup.experiment.to_dict()
    check_made_with(run, "checkpoint", experiment)
    check_examples(setup, run)
    state, history, seconds = run.load(setup.state)
    if int(state.batch) >= setup.feed.batches:
        raise InputError(
            f"{run.folder / 'checkpoint.safetensors'} is no checkpoint of this training: it is behind minibatch "
            f"{int(state.batch)} of {setup.feed.batches}; restore it or start anew"
        )
    epochs = experiment.learning.epochs
    begun = len(history) + (int(state.batch) > 0)
    if begun > epochs:
        raise InputError(f"epochs={epochs}, but {run.folder} has already begun epoch {begun}: ask for more")
    said = json.dumps([config, setup.marks, history, int(state.step)])
    require_same(setup.trainer.mesh, said, "the settings, the examples or the checkpoint")
    return state, history, seconds


def experiment_of(run: Run) -> Experiment:
    """The experiment whose settings a run has kept."""
    return Experiment.from_dict(run.config, f"{run.folder / 'config.json'}: the settings")


def reopen(folder: Path, experiment: Experiment) -> Run:
    """The run of an experiment in a folder; it is begun if there is none, or if a kill came before its settings."""
    run = Run(folder)
    if not (folder / "config.json").exists():
        return Run.create(folder, experiment.to_dict())
    before = experiment_of(run)
    epochs = replace(before, learning=replace(before.learning, epochs=experiment.learning.epochs))
    if epochs.to_dict() != experiment.to_dict():
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


def save(run: Run, setup: Setup, progress: Progress, history: list[Record], config: dict[str, Any]) -> None:
    """Keep where training is; an epoch that just ended leaves no seconds of a next one."""
    run.save(progress.state, history, 0.0 if progress.record else progress.seconds, config, predictor(setup))


def predictor(setup: Setup) -> Trainer | None:
    """What predicts from inputs as they come, for `eqprop.load`; None where they have to be normalised first."""
    if setup.experiment.images.normalise:
        return None
    trainer = tester(setup)
    return trainer if trainer.mesh is None else replace(trainer, mesh=None)


def check_made_with(run: Run, name: Literal["checkpoint", "weights"], experiment: Experiment) -> None:
    """Refuse what was saved under other settings than those of the experiment: config.json has changed since."""
    path = run.folder / f"{name}.safetensors"
    if (settings := run.made_with(name)) is not None:
        before = Experiment.from_dict(settings, f"{path}: the settings")
        check_agreement(before, experiment, f"{path} was made", "restore config.json, or start a new run")


def check_examples(setup: Setup, run: Run) -> None:
    """Refuse examples that are not those which the run has seen so far."""
    for part, mark in run.read_marks().items():
        if (now := setup.marks.get(part)) != mark:
            raise InputError(
                f"{part} of {setup.experiment.dataset} is no longer what {run.folder} began with ({mark}; now {now}): "
                f"restore the examples, or start a new run; to take them as they are, remove {run.folder / 'data.json'}"
            )


def check_agreement(before: Experiment, now: Experiment, begun: str, remedy: str) -> None:
    """Refuse to go on if settings changed, except for the number of epochs."""
    old, new = before.without_idle().flat(), now.without_idle().flat()
    for name in old:
        if name == "epochs" and old[name] != new[name] and old["schedule"] == "cosine":
            raise InputError(
                f"epochs is {new[name]}, but {begun} with {old[name]}, over which its rates follow a cosine: "
                "start a new run for more"
            )
        if old[name] != new[name] and name != "epochs":
            raise InputError(f"{name} is {new[name]}, but {begun} with {old[name]}: {remedy}")


def weights_of(setup: Setup, run: Run) -> tuple[Theta, int]:
    """The trained weights of a run, and after how many epochs; refused if they are of other settings."""
    check_made_with(run, "weights", setup.experiment)
    check_examples(setup, run)
    return run.load_weights(setup.state.theta)


def evaluate(setup: Setup, run: Run) -> tuple[dict[str, Any], np.ndarray]:
    """The errors of a run's weights, and the class that each test example is taken for."""
    theta, epochs = weights_of(setup, run)
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
    """The errors of the weights θ on each part of the data, as fractions of the examples."""
    trainer, data = tester(setup), setup.data
    parts = {"train": setup.train, "valid": data.valid, "test": data.test}

    def error(split: Split | FiledSplit) -> float:
        wrong = sum(len(piece) * trainer.measure(theta, piece.v)["error"] for piece in split.pieces())
        return round(wrong / len(split), 6)

    fractions = {f"{part}_error": error(split) if len(split) else None for part, split in parts.items()}
    return {
        "dataset": data.name,
        "net": setup.name,
        "epochs": epochs,
        **fractions,
        **UNIT,
        "seed": setup.experiment.learning.seed,
    }
