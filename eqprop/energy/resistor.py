"""Resistors: the synapses of a circuit. Their weights are conductances g ≥ 0, and Φ is minus half the power.

Current through a resistor is g times the difference of the voltages at its ends, so what it sends to a node is a
derivative of −½ g (v_i − v_j)², as for any synapse.
"""

import abc
from dataclasses import dataclass
from math import inf, prod, sqrt

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.energy.synapse import Synapse
from eqprop.errors import InputError
from eqprop.types import Array, Key, Layers, Scalar, Shape

EMPTIEST = 1e-12
"""Taken for the conductances at a node that nothing is joined to, so that it stays where it is."""


class Resistors(Synapse):
    """Resistors between two layers of nodes, or among the nodes of one: Φ = −½ Σ g_ij (A v_i − v_j)².

    An amplifier may stand between layer `pre` and its resistors. It multiplies voltages on the way there by A, and
    currents on the way back by 1/A, unless `back` says otherwise. As both directions do not multiply alike, the
    currents are a derivative only if what lies behind the amplifier counts less: `share` times its power.
    """

    amplification: float
    """A, which voltages of layer `pre` are multiplied by."""
    share: float
    """The weight of the power of these resistors in the energy."""

    @property
    @abc.abstractmethod
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes of `pre` and of `post` that each resistor joins, in the order in which `ravel` lists them."""

    @property
    def bilinear(self) -> bool:
        return False

    def fit(self, shapes: dict[str, Shape]) -> None:
        for layer, nodes in zip((self.pre, self.post), self.ends, strict=True):
            if nodes.size and not 0 <= nodes.min() <= nodes.max() < (count := prod(shapes[layer])):
                raise InputError(f"{self!r} joins node {nodes.max()} of layer {layer!r}, which has {count} nodes")

    @abc.abstractmethod
    def conductances(self, w: Array) -> Array:
        """g of every resistor, in the order of `ends`."""


@dataclass(frozen=True)
class Crossbar(Resistors):
    """A resistor from every node of layer `pre` to every node of layer `post`."""

    pre: str
    post: str
    shape: tuple[int, int]
    amplification: float = 1.0
    share: float = 1.0

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        pre, post = np.indices(self.shape)
        return pre.ravel(), post.ravel()

    def fit(self, shapes: dict[str, Shape]) -> None:
        if (sizes := (prod(shapes[self.pre]), prod(shapes[self.post]))) != self.shape:
            raise InputError(f"{self!r} does not fit its layers, which have {sizes} nodes: give it that shape")

    def init(self, key: Key, gain: float) -> Array:
        """Uniform from 0 to 2 gain/√(pre · post): the conductances at the nodes of both layers then average gain."""
        return jax.random.uniform(key, self.shape, maxval=2 * gain / sqrt(prod(self.shape)))

    def conductances(self, w: Array) -> Array:
        return w.ravel()

    def phi(self, w: Array, rho: Layers) -> Scalar:
        # Multiplied out, so that products of matrices do the work and what is the same at every step is done once.
        a, b = self.amplification * rho[self.pre], rho[self.post]
        own = jnp.dot(a**2, jnp.sum(w, axis=1)) + jnp.dot(b**2, jnp.sum(w, axis=0))
        return self.share * (jnp.dot(a @ w, b) - own / 2)

    def coupling(self, w: Array, rho: Layers, layer: str) -> Array:
        """Σ g at each node, exactly: nodes of one layer do not feel each other."""
        if layer == self.pre:
            return self.share * self.amplification**2 * jnp.sum(w, axis=1)
        return self.share * jnp.sum(w, axis=0)


@dataclass(frozen=True)
class Wires(Resistors):
    """A resistor for each pair (node of `pre`, node of `post`); they may be nodes of the same layer.

    fixed: the conductance of all of them, if it is not to be learned; then there are no weights.
    """

    pre: str
    post: str
    pairs: tuple[tuple[int, int], ...]
    fixed: float | None = None
    amplification: float = 1.0
    share: float = 1.0

    def __post_init__(self) -> None:
        if not self.pairs:
            raise InputError(f"wires from {self.pre!r} to {self.post!r} without pairs of nodes: give some")
        if self.fixed is not None and not 0 < self.fixed < inf:
            raise InputError(f"fixed={self.fixed!r}: give a positive conductance")

    @property
    def shape(self) -> Shape:
        """One conductance for each pair, or none that could be learned."""
        return (0 if self.fixed is not None else len(self.pairs),)

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        pre, post = np.array(self.pairs).T
        return pre, post

    def init(self, key: Key, gain: float) -> Array:
        """Uniform from 0 to 2 gain/√(pairs at a node of `pre` · pairs at a node of `post`)."""
        crowds = (len(self.pairs) / len(set(nodes.tolist())) for nodes in self.ends)
        return jax.random.uniform(key, self.shape, maxval=2 * gain / sqrt(prod(crowds)))

    def conductances(self, w: Array) -> Array:
        return w if self.fixed is None else jnp.full(len(self.pairs), self.fixed)

    def phi(self, w: Array, rho: Layers) -> Scalar:
        pre, post = self.ends
        drop = self.amplification * rho[self.pre].ravel()[pre] - rho[self.post].ravel()[post]
        return -self.share / 2 * jnp.sum(self.conductances(w) * drop**2)

    def coupling(self, w: Array, rho: Layers, layer: str) -> Array:
        """Σ g at each node; of resistors within the layer twice that (Gershgorin)."""
        total = jnp.zeros(rho[layer].size, rho[layer].dtype)
        g, (pre, post) = self.conductances(w), self.ends
        twice = 1 + (self.pre == self.post)
        if layer == self.pre:
            total = total.at[pre].add(twice * self.share * self.amplification**2 * g)
        if layer == self.post:
            total = total.at[post].add(twice * self.share * g)
        return total.reshape(rho[layer].shape)
