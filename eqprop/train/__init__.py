"""Training: the loop, persistent particles, checkpoints, the run folder."""

from eqprop.train.balance import balanced
from eqprop.train.fit import Progress, fit
from eqprop.train.loop import Metric, Trainer, TrainState
from eqprop.train.run import Run

__all__ = ["Metric", "Progress", "Run", "TrainState", "Trainer", "balanced", "fit"]
