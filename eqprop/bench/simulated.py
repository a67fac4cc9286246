"""A bench that is simulated: a resistive network that the library settles, with faults that nobody is told of."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.bench.device import Description, Device, Drive, Limit, Range, Readings, Remembers, Settled
from eqprop.bench.imperfect import Imperfections, converted, drifted, level
from eqprop.cost import Cost, Curved, SquaredError
from eqprop.energy import Resistive, Wires
from eqprop.errors import InputError
from eqprop.relax import Block
from eqprop.total import Clamped, Total
from eqprop.tree import named
from eqprop.types import Array, Data, Layers, Number, Scalar, Theta


class Pushed(Cost, Curved):
    """C = −Σ I v over the outputs, y being the currents I by layer: what a constant current adds to the energy."""

    def __call__(self, theta: Theta, y: Layers, s: Layers) -> Scalar:
        return -sum((jnp.sum(current * s[layer]) for layer, current in y.items()), start=jnp.zeros(()))

    def curvature(self, theta: Theta, beta: Number) -> dict[str, Any]:
        """None: a constant current does not bend the energy."""
        return {}


class SimulatedBench(Device, Remembers):
    """The circuit `net` on a bench, as `imperfections` let it be seen.

    net: a circuit with a range of conductances, `least` and `most`.
    volts: the readings of a layer go from −volts to volts.
    imperfections: what is not ideal; `seed` decides what of it is drawn.
    beta: the largest β of a current or a spring, in the unit of conductances.

    Readings and writes draw from a generator that follows from the seed and the number of calls so far, so that a bench
    that recalls its `memory` goes on to the same bits.
    """

    def __init__(
        self,
        net: Resistive,
        imperfections: Imperfections | None = None,
        *,
        volts: float | Mapping[str, float] = 1.0,
        seed: int = 0,
        beta: float = 100.0,
        output: str = "output",
    ):
        if not 0 <= net.least < net.most < float("inf"):
            raise InputError(f"least={net.least!r}, most={net.most!r}: a bench needs conductances of a finite range")
        self.net, self.faults, self.seed, self.output = net, imperfections or Imperfections(), seed, output
        scale = volts if isinstance(volts, Mapping) else dict.fromkeys(net.shapes, volts)
        if odd := sorted(scale.keys() ^ net.shapes.keys()):
            raise InputError(f"volts of the layers {', '.join(scale)}: {odd[0]!r} is unknown or missing")
        self.ranges = {layer: Range(-float(scale[layer]), float(scale[layer])) for layer in net.shapes}
        self.largest = beta
        draw = np.random.default_rng([seed, 0])
        self.inside = self._circuit(draw)
        self.offsets = {
            (layer, way): self.faults.offset * self.ranges[layer].width * draw.standard_normal(shape)
            for layer, shape in net.shapes.items()
            for way in (1, -1)
        }
        shapes = {synapse.name: synapse.shape for synapse in net.synapses}
        self.stuck = {name: draw.random(shape) < self.faults.stuck for name, shape in shapes.items()}
        self.g = {name: draw.uniform(net.least, net.most, shape) for name, shape in shapes.items()}
        self.asked = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
        self.b = {layer: np.zeros(shape) for layer, shape in net.biases.items()}
        self.calls = 0
        self.powered = False
        finished = Block(steps=300, tol=1e-5, accelerate=True)
        self.relaxation = finished if self.faults.sweeps is None else Block(self.faults.sweeps, omega=1.0)

    def _circuit(self, draw: np.random.Generator) -> Resistive:
        """What is really on the bench: the network, with diodes that differ and sources that have a resistance."""
        net, faults = self.net, self.faults
        if faults.diode_spread and net.diode is None:
            raise InputError(f"diode_spread={faults.diode_spread!r} is for real diodes: give net diode=Shockley(…)")
        layers, resistors, clamped = dict(net.layers), list(net.synapses), net.clamped
        if faults.source_resistance:
            count = net.sizes[net.clamped]
            layers = {"source": (count,)} | layers
            pairs = tuple((node, node) for node in range(count))
            resistors.append(Wires("source", net.clamped, pairs, fixed=1 / faults.source_resistance))
            clamped = "source"
        spread = {
            layer: np.exp(faults.diode_spread * draw.standard_normal(len(kinds))).tolist()
            for layer, kinds in net.diodes
            if faults.diode_spread
        }
        return Resistive(
            layers,
            resistors,  # pyright: ignore[reportArgumentType]  (those of a circuit are resistors)
            clamped=clamped,
            diodes=dict(net.diodes),
            diode=net.diode,
            spread=spread or {layer: list(factors) for layer, factors in net.spread},
            sources=net.sources,
            gain=net.gain,
            mirrored=net.mirrored,
            rails=net.rails,
        )

    def describe(self) -> Description:
        """The circuit as it was meant; any number of examples at once."""
        theta = named(jax.eval_shape(self.net.init, jax.random.key(0)))
        volts = self.ranges[self.output]
        amperes = Range(-self.largest * volts.width, self.largest * volts.width, "A")
        return Description(
            name="simulated bench",
            inputs=(self.net.inputs_expected,),
            input_range=Range(-1.0, 1.0, f"times {self.net.gain:g} V"),
            readings=self.net.shapes,
            reading_ranges=self.ranges,
            theta={name: leaf.shape for name, leaf in theta.items()},
            theta_range=Range(self.net.least, self.net.most, "S"),
            nudges={
                "current": Limit(self.largest, amperes),
                "spring": Limit(self.largest, volts),
                "clamp": Limit(1.0, volts),
            },
            output=self.output,
            batch=None,
        )

    def write(self, theta: Theta) -> Theta:
        """Set conductances. A resistor whose state stays the same is left alone, and so keeps what it had reached."""
        draw, net, faults = self._draw(), self.net, self.faults
        width = net.most - net.least
        for name, wish in theta["W"].items():
            asked = np.clip(np.asarray(wish, float), net.least, net.most)
            if faults.states is not None:
                uniform = draw.random(asked.shape) if faults.stochastic else None
                state = level(asked, net.least, net.most, faults.states, uniform)
                asked = net.least + state * width / (faults.states - 1)
            changed = (asked != self.asked[name]) & ~self.stuck[name]
            reached = asked + faults.write_noise * width * draw.standard_normal(asked.shape)
            self.g[name] = np.where(changed, np.clip(reached, net.least, net.most), self.g[name])
            self.asked[name] = asked
        self.b = {layer: np.asarray(b, float) for layer, b in theta["b"].items()}
        self.powered = True
        return self.conductances()

    def conductances(self) -> Theta:
        """θ as it is now, which a lab reads back."""
        return {
            "W": {name: g.astype(np.float32) for name, g in self.g.items()},
            "b": {layer: b.astype(np.float32) for layer, b in self.b.items()},
        }

    def settle(self, x: np.ndarray, drive: Drive | None) -> Settled:
        """The voltages of all nodes, as they are read."""
        draw, faults = self._draw(), self.faults
        self.powered = True
        way = 0 if drive is None else 1 if drive.beta > 0 else -1
        readings: Readings = {}
        for layer, u in self._voltages(np.asarray(x, np.float32), drive).items():
            ends = self.ranges[layer]
            seen = u + faults.read_noise * ends.width * draw.standard_normal(u.shape)
            seen = seen + (self.offsets[layer, way] if way else 0.0)
            readings[layer] = converted(seen, ends.low, ends.high, faults.bits).astype(np.float32)
        if faults.drift:
            self.g = {name: drifted(g, self.net.least, faults.drift) for name, g in self.g.items()}
        return Settled(readings)

    def safe(self) -> None:
        """Power off."""
        self.powered = False

    def memory(self) -> dict[str, np.ndarray]:
        """The number of calls, the conductances and what was asked for last."""
        kept = {f"g/{name}": g for name, g in self.g.items()} | {f"b/{layer}": b for layer, b in self.b.items()}
        return kept | {f"asked/{name}": g for name, g in self.asked.items()} | {"calls": np.array(self.calls)}

    def recall(self, memory: Mapping[str, np.ndarray]) -> None:
        """Go on from there."""
        self.calls = int(memory["calls"])
        self.g = {name: np.array(memory[f"g/{name}"], float) for name in self.g}
        self.b = {layer: np.array(memory[f"b/{layer}"], float) for layer in self.b}
        self.asked = {name: np.array(memory[f"asked/{name}"], float) for name in self.asked}

    def _draw(self) -> np.random.Generator:
        self.calls += 1
        return np.random.default_rng([self.seed, self.calls])

    def _voltages(self, x: np.ndarray, drive: Drive | None) -> Readings:
        """What the circuit really comes to, at all nodes that are read."""
        theta: Any = self.conductances()
        for synapse in self.inside.synapses:
            theta["W"].setdefault(synapse.name, np.zeros(0, np.float32))
        s = self.inside.space.rest(len(x))
        values: dict[str, Array] = {} if drive is None else {k: jnp.asarray(u) for k, u in drive.values.items()}
        held: dict[str, Any] = {}
        if drive is not None and drive.kind == "clamp":
            held = values
            F, v, beta = Clamped(self.inside, tuple(held)), ((x, None), held), 0.0
            s = {layer: u for layer, u in s.items() if layer not in held}
        elif drive is not None and drive.kind == "spring":
            F, v, beta = Total(self.inside, SquaredError(self.output)), (x, values[self.output]), drive.beta
        else:
            push: Data = values or {self.output: jnp.zeros((len(x), *self.net.shapes[self.output]))}
            F, v, beta = Total(self.inside, Pushed()), (x, push), 1.0
        settled, _ = self.relaxation(F, theta, v, beta, s)
        return {layer: np.asarray((settled | held)[layer]) for layer in self.net.shapes}
