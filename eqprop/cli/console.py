"""What the commands share: results go to stdout, everything else to stderr."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from eqprop.progress import screen

__all__ = ["out", "print_json", "result_table", "screen"]

out = Console()


def result_table(result: Mapping[str, Any]) -> Table:
    """The result of a training run or an evaluation, as a table."""
    title = f"{Path(result['dataset']).name}, {result['net']}"
    table = Table(title=title, title_justify="left", min_width=len(title))  # a title is cut where its table ends
    table.add_column("")
    table.add_column("error", justify="right")
    for name, part in (("training", "train"), ("validation", "valid"), ("test", "test")):
        error = result[f"{part}_error"]
        table.add_row(name, "none held out" if error is None else f"{100 * error:.2f} %")
    return table


def print_json(values: Mapping[str, Any]) -> None:
    """One object on one line, the last of stdout."""
    print(json.dumps(values), flush=True)
