"""python -m benchmarks [NAME …]: run the benchmarks and write docs/benchmarks/."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from benchmarks.report import FOLDER, publish
from eqprop.errors import InputError

Name = Literal["schedule", "floor", "settle", "gradient", "error", "memory", "growth", "tabular", "images"]


def main(
    names: Annotated[tuple[Name, ...], tyro.conf.Positional] = (),
    short: bool = False,
    out: Path | None = None,
) -> None:
    """Measure, print tables, and write JSON, figures and a Markdown report.

    Args:
        names: which benchmarks; none: all of them.
        short: fewer rounds, smaller problems: a few minutes in all.
        out: where the results go; None: docs/benchmarks, or build/benchmarks in short mode.
    """
    failed = False
    for name in names or Name.__args__:
        print(f"{name} …", flush=True)
        try:
            report = importlib.import_module(f"benchmarks.{name}").run(short)
        except InputError as error:  # PyTorch or MNIST is missing: the others can do without
            print(f"error: {name}: {error}", file=sys.stderr)
            failed = True
            continue
        publish(name, report, short=short, folder=out or (Path("build/benchmarks") if short else FOLDER))
    sys.exit(failed)


if __name__ == "__main__":
    tyro.cli(main)
