"""`eqprop data`: which data sets there are, and fetching them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Column, Table

from eqprop.cli.console import out, screen
from eqprop.data import catalogue, fetch
from eqprop.data.loading import DatasetName


@dataclass(frozen=True)
class List:
    """List the data sets and where each is on this machine."""

    def run(self) -> None:
        table = Table("name", "what it is", "examples", "shape", Column("where", overflow="fold"))
        for entry in catalogue():
            shape = "×".join(map(str, entry.shape))
            table.add_row(entry.name, entry.description, f"{entry.examples:,}", shape, entry.where)
        out.print(table)


@dataclass(frozen=True)
class Fetch:
    """Fetch a data set into the cache and verify it."""

    name: tyro.conf.Positional[DatasetName]  # pyright: ignore[reportInvalidTypeForm]
    """the data set"""
    data_dir: Path | None = None
    """take its files from this folder instead of the public sources"""

    def run(self) -> None:
        folder = fetch(self.name, self.data_dir, lambda message: screen.print(message, highlight=False))
        out.print(str(folder), markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Data:
    """List or fetch data sets."""

    action: Annotated[List, tyro.conf.subcommand("list")] | Annotated[Fetch, tyro.conf.subcommand("fetch")]

    def run(self) -> None:
        self.action.run()
