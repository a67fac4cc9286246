"""`eqprop compare`: Equilibrium Propagation and its relatives on the same network, data, seed and budget."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from eqprop.cli.console import out, print_json, screen
from eqprop.cli.folders import chosen_folder
from eqprop.errors import InputError
from eqprop.experiment.settings import MethodName
from eqprop.progress import TrainingBar

SHORT = {"epochs": 3, "train": 5000}


@dataclass(frozen=True)
class Compare:
    """Train by Equilibrium Propagation and by its relatives (sections 3.5 and 4), and set them beside each other.

    All of it takes about twenty minutes on one core, --short less than five.
    """

    datasets: tuple[Literal["digits", "mnist"], ...] = ()
    """the data sets; none: both"""
    methods: tuple[MethodName, ...] = ()  # pyright: ignore[reportInvalidTypeForm]
    """the ways to learn; none: all"""
    short: bool = False
    """a few minutes: 3 epochs, 5,000 images of MNIST, unless given"""
    epochs: int | None = None
    """passes over the training examples; None: 30 of digits, 10 of MNIST"""
    train: int | None = None
    """train on the first so many images of MNIST only; None: all"""
    seed: int | None = None
    """decides the initial weights and the order of the examples; None: 0"""
    run_dir: Path | None = None
    """folder for the runs and the report; None: a new one in runs/"""
    resume: Path | None = None
    """go on with the runs in this folder, with their settings"""
    data_dir: Path | None = None
    """folder with MNIST's own files; None: the cache, filled from public sources"""
    json: bool = False
    """print the results as one JSON object, the last line of stdout"""

    def run(self) -> None:
        from eqprop.compare import Contest, Trial, carry_out, report

        command = shlex.join(["eqprop", *sys.argv[1:]])
        if self.resume is None:
            contest, commands = Contest(**self._asked()), [command]
        else:
            contest, commands = Contest.load(self.resume)
            commands = [*commands, command]
            if self.short or (asked := {k: v for k, v in self._asked().items() if v != getattr(contest, k)}):
                odd = "short" if self.short else next(iter(asked))
                raise InputError(f"--{odd} with --resume, but {self.resume} has its own settings: leave it out")
        sets = contest.load_data(self.data_dir, screen.print)
        folder = chosen_folder(self.run_dir, self.resume, "compare")
        contest.save(folder, commands)
        trials = contest.trials()

        @contextmanager
        def follow(trial: Trial, batches: int) -> Iterator[Any]:
            screen.print(f"[bold]{trials.index(trial) + 1} of {len(trials)}[/]: {trial.name}", highlight=False)
            learning = trial.experiment.learning
            with TrainingBar(learning.epochs, batches, learning.batch_size) as bar:
                yield bar.update

        def tell() -> None:
            report.write(contest, folder, commands)

        try:
            carry_out(contest, folder, sets, follow=follow, after=tell)
        except KeyboardInterrupt:
            more = ["--data-dir", str(self.data_dir)] if self.data_dir else []
            again = shlex.join(["eqprop", "compare", "--resume", str(folder), *more])
            raise KeyboardInterrupt(f"go on with `{again}`") from None
        tell()
        done = report.outcomes(contest, folder)
        if self.json:
            runs = [outcome.to_dict() for some in done.values() for outcome in some]
            print_json({"folder": str(folder), "runs": runs})
            return
        for some in done.values():
            rows = [report.row(outcome, some) for outcome in some]
            # What the phases are takes more room than a terminal has: the report tells.
            columns = [name for name in rows[0] if not name.endswith("phase")]
            shown = Table(*columns, title=report.heading(some), title_justify="left")
            for row in rows:
                shown.add_row(*(row[name] for name in columns))
            out.print(shown)
            out.print(report.beside_backpropagation(some), highlight=False)
        out.print(f"report in {folder / 'README.md'}", markup=False, highlight=False, soft_wrap=True)

    def _asked(self) -> dict[str, Any]:
        """The settings that are given, or meant by --short."""
        given = {"datasets": self.datasets or None, "methods": self.methods or None}
        given |= {"epochs": self.epochs, "train": self.train, "seed": self.seed}
        return (SHORT if self.short else {}) | {name: value for name, value in given.items() if value is not None}
