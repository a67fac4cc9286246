"""Studies: settings as data, training by them in run folders, and what comes of many such trainings.

options.py has the settings, methods.py the ways to learn, experiment.py makes a network and its trainer of them,
training.py trains. campaign.py trains several in one folder, as reproduction.py (the paper's networks) and relatives.py
(the methods beside each other) do. base.py is for small studies that keep their results in one file.
"""

from eqprop.study.base import Study
from eqprop.study.campaign import Campaign, Outcome, Trial
from eqprop.study.experiment import Experiment, Setup
from eqprop.study.methods import METHODS, Method
from eqprop.study.options import (
    CircuitOptions,
    CostOptions,
    DeviceOptions,
    ImageOptions,
    LearningOptions,
    NetworkOptions,
    SettlingOptions,
)
from eqprop.study.presets import PRESETS, preset
from eqprop.study.training import Trained, check_agreement, evaluate, experiment_of, perform, reopen, weights_of
from eqprop.study.watching import settling_maps

__all__ = [
    "METHODS",
    "PRESETS",
    "Campaign",
    "CircuitOptions",
    "CostOptions",
    "DeviceOptions",
    "Experiment",
    "ImageOptions",
    "LearningOptions",
    "Method",
    "NetworkOptions",
    "Outcome",
    "SettlingOptions",
    "Setup",
    "Study",
    "Trained",
    "Trial",
    "check_agreement",
    "evaluate",
    "experiment_of",
    "perform",
    "preset",
    "reopen",
    "settling_maps",
    "weights_of",
]
