"""The continuous Hopfield model on any symmetric architecture (paper, section 2.1)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import wadler_lindig
from jax import Array

from eqprop.energy.activation import Activation, hard_sigmoid
from eqprop.energy.synapse import Dense, Lateral, Synapse, name
from eqprop.errors import InputError

State = dict[str, Array]
Theta = dict[str, dict[str, Array]]


@dataclass(frozen=True)
class Hopfield:
    """Named layers joined by symmetric synapses.

        E(θ, x, s) = ½ Σ_i s_i² − Φ(ρ(x), ρ(s)),    Φ = ½ Σ_{i≠j} W_ij ρ(u_i) ρ(u_j) + Σ_i b_i ρ(u_i)

    where u = (x, s): the layer `clamped` holds the input x and never moves, all others form the state s, a
    dict with one array per layer. θ is {"W": {"pre-post": …}, "b": {layer: …}}. The constant ½ Σ x_i² and
    the inputs' biases, which no state can change, are left out. Mind that inputs act through ρ(x): the hard
    sigmoid hears nothing outside [0, 1], so scale them to it.

    Layered, skip-connected and fully connected networks differ in their list of `synapses` only: pairs of
    layer names, where a layer paired with itself has every pair of its own units connected. The object
    holds no weights, is hashable, and is called as an energy.
    """

    layers: tuple[tuple[str, int], ...]
    synapses: tuple[Synapse, ...]
    clamped: str
    activation: Activation

    def __init__(
        self,
        layers: Mapping[str, int],
        synapses: Iterable[tuple[str, str]],
        *,
        clamped: str = "input",
        activation: Activation = hard_sigmoid,
    ):
        sizes = dict(layers)
        for layer, size in sizes.items():
            if not isinstance(size, int) or size < 1:
                raise InputError(f"layer {layer!r} has size {size!r}: give a positive whole number of units")
            if "-" in layer or "/" in layer:
                raise InputError(f"layer name {layer!r} contains '-' or '/', which join names: choose another")
        if clamped not in sizes:
            raise InputError(f"clamped={clamped!r} is not a layer: the layers are {', '.join(sizes)}")
        if len(sizes) < 2:
            raise InputError(f"a network needs a layer besides the clamped {clamped!r}: add an output layer")
        pairs: list[tuple[str, ...]] = [(pair,) if isinstance(pair, str) else tuple(pair) for pair in synapses]
        _check_pairs(pairs, sizes, clamped)
        joined = tuple(
            Lateral(pre, sizes[pre]) if pre == post else Dense(pre, post, (sizes[pre], sizes[post]))
            for pre, post in pairs  # pyright: ignore[reportAssignmentType]  (checked to be pairs)
        )
        object.__setattr__(self, "layers", tuple(sizes.items()))
        object.__setattr__(self, "synapses", joined)
        object.__setattr__(self, "clamped", clamped)
        object.__setattr__(self, "activation", activation)

    @classmethod
    def layered(cls, *sizes: int, activation: Activation = hard_sigmoid) -> "Hopfield":
        """Layers in a row, input first and output last, each joined to the next.

        Layers between are called hidden, or hidden1, hidden2, … if there are several.

            >>> net = Hopfield.layered(784, 500, 10)
            >>> net.parameters
            397510
            >>> theta = net.init(jax.random.key(0))
            >>> {synapse: w.shape for synapse, w in theta["W"].items()}
            {'input-hidden': (784, 500), 'hidden-output': (500, 10)}
        """
        if len(sizes) < 2:
            raise InputError(f"sizes={sizes}: give at least an input and an output size")
        names = ["input", *_hidden_names(len(sizes) - 2), "output"]
        return cls(dict(zip(names, sizes, strict=True)), pairwise(names), activation=activation)

    @classmethod
    def skip(cls, *sizes: int, activation: Activation = hard_sigmoid) -> "Hopfield":
        """A layered network whose output is also joined to the input and to every hidden layer.

        The rest is as in `layered`.

            >>> net = Hopfield.skip(784, 500, 500, 10)
            >>> [f"{synapse.pre}-{synapse.post}" for synapse in net.synapses[3:]]
            ['input-output', 'hidden1-output']
        """
        net = cls.layered(*sizes, activation=activation)
        names = [layer for layer, _ in net.layers]
        past = [(layer, "output") for layer in names[:-2]]
        return cls(dict(net.layers), [*pairwise(names), *past], activation=activation)

    @classmethod
    def fully_connected(
        cls, inputs: int, hidden: int, outputs: int, *, activation: Activation = hard_sigmoid
    ) -> "Hopfield":
        """Every pair of units connected, none with itself (the paper's figure 1, left)."""
        sizes = {"input": inputs, "hidden": hidden, "output": outputs}
        within = [(layer, layer) for layer in ("hidden", "output") if sizes[layer] != 1]  # one unit has no pair
        return cls(sizes, [*combinations(sizes, 2), *within], activation=activation)

    def __repr__(self) -> str:
        layers = ", ".join(f"{layer}: {size}" for layer, size in self.layers)
        synapses = ", ".join(f"{name(synapse)}: {prod(synapse.shape)}" for synapse in self.synapses)
        return f"Hopfield({{{layers}}}, [{synapses}], {self.activation.name}, {self.parameters} parameters)"

    def __pdoc__(self, **_: Any) -> wadler_lindig.AbstractDoc:
        """The same where Equinox prints what contains the network."""
        return wadler_lindig.TextDoc(repr(self))

    def _repr_html_(self) -> str:
        """For notebooks: a table of layers, with their units and biases, and of synapses, with their weights."""
        rows = ["<tr><th>layer</th><th>units</th><th>biases</th></tr>"]
        rows += [f"<tr><td>{k}</td><td>{n:,}</td><td>{self.free.get(k, 'clamped')}</td></tr>" for k, n in self.layers]
        rows += ["<tr><th>synapse</th><th>shape</th><th>weights</th></tr>"]
        for synapse in self.synapses:
            shape = " × ".join(map(str, synapse.shape))
            rows.append(f"<tr><td>{name(synapse)}</td><td>{shape}</td><td>{prod(synapse.shape):,}</td></tr>")
        caption = f"<caption>Hopfield, {self.activation.name}, {self.parameters:,} parameters</caption>"
        return f"<table>{caption}{''.join(rows)}</table>"

    @property
    def parameters(self) -> int:
        """How many numbers θ has."""
        return sum(prod(synapse.shape) for synapse in self.synapses) + sum(self.free.values())

    @property
    def free(self) -> dict[str, int]:
        """The layers that settle, with their sizes."""
        return {layer: size for layer, size in self.layers if layer != self.clamped}

    def init(self, key: Array, gain: float = 0.5) -> Theta:
        """Weights after Glorot & Bengio, times `gain`; biases zero.

        At full gain (the paper's) the first of several hidden layers starts saturated and learns late; at
        half of it deep networks learn from the first minibatch.
        """
        keys = jax.random.split(key, len(self.synapses))
        return {
            "W": {name(syn): syn.init(k, gain) for syn, k in zip(self.synapses, keys, strict=True)},
            "b": {layer: jnp.zeros(size) for layer, size in self.free.items()},
        }

    def per_layer(self, values: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """A tree like θ with, for each layer, its value at its biases and at the synapses that lead to it.

        For the layers' own learning rates α_k (section 5.2): W_k, between h_{k−1} and h_k, goes with h_k.
        """
        if odd := sorted(values.keys() ^ self.free.keys()):
            raise InputError(f"values for the layers {list(values)}: {odd[0]!r} is unknown or missing")
        return {
            "W": {name(synapse): values[synapse.post] for synapse in self.synapses},
            "b": {layer: values[layer] for layer in self.free},
        }

    def rest(self, batch: int) -> State:
        """The state s = 0 for `batch` examples."""
        return {layer: jnp.zeros((batch, size)) for layer, size in self.free.items()}

    def phi(self, theta: Theta, rho: dict[str, Array]) -> Array:
        """The interaction Φ, given the firing rates ρ of all layers: linear in each layer on its own."""
        paired = [synapse.phi(theta["W"][name(synapse)], rho) for synapse in self.synapses]
        return sum((jnp.dot(b, rho[layer]) for layer, b in theta["b"].items()), start=sum(paired[1:], paired[0]))

    def rates(self, x: Array, s: State) -> dict[str, Array]:
        """ρ(u) of every layer."""
        x = jnp.asarray(x, jnp.result_type(float, x))  # pixels may be whole numbers
        return {self.clamped: self.activation(x)} | {k: self.activation(u) for k, u in s.items()}

    def __call__(self, theta: Theta, x: Array, s: State) -> Array:
        self.check(theta, x, s)
        leak = sum(jnp.sum(u**2) for u in s.values()) / 2
        return leak - self.phi(theta, self.rates(x, s))

    @property
    def box(self) -> tuple[float, float]:
        """The (low, high) that states stay in: that of the activation."""
        return self.activation.low, self.activation.high

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The layers one by one: the first sweep from rest is then a feed-forward pass."""
        return tuple((layer,) for layer in self.free)

    def curvature(self, theta: Theta, x: Array, s: State, block: tuple[str, ...]) -> dict[str, Array | float]:
        """For each layer of `block` a bound on ∂²E/∂s² while the other blocks stay put.

        Exactly 1 for the hard sigmoid without lateral synapses, where E is ½ s² − a s in a unit; in general
        1 + sup|ρ''| |a| with a the field ∂Φ/∂ρ. With lateral weights, whose absolute row sums are r, the
        field may change by 2 r on the way and Gershgorin's theorem adds sup|ρ'|² r.
        """
        rho = self.activation
        rates = self.rates(x, s)
        bounds: dict[str, Array | float] = {}
        for layer in block:
            r = self._lateral_row_sums(theta, layer)
            bend: Array | float = 0.0
            if rho.bend:
                field = jax.grad(self.phi, argnums=1)(theta, rates)[layer]
                bend = rho.bend * (jnp.abs(field) + 2 * r)
            bounds[layer] = 1 + bend + rho.slope**2 * r
        return bounds

    def check(self, theta: Theta, x: Array, s: State) -> None:
        """Refuse what does not fit: shapes are known before anything is computed, so a misfit costs nothing to find."""
        size = dict(self.layers)[self.clamped]
        if jnp.shape(x) != (size,):
            raise InputError(f"an input of shape {jnp.shape(x)} does not fit layer {self.clamped!r} of {size} units")
        if theta.keys() != {"W", "b"}:
            raise InputError(f"theta has {sorted(theta)} instead of ['W', 'b']")
        states = {layer: (size,) for layer, size in self.free.items()}
        _check_shapes("the state", states, s)
        _check_shapes("theta['W']", {name(synapse): synapse.shape for synapse in self.synapses}, theta["W"])
        _check_shapes("theta['b']", states, theta["b"])

    def _lateral_row_sums(self, theta: Theta, layer: str) -> Array | float:
        for synapse in self.synapses:
            if isinstance(synapse, Lateral) and synapse.layer == layer:
                upper = jnp.abs(synapse.upper(theta["W"][name(synapse)]))
                return upper.sum(0) + upper.sum(1)
        return 0.0


ARCHITECTURES: dict[str, Callable[..., Hopfield]] = {
    "layered": Hopfield.layered,
    "skip": Hopfield.skip,
    "fully-connected": Hopfield.fully_connected,
}


def _hidden_names(count: int) -> list[str]:
    return ["hidden"] if count == 1 else [f"hidden{k}" for k in range(1, count + 1)]


def _check_pairs(pairs: list[tuple[str, ...]], sizes: Mapping[str, int], clamped: str) -> None:
    seen = set()
    for pair in pairs:
        if len(pair) != 2:
            raise InputError(f"synapse {pair!r} is not a pair of layer names")
        for layer in pair:
            if layer not in sizes:
                raise InputError(f"synapse {pair!r} names an unknown layer {layer!r}: there are {', '.join(sizes)}")
        if set(pair) == {clamped}:
            raise InputError(f"synapse {pair!r} joins the clamped layer to itself, which nothing can feel: drop it")
        if pair[0] == pair[1] and sizes[pair[0]] < 2:
            raise InputError(f"synapse {pair!r} is within a layer of one unit: there is no pair to connect")
        if frozenset(pair) in seen:
            raise InputError(f"synapse {pair!r} is given twice: synapses are symmetric, so list each pair once")
        seen.add(frozenset(pair))
    unreached = set(sizes) - {layer for pair in pairs for layer in pair}
    if unreached:
        raise InputError(f"no synapse reaches layer {sorted(unreached)[0]!r}: join it or drop it")


def _check_shapes(what: str, shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Array]) -> None:
    if odd := sorted(shapes.keys() ^ arrays.keys()):
        raise InputError(f"{what} has {sorted(arrays)} instead of {sorted(shapes)}: mind {odd[0]!r}")
    for key, shape in shapes.items():
        if jnp.shape(arrays[key]) != shape:
            raise InputError(f"{what} of {key!r} has the shape {jnp.shape(arrays[key])} instead of {shape}")
