"""A resistive network with its θ, its input and its nudge as the text of a SPICE netlist."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import e, isfinite
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.cost import SquaredError
from eqprop.energy import Resistive, Resistors, Shockley
from eqprop.energy.diode import BOLTZMANN, CHARGE
from eqprop.errors import InputError
from eqprop.total import System, Total, TotalEnergy, system
from eqprop.total.base import need
from eqprop.types import Data, Theta

STEEP = Shockley(1e-12, 1e-6)
"""What ideal diodes are written as: they drop N V_T log(1 + I/IS), less than a microvolt, and leak IS."""

PER_KELVIN = BOLTZMANN / CHARGE
"""k/q, in volts per kelvin."""

OPTIONS = "reltol=1e-9 vntol=1e-12 abstol=1e-16 gmin=1e-30 itl1=2000"
"""ngspice stops once voltages change by less than this, and puts no conductance beside diodes."""

GROUND = ("0", "gnd")


def netlist(
    F: TotalEnergy,
    theta: Theta,
    v: tuple[Data, Data],
    beta: float = 0.0,
    *,
    currents: Mapping[str, Any] | None = None,
    ideal: Shockley = STEEP,
    per_kelvin: float = PER_KELVIN,
) -> str:
    """The circuit of one example v = (x, y) as a SPICE netlist, whose operating point is the fixed point of F.

    F: `Total(Resistive(…), cost)`. θ: its conductances, as those that it is trained with.
    beta: the nudge. `SquaredError` becomes a source of the current β (target − voltage) at each output. At 0, y may be
        None.
    currents: for other costs, the constant currents that nudge the nodes of each layer, in place of `beta`.
    ideal: what ideal diodes become. They are the limit of ideality → 0.
    per_kelvin: k/q of the simulator, which idealities are corrected for. ngspice 39 has that of before 2019, so that a
        diode of 0.3 V would differ by 10⁻⁷ V.

    Nodes keep the names of the circuit where SPICE allows them, amplifiers are two controlled sources: A v_i forward,
    and a current on the way back. A layer behind amplifiers counts c times in the energy (`Resistive.share`), so the
    current that nudges it is 1/c times β (target − voltage).
    """
    F = system(F)
    net = circuit_of(F)
    x, y = v
    theta, x = jax.tree.map(lambda a: np.asarray(a, float), (theta, x))
    net.check(theta, x, {layer: jnp.zeros(shape) for layer, shape in net.shapes.items()})
    writer = _Writer(net, _labels(net))
    writer.hold(x)
    for resistors in net.resistors:
        writer.resistors(resistors, np.asarray(resistors.conductances(theta["W"][resistors.name])))
    for layer, b in theta["b"].items():
        writer.section(f"currents into {layer}")
        writer.sources("I", layer, b)
    writer.diodes(net.diode or ideal, per_kelvin)
    if currents is not None:
        writer.constant(currents)
    elif beta:
        writer.nudge(_pulled(F, y), float(beta))
    head = [f"* {net!r}", f".options {OPTIONS}", *_temperature(net.diode or ideal)]
    return "\n".join([*head, *writer.lines, ".op", ".end", ""])


def circuit_of(F: System) -> Resistive:
    """The resistive network in F."""
    return need(F, Resistive, "A netlist is that of a circuit", "give eqprop.Total(eqprop.Resistive(…), cost)")


def node_names(net: Resistive) -> dict[str, tuple[str, ...]]:
    """The names that the netlist has for the nodes of each layer."""
    labels = _labels(net)
    return {layer: tuple(labels[layer, k] for k in range(size)) for layer, size in net.sizes.items()}


def _labels(net: Resistive) -> dict[tuple[str, int], str]:
    """For each node its own name in small letters, digits and underscores; where two would be alike, with a number."""
    labels: dict[tuple[str, int], str] = {}
    taken = {*GROUND}
    for layer, names in net.names:
        for k, name in enumerate(names):
            plain = re.sub(r"\W", "_", name.lower(), flags=re.ASCII)
            plain = plain if plain[:1].isalpha() or plain in GROUND else f"n{plain}"
            count, label = 1, plain
            while label in taken:
                count, label = count + 1, f"{plain}_{count + 1}"
            taken.add(label)
            labels[layer, k] = label
    return labels


def _pulled(F: System, y: Any) -> tuple[str, np.ndarray]:
    """The layer that the squared error looks at, and the voltages that it wants there."""
    cost = F.cost if isinstance(F, Total) else None
    if not isinstance(cost, SquaredError):
        raise InputError(
            f"cost={cost!r} is no SquaredError, whose nudge is a source that any simulator has: give the constant "
            "`currents` −β ∂C/∂v of the nudged state instead"
        )
    if y is None:
        raise InputError("v = (x, None) has no target to nudge to: give (x, y), or beta=0")
    return cost.layer, np.ravel(np.asarray(cost.target(jnp.asarray(y, float))))


def _temperature(diode: Shockley) -> list[str]:
    """The temperature of the circuit, at which the saturation currents are given too."""
    celsius = _number(diode.celsius)
    return [f".options temp={celsius} tnom={celsius}"]


@dataclass
class _Writer:
    """The lines of a netlist, one element after the other; elements of a kind are numbered."""

    net: Resistive
    labels: dict[tuple[str, int], str]
    lines: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    amplifiers: dict[tuple[str, int, float, float], str] = field(default_factory=dict)

    def add(self, kind: str, *words: str | float) -> str:
        """An element: its letter with a number, nodes and values. Its name is returned."""
        self.numbers[kind] = self.numbers.get(kind, 0) + 1
        name = f"{kind}{self.numbers[kind]}"
        self.lines.append(" ".join([name, *(word if isinstance(word, str) else _number(word) for word in words)]))
        return name

    def section(self, title: str) -> None:
        self.lines.append(f"* {title}")

    def hold(self, x: np.ndarray) -> None:
        """A voltage source at every node that is held."""
        self.section("held voltages")
        layer = self.net.clamped
        for k, volts in enumerate(np.asarray(self.net.inputs(jnp.asarray(x))[layer], float)):
            self.add("V", self.labels[layer, k], "0", volts)

    def resistors(self, synapse: Resistors, g: np.ndarray) -> None:
        """The resistance 1/g between the two ends of each; those of conductance 0 are left out."""
        if not np.all(np.isfinite(g) & (g >= 0)):
            raise InputError(f"theta['W'][{synapse.name!r}] has a conductance of {_odd(g)}: give numbers of 0 or more")
        self.section(f"resistors {synapse.name}")
        for i, j, conductance in zip(*synapse.ends, g, strict=True):
            if conductance > 0:
                start = self.end(synapse.pre, int(i), synapse.amplification, synapse.share)
                stop = self.end(synapse.post, int(j), 1.0, synapse.share)
                self.add("R", start, stop, 1 / float(conductance))

    def end(self, layer: str, node: int, amplification: float, share: float) -> str:
        """The node that a resistor is joined to: that of the layer, or one behind an amplifier.

        Kirchhoff's law at node i, divided by the share c of its layer, has resistors of share c' behind an amplifier A
        draw (c'/c) A times the current through them.
        """
        label, held = self.labels[layer, node], layer == self.net.clamped
        back = 0.0 if held else share / self.net.share(layer) * amplification
        if amplification == 1 and (held or back == 1):
            return label
        if (key := (layer, node, amplification, back)) not in self.amplifiers:
            behind = f"{label}_a{len(self.amplifiers) + 1}"
            source = self.add("E", behind, "0", label, "0", amplification)
            if back:
                self.add("F", label, "0", source, -back)
            self.amplifiers[key] = behind
        return self.amplifiers[key]

    def sources(self, kind: str, layer: str, amperes: Any) -> None:
        """A current into each node of a layer."""
        for k, current in enumerate(np.ravel(np.asarray(amperes, float))):
            if current:
                self.add(kind, "0", self.labels[layer, k], current)

    def constant(self, currents: Mapping[str, Any]) -> None:
        """The nudge as given currents."""
        for layer, amperes in currents.items():
            if layer not in self.net.free or np.size(amperes) != self.net.free[layer]:
                raise InputError(
                    f"currents of {layer!r}, {np.size(amperes)} of them: give one for each node of {self.net.free}"
                )
            self.section(f"nudge of {layer}")
            self.sources("I", layer, np.asarray(amperes, float) / self.net.share(layer))

    def nudge(self, pulled: tuple[str, np.ndarray], beta: float) -> None:
        """The current β (target − v) into each output; a negative β pushes."""
        layer, targets = pulled
        if layer not in self.net.free or targets.size != self.net.free[layer]:
            raise InputError(f"{targets.size} targets for layer {layer!r}: give one for each node of {self.net.free}")
        if not isfinite(beta):
            raise InputError(f"beta={beta!r}: give a finite number")
        self.section(f"nudge of {layer}")
        for k, volts in enumerate(targets):
            label, target = self.labels[layer, k], f"{self.labels[layer, k]}_target"
            self.add("V", target, "0", volts)
            self.add("G", "0", label, target, label, beta / self.net.share(layer))

    def diodes(self, diode: Shockley, per_kelvin: float) -> None:
        """For each node the diodes that it has: from ground if they keep it above 0, to ground if below."""
        if not self.net.diodes:
            return
        self.section("diodes")
        leak, ideality = _number(diode.saturation), _number(diode.ideality * PER_KELVIN / per_kelvin)
        self.lines.append(f".model diode D(IS={leak} N={ideality})")
        self.lines.append(f".func blocked(z) {{z < -3 ? {leak}*(exp(z) + {_number(27 / e**3)}/(z*z*z)) : 0}}")
        for layer, kinds in self.net.diodes:
            spread = dict(self.net.spread).get(layer, (1.0,) * len(kinds))
            for k, (kind, factor) in enumerate(zip(kinds, spread, strict=True)):
                label = self.labels[layer, k]
                for sign, ends in ((1, ("0", label)), (-1, (label, "0"))):
                    if kind in (sign, 2):
                        self.diode(ends, factor, diode.scale)

    def diode(self, ends: Sequence[str], factor: float, scale: float) -> None:
        """A diode, and what ngspice's lacks of Shockley's law when it blocks.

        At z = v/(N V_T) < −3 ngspice takes −IS (1 + (3/(e z))³) in place of IS (exp(z) − 1). The difference is below
        0.004 IS, but if all conductances at the node are small it is many microvolts.
        """
        self.add("D", *ends, "diode", f"area={_number(factor)}")
        self.add("B", *ends, f"I = {_number(factor)}*blocked(v({','.join(ends)})/{_number(scale)})")


def _number(value: Any) -> str:
    """All digits of a number, of Python or of NumPy."""
    return repr(float(value))


def _odd(g: np.ndarray) -> float:
    """The first that is no conductance."""
    return float(g[~(np.isfinite(g) & (g >= 0))][0])
