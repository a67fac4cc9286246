"""`eqprop compare`: Equilibrium Propagation and its relatives on the same network, data, seed and budget."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eqprop.cli.campaigns import asked_for, carry_out, print_place, print_rows
from eqprop.cli.console import out, print_json
from eqprop.study.options import MethodName

SHORT = {"epochs": 3, "train": 5000}


@dataclass(frozen=True)
class Compare:
    """Train by Equilibrium Propagation and by its relatives (sections 3.5 and 4), and set them beside each other.

    All of it takes about twenty minutes on one core, --short less than five.
    """

    datasets: tuple[Literal["digits", "mnist"], ...] = ()
    """the data sets; none: both"""
    methods: tuple[MethodName, ...] = ()  # pyright: ignore[reportInvalidTypeForm]
    """the ways to learn; none: all"""
    short: bool = False
    """a few minutes: 3 epochs, 5,000 images of MNIST, unless given"""
    epochs: int | None = None
    """passes over the training examples; None: 30 of digits, 10 of MNIST"""
    train: int | None = None
    """train on this many images of MNIST only, the first ones; None: all"""
    seed: int | None = None
    """decides the initial weights and the order of the examples; None: 0"""
    run_dir: Path | None = None
    """folder for the runs and the report; None: a new one in runs/"""
    resume: Path | None = None
    """go on with the runs in this folder, with their settings"""
    data_dir: Path | None = None
    """folder with MNIST's own files; None: the cache, filled from public sources"""
    json: bool = False
    """print the results as one JSON object, the last line of stdout"""

    def run(self) -> None:
        from eqprop.study import relatives_page  # loads matplotlib, which takes its time
        from eqprop.study.relatives import Comparison

        comparison, commands = asked_for(Comparison, self._asked(), self.short, self.resume)
        folder, done = carry_out(comparison, commands, "compare", self.run_dir, self.resume, self.data_dir)
        if self.json:
            print_json({"folder": str(folder), "runs": [relatives_page.to_dict(outcome) for outcome in done]})
            return
        for some in relatives_page.by_dataset(done).values():
            rows = [relatives_page.row(outcome, some) for outcome in some]
            # A terminal has no room for the columns on the phases: the page has them.
            columns = [name for name in rows[0] if not name.endswith("phase")]
            print_rows(rows, columns, relatives_page.heading(some))
            out.print(relatives_page.beside_backpropagation(some), highlight=False)
        print_place(folder)

    def _asked(self) -> dict[str, Any]:
        """The settings that are given, or meant by --short."""
        given = {"datasets": self.datasets or None, "methods": self.methods or None}
        given |= {"epochs": self.epochs, "train": self.train, "seed": self.seed}
        return (SHORT if self.short else {}) | {name: value for name, value in given.items() if value is not None}
