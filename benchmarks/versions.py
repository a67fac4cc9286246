"""Another checkout of eqprop beside this one: is any of what is done most slower than it was?"""

import compileall
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.apart import one_core
from benchmarks.nets import trained
from benchmarks.report import Report
from benchmarks.timing import spread
from eqprop.errors import InputError
from eqprop.tree import named

HERE = Path(__file__).parent.parent
TASKS = ("default", "published", "settling")
IMAGES = 500

TEXT = """
This checkout ({here}) and another one ({there}): ratios of time, below 1 where this one is
quicker. Each round starts a fresh process of either, on the same core; the two then take turns, and each begins every
other turn. *CPU* is the time of the processor, which other work on the machine disturbs less than *wall*, that of the
clock. *Least* is the ratio of the least CPU times of all turns. *Default* trains with the settings of
`eqprop train mnist`, *published* with those of `eqprop reproduce as-published`: gathering, rule, optimizer and metrics,
in the compiled loop. *Settling* takes {images} MNIST images from rest to a residual of 1e-4, by the free phase of
`EquilibriumPropagation()`, with weights that were trained on 4,000 images for five epochs. *First call*: the first
minibatches, or images, in a fresh process, for which the program is traced and compiled. *Import* is that of `eqprop`,
whose files Python has compiled to bytecode before.
"""


class Contender:
    """A process of one version, on one core, which does what it is asked to and nothing at other times."""

    def __init__(self, checkout: Path, weights: Path, pieces: dict[str, int], cores: list[int]):
        script = Path(__file__).parent / "contender.py"
        command = [sys.executable, "-P", str(script), str(weights), json.dumps(pieces), json.dumps(cores)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
        self.process = subprocess.Popen(
            command,
            env=kept | {"PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.imported = self.answer()

    def __call__(self, task: str) -> dict[str, Any]:
        assert self.process.stdin
        print(task, file=self.process.stdin, flush=True)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise InputError(f"other: a process of {self.process.args} ended: its error is above")
        return json.loads(line)

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def run(short: bool, other: Path) -> Report:
    if not (other / "eqprop" / "__init__.py").exists():
        raise InputError(f"other={other}: there is no eqprop in it; make one by `git worktree add {other} COMMIT`")
    rounds, turns = (1, 3) if short else (7, 3)
    for checkout in (other, HERE):  # as Python does itself at a first import, unless it is told not to
        compileall.compile_dir(checkout / "eqprop", quiet=1)
    times: dict[tuple[str, str], list[tuple[dict[str, Any], ...]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        weights = {hidden: keep(hidden, Path(folder) / f"{hidden}.npz") for hidden in (1, 2, 3)}
        for number, hidden in product(range(rounds), weights):
            minibatches, published = {1: (20, 50), 2: (10, 5), 3: (5, 1)}[hidden]
            pieces = {"default": minibatches, "published": published, "settling": IMAGES}
            network = "-".join(["784", *["500"] * hidden, "10"])
            for (task, first), pair in compete([other, HERE], weights[hidden], pieces, turns, number):
                name = f"{task}, first call" if first else task
                times.setdefault((name, "any" if task == "import" else network), []).append(pair)
            print(f"  round {number + 1} of {rounds}: {network}", flush=True)
    rows = [row(name, network, times[name, network]) for name, network in sorted(times)]
    text = TEXT.format(here=commit(HERE), there=commit(other), images=IMAGES)
    return Report("Versions: this one beside another", text, rows, options=f"--other {other}")


def keep(hidden: int, path: Path) -> Path:
    """A file with trained weights and images, which any version can read."""
    _, _, theta, data = trained(hidden, short=True)
    x, y = data.train[:1000].v
    arrays: dict[str, Any] = {"x": x, "y": y} | {name: np.asarray(w) for name, w in named(theta).items()}
    np.savez(path, **arrays)
    return path


def compete(
    checkouts: list[Path], weights: Path, pieces: dict[str, int], turns: int, number: int
) -> Iterable[tuple[tuple[str, bool], tuple[dict[str, Any], ...]]]:
    """What both took for each task in turns, as pairs in the order of the checkouts, and whether it was the first."""
    order = (0, 1) if number % 2 == 0 else (1, 0)
    cores = list(one_core() or ())
    contenders = {k: Contender(checkouts[k], weights, pieces, cores) for k in order}
    yield ("import", False), tuple(contenders[k].imported for k in (0, 1))
    for task in TASKS:
        for turn in range(turns + 1):
            order = order[::-1]
            took = {k: contenders[k](task) for k in order}
            if not np.allclose(took[0]["result"], took[1]["result"], rtol=0.01):
                steps = [took[k]["result"] for k in (0, 1)]
                raise InputError(f"other: {task} takes {steps[0]} steps there and {steps[1]} here: not the same work")
            yield (task, turn == 0), (took[0], took[1])
    for contender in contenders.values():
        contender.end()


def row(name: str, network: str, pairs: list[tuple[dict[str, Any], ...]]) -> dict[str, Any]:
    cpu, wall = (np.array([[side[clock] for side in pair] for pair in pairs]) for clock in ("cpu", "wall"))
    return {
        "what": name,
        "network": network,
        "there, CPU ms": spread(1000 * cpu[:, 0]),
        "here, CPU ms": spread(1000 * cpu[:, 1]),
        "CPU, ratio": spread(cpu[:, 1] / cpu[:, 0]),
        "least": float(cpu[:, 1].min() / cpu[:, 0].min()),
        "wall, ratio": spread(wall[:, 1] / wall[:, 0]),
        "times": len(pairs),
    }


def commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "log", "-1", "--format=%h of %cs"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or str(checkout)
