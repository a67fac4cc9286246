"""What other energies on a graph share."""

from collections.abc import Mapping

import equinox as eqx

from eqprop.boundary import entrance
from eqprop.energy.base import Energy
from eqprop.energy.graph import Graph
from eqprop.state import Space
from eqprop.types import Array, Gain, HowMany, Key, Layers, Theta


class Variant(Energy, eqx.Module):
    """Another E(θ, x, s) on the layers and synapses of `net`, with the same θ and the same states."""

    net: Graph = eqx.field(static=True)

    @property
    def space(self) -> Space:
        """The layers that settle; their bounds are those of their activations."""
        return self.net.space

    @property
    def smooth(self) -> bool:
        """As the synapses are."""
        return self.net.smooth

    @property
    def free(self) -> dict[str, int]:
        """The layers that settle, with their numbers of units."""
        return self.net.free

    @property
    def parameters(self) -> int:
        """How many numbers the θ of `net` has."""
        return self.net.parameters

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The layers one by one."""
        return tuple((layer,) for layer in self.free)

    def check_inputs(self, x: Array) -> None:
        """Refuse inputs of a batch that do not fit, pixels that are still bytes, and what ρ does not hear."""
        self.net.check_inputs(x, self.heard)

    @property
    def heard(self) -> tuple[float, float] | None:
        """The range of inputs that the energy tells apart; None: the box of the input layer's ρ."""
        return None

    def take(self, x: Array) -> Array:
        """Inputs of a batch in the shape of the input layer, and bytes as numbers from 0 to 1."""
        return self.net.take(x)

    @entrance
    def rest(self, batch: HowMany) -> Layers:
        """The state s = 0 for `batch` examples."""
        return self.space.rest(batch)

    @entrance
    def init(self, key: Key, gain: Gain | Mapping[str, Gain] = 0.5) -> Theta:
        """The weights that `net` begins with."""
        return self.net.init(key, gain)

    def per_layer(self, values: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """A tree like θ with, for each layer, its value at its biases and at the synapses that lead to it."""
        return self.net.per_layer(values)

    def fields(self, theta: Theta) -> Array:
        """The weights by which the inputs act on the first layer they are joined to."""
        return self.net.fields(theta)
