"""The continuous Hopfield model on any symmetric architecture (paper, section 2.1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp

from eqprop.energy import images
from eqprop.energy.activation import Activation, hard_sigmoid, relu6
from eqprop.energy.base import Blockwise, Energy, Interacting
from eqprop.energy.graph import Graph
from eqprop.energy.pooling import MaxPool, Pooling
from eqprop.types import Array, Layers, Scalar, Shape, Theta

HALVED = MaxPool(2)


@dataclass(frozen=True, init=False, repr=False)
class Hopfield(Graph, Energy, Blockwise, Interacting):
    """Named layers joined by symmetric synapses.

        E(θ, x, s) = ½ Σ_i s_i² − Φ(ρ(x), ρ(s)),    Φ = ½ Σ_{i≠j} W_ij ρ(u_i) ρ(u_j) + Σ_i b_i ρ(u_i)

    where u = (x, s): the layer `clamped` holds the input x and never moves, all others form the state s, a
    dict with one array per layer. θ is {"W": {"pre-post": …}, "b": {layer: …}}. The constant ½ Σ x_i² and
    the inputs' biases, which no state can change, are left out. Mind that inputs act through ρ(x): the hard
    sigmoid hears nothing outside [0, 1], so scale them to it.

    Layered, skip-connected and fully connected networks differ in their list of `synapses` only: pairs of
    layer names, where a layer paired with itself has every pair of its own units connected, or objects of any
    `Synapse`. Layers may have any shape. The object holds no weights, is hashable, and is called as an energy.
    """

    @classmethod
    def convolutional(
        cls,
        image: Shape,
        channels: Sequence[int],
        outputs: int | None = None,
        *,
        kernel: int = 3,
        padding: int | Sequence[int] | None = None,
        stride: int = 1,
        pool: Pooling | None = HALVED,
        activation: Activation = hard_sigmoid,
    ) -> Self:
        """Convolutions in a row, each followed by pooling, and a dense layer of linear outputs.

        image: (height, width, channels) of the input, which enters as it is.
        channels: of each layer, called conv1, conv2, …
        outputs: units of the output layer; None for a network without, which a `SoftmaxReadout` reads.
        kernel, padding, stride: of the convolutions; without a padding, sides stay as they are at stride 1. A padding
            may be given for each layer.
        pool: what each convolution is followed by; None for nothing.

        Scellier et al. (2023) take 128, 256, 512 and 512 channels for CIFAR-10, hard sigmoids and max-pooling:

            >>> net = Hopfield.convolutional((32, 32, 3), (128, 256, 512, 512), 10)
            >>> net.shapes["conv1"], net.shapes["conv4"], net.parameters
            ((16, 16, 128), (2, 2, 512), 3859210)
        """
        plan = images.convolutional(
            image,
            channels,
            outputs,
            kernel=kernel,
            padding=padding,
            stride=stride,
            pool=pool,
            activation=activation,
        )
        return cls(plan.layers, plan.synapses, activation=plan.activation)

    @classmethod
    def residual(
        cls, image: Shape, channels: Sequence[int], outputs: int | None = None, *, activation: Activation = relu6
    ) -> Self:
        """Blocks of two 3 × 3 convolutions, the second of stride 2, with a 1 × 1 skip of stride 2 past both.

        image, channels, outputs: as in `convolutional`, with the channels of each block. The layers are block1a,
        block1b, block2a, …; there is no pooling.

        The Hopfield-ResNet13 for CIFAR-10:

            >>> net = Hopfield.residual((32, 32, 3), (128, 256, 512, 512), 10)
            >>> len(net.synapses), net.shapes["block1a"], net.shapes["block4b"]
            (13, (32, 32, 128), (2, 2, 512))
        """
        plan = images.residual(image, channels, outputs, activation=activation)
        return cls(plan.layers, plan.synapses, activation=plan.activation)

    def __call__(self, theta: Theta, x: Array, s: Layers) -> Scalar:
        self.check(theta, x, s)
        leak = sum(jnp.sum(u**2) for u in s.values()) / 2
        return leak - self.phi(theta, self.rates(x, s))

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The layers one by one: the first sweep from rest is then a feed-forward pass."""
        return tuple((layer,) for layer in self.free)

    def curvature(self, theta: Theta, x: Array, s: Layers, block: tuple[str, ...]) -> dict[str, Array | float]:
        """For each layer of `block` a bound on ∂²E/∂s² while the other blocks stay put.

        1, the leak, and what ρ and the units' coupling add (`Activation.curvature`). Exactly 1 for the hard sigmoid
        without lateral synapses, where E is ½ s² − a s in a unit.
        """
        rates = self.rates(x, s)

        def bound(layer: str) -> Array | float:
            r = self.coupling(theta["W"], rates, layer)
            return 1 + self.rho[layer].curvature(lambda: jax.grad(self.phi, argnums=1)(theta, rates)[layer], r)

        return {layer: bound(layer) for layer in block}


ARCHITECTURES: dict[str, Callable[..., Hopfield]] = {
    "layered": Hopfield.layered,
    "skip": Hopfield.skip,
    "fully-connected": Hopfield.fully_connected,
}
