"""What others trained on CIFAR-10 by Equilibrium Propagation, as settings of `eqprop train`; and what it takes."""

import shlex
from dataclasses import dataclass
from math import sqrt
from typing import Any

from eqprop.study.experiment import Experiment
from eqprop.study.operations import training
from eqprop.study.options import CostOptions, ImageOptions, LearningOptions, NetworkOptions, SettlingOptions
from eqprop.study.presets import preset

IMAGE, CLASSES, IMAGES = (32, 32, 3), 10, 50_000
THROUGHPUT = 36e12
"""Operations a second of one GPU: what the code of recipe B comes to on an A100, where 100 epochs of 60 + 2 × 20
iterations of 0.77 GFLOP take about 3 hours."""


@dataclass(frozen=True)
class Recipe:
    """A published training.

    source: who trained it.
    result: what they report.
    experiment: the settings, in our terms.
    differs: what they did that is not there, or not the same.
    """

    source: str
    result: str
    experiment: Experiment
    differs: str

    @property
    def operations(self) -> int:
        """Of the whole training."""
        return training(self.experiment, IMAGE, CLASSES, IMAGES)

    @property
    def hours(self) -> float:
        """On one GPU of the `THROUGHPUT`."""
        return self.operations / THROUGHPUT / 3600


def command(experiment: Experiment) -> str:
    """The `eqprop train` that carries an experiment out: all that differs from the settings of its data set."""
    usual = preset(experiment.dataset, experiment.learning.method, experiment.network.architecture).flat()
    words = ["eqprop", "train", experiment.dataset, "--net", experiment.network.architecture]
    if experiment.learning.method != LearningOptions().method:
        words += ["--method", experiment.learning.method]
    for name, value in experiment.flat().items():
        if value != usual[name]:
            words += option(name, value)
    return shlex.join(words)


def option(name: str, value: Any) -> list[str]:
    """A setting as an option of `eqprop train`."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", *map(str, value if isinstance(value, tuple) else [value])]


def _glorot(gain: float, inputs: int, outputs: int) -> float:
    """The gain of a dense synapse, in units of Glorot & Bengio's range, that begins in ±gain/√inputs."""
    return round(gain / sqrt(inputs) / sqrt(6 / (inputs + outputs)), 4)


CHANNELS = (128, 256, 512, 512)
VIEWS = ImageOptions(normalise=True, deviations=2.4, flip=True, crop=4)
SGD: dict[str, Any] = {
    "batch_size": 128,
    "optimizer": "sgd",
    "momentum": 0.9,
    "schedule": "cosine",
    "valid": 0,
}
RECIPES = {
    # With ρ(u) = 0 ∨ u/2 ∧ 1 they have E = ‖r‖² − Φ in the rates r = u/2, which is half of ours if our weights are
    # twice theirs. So β is doubled, and rates of these weights are four times theirs; the readout sees u and not r, so
    # its weights are half of theirs, and their rate a quarter.
    "A": Recipe(
        "Laborieux et al. 2021",
        "88.3 %",
        Experiment(
            "cifar10",
            NetworkOptions(
                hidden=CHANNELS,
                architecture="conv",
                activation="half_sigmoid",
                padding=(1, 1, 1, 0),
                gains=(2.0, 2.0, 2.0, 2.0, 0.5),
            ),
            CostOptions(cost="readout"),
            SettlingOptions(relaxation="gradient", epsilon=1.0, beta=2.0, free_steps=250, nudged_steps=25),
            LearningOptions(epochs=120, learning_rate=(1.0, 0.6, 0.4, 0.32, 0.0125), weight_decay=0.000075, **SGD),
            VIEWS,
        ),
        "Their cosine reaches its end after 100 epochs. Weight decay is that of the convolutions; the readout's would "
        "be 16 times as strong. Biases begin at 0.",
    ),
    "B": Recipe(
        "Scellier et al. 2023",
        "about 90 %",
        Experiment(
            "cifar10",
            NetworkOptions(
                hidden=CHANNELS, architecture="conv", gains=(0.4, 0.7, 0.6, 0.3, _glorot(0.4, 2048, CLASSES))
            ),
            CostOptions(),
            SettlingOptions(beta=0.1, omega=1.0, free_steps=60, nudged_steps=20, carry=True),
            LearningOptions(epochs=300, learning_rate=(0.03,), weight_decay=0.00025, **SGD),
            VIEWS,
        ),
        "Layers are visited in a row, not the odd ones and then the even ones. Biases begin at 0.",
    ),
    "C": Recipe(
        "Hopfield-ResNet13, 2025",
        "93.92 %",
        Experiment(
            "cifar10",
            NetworkOptions(
                hidden=CHANNELS,
                architecture="residual",
                activation="relu6",
                gains=(0.6, 0.6, 0.7, *(0.6, 0.7, 0.6) * 3, _glorot(0.8, 2048, CLASSES)),
            ),
            CostOptions(),
            SettlingOptions(beta=0.1, omega=1.0, free_steps=120, nudged_steps=50),
            LearningOptions(epochs=300, learning_rate=(0.03,), nesterov=True, weight_decay=0.00025, **SGD),
            VIEWS,
        ),
        "RandAugment is not built: flips and crops take its place. Layers are visited in a row. Biases begin at 0.",
    ),
}
