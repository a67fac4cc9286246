"""`eqprop reproduce`: the experiments of the paper's section 5, as written or fast, with a report beside the paper."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.table import Table

from eqprop.cli.console import out, print_json, screen
from eqprop.cli.folders import chosen_folder
from eqprop.cli.progress import CountBar, TrainingBar
from eqprop.errors import InputError
from eqprop.reproduce import Campaign, Trial, carry_out, rates, report

NetChoice = tuple[Literal["1", "2", "3", "fashion"], ...]


@dataclass(frozen=True)
class Common:
    """What both modes take."""

    nets: NetChoice = ("1", "2", "3")
    """networks: by the number of hidden layers, or `fashion`, two hidden layers on Fashion-MNIST"""
    short: bool = False
    """a few minutes in all: fewer epochs and examples, unless given"""
    epochs: int | None = None
    """passes over the training examples; None: all that the mode asks for"""
    train: int | None = None
    """train on the first so many examples only; None: 50,000 of MNIST's, all but those for validation"""
    valid: int | None = None
    """examples held out for validation; None: 10,000"""
    minutes: float | None = None
    """end each network's training with the last epoch that fits in; None: when its epochs are done"""
    run_dir: Path | None = None
    """folder for the runs and the report; None: a new one in runs/"""
    resume: Path | None = None
    """go on with the runs in this folder, with their settings; only --epochs and --minutes may be changed"""
    data_dir: Path | None = None
    """folder with the data set's own files; None: the cache, filled from public sources"""
    json: bool = False
    """print the results as one JSON object, the last line of stdout"""

    def _campaign(self, mode: Any, seeds: int, short: dict[str, int]) -> Campaign:
        """Of the options, and of the folder if it is to go on."""
        asked = {"epochs": self.epochs, "train": self.train, "valid": self.valid}
        if self.short:
            asked = {name: short[name] if value is None else value for name, value in asked.items()}
        if self.resume is None:
            return Campaign(mode, self.nets, seeds, **asked, minutes=self.minutes)
        before = Campaign.load(self.resume)
        if before.mode != mode:
            raise InputError(f"{self.resume} is of `eqprop reproduce {before.mode}`: go on with that")
        default = type(self)()
        for name in ("nets", "short", "train", "valid", *(["seeds"] if hasattr(self, "seeds") else [])):
            if getattr(self, name) != getattr(default, name):
                raise InputError(f"--{name} with --resume: the folder has its own; leave it out")
        changed = {"epochs": self.epochs, "minutes": self.minutes}
        return replace(before, **{name: value for name, value in changed.items() if value is not None})

    def _run(self, campaign: Campaign) -> None:
        folder = chosen_folder(self.run_dir, self.resume, f"reproduce-{campaign.mode}")
        campaign.save(folder)
        trials = campaign.trials()

        @contextmanager
        def follow(trial: Trial, batches: int) -> Iterator[Any]:
            number = [one.name for one in trials].index(trial.name) + 1
            screen.print(f"[bold]{number} of {len(trials)}[/]: {trial.name}", highlight=False)
            learning = trial.experiment.learning
            with TrainingBar(learning.epochs, batches, learning.batch_size) as bar:
                yield bar.update

        command = ["eqprop", *sys.argv[1:]]
        try:
            carry_out(
                campaign,
                folder,
                data_dir=self.data_dir,
                follow=follow,
                say=screen.print,
                after=lambda: report.write(campaign, folder, command),
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"go on with `eqprop reproduce {campaign.mode} --resume {folder}`") from None
        report.write(campaign, folder, command)
        done = report.outcomes(campaign, folder)
        if self.json:
            print_json({"mode": campaign.mode, "folder": str(folder), "runs": [o.result for o in done]})
            return
        table = Table("network", "epochs", "training", "validation", "test error", "wall clock", title_justify="left")
        for net, some in report.by_network(done).items():
            row = report.row(net, some)
            names = ("epochs", "training error", "validation error", "test error", "wall clock")
            table.add_row(net, *(row[name] for name in names))
        out.print(table)
        out.print(f"report in {folder / 'README.md'}", markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class AsWritten(Common):
    """Every detail of section 5 and Table 1: the paper's iterations, rates, particles and signs.

    The full number of epochs (25, 60, 500) takes about 2 minutes, 1.5 hours and 4 days on two cores: mind --minutes.
    """

    def run(self) -> None:
        self._run(self._campaign("as-written", 1, {"epochs": 3, "train": 1000, "valid": 500}))


@dataclass(frozen=True)
class Fast(Common):
    """The same networks, to the paper's result, with this library's settling and a recipe of its own."""

    nets: NetChoice = ("1", "2", "3", "fashion")
    """networks: by the number of hidden layers, or `fashion`, two hidden layers on Fashion-MNIST"""
    seeds: int = 3
    """train the first of the networks from so many seeds; --short: from one"""

    def run(self) -> None:
        seeds = 1 if self.short else self.seeds
        self._run(self._campaign("fast", seeds, {"epochs": 4, "train": 10_000, "valid": 2_000}))


@dataclass(frozen=True)
class Rates:
    """Does each layer need its own learning rate when both phases come to rest? The paper's open question."""

    hidden: Literal[1, 2, 3] = 2
    """hidden layers of the network"""
    short: bool = False
    """a few minutes: fewer examples and residuals"""
    run_dir: Path | None = None
    """folder for the results and the report; None: a new one in runs/"""
    resume: Path | None = None
    """go on in this folder, with its settings"""
    data_dir: Path | None = None
    """folder with MNIST's own files; None: the cache, filled from public sources"""
    json: bool = False
    """print the results as one JSON object, the last line of stdout"""

    def run(self) -> None:
        folder = chosen_folder(self.run_dir, self.resume, "reproduce-rates")
        path = folder / "rates.json"
        if self.resume is None:
            smaller = {"epochs": 1, "train": 1000, "valid": 1000, "residuals": (1e-1, 1e-3, 1e-5)} if self.short else {}
            question = rates.Question(self.hidden, **smaller)
            rates.save(path, question, [])
        elif self.short or self.hidden != 2:
            raise InputError("--hidden and --short with --resume: the folder has its own settings; leave them out")
        else:
            question, _ = rates.load(path)
        with CountBar("trainings") as bar:
            try:
                entries = rates.answer(question, path, data_dir=self.data_dir, say=screen.print, observe=bar.update)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"go on with `eqprop reproduce rates --resume {folder}`") from None
        rates.write(question, entries, folder, ["eqprop", *sys.argv[1:]])
        if self.json:
            print_json({"folder": str(folder), "runs": entries})
        else:
            out.print(f"report in {folder / 'README.md'}", markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the paper's experiments (section 5)."""

    mode: (
        Annotated[Fast, tyro.conf.subcommand("fast")]
        | Annotated[AsWritten, tyro.conf.subcommand("as-written")]
        | Annotated[Rates, tyro.conf.subcommand("rates")]
    )

    def run(self) -> None:
        self.mode.run()
