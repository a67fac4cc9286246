"""What attacks on files begin with: runs of this version and of an earlier one, estimators, a network; and readers.

Each reader says what it read, so that a change which nobody noticed is seen.
"""

import hashlib
import shlex
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import eqprop as ep
from campaign.base import FINE, Outcome, judged
from eqprop import data
from eqprop.cli.main import main
from eqprop.sklearn import EqPropClassifier, EqPropRegressor
from eqprop.study import experiment_of, weights_of
from eqprop.study.training import check_made_with

HERE = Path(__file__).parent
OLD = HERE.parent / "tests" / "data" / "0.1.0"
SMALL = shlex.split("train digits --train 60 --hidden 5 --epochs 2 --batch-size 20 --beta 0.5")


@cache
def originals() -> Path:
    """A folder with all of them, made once in a process."""
    place = Path.cwd() / "originals"
    place.mkdir()
    shutil.copytree(OLD, place / "old")
    if status := main([*SMALL, "--run-dir", str(place / "run"), "--json"]):
        raise RuntimeError(f"a training ended with status {status}")
    for path in (place / "run").glob("*.png"):
        path.unlink()
    net = ep.Hopfield.layered(3, 4, 2)
    trainer = ep.Trainer(ep.Total(net, ep.SquaredError()), ep.EquilibriumPropagation(), optax.sgd(0.1))
    ep.save(place / "network.safetensors", trainer, net.init(jax.random.key(0)))
    return place


@cache
def like(of: str) -> Any:
    """What a run is put together from, apart from its weights."""
    return experiment_of(ep.Run(originals() / of)).build(data.load("digits"))


def read_run(of: str) -> Callable[[Path], Any]:
    """As `train --resume` and `evaluate` read it, up to where they compute."""

    def read(place: Path) -> Any:
        run, setup = ep.Run.open(place / of), like(of)
        experiment = experiment_of(run)
        check_made_with(run, "checkpoint", experiment)
        state, history, seconds = run.load(setup.state)
        theta, epochs = weights_of(setup._replace(experiment=experiment), run)
        _ = run.read_history(), run.read_result()  # which nothing depends on
        settings = experiment.without_idle().flat()
        settings.pop("epochs")  # which may change
        return print_of(state), print_of(theta), history, seconds, epochs, repr(settings)

    return read


def read_estimator(kind: Any, name: str) -> Callable[[Path], Any]:
    def read(place: Path) -> Any:
        found = vars(kind.load(place / "old" / name))
        return {key: print_of(value) for key, value in found.items() if key.endswith("_")}

    return read


def read_network(place: Path) -> Any:
    trainer, theta = ep.load(place / "network.safetensors")
    return print_of(theta), repr(trainer.F), repr(trainer.rule)


def print_of(tree: Any) -> str:
    """A fingerprint of all arrays and numbers in a tree."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        key = jnp.issubdtype(getattr(leaf, "dtype", int), jax.dtypes.extended)
        plain = jax.random.key_data(leaf) if key else leaf
        digest.update(repr((type(plain), plain) if isinstance(plain, str) else np.asarray(plain).tobytes()).encode())
    return digest.hexdigest()


READERS: dict[str, Callable[[Path], Any]] = {
    "run": read_run("run"),
    "old": read_run("old/run"),
    "classifier": read_estimator(EqPropClassifier, "classifier.safetensors"),
    "regressor": read_estimator(EqPropRegressor, "regressor.safetensors"),
    "network": read_network,
}
IN_RUN = ("config.json", "checkpoint.safetensors", "weights.safetensors", "history.jsonl", "result.json")
FILES = {
    "run": [f"run/{name}" for name in (*IN_RUN, "data.json")],
    "old": [f"old/run/{name}" for name in IN_RUN],
    "classifier": ["old/classifier.safetensors"],
    "regressor": ["old/regressor.safetensors"],
    "network": ["network.safetensors"],
}
UNSIGNED = {"old/run/config.json"}  # of 0.1.0, whose checkpoints do not know their settings


def prepare() -> None:
    """Make the originals, and read them."""
    for of in READERS:
        before(of)


@cache
def before(of: str) -> Any:
    """What a reader read when all was well."""
    return READERS[of](originals())


def copied(folder: Path) -> Path:
    """The originals, to be spoilt."""
    shutil.copytree(originals(), folder, dirs_exist_ok=True)
    return folder


def read_spoilt(of: str, place: Path, name: str, signed: bool = False) -> Outcome:
    """What comes of reading; what is read must be what was there, unless the file was `signed` anew."""
    outcome, found = judged(lambda: READERS[of](place))
    if outcome.word == FINE and found != before(of) and not signed and name not in UNSIGNED:
        return Outcome("lost", f"{name} was changed, and read without a word")
    return outcome
