"""Training: feeds of minibatches, the update of one, the loop over them, epochs."""

from eqprop.train.augment import FlipAndCrop
from eqprop.train.balance import balanced
from eqprop.train.disk import OnDisk
from eqprop.train.epochs import Progress, fit
from eqprop.train.feed import Arrays, Batch, Feed, Given, InOrder, Iterated, Lanes, Shuffled, Window
from eqprop.train.layout import mesh, shardings
from eqprop.train.rates import Cosine, Rated, Staircase
from eqprop.train.stream import Stream
from eqprop.train.tracking import track
from eqprop.train.trainer import Trainer, TrainState, update

__all__ = [
    "Arrays",
    "Batch",
    "Cosine",
    "Feed",
    "FlipAndCrop",
    "Given",
    "InOrder",
    "Iterated",
    "Lanes",
    "OnDisk",
    "Progress",
    "Rated",
    "Shuffled",
    "Staircase",
    "Stream",
    "TrainState",
    "Trainer",
    "Window",
    "balanced",
    "fit",
    "mesh",
    "shardings",
    "track",
    "update",
]
