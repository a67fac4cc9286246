"""The settings that a network is trained with unless others are asked for."""

from dataclasses import replace
from itertools import pairwise
from math import sqrt

from eqprop.data import NAMES, outline
from eqprop.study.experiment import IMAGE_ARCHITECTURES, Experiment
from eqprop.study.methods import METHODS
from eqprop.study.options import (
    CircuitOptions,
    CostOptions,
    ImageOptions,
    LearningOptions,
    NetworkOptions,
    SettlingOptions,
)


def _convolutional(
    dataset: str,
    channels: tuple[int, ...],
    images: ImageOptions,
    settling: SettlingOptions,
    learning: LearningOptions,
    gains: tuple[float, ...],
) -> Experiment:
    """Convolutions that take every other pixel, rectified units, and a readout.

    Without pooling no switch jumps, so that states cut short differ smoothly between the two nudges. Gains of 0.6
    behind the first layer make feedback weak: two to four sweeps there and back nearly settle. Activities then fall
    from layer to layer, which large weights of the readout make up for; with those, β is small. Rates in proportion to
    the gains let all layers change by about the same share.
    """
    return Experiment(
        dataset,
        network=NetworkOptions(hidden=channels, architecture="conv", pool="none", activation="relu6", gains=gains),
        cost=CostOptions(cost="readout"),
        settling=replace(settling, omega=1.0, order="both"),
        learning=replace(learning, batch_size=64, schedule="cosine"),
        images=images,
    )


def _on_colours(dataset: str) -> Experiment:
    return _convolutional(
        dataset,
        (64, 128, 256, 256),
        ImageOptions(normalise=True, flip=True, crop=4),
        SettlingOptions(beta=0.001, free_steps=2, nudged_steps=1),
        LearningOptions(epochs=20, learning_rate=(0.0014, 0.00035, 0.00035, 0.00035, 0.03)),
        (2.4, 0.6, 0.6, 0.6, 30.0),
    )


def _on_grey(
    dataset: str,
    images: ImageOptions,
    settling: SettlingOptions,
    epochs: int,
    rates: tuple[float, float, float, float],
    first: float,
) -> Experiment:
    """`first`: the gain of the first layer, which depends on how much its inputs vary.

    What still moves when the free phase is cut short goes on to move while nudged, and turns the gradient of the first
    layer. On Fashion-MNIST weights grow so far within some epochs that four sweeps, enough on MNIST, are too few.
    """
    learning = LearningOptions(epochs=epochs, learning_rate=rates)
    return _convolutional(dataset, (64, 128, 128), images, settling, learning, (first, 0.6, 0.6, 20.0))


def _circuit(dataset: str, method: str, hidden: tuple[int, ...] | None) -> Experiment:
    """A circuit of resistors and ideal diodes.

    Rates are a share of the mean conductance that a crossbar begins with, so that all change alike, whatever the sizes.
    """
    small = dataset == "digits"
    inputs, outputs = outline(dataset).widths
    hidden = hidden or ((100,) if small else (1024,))
    nodes = (2 * inputs + 2, *hidden, outputs)
    rates = tuple(RELATIVE_RATE / sqrt(pre * post) for pre, post in pairwise(nodes))
    return Experiment(
        dataset,
        network=NetworkOptions(hidden=hidden, architecture="resistive", gain=1.0),
        settling=SettlingOptions(beta=1.0, omega=1.0, free_steps=4, nudged_steps=4),
        learning=LearningOptions(
            method=method, epochs=30, batch_size=10 if small else 32, learning_rate=rates, schedule="cosine"
        ),
        circuit=CircuitOptions(input_gain=100.0 if small else 200.0),
    )


RELATIVE_RATE = 0.03
WITHIN, BETWEEN = 0.25, 2.0  # gains within a block and from block to block
LEAST_SIDE = 16  # of images for which three or four convolutions halve the sides
SMALL = Experiment(
    "digits",
    network=NetworkOptions(hidden=(16, 32), architecture="conv", gain=1.0),
    cost=CostOptions(cost="readout"),
    settling=SettlingOptions(beta=0.5, omega=1.0, order="both", free_steps=2, nudged_steps=2),
    learning=LearningOptions(epochs=10, batch_size=16, learning_rate=(0.005,), schedule="cosine"),
)
IMAGES = {
    "digits": SMALL,
    "mnist": _on_grey(
        "mnist",
        ImageOptions(crop=2),
        SettlingOptions(beta=0.0005, free_steps=4, nudged_steps=1),
        8,
        (0.0047, 0.00035, 0.00035, 0.01),
        8.0,
    ),
    "fashion": _on_grey(
        "fashion",
        ImageOptions(normalise=True, flip=True, crop=1),
        SettlingOptions(beta=0.001, free_steps=6, nudged_steps=1),
        28,
        (0.003, 0.0007, 0.0007, 0.02),
        2.6,
    ),
    "cifar10": _on_colours("cifar10"),
    "cifar100": _on_colours("cifar100"),
}
PRESETS = {name: Experiment(name) for name in NAMES} | {
    "digits": Experiment(
        "digits",
        settling=SettlingOptions(beta=0.9),
        learning=LearningOptions(epochs=20, batch_size=10, decay=0.9),
    ),
    "cifar10": IMAGES["cifar10"],
    "cifar100": IMAGES["cifar100"],
}


def preset(
    dataset: str, method: str = "equilibrium", architecture: str = "layered", hidden: tuple[int, ...] | None = None
) -> Experiment:
    """The settings for a data set, with what the method and the architecture need besides.

    Noise leaves any bounds: it takes an activation that is nowhere flat, and a nudge that is stable without bounds.
    Synapses within a layer make the steps of block descent short: gradient steps take their place. Where there are
    gains and rates for each layer, they are as many as `hidden` needs, if it is given.
    """
    if architecture == "resistive":
        return _circuit(dataset, method, hidden)
    convolves = architecture in IMAGE_ARCHITECTURES
    usual = _for_images(dataset) if convolves else PRESETS.get(dataset) or Experiment(dataset)
    if usual.convolves and not convolves:  # CIFAR as vectors
        usual = Experiment(dataset)
    if hidden and architecture == "conv" and usual.network.gains:
        usual = _as_deep_as(hidden, usual)
    network = replace(usual.network, architecture=architecture)
    if architecture == "residual":
        network = replace(network, activation="relu6", pool=NetworkOptions().pool)
    if architecture == "residual" and network.gains:  # those gains are for other synapses
        network = replace(network, gains=(), gain=0.6)
        settling = replace(usual.settling, beta=0.2, nudged_steps=2)
        learning = replace(usual.learning, learning_rate=(0.0003,))
        usual = replace(usual, cost=CostOptions(), settling=settling, learning=learning)
    settling, learning = usual.settling, replace(usual.learning, method=method)
    if METHODS[method].noise:
        network = replace(network, activation="tanh")
    if METHODS[method].noise or METHODS[method].beta is not None:  # the β of the data set is for other nudges
        settling = replace(settling, beta=None)
    if (block := METHODS[method].block) and architecture == "layered":
        network = _in_blocks(network, hidden or (100,) * (3 * block - 1), block)
    if METHODS[method].moving and not convolves:
        settling, learning = _moving(usual, len(hidden or network.hidden) + 1, method)
    if architecture == "fully-connected":
        settling = replace(settling, relaxation="gradient")
    return replace(usual, network=network, settling=settling, learning=learning)


def _in_blocks(network: NetworkOptions, hidden: tuple[int, ...], block: int) -> NetworkOptions:
    """Layers in blocks that settle one after the other, by default three blocks.

    Weights within a block begin small, so that what layers send back and forth fades, and those from block to block so
    much larger that signals keep their size: what goes there does not come back.
    """
    between = [BETWEEN if k % block == 0 else WITHIN for k in range(1, len(hidden))]
    return replace(network, hidden=hidden, gains=(1.0, *between, network.gain))


def _moving(usual: Experiment, depth: int, method: str) -> tuple[SettlingOptions, LearningOptions]:
    """Settings for weights that move while the network settles.

    What a weight learns in a step makes the states move further in the next, the more so the larger the inputs are: so
    steps are short, and rates small on large images. Layers behind the first learn at half its rate.
    """
    shared = replace(usual.learning, method=method, optimizer="sgd")
    if usual.dataset == "digits":
        settling = SettlingOptions(
            beta=0.5, nudged_relaxation="gradient", epsilon=0.3, free_steps=3 * depth, nudged_steps=4 * depth
        )
        rates = (0.1, *(0.05,) * (depth - 1))
        return settling, replace(shared, learning_rate=rates, epochs=30, batch_size=10, decay=0.95)
    settling = SettlingOptions(beta=0.5, omega=0.8, free_steps=4 * depth, nudged_steps=depth + 1)
    rates = (0.03, *(0.015,) * (depth - 1))
    return settling, replace(shared, learning_rate=rates, epochs=30, batch_size=20, decay=0.96)


def _for_images(dataset: str) -> Experiment:
    """The settings for images; those of others are as for a data set whose images are alike."""
    if dataset in IMAGES:
        return IMAGES[dataset]
    height, width, channels = outline(dataset).image
    like = "digits" if min(height, width) < LEAST_SIDE else "mnist" if channels == 1 else "cifar10"
    near = IMAGES[like]
    return replace(near, dataset=dataset, images=replace(near.images, flip=False))


def _as_deep_as(hidden: tuple[int, ...], usual: Experiment) -> Experiment:
    """The settings with these channels; all layers between the first and the readout have the values of the second."""

    def spread(each: tuple[float, ...]) -> tuple[float, ...]:
        return (each[0], *each[1:2] * (len(hidden) - 1), each[-1])

    network = replace(usual.network, hidden=hidden, gains=spread(usual.network.gains))
    learning = replace(usual.learning, learning_rate=spread(usual.learning.learning_rate))
    return replace(usual, network=network, learning=learning)
