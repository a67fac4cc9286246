"""Resistive networks: circuits that settle to the voltages of least power (co-content)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, prod
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.energy import netlist
from eqprop.energy.activation import identity
from eqprop.energy.base import Blockwise, Energy
from eqprop.energy.diode import Shockley
from eqprop.energy.graph import Graph, layer_names
from eqprop.energy.resistor import EMPTIEST, Crossbar, Resistors, Wires
from eqprop.errors import InputError
from eqprop.state import Space
from eqprop.types import Array, Layers, Limit, Scalar, Shape, Theta

Diodes = Mapping[str, Sequence[int]]


@dataclass(frozen=True, init=False, repr=False)
class Resistive(Graph, Energy, Blockwise):
    """Layers of nodes joined by resistors. Kirchhoff's current law holds where E is least:

        E(θ, x, v) = ½ Σ_ij g_ij (v_i − v_j)² + Σ_i ∫₀^{v_i} I_i(v) dv − Σ_i b_i v_i,    g_ij ≥ 0

    θ is {"W": {"pre-post": g}, "b": {layer: b}}: conductances, and for the layers in `sources` a current into each
    node. The layer `clamped` is held at voltages made of the input x: `gain` · x, −`gain` · x if `mirrored`, for
    conductances cannot be negative, and then the constant voltages of the `rails`.

    layers: how many nodes each has, by name, those that are held included.
    resistors: `Crossbar` and `Wires`, or pairs of layer names for crossbars.
    diodes: for each node of a layer 1 if a diode keeps it above 0 V, −1 if below, 2 for one each way, 0 for none.
    diode: what these diodes are; None: ideal ones, which are bounds of the voltages.
    spread: the saturation current of the diodes of each node of a layer, as a factor, where it is not 1.
    least, most: the range of every conductance, on which `project` puts θ.
    names: the name of each node by layer; None: they are numbered.

    A nudge −β ∂C/∂v is a current into the outputs. ∂E/∂g_ij is ½ (v_i − v_j)², which each resistor sees by itself.
    """

    diodes: tuple[tuple[str, tuple[int, ...]], ...]
    diode: Shockley | None
    spread: tuple[tuple[str, tuple[float, ...]], ...]
    sources: tuple[str, ...]
    gain: float
    mirrored: bool
    rails: tuple[float, ...]
    least: float
    most: Limit
    names: tuple[tuple[str, tuple[str, ...]], ...]

    def __init__(
        self,
        layers: Mapping[str, int | Shape],
        resistors: Iterable[tuple[str, str] | Resistors],
        *,
        clamped: str = "input",
        diodes: Diodes | None = None,
        diode: Shockley | None = None,
        spread: Mapping[str, Sequence[float]] | None = None,
        sources: Sequence[str] = (),
        gain: float = 1.0,
        mirrored: bool = False,
        rails: Sequence[float] = (),
        least: float = 0.0,
        most: Limit = inf,
        names: Mapping[str, Sequence[str]] | None = None,
    ):
        shapes = {layer: prod(shape) if isinstance(shape, tuple) else shape for layer, shape in layers.items()}
        joined = [_crossbar(given, shapes) for given in resistors]
        super().__init__(layers, joined, clamped=clamped, activation=identity)
        self._set("diodes", _per_node("diodes", diodes or {}, self.free, int))
        self._set("diode", diode)
        self._set("spread", _per_node("spread", spread or {}, self.free, float))
        self._set("sources", tuple(sources))
        self._set("gain", float(gain))
        self._set("mirrored", bool(mirrored))
        self._set("rails", tuple(float(volts) for volts in rails))
        self._set("least", float(least))
        self._set("most", float(most))
        self._set("names", _names(names, self.sizes))
        Resistive.__check_init__(self)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __check_init__(self) -> None:
        if not 0 <= self.least < self.most:
            raise InputError(f"least={self.least!r}, most={self.most!r}: give a range of conductances, from 0 or more")
        if not 0 < self.gain < inf:
            raise InputError(f"gain={self.gain!r}: give a positive number, which inputs are multiplied by")
        if odd := sorted({*self.sources} - self.free.keys()):
            raise InputError(f"sources={self.sources}: {odd[0]!r} is not a layer that settles")
        for layer, kinds in self.diodes:
            if odd := sorted({*kinds} - {-1, 0, 1, 2}):
                raise InputError(
                    f"diodes of {layer!r}: {odd[0]} is none of 1 (above 0), −1 (below 0), 2 (one each way), 0 (none)"
                )
            if 2 in kinds and self.diode is None:
                raise InputError(f"diodes of {layer!r}: ideal diodes each way tie a node to 0; give diode=Shockley(…)")
        if any(not factor > 0 for _, factors in self.spread for factor in factors):
            raise InputError("spread: give positive factors of the saturation current")
        if self.spread and self.diode is None:
            raise InputError("spread is for real diodes: give diode=Shockley(…), or leave it out")
        if self.inputs_expected < 1 or (self.mirrored and (self.sizes[self.clamped] - len(self.rails)) % 2):
            raise InputError(
                f"layer {self.clamped!r} has {self.sizes[self.clamped]} nodes, of which {len(self.rails)} are rails: "
                "it needs nodes for the inputs too, two for each if they are mirrored"
            )

    @classmethod
    def skip(cls, *_: Any, **__: Any) -> Self:
        """Circuits have no such form."""
        raise InputError(f"{cls.__name__}.skip: circuits are made by layered, by netlist, or of their resistors")

    @classmethod
    def fully_connected(cls, *_: Any, **__: Any) -> Self:
        """Circuits have no such form."""
        raise InputError(f"{cls.__name__}.fully_connected: circuits are made by layered, by netlist, or of resistors")

    @classmethod
    def layered(  # pyright: ignore[reportIncompatibleMethodOverride]  (circuits have no activation)
        cls,
        *sizes: int,
        gain: float = 100.0,
        rails: Sequence[float] = (1.0, -1.0),
        diode: Shockley | None = None,
        amplification: float = 1.0,
        back: float | None = None,
        source_resistance: float = 0.0,
        spread: Mapping[str, Sequence[float]] | None = None,
        least: float = 0.0,
        most: Limit = inf,
    ) -> Self:
        """Layers of nodes in a row, with a crossbar between each and the next.

        sizes: of the inputs x, the hidden layers and the outputs. Inputs are given twice, as x and −x. Half of the
            hidden nodes have a diode that keeps them above 0, the other half one that keeps them below.
        gain: multiplies the inputs, since voltages shrink from layer to layer.
        rails: constant voltages that every node is joined to, as biases; rails of one sign only, or none, make a
            network that cannot tell apart what differs by a sign.
        diode: what the diodes are; None: ideal.
        amplification: A, by which an amplifier behind each hidden layer multiplies voltages.
        back: by which it multiplies currents on their way back; None: 1/A.
        source_resistance: that of each input's source, or 0.
        spread: factors of the diodes' saturation current by layer, as `device.diode_spread` draws them.
        least, most: the range of every conductance.

            >>> net = Resistive.layered(784, 1024, 10)
            >>> net.sizes["input"], net.parameters, net.inputs_expected
            (1570, 1617940, 784)
        """
        if len(sizes) < 2 or any(not isinstance(size, int) or size < 1 for size in sizes):
            raise InputError(f"sizes={sizes}: give positive numbers of inputs, hidden nodes and outputs")
        if not 0 < amplification < inf or (back is not None and not 0 < back < inf):
            raise InputError(f"amplification={amplification!r}, back={back!r}: give positive numbers")
        if not 0 <= source_resistance < inf:
            raise InputError(f"source_resistance={source_resistance!r}: give 0 or more")
        held = 2 * sizes[0] + len(rails)
        names = layer_names(sizes)
        shapes = dict(zip(names, (held, *sizes[1:]), strict=True))
        step = (1 / amplification if back is None else back) / amplification
        resistors: list[Resistors] = []
        for depth, (pre, post) in enumerate(pairwise(names)):
            strength = amplification if depth else 1.0
            resistors.append(Crossbar(pre, post, (shapes[pre], shapes[post]), strength, step**depth))
        first = "source" if source_resistance else "input"
        for depth, layer in enumerate(names[2:], 1):
            pairs = tuple((2 * sizes[0] + k, node) for k in range(len(rails)) for node in range(shapes[layer]))
            if pairs:
                resistors.append(Wires("input", layer, pairs, share=step**depth))
        if source_resistance:
            shapes = {"source": held} | shapes
            ones = tuple((node, node) for node in range(held))
            resistors.append(Wires("source", "input", ones, fixed=1 / source_resistance))
        diodes = {layer: [1] * -(-shapes[layer] // 2) + [-1] * (shapes[layer] // 2) for layer in names[1:-1]}
        return cls(
            shapes,
            resistors,
            clamped=first,
            diodes=diodes,
            diode=diode,
            spread=spread,
            gain=gain,
            mirrored=True,
            rails=rails,
            least=least,
            most=most,
        )

    @classmethod
    def netlist(
        cls,
        resistors: Iterable[tuple[str, str]],
        *,
        inputs: Sequence[str],
        outputs: Sequence[str],
        rails: Mapping[str, float] | None = None,
        diodes: Mapping[str, int] | None = None,
        diode: Shockley | None = None,
        gain: float = 1.0,
        least: float = 0.0,
        most: Limit = inf,
    ) -> Self:
        """Any circuit of resistors, given as pairs of node names.

        inputs: the nodes that x holds, in its order. outputs: those that the cost looks at.
        rails: constant voltages by name, 0 for ground.
        diodes: by node, 1 for a diode that keeps it above 0, −1 below, 2 for one each way.

        Nodes that are none of these are sorted into layers inner1, inner2, … so that no resistor is within a layer:
        then block descent is exact.

            >>> resistors = [("x", "a"), ("a", "b"), ("b", "out"), ("a", "gnd")]
            >>> net = Resistive.netlist(resistors, inputs=["x"], outputs=["out"], rails={"gnd": 0.0})
            >>> dict(net.names)["inner1"], net.parameters
            (('a',), 4)
        """
        plan = netlist.sort(list(resistors), list(inputs), list(outputs), list(rails or {}))
        kinds = dict(diodes or {})
        placed = {node for layer in plan.layers.values() for node in layer}
        if odd := sorted(kinds.keys() - (placed - {*plan.layers["input"]})):
            raise InputError(f"diodes: {odd[0]!r} is no node that settles: there are {', '.join(sorted(placed))}")
        return cls(
            {layer: len(nodes) for layer, nodes in plan.layers.items()},
            [Wires(pre, post, tuple(pairs)) for (pre, post), pairs in plan.pairs.items()],
            diodes={
                layer: [kinds.get(node, 0) for node in nodes]
                for layer, nodes in plan.layers.items()
                if layer != "input" and any(node in kinds for node in nodes)
            },
            diode=diode,
            gain=gain,
            rails=list((rails or {}).values()),
            least=least,
            most=most,
            names=plan.layers,
        )

    @property
    def resistors(self) -> tuple[Resistors, ...]:
        """The synapses, which are all resistors."""
        return self.synapses  # pyright: ignore[reportReturnType]  (no others are taken)

    @property
    def inputs_expected(self) -> int:
        """How many numbers an input x has."""
        return (self.sizes[self.clamped] - len(self.rails)) // (2 if self.mirrored else 1)

    @property
    def input_shape(self) -> Shape:
        """The shape of one input x."""
        return (self.inputs_expected,)

    @property
    def biases(self) -> dict[str, Shape]:
        """The shapes of the currents into nodes, which only the layers in `sources` have."""
        return {layer: shape for layer, shape in self.shapes.items() if layer in self.sources}

    def per_layer(self, values: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """A tree like θ with, for each layer, its value at the resistors that lead to it.

        A layer that only fixed resistors lead to needs none.
        """
        learned = {synapse.post for synapse in self.synapses if prod(synapse.shape)}
        tree = super().per_layer(dict.fromkeys(self.free.keys() - learned, 0.0) | dict(values))
        return {"W": tree["W"], "b": {layer: tree["b"][layer] for layer in self.sources}}

    @property
    def space(self) -> Space:
        """The layers that settle; ideal diodes are bounds."""
        if self.diode is not None or not self.diodes:
            return Space(self.shapes)
        kinds = {layer: np.reshape(kinds, self.shapes[layer]) for layer, kinds in self.diodes}
        low = {layer: np.where(kinds[layer] == 1, 0.0, -inf) if layer in kinds else None for layer in self.shapes}
        high = {layer: np.where(kinds[layer] == -1, 0.0, inf) if layer in kinds else None for layer in self.shapes}
        return Space(self.shapes, low, high)

    def __call__(self, theta: Theta, x: Array, s: Layers) -> Scalar:
        self.check(theta, x, s)
        return self._content(s) - self.phi(theta, self.voltages(x, s))

    def share(self, layer: str) -> float:
        """c, how much all that happens at a layer counts: as the power of the resistors that lead to it.

        Behind amplifiers, Kirchhoff's law at a node is −∂E/∂v = 0 divided by c: a nudge −β ∂C/∂v is a current of 1/c
        times that.
        """
        leading = [each.share for each in self.resistors if each.post == layer]
        leaving = [each.share for each in self.resistors if each.pre == layer]
        return (leading or leaving)[0]

    def phi(self, theta: Theta, rho: Layers) -> Scalar:
        """Minus half the power, and the currents b times the voltages where they enter, by the share of their layer."""
        return super().phi(theta | {"b": {layer: self.share(layer) * b for layer, b in theta["b"].items()}}, rho)

    def voltages(self, x: Array, s: Layers) -> Layers:
        """The voltages of all nodes, those that are held included."""
        return self.inputs(x) | s

    def inputs(self, x: Array, rho: Any = None) -> Layers:
        """The voltages that are held: the inputs, mirrored if they are, and the rails."""
        x = self.gain * jnp.asarray(x, jnp.result_type(float, x))
        parts = [x, -x] if self.mirrored else [x]
        return {self.clamped: jnp.concatenate([*parts, jnp.asarray(self.rails, x.dtype)])}

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The layers one by one."""
        return tuple((layer,) for layer in self.free)

    def curvature(self, theta: Theta, x: Array, s: Layers, block: tuple[str, ...]) -> dict[str, Array]:
        """For each node the sum of its conductances: the curvature of E itself, unless resistors are within a layer.

        With real diodes, E is no parabola. What is given then is the slope of the line from the force at v to the force
        0 where the node would settle, so that a step of ω = 1 goes just there; a cost that pulls at a layer with
        diodes is not part of it.
        """
        v = self.voltages(x, s)
        bounds = {}
        for layer in block:
            load = jnp.maximum(self.coupling(theta["W"], v, layer), EMPTIEST)
            bounds[layer] = load if self.diode is None else self._secant(theta, v, layer, load)
        return bounds

    def fields(self, theta: Theta) -> Array:
        """How strongly each input acts on the nodes it is joined to: the conductance of x less that of −x."""
        g = super().fields(theta)[: self.sizes[self.clamped] - len(self.rails)]
        return g[: self.inputs_expected] - g[self.inputs_expected :] if self.mirrored else g

    def project(self, theta: Theta) -> Theta:
        """Conductances in their range, from `least` to `most`; what else is in θ stays."""
        return theta | {"W": {name: jnp.clip(g, self.least, self.most) for name, g in theta["W"].items()}}

    def _check_shape(self, given: Shape, count: Shape = ()) -> None:
        if given != (self.inputs_expected,):
            raise InputError(f"an input of shape {given} does not fit a circuit of {self.inputs_expected} inputs")

    def currents(self, theta: Theta, x: Array, s: Layers) -> Layers:
        """The current into each node through its resistors and from its source; 0 at rest, where no diode conducts."""
        v = self.voltages(x, s)
        return jax.grad(lambda s: self.phi(theta, v | s))(s)

    def _sides(self, layer: str) -> tuple[Array, Array] | None:
        """How many times the saturation current the diodes of a layer have that keep it above 0, and below."""
        kinds = dict(self.diodes).get(layer)
        if kinds is None:
            return None
        each = np.reshape(kinds, self.shapes[layer])
        factor = self.share(layer) * np.reshape(dict(self.spread).get(layer, np.ones(each.size)), each.shape)
        return jnp.asarray(factor * np.isin(each, (1, 2))), jnp.asarray(factor * np.isin(each, (-1, 2)))

    def _content(self, s: Layers) -> Any:
        """Σ_i ∫ I_i dv of the diodes; 0 for ideal ones, within their bounds."""
        if self.diode is None:
            return 0.0
        sides = {layer: self._sides(layer) for layer in s}
        parts = (jnp.sum(self.diode.content(s[layer], *each)) for layer, each in sides.items() if each is not None)
        return sum(parts, start=0.0)

    def _secant(self, theta: Theta, v: Layers, layer: str, load: Array) -> Array:
        sides = self._sides(layer)
        if self.diode is None or sides is None:
            return load
        now = v[layer]
        drawn = jax.grad(lambda u: self.phi(theta, v | {layer: u}))(now)
        goal = self.diode.settled(load, now + drawn / load, *sides)
        force, way = drawn - self.diode.current(now, *sides), goal - now
        near = jnp.abs(way) < 1e-6 * self.diode.scale
        tangent = load + self.diode.curvature(now, *sides)
        # A diode can only add to the conductances; where the force is but rounding, the quotient could be anything.
        return jnp.where(near, tangent, jnp.maximum(force / jnp.where(near, 1.0, way), load))


def _crossbar(given: Any, sizes: Mapping[str, int]) -> Any:
    """A crossbar for a pair of layer names; what else is given stays."""
    if isinstance(given, tuple | list) and len(given) == 2 and all(layer in sizes for layer in given):
        return Crossbar(given[0], given[1], (sizes[given[0]], sizes[given[1]]))
    if not isinstance(given, Resistors):
        raise InputError(f"resistors: {given!r} is no Crossbar, no Wires and no pair of the layers {', '.join(sizes)}")
    return given


def _per_node(what: str, given: Mapping[str, Sequence[Any]], free: Mapping[str, int], kind: type) -> tuple[Any, ...]:
    """One value for each node of the layers that have any."""
    for layer, values in given.items():
        if layer not in free:
            raise InputError(f"{what} of {layer!r}, which is no layer that settles: there are {', '.join(free)}")
        if len(values) != free[layer]:
            raise InputError(f"{what} of {layer!r}: {len(values)} values for {free[layer]} nodes; give one for each")
    return tuple((layer, tuple(kind(value) for value in values)) for layer, values in given.items())


def _names(given: Mapping[str, Sequence[str]] | None, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    names = given or {layer: [f"{layer}{node}" for node in range(size)] for layer, size in sizes.items()}
    if any(len(names.get(layer, ())) != size for layer, size in sizes.items()):
        raise InputError(f"names for the layers {', '.join(names)}: give one for each node of {dict(sizes)}")
    return tuple((layer, tuple(names[layer])) for layer in sizes)
