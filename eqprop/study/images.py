"""Networks for images as a campaign: Equilibrium Propagation beside exact gradients, on the same convolutions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import jax

from eqprop.store.ranges import Count, Epochs, Positive, Seed, check_options
from eqprop.store.run import Record
from eqprop.study.campaign import Crossed, Outcome, Trial, require_names, time_is_up
from eqprop.study.experiment import Experiment
from eqprop.study.presets import preset
from eqprop.study.training import Trained

ImageSet = Literal["digits", "mnist", "fashion", "cifar10"]
DATASETS: tuple[ImageSet, ...] = ("mnist", "fashion", "cifar10")


class Way(NamedTuple):
    """A way to train the network of a data set.

    title: its name in tables.
    method: the row of `METHODS`, whose preset for the data set it begins with.
    change: what it needs besides.
    """

    title: str
    method: str
    change: Callable[[Experiment], Experiment] = lambda usual: usual


def symmetric(usual: Experiment) -> Experiment:
    """The network of the preset, nudged both ways."""
    return replace(usual, settling=replace(usual.settling, nudge="symmetric"))


def smooth(usual: Experiment) -> Experiment:
    """The same network of tanh units, with strides in place of any pooling, nudged around a circle.

    Near 0, where most units stay, tanh is the identity, as rectified units are above it: gains, rates and β serve both.
    Where tanh bends, block descent takes shorter steps: as many as it needs to settle freely, and twice as many as
    usual to carry the nudge. With softmax-weighted pooling, whose bound on the curvature is far from tight, steps
    would be too short.
    """
    return replace(
        usual,
        network=replace(usual.network, activation="tanh", pool="none"),
        settling=replace(
            usual.settling,
            nudge="holomorphic",
            free_steps=30,
            tol=1e-3,
            nudged_relaxation="block",  # all its steps are taken: the tolerance is for the free phase
            nudged_steps=2 * (usual.settling.nudged_steps or usual.depth),
        ),
    )


WAYS = {
    "symmetric": Way("EP, symmetric nudge", "equilibrium", symmetric),
    "holomorphic": Way("EP, holomorphic nudge", "equilibrium", smooth),
    "through-time": Way("Backpropagation through time", "through-time"),
    "backpropagation": Way("Backpropagation, feed-forward", "backpropagation"),
}
WayName = Literal["symmetric", "holomorphic", "through-time", "backpropagation"]


@dataclass(frozen=True)
class ImageCampaign(Crossed):
    """Which data sets, trained in which ways, and for how long.

    epochs, train, valid: in place of those of the data set.
    narrow: the channels of each layer are divided by it.
    minutes: a training ends with the last epoch that fits in; None: when its epochs are done.
    """

    command: ClassVar[str] = "eqprop reproduce images"
    file: ClassVar[str] = "images.json"
    notes_file: ClassVar[str] = "notes.json"

    datasets: tuple[ImageSet, ...] = DATASETS
    methods: tuple[WayName, ...] = tuple(WAYS)  # pyright: ignore[reportAssignmentType]
    epochs: Epochs | None = None
    train: Count | None = None
    valid: Count | None = None
    narrow: Count = 1
    minutes: Positive | None = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_options(self)
        require_names("datasets", self.datasets, get_args(ImageSet))
        require_names("methods", self.methods, WAYS)
        self.trials()  # the settings check themselves

    def experiment(self, dataset: str, method: str) -> Experiment:
        """The data set's settings, as the way needs them; images, shape and epochs are the same for all."""
        way = WAYS[method]
        usual = preset(dataset, way.method, "conv")
        asked = {"epochs": self.epochs, "train": self.train, "valid": self.valid, "seed": self.seed}
        learning = replace(usual.learning, **{name: value for name, value in asked.items() if value is not None})
        channels = tuple(max(1, width // self.narrow) for width in usual.network.hidden)
        network = replace(usual.network, hidden=channels)
        return way.change(replace(usual, network=network, learning=learning))

    def enough(self, trial: Trial, history: list[Record]) -> bool:
        """Whether the time is up."""
        return time_is_up(self.minutes, history)

    def examine(self, trained: Trained) -> dict[str, Any]:
        """How many weights there are."""
        return {"parameters": sum(leaf.size for leaf in jax.tree.leaves(trained.state.theta))}

    def page(self, folder: Path, done: list[Outcome]) -> tuple[list[str], dict[str, Any]]:
        """A table for each data set, and what it takes to do what others did."""
        from eqprop.study import images_page  # loads matplotlib, which takes its time

        return images_page.page(self, done)
