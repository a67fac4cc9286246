"""What `eqprop reproduce` and `eqprop compare` share: carrying out a campaign and showing its results."""

import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from rich.table import Column, Table

from eqprop.cli.console import out, screen
from eqprop.cli.folders import chosen_folder
from eqprop.cli.stopping import heeding, resumable
from eqprop.errors import InputError
from eqprop.progress import TrainingBar
from eqprop.store.lock import locked
from eqprop.study import Study
from eqprop.study.campaign import Campaign, Outcome, Trial
from eqprop.train import Progress

Settings = TypeVar("Settings", bound=Campaign | Study)
Begun = TypeVar("Begun", bound=Campaign)


def command_line() -> str:
    """The command as it was given."""
    return shlex.join(["eqprop", *sys.argv[1:]])


def going_on(words: str, folder: Path, data_dir: Path | None) -> AbstractContextManager[None]:
    """What tells how to go on after an interruption; `words` are the command without its options."""
    again = [*words.split(), "--resume", str(folder)]
    return resumable(again + (["--data-dir", str(data_dir)] if data_dir else []), folder)


def kept_settings(
    kept: Settings,
    folder: Path,
    asked: dict[str, Any],
    short: bool,
    *,
    free: Collection[str] = (),
    options: Mapping[str, str] | None = None,
) -> Settings:
    """What to go on with in a folder: the settings kept there, but for those that are `free` to change.

    asked: the settings that are given now, which must else be the same.
    options: the names of options that are not those of their settings.
    """
    other = [name for name, value in asked.items() if name not in free and value != getattr(kept, name)]
    for name in ["short"] * short + other:
        option = (options or {}).get(name, name)
        raise InputError(f"--{option} with --resume, but {folder} has its own settings: leave it out")
    changed = {name: value for name, value in asked.items() if name in free}
    return replace(kept, **changed) if changed else kept


def asked_for(
    kind: type[Begun], asked: dict[str, Any], short: bool, resume: Path | None, *, free: Collection[str] = ()
) -> tuple[Begun, list[str]]:
    """A new campaign with these settings, or the one to go on with; and the commands that led to it, this one too."""
    if resume is None:
        return kind(**asked), [command_line()]
    campaign, commands = kind.load(resume)
    return kept_settings(campaign, resume, asked, short, free=free), [*commands, command_line()]


def carry_out(
    campaign: Campaign,
    commands: list[str],
    words: str,
    run_dir: Path | None,
    resume: Path | None,
    data_dir: Path | None,
) -> tuple[Path, list[Outcome]]:
    """Carry out the campaign with progress bars and write its page; return its folder and the outcomes.

    commands: those that the campaign was started and resumed by.
    words: the command without its options.
    run_dir, resume: the folder for a new campaign, or that of one to go on with; None and None: a new one in runs/.
    """
    sets = campaign.load_data(data_dir, screen.print)
    folder = chosen_folder(run_dir, resume, words.replace(" ", "-"))

    @contextmanager
    def follow(trial: Trial, batches: int) -> Iterator[Callable[[Progress], None]]:
        trials = campaign.trials(folder)
        screen.print(f"[bold]{trials.index(trial) + 1} of {len(trials)}[/]: {trial.name}", highlight=False)
        learning = trial.experiment.learning
        with TrainingBar(learning.epochs, batches, learning.batch_size) as bar:
            yield heeding(bar.update)

    def report() -> None:
        campaign.write(folder, commands)

    with going_on(words, folder, data_dir), locked(folder):
        campaign.save(folder, commands)
        campaign.carry_out(folder, sets, follow=follow, after=report)
        report()
    return folder, campaign.outcomes(folder)


def print_rows(rows: list[dict[str, str]], columns: list[str], title: str | None = None) -> None:
    """Print these columns of a table."""
    shown = Table(*(Column(name, overflow="fold") for name in columns), title=title, title_justify="left")
    for row in rows:
        shown.add_row(*(row[name] for name in columns))
    out.print(shown)


def print_place(folder: Path) -> None:
    """Say where the page is."""
    out.print(f"report in {folder / 'README.md'}", markup=False, highlight=False, soft_wrap=True)
