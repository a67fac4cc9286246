"""A campaign: several training runs in one folder, one after the other, that go on where they were left."""

import abc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from eqprop import data
from eqprop.errors import InputError
from eqprop.store import Run
from eqprop.store.atomic import write_json
from eqprop.store.reading import read_json, read_settings
from eqprop.store.run import Record
from eqprop.store.schema import fitted
from eqprop.study.experiment import Experiment
from eqprop.study.pages import write_page
from eqprop.study.training import Trained, perform, reopen
from eqprop.train import Progress


@dataclass(frozen=True)
class Trial:
    """One training run of a campaign.

    name: of the run's folder.
    kind: what the campaign compares: a network of the paper, or a method.
    """

    name: str
    kind: str
    experiment: Experiment


class Outcome(NamedTuple):
    """A trial that is done; `notes` are what the campaign's `examine` found."""

    trial: Trial
    result: dict[str, Any]
    history: list[Record]
    notes: dict[str, Any]


Follow = Callable[[Trial, int], AbstractContextManager[Callable[[Progress], None]]]
"""(trial, minibatches of an epoch) → what surrounds its training, and is told about its progress."""


def time_is_up(minutes: float | None, history: list[Record]) -> bool:
    """Whether another epoch as long as the longest would not fit in."""
    times = [record["seconds"] + record.get("valid_seconds", 0.0) for record in history]
    return minutes is not None and bool(times) and sum(times) + max(times) > 60 * minutes


@dataclass(frozen=True)
class Campaign(abc.ABC):
    """Which networks to train, how, and for how long. The fields of a campaign are its settings."""

    command: ClassVar[str]
    """the command that carries it out"""
    file: ClassVar[str]
    """in the folder of the campaign: its settings, and the commands that led to what is there"""
    notes_file: ClassVar[str]
    """in the folder of each run: what `examine` found"""

    @abc.abstractmethod
    def trials(self, folder: Path | None = None) -> list[Trial]:
        """What to train. What the runs in `folder` show may change it."""

    @abc.abstractmethod
    def examine(self, trained: Trained) -> dict[str, Any]:
        """What there is to know about a trial beside its errors, for JSON."""

    @abc.abstractmethod
    def page(self, folder: Path, done: list[Outcome]) -> tuple[list[str], dict[str, Any]]:
        """What came of the trials that are done: lines of Markdown, and figures by name."""

    def enough(self, trial: Trial, history: list[Record]) -> bool:
        """Whether the training of a trial ends before its last epoch."""
        return False

    def conclude(self, folder: Path, sets: dict[str, data.Dataset]) -> Iterator[None]:
        """Do what comes once all trials are done; each step yields."""
        return iter(())

    def is_done(self, trial: Trial, folder: Path) -> bool:
        """Whether a trial has all that the campaign asks for."""
        run = Run(folder / trial.name)
        if not (run.finished and self._notes(run).exists()):
            return False
        epochs = fitted(int, run.read_result().get("epochs"), f"{run.folder / 'result.json'}: the epochs")
        return epochs >= trial.experiment.learning.epochs or self.enough(trial, run.read_history())

    def outcomes(self, folder: Path) -> list[Outcome]:
        """Those of the trials that are done."""
        done = [trial for trial in self.trials(folder) if self.is_done(trial, folder)]
        runs = [Run(folder / trial.name) for trial in done]
        return [
            Outcome(trial, run.read_result(), run.read_history(), read_json(self._notes(run), dict[str, Any]))
            for trial, run in zip(done, runs, strict=True)
        ]

    def write(self, folder: Path, commands: list[str]) -> None:
        """README.md and its figures, about what is done so far."""
        if done := self.outcomes(folder):
            write_page(folder, *self.page(folder, done), commands)

    def save(self, folder: Path, commands: list[str]) -> None:
        """Keep the settings, and the commands that led to what is in the folder."""
        write_json(folder / self.file, {"settings": asdict(self), "commands": commands})

    @classmethod
    def load(cls, folder: Path) -> tuple[Self, list[str]]:
        """What `save` wrote."""
        campaign, kept = read_settings(cls, folder / cls.file, "settings", cls.command)
        return campaign, kept["commands"]

    def load_data(self, data_dir: Path | None, say: Callable[[str], None]) -> dict[str, data.Dataset]:
        """All the data; refused if they do not suffice, which must be known before hours are spent."""
        held_out = {trial.experiment.dataset: trial.experiment.learning.valid for trial in self.trials()}
        fetched = [name for name in held_out if name != "digits"]  # digits come with scikit-learn
        if data_dir is not None and len(fetched) > 1:
            raise InputError(
                f"--data-dir {data_dir} holds one data set, but {' and '.join(fetched)} are wanted: choose one of them"
            )
        sets = {
            name: data.load(name, data_dir if name in fetched else None, valid, say) for name, valid in held_out.items()
        }
        for trial in self.trials():
            trial.experiment.training_part(sets[trial.experiment.dataset])
        return sets

    def carry_out(
        self,
        folder: Path,
        sets: dict[str, data.Dataset],
        *,
        checkpoint_seconds: float | None = None,
        follow: Follow = lambda *_: nullcontext(lambda _: None),
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """Train what is not trained yet, each run in its own folder in `folder`; call `after` when one is done."""
        while trial := next((t for t in self.trials(folder) if not self.is_done(t, folder)), None):
            self._train(trial, folder, sets[trial.experiment.dataset], checkpoint_seconds, follow)
            after()
        for _ in self.conclude(folder, sets):
            after()

    def _train(
        self, trial: Trial, folder: Path, examples: data.Dataset, checkpoint_seconds: float | None, follow: Follow
    ) -> None:
        run = reopen(folder / trial.name, trial.experiment)
        notes = self._notes(run)
        notes.unlink(missing_ok=True)  # they are about weights that are about to change
        setup = trial.experiment.build(examples)
        with follow(trial, setup.feed.batches) as observe:
            trained = perform(
                setup,
                run,
                checkpoint_seconds=checkpoint_seconds,
                enough=lambda history: self.enough(trial, history),
                observe=observe,
            )
        write_json(notes, self.examine(trained))

    def _notes(self, run: Run) -> Path:
        return run.folder / self.notes_file


@dataclass(frozen=True)
class Crossed(Campaign):
    """A campaign that trains on every data set by every method."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]

    @abc.abstractmethod
    def experiment(self, dataset: str, method: str) -> Experiment:
        """The settings of one training."""

    def trials(self, folder: Path | None = None) -> list[Trial]:
        """Every data set by every method."""
        return [
            Trial(f"{dataset}-{method}", method, self.experiment(dataset, method))
            for dataset in self.datasets
            for method in self.methods
        ]


def require_names(what: str, asked: Sequence[str], there: Collection[str]) -> None:
    """Refuse names that are not there, and none at all, or the same twice."""
    if odd := [name for name in asked if name not in there]:
        raise InputError(f"{what}: {odd[0]!r} is none of {', '.join(there)}")
    if not asked or len(set(asked)) < len(asked):
        raise InputError(f"{what}={' '.join(asked) or '()'}: name some, each once, of {', '.join(there)}")
