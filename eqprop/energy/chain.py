"""Blocks of layers in a row: each settles to a minimum of its own energy, and hands its state on to the next."""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax

from eqprop.energy.base import Blockwise, Energy, Linked
from eqprop.energy.hopfield import Hopfield
from eqprop.energy.variant import Variant
from eqprop.errors import InputError
from eqprop.state import Space
from eqprop.types import Array, Layers, Scalar, Theta


class Chain(Variant, Blockwise, Linked):
    """A Hopfield network cut into blocks of `size` layers: symmetric within a block, forward only from block to block.

    Block k settles to a minimum of E_k(θ, x_k, s_k), the Hopfield energy of its layers, where x_k are the layers before
    it that it hears. Nothing of a block comes back to those before it, so there is no energy of the whole, and

        ds_k/dt = −∂E_k/∂s_k.

    With one block it is the Hopfield network, with blocks of one layer a feed-forward network. `ChainPropagation`
    learns by EP within the blocks and by backpropagation between them ("feedforward-tied energy-based models", Nest &
    Ernoult 2024). Called as an energy, it gives Σ_k E_k.
    """

    conservative: ClassVar[bool] = False
    net: Hopfield = eqx.field(static=True)
    size: int = eqx.field(default=2, static=True)

    def __check_init__(self) -> None:
        if not isinstance(self.size, int) or self.size < 1:
            raise InputError(f"size={self.size!r}: give the number of layers in a block, 1 or more")
        self.net.require_forward()

    @property
    def links(self) -> tuple["Link", ...]:
        """The blocks, from the input to the output; the last one may be shorter."""
        names = list(self.free)
        return tuple(_link(self.net, names[k : k + self.size]) for k in range(0, len(names), self.size))

    def inputs(self, x: Array) -> Layers:
        """The input by the name of its layer."""
        return self.net.inputs(x)

    def __call__(self, theta: Theta, x: Array, s: Layers) -> Scalar:
        self.net.check(theta, x, s)
        known = self.inputs(x) | s
        each = [link(theta, jax.lax.stop_gradient(link.heard(known)), link.own(s)) for link in self.links]
        return sum(each[1:], each[0])

    def field(self, theta: Theta, x: Array, s: Layers) -> Layers:
        """ds/dt."""
        return jax.tree.map(lambda slope: -slope, jax.grad(self, argnums=2)(theta, x, s))

    def curvature(self, theta: Theta, x: Array, s: Layers, block: tuple[str, ...]) -> dict[str, Any]:
        """That of the energy of the block that a layer is in."""
        known = self.inputs(x) | s
        (link,) = (link for link in self.links if block[0] in link.layers)
        return link.curvature(theta, link.heard(known), link.own(s), block)


@dataclass(frozen=True)
class Link(Energy, Blockwise):
    """E_k(θ, x_k, s_k): the Hopfield energy of one block; x_k has the layers that it hears, by name, and θ is whole."""

    net: Hopfield
    layers: tuple[str, ...]

    @property
    def space(self) -> Space:
        """The layers of the block."""
        space = self.net.space
        return Space({layer: self.net.shapes[layer] for layer in self.layers}, space.low, space.high)

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The layers one by one."""
        return tuple((layer,) for layer in self.layers)

    def heard(self, known: Layers) -> Layers:
        """x_k: what the block hears, of all layers that are known."""
        return {layer: known[layer] for layer, _ in self.net.layers if layer not in self.layers}

    def own(self, s: Layers) -> Layers:
        """s_k, of the states of all layers."""
        return {layer: s[layer] for layer in self.layers}

    def __call__(self, theta: Theta, x: Layers, s: Layers) -> Scalar:
        return self.net(*self._given(theta, x, s))

    def curvature(self, theta: Theta, x: Layers, s: Layers, block: tuple[str, ...]) -> dict[str, Any]:
        return self.net.curvature(*self._given(theta, x, s), block)

    def _given(self, theta: Theta, x: Layers, s: Layers) -> tuple[Theta, Array, Layers]:
        """θ, the input and the state of `net`: what is heard beside its input is a part of the state that stays put."""
        part = {
            "W": {synapse.name: theta["W"][synapse.name] for synapse in self.net.synapses},
            "b": {layer: theta["b"][layer] for layer in self.net.free},
        }
        return part, x[self.net.clamped], {layer: (x | s)[layer] for layer in self.net.free}


def _link(net: Hopfield, layers: list[str]) -> Link:
    synapses = [synapse for synapse in net.synapses if synapse.post in layers]
    there = {layer for synapse in synapses for layer in (synapse.pre, synapse.post)}
    shapes = {layer: shape for layer, shape in net.layers if layer in there}
    first = next((layer for layer in shapes if layer not in layers), None)
    if first is None or not there.issuperset(layers):
        raise InputError(f"the block {', '.join(layers)} hears no layer before it: join them, or choose another size")
    activation = {layer: net.rho[layer] for layer in shapes}
    return Link(Hopfield(shapes, synapses, clamped=first, activation=activation), tuple(layers))
