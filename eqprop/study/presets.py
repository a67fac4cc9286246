"""The settings that a network is trained with unless others are asked for."""

from dataclasses import replace

from eqprop.study.experiment import IMAGE_ARCHITECTURES, Experiment
from eqprop.study.methods import METHODS
from eqprop.study.options import CostOptions, ImageOptions, LearningOptions, NetworkOptions, SettlingOptions


def _convolutional(
    dataset: str, channels: tuple[int, ...], epochs: int, images: ImageOptions, gain: float
) -> Experiment:
    """Convolutions with pooling: a few sweeps there and back, gentle nudges, a rate that falls along a cosine."""
    return Experiment(
        dataset,
        network=NetworkOptions(hidden=channels, architecture="conv", gain=gain),
        settling=SettlingOptions(beta=0.2, omega=1.0, order="both", free_steps=2, nudged_steps=2),
        learning=LearningOptions(epochs=epochs, batch_size=64, learning_rate=(0.0003,), schedule="cosine"),
        images=images,
    )


def _read_out(usual: Experiment) -> Experiment:
    """Small images leave few units to the outputs: a readout learns them, where a layer of outputs stays silent."""
    settling = replace(usual.settling, beta=0.5)
    learning = replace(usual.learning, batch_size=16, learning_rate=(0.005,))
    return replace(usual, cost=CostOptions(cost="readout"), settling=settling, learning=learning)


CIFAR = ImageOptions(normalise=True, flip=True, crop=4)
IMAGES = {
    "digits": _read_out(_convolutional("digits", (16, 32), 10, ImageOptions(), 1.0)),
    "mnist": _convolutional("mnist", (32, 64), 10, ImageOptions(crop=2), 0.6),
    "fashion": _convolutional("fashion", (32, 64), 10, ImageOptions(flip=True, crop=2), 0.6),
    "cifar10": _convolutional("cifar10", (32, 64, 128, 128), 20, CIFAR, 1.0),
    "cifar100": _convolutional("cifar100", (32, 64, 128, 128), 20, CIFAR, 1.0),
}
PRESETS = {
    "digits": Experiment(
        "digits",
        settling=SettlingOptions(beta=0.9),
        learning=LearningOptions(epochs=20, batch_size=10, decay=0.9),
    ),
    "mnist": Experiment("mnist"),
    "fashion": Experiment("fashion"),
    "cifar10": IMAGES["cifar10"],
    "cifar100": IMAGES["cifar100"],
}


def preset(dataset: str, method: str = "equilibrium", architecture: str = "layered") -> Experiment:
    """The settings for a data set, with what the method and the architecture need besides.

    Noise leaves any bounds: it takes an activation that is nowhere flat, and a nudge that is stable without bounds.
    Synapses within a layer make the steps of block descent short: gradient steps take their place.
    """
    convolves = architecture in IMAGE_ARCHITECTURES
    usual = IMAGES[dataset] if convolves else PRESETS[dataset]
    if usual.convolves and not convolves:  # CIFAR as vectors
        usual = Experiment(dataset)
    network = replace(usual.network, architecture=architecture)
    if architecture == "residual":
        network = replace(network, activation="relu6")
    settling, learning = usual.settling, replace(usual.learning, method=method)
    if METHODS[method].noise:
        network, settling = replace(network, activation="tanh"), replace(settling, beta=None)
    if architecture == "fully-connected":
        settling = replace(settling, relaxation="gradient")
    return replace(usual, network=network, settling=settling, learning=learning)
