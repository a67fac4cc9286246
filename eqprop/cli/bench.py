"""`eqprop bench`: a device is checked, and trained on the digits."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from eqprop import data
from eqprop.bench import Session, certify
from eqprop.bench.recipe import Recipe, check_digits
from eqprop.bench.setups import setup
from eqprop.cli.console import out, print_json, result_table, screen
from eqprop.cli.folders import fresh_folder, make_folder
from eqprop.cli.stopping import heeding, resumable
from eqprop.errors import InputError
from eqprop.progress import CountBar, TrainingBar
from eqprop.store import Run
from eqprop.store.ranges import Few, Finite, Pause, Positive, Seconds, Seed, Steps, Times, check_options

Name = tyro.conf.Positional[str]


@dataclass(frozen=True)
class Check:
    """Measure a device, and say by which β and how many readings it can be trained; the status is 1 if it cannot."""

    device: Name = "simulated"
    """simulated, ngspice, or module:factory for a function that returns eqprop.bench.Setup(device, F, theta)"""
    kind: Literal["current", "spring", "clamp"] | None = None
    """how outputs are pushed; None: the first of these that the device can do"""
    betas: tuple[Finite, ...] | None = None
    """which β to look at; None: the largest that it can do, and halves of it"""
    repeats: tuple[Steps, ...] = (1, 4, 16)
    """of how many readings to tell the error"""
    readings: Times = 8
    """how often to read everything"""
    examples: Few = 32
    """examples in the minibatch: digits if they fit the device, else random ones"""
    wanted: Positive = 0.3
    """the largest relative error of the gradient with which the device is fit"""
    timeout: Seconds = 60.0
    """seconds after which a call of the device is given up"""
    retries: Times = 3
    """how often a call is repeated that failed"""
    seed: Seed = 0
    """for the parameters, and the faults of a simulated bench"""
    report: Path | None = None
    """folder for a page, the certificate as JSON, and the log of all readings"""
    json: bool = False
    """print the certificate as one JSON object, the last line of stdout"""

    def run(self) -> None:
        check_options(self)
        made = setup(self.device, self.seed)
        log = None if self.report is None else make_folder(self.report) / "readings.jsonl"
        with (
            Session(made.device, log=log, timeout=self.timeout, retries=self.retries) as session,
            CountBar("measured") as bar,
        ):
            found = certify(
                session,
                made.F,
                made.theta,
                self.minibatch(session),
                kind=self.kind,
                betas=self.betas,
                repeats=self.repeats,
                readings=self.readings,
                wanted=self.wanted,
                observe=bar.update,
            )
        if self.report is not None:
            found.save(self.report, [shlex.join(["eqprop", *sys.argv[1:]])])
        if self.json:
            print_json(found.to_dict())
        else:
            out.print(str(found), markup=False, highlight=False, soft_wrap=True)
        if not found.fit:
            raise SystemExit(1)

    def minibatch(self, session: Session) -> tuple[np.ndarray, np.ndarray]:
        """Digits, or else random inputs and targets within the ranges."""
        about = session.description
        try:
            check_digits(session)
        except InputError:
            draw, ends = np.random.default_rng(self.seed), about.reading_ranges[about.output]
            x = draw.uniform(about.input_range.low, about.input_range.high, (self.examples, *about.inputs))
            y = draw.uniform(ends.low / 2, ends.high / 2, (self.examples, *about.readings[about.output]))
            return x.astype(np.float32), y.astype(np.float32)
        x, y = data.load("digits").train.v
        return x[: self.examples], y[: self.examples]


@dataclass(frozen=True)
class Output:
    """where it goes, and how long a device is waited for"""

    run_dir: Path | None = None
    """folder for the settings, the history, the checkpoint and the log of all readings; None: a new one in runs/"""
    resume: Path | None = None
    """go on with the run in this folder, by its settings"""
    timeout: Seconds = 60.0
    """seconds after which a call of the device is given up"""
    retries: Times = 3
    """how often a call is repeated that failed"""
    checkpoint_seconds: Pause | None = None
    """save no more often than this, and at the end; None: 10, or as much more as keeps saving within 2 % of the time"""
    log_values: bool = False
    """log every number that is read, not only how each reading went"""
    json: bool = False
    """print the result as one JSON object, the last line of stdout"""


@dataclass(frozen=True)
class NamedRecipe(Recipe):
    """how it is trained"""

    device: Name = "simulated"
    """simulated, ngspice, or module:factory for a function that returns eqprop.bench.Setup(device, F, theta)"""


@dataclass(frozen=True)
class Train:
    """Train a device on the digits by Equilibrium Propagation, from nothing but its readings."""

    recipe: NamedRecipe
    output: Output

    def run(self) -> None:
        output, recipe = self.output, Recipe(**vars(self.recipe))
        check_options(output)
        if output.resume is not None:
            if output.run_dir is not None:
                raise InputError(
                    f"--run-dir {output.run_dir} and --resume {output.resume} exclude each other: give one"
                )
            recipe = Recipe.of(Run.open(output.resume))
        batches = recipe.feed(data.load("digits")).batches
        if output.resume is not None:
            run = Run.open(output.resume)
        else:
            run = Run.create(output.run_dir or fresh_folder("bench"), recipe.to_dict())
        with (
            resumable(["bench", "train", "--resume", str(run.folder)], run.folder, "the device is safe; "),
            TrainingBar(recipe.epochs, batches, recipe.batch_size) as bar,
        ):
            result = recipe.carry_out(
                run,
                timeout=output.timeout,
                retries=output.retries,
                checkpoint_seconds=output.checkpoint_seconds,
                values=output.log_values,
                observe=heeding(bar.update),
            )
        if output.json:
            print_json(result)
        else:
            out.print(result_table(result))
            screen.print(f"{result['repeated']} minibatches repeated, {result['skipped']} skipped", highlight=False)
            out.print(f"in {run.folder}", markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Bench:
    """Check a device, or train it: hardware in the loop."""

    action: Annotated[Check, tyro.conf.subcommand("check")] | Annotated[Train, tyro.conf.subcommand("train")]

    def run(self) -> None:
        self.action.run()
