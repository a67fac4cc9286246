"""What energies on the layers and synapses of a Hopfield network share with it."""

import abc
from collections.abc import Mapping
from typing import Any

import equinox as eqx
from jax import Array

from eqprop.energy.hopfield import Hopfield, State, Theta
from eqprop.energy.synapse import name
from eqprop.errors import InputError


class Variant(eqx.Module):
    """Another E(θ, x, s) on the layers and synapses of `net`, with the same θ and the same states."""

    net: Hopfield = eqx.field(static=True)

    @abc.abstractmethod
    def __call__(self, theta: Any, x: Array, s: State) -> Array: ...

    @property
    def free(self) -> dict[str, int]:
        """The layers that settle, with their sizes."""
        return self.net.free

    @property
    def box(self) -> tuple[float, float]:
        """The (low, high) that states stay in."""
        return self.net.box

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The layers one by one."""
        return self.net.blocks

    def init(self, key: Array, gain: float = 0.5) -> Theta:
        """The weights that `net` begins with."""
        return self.net.init(key, gain)

    def rest(self, batch: int) -> State:
        """The state s = 0 for `batch` examples."""
        return self.net.rest(batch)

    def per_layer(self, values: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """A tree like θ with, for each layer, its value at its biases and at the synapses that lead to it."""
        return self.net.per_layer(values)


def require_forward(net: Hopfield) -> None:
    """Refuse synapses that do not lead from a layer to a later one, for energies that tell forward from backward."""
    order = [layer for layer, _ in net.layers]
    for synapse in net.synapses:
        if order.index(synapse.pre) >= order.index(synapse.post):
            raise InputError(f"synapse {name(synapse)} does not lead to a later layer: there are {', '.join(order)}")
