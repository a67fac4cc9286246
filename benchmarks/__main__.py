"""python -m benchmarks [NAME …]: run the benchmarks and write docs/benchmarks/."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from benchmarks.report import FOLDER, publish
from eqprop.errors import InputError

Name = Literal[
    "schedule",
    "floor",
    "settle",
    "gradient",
    "tuned",
    "error",
    "memory",
    "growth",
    "tabular",
    "jobs",
    "images",
    "sweeps",
    "circuits",
    "fields",
    "disk",
    "live",
    "life",
    "watched",
    "scaling",
    "parallel",
    "versions",
]


def main(
    names: Annotated[tuple[Name, ...], tyro.conf.Positional] = (),
    short: bool = False,
    out: Path | None = None,
    other: Path | None = None,
) -> None:
    """Measure, print tables, and write JSON, figures and a Markdown report.

    - schedule: the paper's training step beside eager PyTorch
    - floor: a training step beside its bare matrix products
    - settle: steps to a residual, by relaxation and depth
    - gradient: how β and the number of sweeps turn the gradient
    - tuned: the β that is chosen from what is measured, beside fixed ones
    - error: seconds of training to an error on MNIST, the longest of all
    - memory: peak memory beside backpropagation through time
    - growth: how time grows with width, depth and examples
    - tabular: the estimators beside scikit-learn's perceptrons and boosted trees, on ten data sets
    - jobs: a search over settings of the estimator by one process and by two
    - images: an update of a convolutional network beside eager PyTorch and its bare convolutions
    - sweeps: how near the gradient few sweeps come on CIFAR-10
    - circuits: an update of a resistive network beside PyTorch at the schedule of published code
    - fields: an update of a vector field by each rule for one
    - disk: training from files on disk beside training from memory
    - live: the live page in a browser: paint, answers, frames
    - life: hundreds of fits of different shapes in one process, two threads, a fork
    - watched: training with what watches over it beside its bare compiled loop
    - scaling: what training over many devices would take, predicted from counts and times of one
    - parallel: two processes that train together beside one alone
    - versions: this checkout beside another one

    A process keeps to the cores that it is given: `taskset -c 1 python -m benchmarks …` leaves the others alone.

    Args:
        names: which benchmarks; none: all of them.
        short: fewer rounds and smaller problems: rough figures, much sooner.
        out: where the results go; None: docs/benchmarks, or build/benchmarks in short mode.
        other: another checkout of eqprop, as `git worktree add ../old COMMIT` makes one, for `versions`, which is left
            out without.
    """
    failed = False
    for name in names or [name for name in Name.__args__ if name != "versions" or other]:
        print(f"{name} …", flush=True)
        try:
            if name == "versions" and other is None:
                raise InputError("other: name another checkout of eqprop, by --other FOLDER")
            options = {"other": other} if name == "versions" else {}
            report = importlib.import_module(f"benchmarks.{name}").run(short, **options)
        except InputError as error:  # PyTorch or MNIST is missing: the others can do without
            print(f"error: {name}: {error}", file=sys.stderr)
            failed = True
            continue
        publish(name, report, short=short, folder=out or (Path("build/benchmarks") if short else FOLDER))
    sys.exit(failed)


if __name__ == "__main__":
    tyro.cli(main, prog="python -m benchmarks")
