"""`eqprop sweep`: many trainings that look for good settings, by as many processes as join."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import tyro

from eqprop import data
from eqprop.cli.campaigns import command_line, going_on, print_place, print_rows
from eqprop.cli.console import out, print_json, screen
from eqprop.cli.folders import chosen_folder
from eqprop.cli.train import check_use
from eqprop.errors import InputError
from eqprop.progress import TrainingBar
from eqprop.study import Experiment
from eqprop.study.sweep import Sweep
from eqprop.train import Progress

SHOWN = 15  # rows of the table on the screen


@dataclass(frozen=True)
class Search:
    """Look for good settings: train with many, and choose by the validation error.

    Any number of processes, on any machines that see the folder, join with --resume. One that dies loses nothing:
    another goes on with its trial.
    """

    dataset: tyro.conf.Positional[str | None] = None
    """the data set; None: that of the file, or digits"""
    file: Path | None = None
    """a TOML file with dataset, trials, search, …, and the tables [set] and [vary]; options below win over it"""
    set: tuple[str, ...] = ()
    """settings for all trials, as epochs=5 hidden=100x100: any option of `eqprop train`"""
    vary: tuple[str, ...] = ()
    """what is varied: beta=0.1:1, learning_rate=1e-4:1e-2:log, hidden=100,500x500, nudge=symmetric,one-sided"""
    trials: int | None = None
    """how many settings are tried; None: 40; a grid has as many as there are combinations"""
    search: Literal["tpe", "random", "grid"] | None = None
    """by a model of what was good so far, by chance, or all combinations; None: tpe. A grid over seed=0,1,2 has means
    and deviations"""
    prune: Literal["median", "halving", "none"] | None = None
    """end trials early that are worse than the median at their epoch, or not in the best quarter after 1, 4, 16, …
    epochs; None: median; a grid is never pruned"""
    sweep_seed: int | None = None
    """decides what is tried; None: 0"""
    test: bool = False
    """measure the test error of trials too; it decides nothing"""
    storage: str | None = None
    """the address of a database for what is known of the trials, as sqlite:///sweep.db; None: a journal in the
    folder"""
    run_dir: Path | None = None
    """folder for the trials and the report; None: a new one in runs/"""
    resume: Path | None = None
    """join the sweep in this folder, or go on with it, by its settings"""
    data_dir: Path | None = None
    """folder with the data set's own files; None: the cache, filled from public sources"""
    checkpoint_seconds: float | None = None
    """save no more often than this, and at the end of each trial; None: 10, or as much more as keeps saving within 2 %
    of the time"""
    json: bool = False
    """print the results as one JSON object, the last line of stdout"""

    def run(self) -> None:
        from eqprop.study import sweep_page  # loads matplotlib, which takes its time
        from eqprop.study.workers import Workshop

        given = self.given()
        if self.resume is not None:
            if given:
                raise InputError(
                    f"--{next(iter(given))} with --resume, but {self.resume} has its settings: leave it out"
                )
            sweep, commands = Sweep.load(self.resume)
            commands = [*commands, command_line()]
        else:
            values = (Sweep.read(self.file) if self.file else {}) | given
            sweep, commands = Sweep.of({"dataset": "digits"} | values, "the settings of the sweep"), [command_line()]
        for one in sweep.varied:
            for value in one.ends():
                check_use(sweep.experiment({other.name: other.ends()[0] for other in sweep.varied} | {one.name: value}))
        examples = data.load(sweep.dataset, self.data_dir, sweep.asked.get("valid"), screen.print)
        folder = chosen_folder(self.run_dir, self.resume, f"sweep-{Path(sweep.dataset).name}")
        if self.resume is None:
            sweep.save(folder, commands)
        workshop = Workshop(folder, sweep)

        def report() -> None:
            sweep_page.write_report(folder, sweep, workshop.tried(), commands)

        with going_on("sweep", folder, self.data_dir):
            workshop.work(
                examples,
                checkpoint_seconds=self.checkpoint_seconds,
                follow=lambda *about: follow(sweep.count, *about),
                after=report,
                wait=Patience(),
            )
        tried = workshop.tried()
        values = sweep_page.best(sweep, tried)
        best = sweep_page.command(sweep, values) if values else None
        if self.json:
            found = [sweep_page.to_dict(one) for one in tried]
            print_json({"folder": str(folder), "trials": found, "best": best})
            return
        out.print(sweep_page.summary(sweep, tried), highlight=False)
        if rows := sweep_page.table_rows(sweep, tried):
            print_rows(rows[:SHOWN], list(rows[0]))
        if best:
            out.print(f"the best setting: {best}", markup=False, highlight=False, soft_wrap=True)
        print_place(folder)

    def given(self) -> dict[str, Any]:
        """The fields of the sweep that options give: those that have not their defaults."""
        of_sweep = {field.name for field in fields(Sweep)}
        options = (field for field in fields(self) if field.name in of_sweep)
        given: dict[str, Any] = {
            field.name: value for field in options if (value := getattr(self, field.name)) != field.default
        }
        if "dataset" in given:
            given["dataset"] = data.full_name(given["dataset"])
        if "storage" in given:
            given["name"] = f"sweep-{secrets.token_hex(4)}"
        return given


class Patience:
    """Says once which trials this process waits for."""

    def __init__(self) -> None:
        self.said: list[int] = []

    def __call__(self, begun: list[int]) -> None:
        if begun != self.said:
            screen.print(f"waiting for other processes, which train {', '.join(map(str, begun))}", highlight=False)
            self.said = begun


@contextmanager
def follow(count: int, number: int, experiment: Experiment, batches: int) -> Iterator[Callable[[Progress], None]]:
    """A line and a bar for one trial."""
    screen.print(f"[bold]trial {number}[/] of {count}", highlight=False)
    with TrainingBar(experiment.learning.epochs, batches, experiment.learning.batch_size) as bar:
        yield bar.update
