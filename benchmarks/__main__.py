"""python -m benchmarks [NAME …]: run the benchmarks and write docs/benchmarks/."""

import importlib
from pathlib import Path
from typing import Annotated, Literal

import tyro

from benchmarks.report import FOLDER, publish

Name = Literal["schedule", "floor", "settle", "gradient", "error", "memory", "growth"]


def main(
    names: Annotated[tuple[Name, ...], tyro.conf.Positional] = (),
    short: bool = False,
    out: Path = FOLDER,
) -> None:
    """Measure, print tables, and write JSON, figures and a Markdown report.

    Args:
        names: which benchmarks; none: all of them.
        short: fewer rounds, smaller problems: a few minutes in all.
        out: where the results go.
    """
    for name in names or Name.__args__:
        print(f"{name} …", flush=True)
        report = importlib.import_module(f"benchmarks.{name}").run(short)
        publish(name, report, short=short, folder=out)


if __name__ == "__main__":
    tyro.cli(main)
