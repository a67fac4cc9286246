"""A small study: a list of runs whose results are kept in one file as they come, and a page about them."""

import abc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from eqprop import data
from eqprop.errors import InputError
from eqprop.store.atomic import write_json
from eqprop.store.reading import read_settings
from eqprop.store.schema import fitted
from eqprop.study.experiment import Experiment
from eqprop.study.pages import write_page
from eqprop.study.training import errors
from eqprop.train import fit

Entry = dict[str, Any]
"""What came of a run, beside the `run` itself: all of it can be written as JSON."""


@dataclass(frozen=True)
class Study(abc.ABC):
    """What is asked, and how much is spent on the answer.

    The fields of a study are its settings. `answer` carries out its `runs` one after the other; a run that is in the
    file already is not done again. A run is a tuple of words and numbers, and depends on nothing but itself.
    """

    name: ClassVar[str]
    """in `eqprop reproduce NAME`, and of its files"""
    caption: ClassVar[str]
    """what its figure shows"""
    short: ClassVar[dict[str, Any]]
    """settings that take a few minutes at the most"""
    dataset: ClassVar[str] = "mnist"
    """what it is asked about"""

    @abc.abstractmethod
    def runs(self) -> Iterator[tuple[Any, ...]]:
        """All that there is to do."""

    @abc.abstractmethod
    def carry_out(self, run: tuple[Any, ...], examples: data.Dataset) -> Entry:
        """What comes of one run."""

    @abc.abstractmethod
    def figure(self, entries: list[Entry]) -> Any:
        """What came of all runs, drawn."""

    @abc.abstractmethod
    def report(self, entries: list[Entry]) -> list[str]:
        """What came of all runs, in lines of Markdown: the title first."""

    def answer(
        self,
        path: Path,
        examples: data.Dataset,
        *,
        observe: Callable[[int, int], None] = lambda *_: None,
    ) -> list[Entry]:
        """Carry out what is not yet in the file at `path`, which `save` began, and keep each entry there."""
        before, done, commands = self.load(path)
        if before != self:
            raise InputError(f"{path} is of another question, {before}: start anew elsewhere")
        known = {tuple(entry["run"]) for entry in done}
        runs = list(self.runs())
        observe(len(done), len(runs))
        for run in runs:
            if run not in known:
                done.append({"run": list(run)} | self.carry_out(run, examples))
                self.save(path, done, commands)
                observe(len(done), len(runs))
        return done

    def save(self, path: Path, entries: list[Entry], commands: list[str]) -> None:
        """Keep what is asked, what is known, and the commands that led to it."""
        write_json(path, {"question": asdict(self), "commands": commands, "runs": entries})

    @classmethod
    def load(cls, path: Path) -> tuple[Self, list[Entry], list[str]]:
        """What `save` wrote."""
        study, kept = read_settings(cls, path, "question", f"eqprop reproduce {cls.name}")
        entries = fitted(list[dict[str, Any]], kept.get("runs"), f"{path}: the runs")
        if not all(isinstance(entry.get("run"), list) for entry in entries):
            raise InputError(f"{path} is damaged (a run does not say what it is): restore it, or start anew")
        return study, entries, kept["commands"]

    def write(self, entries: list[Entry], folder: Path, commands: list[str]) -> None:
        """README.md and the figure."""
        lines = [*self.report(entries), "", f"![{self.caption}]({self.name}.png)"]
        write_page(folder, lines, {self.name: self.figure(entries)}, commands)


def learn(experiment: Experiment, examples: data.Dataset, *, settled: bool = False) -> Entry:
    """One training: the errors in percent after each epoch, at the particles.

    If `settled`, also those of the final weights at the fixed points that s = 0 leads to, as `end`.
    """
    setup = experiment.build(examples)
    epochs = experiment.learning.epochs
    state, history = fit(setup.trainer, setup.state, setup.feed, examples.valid.v, epochs=epochs)
    parts = ("train", "valid", "test")
    entry: Entry = {part: [round(100 * record[f"{part}_error"], 4) for record in history] for part in parts[:2]}
    if settled:
        found = errors(setup, state.theta, epochs)
        entry["end"] = {part: round(100 * found[f"{part}_error"], 4) for part in parts}
    return entry


def over_epochs(curves: list[list[float]]) -> dict[float, list[float]]:
    """For each epoch the values of all curves."""
    return {float(epoch): list(values) for epoch, values in enumerate(zip(*curves, strict=True), start=1)}
