"""A small study: a list of runs whose results are kept in one file as they come, and a report of them."""

import abc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from textwrap import fill
from typing import Any, ClassVar, Self

from eqprop import data
from eqprop.errors import InputError
from eqprop.experiment import Experiment, start, training_part
from eqprop.experiment.parsing import from_dict
from eqprop.experiment.perform import errors
from eqprop.files import read_json, write_atomic, write_figure, write_json
from eqprop.machine import footer
from eqprop.markdown import table
from eqprop.train import fit

Entry = dict[str, Any]
"""What came of a run, beside the `run` itself: all of it can be written as JSON."""


@dataclass(frozen=True)
class Study(abc.ABC):
    """What is asked, and how much is spent on the answer, on MNIST.

    The fields of a study are its settings. `answer` carries out its `runs` one after the other; a run that is in the
    file already is not done again. A run is a tuple of words and numbers, and depends on nothing but itself.
    """

    name: ClassVar[str]
    """in `eqprop reproduce NAME`, and of its files"""
    caption: ClassVar[str]
    """what its figure shows"""
    short: ClassVar[dict[str, Any]]
    """settings that take a few minutes at the most"""

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
        *,
        data_dir: Path | None = None,
        say: Callable[[str], None] = lambda _: None,
        observe: Callable[[int, int], None] = lambda *_: None,
    ) -> list[Entry]:
        """Carry out what is not yet in the file at `path`, which `save` began, and keep each entry there."""
        before, done, commands = self.load(path)
        if before != self:
            raise InputError(f"{path} is of another question, {before}: start anew elsewhere")
        known = {tuple(entry["run"]) for entry in done}
        runs = list(self.runs())
        observe(len(done), len(runs))
        examples = data.load("mnist", data_dir, None, say)
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
        try:
            kept = read_json(path)
            question, entries, commands = kept["question"], kept["runs"], kept["commands"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            where = f"{path.parent} is not the folder of `eqprop reproduce {cls.name}`"
            raise InputError(f"{where}: no good {path.name}") from error
        return from_dict(cls, question, f"{path}: the settings"), entries, commands

    def write(self, entries: list[Entry], folder: Path, commands: list[str]) -> None:
        """README.md and the figure."""
        write_figure(folder / f"{self.name}.png", self.figure(entries))
        lines = [*self.report(entries), "", f"![{self.caption}]({self.name}.png)", "", footer(commands), ""]
        write_atomic(folder / "README.md", "\n".join(lines).encode())


def learn(experiment: Experiment, examples: data.Dataset, *, settled: bool = False) -> Entry:
    """One training: the errors in percent after each epoch, at the particles.

    If `settled`, also those of the final weights at the fixed points that s = 0 leads to, as `end`.
    """
    trainer, state = start(experiment, examples)
    epochs = experiment.learning.epochs
    state, history = fit(trainer, state, training_part(experiment, examples).v, examples.valid.v, epochs=epochs)
    parts = ("train", "valid", "test")
    entry: Entry = {part: [round(100 * record[f"{part}_error"], 4) for record in history] for part in parts[:2]}
    if settled:
        found = errors(experiment, examples, trainer, state.theta, epochs)
        entry["end"] = {part: found[f"{part}_error"] for part in parts}
    return entry


def over_epochs(curves: list[list[float]]) -> dict[float, list[float]]:
    """For each epoch the values of all curves."""
    return {float(epoch): list(values) for epoch, values in enumerate(zip(*curves, strict=True), start=1)}


def spread(values: list[float]) -> str:
    """The mean of errors in percent, and the standard deviation, if there are two of them or more."""
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "") + " %"


def page(title: str, sentence: str, text: str, rows: list[dict[str, str]]) -> list[str]:
    """A report: what is asked, the answer, how it was found, and the numbers."""
    paragraphs = [sentence, *text.strip().split("\n\n")]
    return [f"# {title}", "", *(line for text in paragraphs for line in (paragraph(text), "")), *table(rows)]


def paragraph(text: str) -> str:
    """In lines of 120 characters at the most."""
    return fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)
