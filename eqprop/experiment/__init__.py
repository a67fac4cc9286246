"""Experiments: settings as data, and carrying them out in a run folder."""

from eqprop.experiment.methods import METHODS, Method
from eqprop.experiment.perform import evaluate, perform, reopen, start, training_part
from eqprop.experiment.presets import PRESETS, preset
from eqprop.experiment.settings import (
    CostOptions,
    Experiment,
    LearningOptions,
    NetworkOptions,
    SettlingOptions,
)

__all__ = [
    "METHODS",
    "PRESETS",
    "CostOptions",
    "Experiment",
    "LearningOptions",
    "Method",
    "NetworkOptions",
    "SettlingOptions",
    "evaluate",
    "perform",
    "preset",
    "reopen",
    "start",
    "training_part",
]
