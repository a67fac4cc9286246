"""What the commands share that carry out a campaign: `eqprop reproduce` and `eqprop compare`."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.table import Table

from eqprop.cli.console import out, screen
from eqprop.cli.folders import chosen_folder
from eqprop.progress import TrainingBar
from eqprop.study.campaign import Campaign, Outcome, Trial
from eqprop.train import Progress


def command_line() -> str:
    """The command as it was given."""
    return shlex.join(["eqprop", *sys.argv[1:]])


def go_on(words: str, folder: Path, data_dir: Path | None) -> str:
    """What to say when interrupted; `words` are the command without its options."""
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
    """Carry out the campaign with bars to watch, and write its page; its folder, and what came of it."""
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
    """Some columns of a table."""
    shown = Table(*columns, title=title, title_justify="left")
    for row in rows:
        shown.add_row(*(row[name] for name in columns))
    out.print(shown)


def print_place(folder: Path) -> None:
    """Where the page is."""
    out.print(f"report in {folder / 'README.md'}", markup=False, highlight=False, soft_wrap=True)
