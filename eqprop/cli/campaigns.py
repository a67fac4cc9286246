"""What `eqprop reproduce` and `eqprop compare` share: carrying out a campaign and showing its results."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.table import Column, Table

from eqprop.cli.console import out, screen
from eqprop.cli.folders import chosen_folder
from eqprop.progress import TrainingBar
from eqprop.study.campaign import Campaign, Outcome, Trial
from eqprop.train import Progress


def command_line() -> str:
    """The command as it was given."""
    return shlex.join(["eqprop", *sys.argv[1:]])


def go_on(words: str, folder: Path, data_dir: Path | None) -> str:
    """How to go on after an interruption; `words` are the command without its options."""
    again = ["eqprop", *words.split(), "--resume", str(folder)]
    return f"go on with `{shlex.join(again + (['--data-dir', str(data_dir)] if data_dir else []))}`"


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
    campaign.save(folder, commands)

    @contextmanager
    def follow(trial: Trial, batches: int) -> Iterator[Callable[[Progress], None]]:
        trials = campaign.trials(folder)
        screen.print(f"[bold]{trials.index(trial) + 1} of {len(trials)}[/]: {trial.name}", highlight=False)
        learning = trial.experiment.learning
        with TrainingBar(learning.epochs, batches, learning.batch_size) as bar:
            yield bar.update

    def report() -> None:
        campaign.write(folder, commands)

    try:
        campaign.carry_out(folder, sets, follow=follow, after=report)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(go_on(words, folder, data_dir)) from None
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
