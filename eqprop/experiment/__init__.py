"""Experiments: settings as data, and carrying them out in a run folder."""

from eqprop.experiment.perform import evaluate, perform, start, training_part
from eqprop.experiment.presets import PRESETS
from eqprop.experiment.settings import (
    CostOptions,
    Experiment,
    LearningOptions,
    NetworkOptions,
    SettlingOptions,
)

__all__ = [
    "PRESETS",
    "CostOptions",
    "Experiment",
    "LearningOptions",
    "NetworkOptions",
    "SettlingOptions",
    "evaluate",
    "perform",
    "start",
    "training_part",
]
