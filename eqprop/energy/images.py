"""Networks for images by name: their layers and synapses."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from eqprop.energy.activation import Activation, identity
from eqprop.energy.convolution import Convolution
from eqprop.energy.pooling import Pooling
from eqprop.energy.synapse import Synapse, between
from eqprop.errors import InputError
from eqprop.types import Shape


class Plan(NamedTuple):
    """What a network is made of: the shapes of its layers, its synapses, and the activation of each layer."""

    layers: dict[str, Shape]
    synapses: list[Synapse]
    activation: dict[str, Activation]


def convolutional(
    image: Shape,
    channels: Sequence[int],
    outputs: int | None,
    *,
    kernel: int,
    padding: int | Sequence[int] | None,
    stride: int,
    pool: Pooling | None,
    activation: Activation,
) -> Plan:
    """Convolutions in a row, and a dense output layer if there are `outputs`."""
    _check_channels(channels)
    if not isinstance(kernel, int) or kernel < 1:
        raise InputError(f"kernel={kernel!r}: give the side of the kernels, a positive whole number of pixels")
    if pool is not None and not isinstance(pool, Pooling):
        raise InputError(f"pool={pool!r}: give a pooling, as MaxPool(2), or None")
    around = _paddings(padding, kernel, len(channels))
    plan = _begin(image)
    if kernel > min(image[:2]):
        raise InputError(
            f"a kernel of {kernel} × {kernel} is larger than the {image[0]} × {image[1]} pixels of the image: "
            "take a smaller kernel"
        )
    below = "input"
    for k, (after, pixels) in enumerate(zip(channels, around, strict=True), 1):
        below = _convolve(plan, below, f"conv{k}", kernel, after, stride, pixels, pool, activation)
    return _finish(plan, below, outputs)


def residual(image: Shape, channels: Sequence[int], outputs: int | None, *, activation: Activation) -> Plan:
    """Blocks of two convolutions, the second of which halves the sides, and a skip past both."""
    _check_channels(channels)
    plan = _begin(image)
    below = "input"
    for k, after in enumerate(channels, 1):
        middle = _convolve(plan, below, f"block{k}a", 3, after, 1, 1, None, activation)
        above = _convolve(plan, middle, f"block{k}b", 3, after, 2, 1, None, activation)
        before = plan.layers[below][2]
        skip = Convolution(below, above, (1, 1, before, after), stride=2)
        skip.fit(plan.layers)
        plan.synapses.append(skip)
        below = above
    return _finish(plan, below, outputs)


def _begin(image: Shape) -> Plan:
    if np.ndim(image) != 1 or len(image) != 3 or not all(isinstance(n, int) and n > 0 for n in image):
        raise InputError(f"image={image!r}: give (height, width, channels) of the input, as (28, 28, 1)")
    return Plan({"input": tuple(image)}, [], {"input": identity})


def _convolve(
    plan: Plan,
    below: str,
    above: str,
    kernel: int,
    after: int,
    stride: int,
    padding: int,
    pool: Pooling | None,
    activation: Activation,
) -> str:
    """Add a layer, and the convolution that leads to it; the name of the layer."""
    synapse = Convolution(below, above, (kernel, kernel, plan.layers[below][2], after), stride, padding, pool)
    plan.layers[above] = synapse.output(plan.layers[below])
    plan.synapses.append(synapse)
    plan.activation[above] = activation
    return above


def _finish(plan: Plan, below: str, outputs: int | None) -> Plan:
    """A dense layer of linear outputs, if the network has outputs of its own."""
    if outputs is not None:
        plan.layers["output"] = (outputs,)
        plan.synapses.append(between(below, "output", plan.layers))
        plan.activation["output"] = identity
    return plan


def _paddings(padding: int | Sequence[int] | None, kernel: int, layers: int) -> Sequence[int]:
    """The padding of each convolution; None keeps the sides as they are at stride 1."""
    if padding is None:
        if kernel % 2 == 0:
            raise InputError(f"kernel={kernel} with padding=None: an even kernel has no middle; give the padding")
        return [kernel // 2] * layers
    around = [padding] * layers if isinstance(padding, int) else list(padding)
    if len(around) != layers:
        raise InputError(f"padding={padding!r}: give one number, or one for each of the {layers} convolutions")
    return around


def _check_channels(channels: Sequence[int]) -> None:
    if np.ndim(channels) != 1 or not len(channels) or not all(isinstance(n, int) and n > 0 for n in channels):
        raise InputError(f"channels={channels!r}: give a positive whole number of channels for each layer, as (32, 64)")
