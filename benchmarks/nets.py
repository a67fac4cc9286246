"""Trained networks to measure on: trained once by the default recipe, then kept in the data cache."""

import hashlib
from dataclasses import replace
from typing import Any, NamedTuple

from eqprop.data import Dataset, load
from eqprop.data.cache import cache_folder
from eqprop.energy import Hopfield
from eqprop.store import Run
from eqprop.study import PRESETS, Experiment, perform
from eqprop.train import Trainer
from eqprop.types import Theta


class Trained(NamedTuple):
    """A network of `hidden` layers of 500 units, its trainer, its weights and its data."""

    net: Hopfield
    trainer: Trainer
    theta: Theta
    data: Dataset


def recipe(hidden: int, **learning: Any) -> Experiment:
    """The default recipe on MNIST for a number of hidden layers."""
    preset = PRESETS["mnist"]
    network = replace(preset.network, hidden=(500,) * hidden)
    return replace(preset, network=network, learning=replace(preset.learning, **learning))


def trained(hidden: int, *, short: bool) -> Trained:
    """Five passes over 20,000 images, or half as many for more than three layers; in short mode over 4,000."""
    experiment = recipe(hidden, train=4000 if short else 20_000 if hidden <= 3 else 10_000, epochs=5)
    config, data = experiment.to_dict(), load("mnist", on_event=print)
    setup = experiment.build(data)
    assert isinstance(setup.net, Hopfield)
    # Named by all that decides the weights, defaults filled in, so that a new recipe trains new networks.
    decisive = repr((config, setup.trainer.rule, experiment.rates))
    mark = hashlib.sha256(decisive.encode()).hexdigest()[:12]
    folder = cache_folder("benchmarks") / f"{hidden}-hidden-{mark}"
    run = Run.open(folder) if (folder / "config.json").exists() else Run.create(folder, config)
    if not (folder / "result.json").exists():
        print(f"training a network of {hidden} hidden layers …", flush=True)
        perform(setup, run)
    theta, _ = run.load_weights(setup.state.theta)
    return Trained(setup.net, setup.trainer, theta, data)
