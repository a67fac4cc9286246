"""Progress bars for long work; in a log or a notebook, where there is no terminal, lines instead."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from eqprop.train import Progress as TrainingProgress

screen = Console(stderr=True)
ALL = 0.995  # of the examples: what is above needs no word


class Shown:
    """A context manager that shows its `bar` where there is a terminal."""

    bar: Progress

    def __enter__(self) -> Self:
        if screen.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if screen.is_terminal:
            self.bar.stop()


def _bar(count: str) -> Progress:
    """A bar that shows a count, the figures, the time spent and the time left."""
    return Progress(
        TextColumn(count),
        BarColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        TextColumn("eta"),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
    )


class TrainingBar(Shown):
    """A context manager whose `update` is what `fit` calls as `observe`."""

    def __init__(self, epochs: int, batches: int, batch_size: int):
        self.epochs, self.batches, self.batch_size = epochs, batches, batch_size
        self.last = ""
        self.bar = _bar("epoch {task.fields[epoch]}")
        self.task = self.bar.add_task("", total=epochs * batches, epoch=f"0/{epochs}", figures="compiling …")

    def update(self, progress: TrainingProgress) -> None:
        epoch, batch = int(progress.state.epoch), int(progress.state.batch)
        done = batch or self.batches
        speed = done * self.batch_size / progress.seconds
        figures = f"train {_figure(progress.averages)}  {self.last}{speed:,.0f} examples/s"
        running = epoch + (progress.record is None)
        self.bar.update(
            self.task,
            completed=epoch * self.batches + batch,
            epoch=f"{running}/{self.epochs}",
            figures=figures,
        )
        if progress.record:
            self._finish(progress.record, running)

    def _finish(self, record: dict[str, float], epoch: int) -> None:
        line = f"epoch {epoch:>3}/{self.epochs}  train {_figure(record, 'train_'):>8}"
        if "valid_cost" in record:
            self.last = f"valid {_figure(record, 'valid_')}  "
            line += f"  valid {_figure(record, 'valid_'):>8}"
        if (rest := record.get("at_rest", 1.0)) < ALL:
            line += f"  at rest {rest:.0%}"
        self.bar.console.print(f"{line}  {record['seconds']:.1f} s", highlight=False)


def _figure(measured: dict[str, float], of: str = "") -> str:
    """The error, if it is measured, else the cost."""
    error = measured.get(f"{of}error")
    return f"cost {measured[f'{of}cost']:.4g}" if error is None else f"{100 * error:.2f} %"


class CountBar(Shown):
    """A context manager whose `update` takes how many of how many are done; without a terminal, a line for each.

    `figures` are shown beside the count.
    """

    def __init__(self, what: str):
        self.what = what
        self.bar = _bar(f"{what} {{task.completed}}/{{task.total}}")
        self.task = self.bar.add_task("", total=None, figures="")

    def update(self, done: int, of: int, figures: str = "") -> None:
        self.bar.update(self.task, completed=done, total=of, figures=figures)
        if not screen.is_terminal:
            screen.print(f"{self.what} {done}/{of}  {figures}".rstrip(), highlight=False)
