"""A bench that is simulated: a resistive network that the library settles, with hidden faults."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import inf
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from eqprop.bench.device import Description, Device, Drive, Limit, Range, Remembers, Settled
from eqprop.compile import compiled
from eqprop.cost import Cost, Curved, SquaredError
from eqprop.device import Readings, Writing, only, states
from eqprop.device.writing import transformation
from eqprop.energy import Resistive
from eqprop.errors import InputError
from eqprop.relax import Block
from eqprop.store.checkpoint import flattened, restored
from eqprop.total import Clamped, Total
from eqprop.tree import named
from eqprop.types import Array, Data, Key, Layers, Number, Scalar, Seed, State, Theta


class Pushed(Cost, Curved):
    """C = −Σ I v over the outputs, y being the currents I by layer: what a constant current adds to the energy."""

    def __call__(self, theta: Theta, y: Layers, s: Layers) -> Scalar:
        return -sum((jnp.sum(current * s[layer]) for layer, current in y.items()), start=jnp.zeros(()))

    def curvature(self, theta: Theta, beta: Number) -> dict[str, Any]:
        """None: a constant current does not bend the energy."""
        return {}


class Devices(NamedTuple):
    """What the devices on the bench hold.

    theta: where they are.
    asked: where they were last told to go, on a state that they have.
    levels, effects: what the effects of writing remember.
    """

    theta: Theta
    asked: Theta
    levels: Any
    effects: Any


class SimulatedBench(Device, Remembers):
    """The circuit `net` on a bench, written and read as devices are.

    net: the circuit as it was meant.
    reading: how voltages are read; its `low` and `high` are the ranges of the readings. The free settling is its first
        phase, a pull its second and a push away its third.
    writing: how conductances are written; None: just as asked for. Without a range it has that of `net`.
    real: the circuit that is really there, if its diodes or its sources are other ones.
    sweeps: after how many it is read, although it may not have come to rest; None: it has.
    seed: of the conductances before the first write, and of the noise of readings.
    beta: the largest β of a current or a spring, in the unit of conductances.

    A write goes from where a device is to the state nearest to what is asked for. A device whose state stays the same
    is left alone, and so keeps what it had reached. Devices age with every write and every settling.
    """

    def __init__(
        self,
        net: Resistive,
        reading: Readings,
        writing: Writing | None = None,
        *,
        real: Resistive | None = None,
        sweeps: int | None = None,
        seed: Seed = 0,
        beta: float = 100.0,
        output: str = "output",
    ):
        self.net, self.real, self.seed, self.largest, self.output = net, real or net, seed, beta, output
        if odd := [layer for layer, shape in net.shapes.items() if self.real.shapes.get(layer) != shape]:
            raise InputError(f"real: its layer {odd[0]!r} is not that of net; give a circuit with the layers of net")
        self.reading, self.writing = reading, _ranged(writing or Writing(), net)
        self.ranges = _ranges(reading, net)
        shapes = jax.eval_shape(net.init, jax.random.key(0))
        before = self.writing.start(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes), jax.random.key(seed))
        levels, effects = _transformations(self.writing)
        self.held = Devices(before, before, levels and levels.init(before), effects.init(before))
        self.calls = 0
        self.powered = False
        self.relaxation = Block(300, 1e-5, accelerate=True) if sweeps is None else Block(sweeps, omega=1.0)

    def describe(self) -> Description:
        """The circuit as it was meant; any number of examples at once."""
        volts = self.ranges[self.output]
        amperes = Range(-self.largest * volts.width, self.largest * volts.width, "A")
        low, high = self.writing.range or (0.0, inf)
        return Description(
            name="simulated bench",
            inputs=(self.net.inputs_expected,),
            input_range=Range(-1.0, 1.0, f"times {self.net.gain:g} V"),
            readings=self.net.shapes,
            reading_ranges=self.ranges,
            theta={name: leaf.shape for name, leaf in named(self.held.theta).items()},
            theta_range=Range(low, high, "S"),
            nudges={
                "current": Limit(self.largest, amperes),
                "spring": Limit(self.largest, volts),
                "clamp": Limit(1.0, volts),
            },
            output=self.output,
            batch=None,
        )

    def write(self, theta: Theta) -> Theta:
        """Set conductances, and read them back."""
        levels, effects = _transformations(self.writing)
        self.held = _written(levels, effects, jax.tree.map(jnp.asarray, theta), self.held)
        self.powered = True
        return self.conductances()

    def conductances(self) -> Theta:
        """θ as it is now, which a lab reads back."""
        return jax.tree.map(np.asarray, self.held.theta)

    def settle(self, x: np.ndarray, drive: Drive | None) -> Settled:
        """The voltages of all nodes, as they are read."""
        self.calls += 1
        self.powered = True
        phase = 0 if drive is None else 1 if drive.beta > 0 else 2
        key = jax.random.fold_in(jax.random.key(self.seed), self.calls)
        seen = _seen(self.reading, self._voltages(np.asarray(x, np.float32), drive), key, phase)
        if self.writing.ages:
            self.held = _aged(_transformations(self.writing)[1], self.held)
        return Settled({layer: np.asarray(u) for layer, u in seen.items()})

    def safe(self) -> None:
        """Power off."""
        self.powered = False

    def memory(self) -> dict[str, np.ndarray]:
        """What the devices hold, and the number of settlings, from which the noise of readings follows."""
        return flattened(self.held) | {"calls": np.array(self.calls)}

    def recall(self, memory: Mapping[str, np.ndarray]) -> None:
        """Go on from there."""
        self.calls, self.held = int(memory["calls"]), restored(memory, self.held)

    def _voltages(self, x: np.ndarray, drive: Drive | None) -> Layers:
        """What the circuit really comes to, at all nodes that are read."""
        held = self.held.theta
        none = {synapse.name: jnp.zeros(0) for synapse in self.real.synapses if synapse.name not in held["W"]}
        theta = held | {"W": held["W"] | none}
        s = self.real.space.rest(len(x))
        values: dict[str, Array] = {} if drive is None else {k: jnp.asarray(u) for k, u in drive.values.items()}
        clamped: dict[str, Any] = {}
        if drive is not None and drive.kind == "clamp":
            clamped = values
            F, v, beta = Clamped(self.real, tuple(clamped)), ((x, None), clamped), 0.0
            s = {layer: u for layer, u in s.items() if layer not in clamped}
        elif drive is not None and drive.kind == "spring":
            F, v, beta = Total(self.real, SquaredError(self.output)), (x, values[self.output]), drive.beta
        else:
            push: Data = values or {self.output: jnp.zeros((len(x), *self.net.shapes[self.output]))}
            F, v, beta = Total(self.real, Pushed()), (x, push), 1.0
        settled, _ = self.relaxation(F, theta, v, beta, s)
        return {layer: (settled | clamped)[layer] for layer in self.net.shapes}


def _ranged(writing: Writing, net: Resistive) -> Writing:
    """With a range: its own, or that of the circuit."""
    if writing.rounding == "accumulate":
        raise InputError(
            "rounding='accumulate' keeps what a write leaves over, and a bench is told θ itself: 'nearest'"
        )
    if writing.range is not None:
        return writing
    if not 0 <= net.least < net.most < inf:
        raise InputError(f"least={net.least!r}, most={net.most!r}: a bench needs conductances of a finite range")
    return replace(writing, w_min=net.least, w_max=net.most)


def _ranges(reading: Readings, net: Resistive) -> dict[str, Range]:
    """What the readings of each layer lie between."""
    if reading.low is None:
        raise InputError("reading: give low and high, the ends of what can be read, as Readings(low=-1.0, high=1.0)")
    reading.check(Total(net, SquaredError()))

    def end(given: Any, layer: str) -> np.ndarray:
        return np.asarray(given[layer] if isinstance(given, Mapping) else given)

    return {
        layer: Range(float(end(reading.low, layer).min()), float(end(reading.high, layer).max()))
        for layer in net.shapes
    }


@cache  # the same functions for the same devices, so that other benches compile nothing
def _transformations(writing: Writing) -> tuple[Any, optax.GradientTransformation]:
    """To which state a device is told to go, if it has some, and what becomes of the way there."""
    effects = transformation(replace(writing, states=None))
    if writing.states is None:
        return None, effects
    low, high = writing.range or (0.0, inf)
    levels = states(writing.states, low, high, writing.rounding, writing.seed)
    return only(levels, *writing.parts) if writing.parts else levels, effects


@compiled
def _written(levels: Any, effects: Any, wish: Theta, held: Devices) -> Devices:
    asked, of_levels = wish, held.levels
    if levels is not None:
        change = jax.tree.map(jnp.subtract, wish, held.asked)
        change, of_levels = levels.update(change, held.levels, held.asked)
        asked = optax.apply_updates(held.asked, change)
    way = jax.tree.map(lambda to, before, now: jnp.where(to != before, to - now, 0), asked, held.asked, held.theta)
    change, of_effects = effects.update(way, held.effects, held.theta)
    return Devices(optax.apply_updates(held.theta, change), asked, of_levels, of_effects)


@compiled
def _aged(effects: Any, held: Devices) -> Devices:
    change, of_effects = effects.update(jax.tree.map(jnp.zeros_like, held.theta), held.effects, held.theta)
    return held._replace(theta=optax.apply_updates(held.theta, change), effects=of_effects)


@compiled
def _seen(reading: Readings, states: State, key: Key, phase: int) -> State:
    return reading.phase(states, key, phase)
