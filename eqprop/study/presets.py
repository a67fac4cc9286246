"""The settings that a network is trained with unless others are asked for."""

from dataclasses import replace

from eqprop.study.experiment import Experiment
from eqprop.study.methods import METHODS
from eqprop.study.options import LearningOptions, SettlingOptions

PRESETS = {
    "digits": Experiment(
        "digits",
        settling=SettlingOptions(beta=0.9),
        learning=LearningOptions(epochs=20, batch_size=10, decay=0.9),
    ),
    "mnist": Experiment("mnist"),
    "fashion": Experiment("fashion"),
}


def preset(dataset: str, method: str = "equilibrium", architecture: str = "layered") -> Experiment:
    """The settings for a data set, with what the method and the architecture need besides.

    Noise leaves any bounds: it takes an activation that is nowhere flat, and a nudge that is stable without bounds.
    Synapses within a layer make the steps of block descent short: gradient steps take their place.
    """
    usual = PRESETS[dataset]
    network = replace(usual.network, architecture=architecture)
    settling, learning = usual.settling, replace(usual.learning, method=method)
    if METHODS[method].noise:
        network, settling = replace(network, activation="tanh"), replace(settling, beta=None)
    if architecture == "fully-connected":
        settling = replace(settling, relaxation="gradient")
    return replace(usual, network=network, settling=settling, learning=learning)
