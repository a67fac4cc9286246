"""The relatives beside each other as a campaign: the same network, data, seed and budget for every method."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from eqprop.data import Dataset
from eqprop.store.atomic import write_json
from eqprop.store.ranges import Count, Epochs, Seed, check_options
from eqprop.store.reading import read_json
from eqprop.study.campaign import Crossed, Outcome, require_names
from eqprop.study.experiment import Experiment
from eqprop.study.feedback_limit import weak_feedback
from eqprop.study.initial_gradient import first_gradient
from eqprop.study.methods import METHODS
from eqprop.study.modes import different_modes
from eqprop.study.options import CostOptions, SettlingOptions
from eqprop.study.presets import PRESETS, preset
from eqprop.study.training import Trained
from eqprop.study.update_times import milliseconds_per_update

LIMIT, MODES = "weak_feedback.json", "modes.json"
EPOCHS = {"digits": 30, "mnist": 10}


@dataclass(frozen=True)
class Comparison(Crossed):
    """Which methods to compare, on which data sets.

    epochs, train: in place of the full ones; `train` limits the examples of MNIST only.
    """

    command: ClassVar[str] = "eqprop compare"
    file: ClassVar[str] = "contest.json"
    notes_file: ClassVar[str] = "first_gradient.json"

    datasets: tuple[str, ...] = tuple(EPOCHS)
    methods: tuple[str, ...] = tuple(METHODS)
    epochs: Epochs | None = None
    train: Count | None = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_options(self)
        require_names("datasets", self.datasets, EPOCHS)
        require_names("methods", self.methods, METHODS)
        self.trials()  # the settings check themselves

    def experiment(self, dataset: str, method: str) -> Experiment:
        """The data set's usual network and minibatches, and what suits all methods.

        Outputs have targets inside of their bounds, and begin at the mean of these: where they rest at a bound, an
        exact gradient is 0, and a push away from the target moves nothing. Phases come closer to rest than in `eqprop
        train`: to contrast a free phase with another, it has to be finished. Where weights move within a phase, it
        keeps the short steps that they need.
        """
        usual = preset(dataset, method, hidden=PRESETS[dataset].network.hidden)
        learning = replace(
            usual.learning,
            learning_rate=(0.001,) if usual.learning.optimizer == "adam" else usual.learning.learning_rate,
            epochs=EPOCHS[dataset] if self.epochs is None else self.epochs,
            train=self.train if dataset == "mnist" else None,
            seed=self.seed,
        )
        return replace(
            usual,
            network=replace(usual.network, bias=0.26),
            cost=CostOptions(targets=(0.2, 0.8)),
            settling=usual.settling
            if usual.method.moving
            else SettlingOptions(beta=usual.method.beta or 0.25, free_steps=10, nudged_steps=6),
            learning=learning,
        )

    def examine(self, trained: Trained) -> dict[str, Any]:
        """The method's first gradient beside the true one."""
        return first_gradient(trained.setup)

    def conclude(self, folder: Path, sets: dict[str, Dataset]) -> Iterator[None]:
        """Time all methods against each other, and carry out the two small studies, where they are still missing."""
        for name, examples in sets.items():
            if not (path := times_file(folder, name)).exists():
                rivals = {method: self.experiment(name, method) for method in self.methods}
                write_json(path, milliseconds_per_update(rivals, examples))
                yield
        if "xie-seung" in self.methods and not (folder / LIMIT).exists():
            write_json(folder / LIMIT, weak_feedback(sets[self.datasets[0]]))
        if "contrastive-hebbian" in self.methods and not (folder / MODES).exists():
            write_json(folder / MODES, different_modes())

    def outcomes(self, folder: Path) -> list[Outcome]:
        """Those of the trials that are done; the notes have the time of an update, once all have been timed."""
        found = []
        for outcome in super().outcomes(folder):
            timed = times_file(folder, outcome.trial.experiment.dataset)
            pace = read_json(timed, dict[str, float]).get(outcome.trial.kind) if timed.exists() else None
            found.append(outcome._replace(notes=outcome.notes | {"milliseconds_per_update": pace}))
        return found

    def page(self, folder: Path, done: list[Outcome]) -> tuple[list[str], dict[str, Any]]:
        """A table for each data set, and what the paper says about the relatives."""
        from eqprop.study import relatives_page  # loads matplotlib, which takes its time

        return relatives_page.page(self, folder, done)


def times_file(folder: Path, dataset: str) -> Path:
    """The file with what `milliseconds_per_update` found."""
    return folder / f"speed-{dataset}.json"
