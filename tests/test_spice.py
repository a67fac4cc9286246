"""Resistive networks beside ngspice, an independent solver of circuits: voltages, gradients, and every element."""

from copy import copy
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqprop as ep
from eqprop import spice
from eqprop.energy.diode import BOLTZMANN, CHARGE
from eqprop.spice.ngspice import per_kelvin
from eqprop.verification import SUBJECTS, Report, verify_zoo
from eqprop.verification.circuit import Circuit
from eqprop.verification.proposition1 import Proposition1
from marks import slow, slow_but

pytestmark = [
    pytest.mark.usefixtures("x64"),
    pytest.mark.skipif(not spice.installed(), reason="ngspice is not installed: apt-get install ngspice"),
]

BETAS = (0.0, 0.1, -0.1)
SMALL, LARGE = (8, 20, 4), (64, 100, 10)
SETTLE = ep.Block(2_000, 1e-12)
BAT42 = ep.Shockley(1e-7, 1.1)


def linear(inputs: int, hidden: int, outputs: int) -> ep.Resistive:
    sizes = {"input": inputs + 2, "hidden": hidden, "output": outputs}
    return ep.Resistive(sizes, [("input", "hidden"), ("hidden", "output")], rails=(1.0, -1.0))


def shockley(*sizes: int) -> ep.Resistive:
    return ep.Resistive.layered(*sizes, gain=10.0, diode=BAT42)


def antiparallel(inputs: int, hidden: int, outputs: int) -> ep.Resistive:
    sizes = {"input": inputs + 2, "hidden": hidden, "output": outputs}
    pairs = [("input", "hidden"), ("hidden", "output")]
    return ep.Resistive(sizes, pairs, gain=20.0, rails=(1.0, -1.0), diodes={"hidden": [2] * hidden}, diode=BAT42)


def ideal(*sizes: int) -> ep.Resistive:
    return ep.Resistive.layered(*sizes, gain=10.0)


def examples(net: ep.Resistive, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    x = draw.uniform(-1, 1, (count, net.inputs_expected))
    return x, np.tanh(x @ draw.normal(size=(net.inputs_expected, net.free["output"])))


def total(net: ep.Resistive) -> ep.Total:
    return ep.Total(net, ep.SquaredError())


def random(net: ep.Resistive) -> Any:
    return net.init(jax.random.key(0), gain=1.0)


def trained(net: ep.Resistive) -> Any:
    """θ after two epochs of Equilibrium Propagation; some conductances have come to rest at 0."""
    rule = ep.EquilibriumPropagation(ep.Symmetric(0.1), ep.Block(50, 1e-6), ep.Block(50, 1e-6))
    feed = ep.Shuffled(examples(net, 40), batch_size=10)
    trainer = ep.Trainer(total(net), rule, optax.adam(0.01))
    start = trainer.init(random(net), feed, jax.random.key(1))
    end, history = ep.fit(trainer, start, feed, epochs=2)
    assert history[-1]["train_cost"] < history[0]["train_cost"]
    assert any((g == 0).any() for g in end.theta["W"].values())
    return end.theta


NETWORKS = [
    slow(linear, SMALL, random),
    (shockley, SMALL, random),
    slow(shockley, SMALL, trained),
    slow(linear, SMALL, trained),
    slow(antiparallel, SMALL, random),
    slow(antiparallel, SMALL, trained),
    slow(linear, LARGE, random),
    slow(linear, LARGE, trained),
    slow(shockley, LARGE, random),
    slow(shockley, LARGE, trained),
]


@pytest.mark.parametrize(("make", "sizes", "weights"), NETWORKS)
def test_voltages_are_those_of_ngspice(make: Any, sizes: tuple[int, ...], weights: Any) -> None:
    net = make(*sizes)
    found = spice.compare(total(net), weights(net), examples(net), BETAS)
    assert found.betas == BETAS
    assert found.largest <= 1e-10, str(found)
    free, pulled, pushed = (volts["output"] for volts in found.ngspice)
    assert np.all((free - pulled) * (free - pushed) < 0), "a pull moves every output one way, a push the other"


@pytest.mark.parametrize(
    ("sizes", "weights"), [(SMALL, random), slow(SMALL, trained), slow(LARGE, random), slow(LARGE, trained)]
)
def test_ideal_diodes_are_the_limit_of_steep_ones(sizes: tuple[int, ...], weights: Any) -> None:
    net = ideal(*sizes)
    F, theta, v = total(net), weights(net), examples(net)
    idealities = np.array([1e-2, 1e-4, 1e-6])
    errors = [spice.compare(F, theta, v, BETAS, ideal=ep.Shockley(1e-12, n)).largest for n in idealities]
    assert np.allclose(errors / idealities, errors[0] / idealities[0], rtol=0.1), errors
    assert errors[-1] <= 1e-6


@pytest.mark.parametrize("make", [shockley, slow(linear), slow(antiparallel)])
@pytest.mark.slow
def test_the_gradient_is_that_of_costs_which_ngspice_measures(make: Any) -> None:
    """EP at β = ±0.01 beside differences of ½ ‖output − y‖², averaged over examples, when a conductance changes."""
    net = make(*SMALL)
    F, theta, (x, y) = total(net), random(net), examples(net)
    rule = ep.EquilibriumPropagation(ep.Symmetric(0.01), SETTLE, SETTLE)
    gradient = rule(F, theta, (x, y), F.space.rest(len(x))).gradient["W"]

    def cost(name: str, at: tuple[int, ...], change: float) -> float:
        moved = theta | {"W": theta["W"] | {name: theta["W"][name].at[at].add(change)}}
        return float(np.mean(np.sum((spice.solve(F, moved, (x, None))["output"] - y) ** 2, axis=1)) / 2)

    some = [("input-hidden", (0, 0)), ("input-hidden", (3, 12)), ("input-hidden", (-1, 5))]
    some += [("hidden-output", (0, 0)), ("hidden-output", (7, 2)), ("hidden-output", (19, 3))]
    step = 1e-4
    measured = np.array([(cost(*one, step) - cost(*one, -step)) / (2 * step) for one in some])
    ours = np.array([float(gradient[name][at]) for name, at in some])
    assert np.linalg.norm(ours - measured) <= 1e-3 * np.linalg.norm(measured)
    assert np.all(np.abs(ours - measured) <= 1e-2 * np.abs(measured))


# Single elements, with what they ought to do by hand.


@dataclass
class Node:
    """One node joined to the input by the conductance g, and to the ground by a resistor of conductance `load`."""

    diodes: dict[str, int] | None = None
    diode: ep.Shockley | None = None
    g: float = 2.0
    load: float = 1.0

    def volts(self, x: float, y: float = 0.0, beta: float = 0.0, **options: Any) -> float:
        net = ep.Resistive.netlist(
            [("x", "out"), ("out", "gnd")],
            inputs=["x"],
            outputs=["out"],
            rails={"gnd": 0.0},
            diodes=self.diodes,
            diode=self.diode,
        )
        theta = {"W": {"input-output": jnp.array([self.g, self.load])}, "b": {}}
        found = spice.solve(total(net), theta, (np.array([[x]]), np.array([[y]])), beta, **options)
        return float(found["output"][0, 0])


def test_a_resistor_and_a_nudge_of_either_sign() -> None:
    assert Node().volts(3.0) == pytest.approx(2.0, abs=1e-14)
    for beta in (0.5, -0.5):  # (2 · 3 + β · 7) / (2 + 1 + β)
        assert Node().volts(3.0, 7.0, beta) == pytest.approx((6 + 7 * beta) / (3 + beta), abs=1e-13)
    assert Node().volts(3.0, currents={"output": np.array([[0.6]])}) == pytest.approx(2.2, abs=1e-14)


def test_targets_between_other_bounds() -> None:
    net = linear(2, 3, 1)
    F = ep.Total(net, ep.SquaredError(low=-1.0, high=3.0))
    assert spice.compare(F, random(net), (np.ones((1, 2)), np.ones((1, 1))), (0.3,)).largest < 1e-13


def settled(node: Node, x: float, current: Any) -> float:
    """Where g (x − v) = load · v + I(v), by halving."""
    low, high = sorted((0.0, node.g * x / (node.g + node.load)))
    for _ in range(200):
        v = (low + high) / 2
        low, high = (v, high) if node.g * (x - v) > node.load * v + current(v) else (low, v)
    return (low + high) / 2


@pytest.mark.parametrize("celsius", [27.0, 85.0])
@pytest.mark.parametrize("kind", [1, -1, 2])
@pytest.mark.parametrize("x", [0.2, -0.2, 3.0, -3.0])
def test_a_diode_follows_its_law_forwards_and_backwards(kind: int, x: float, celsius: float) -> None:
    """With conductances as small as those of a bench, where what a diode leaks matters too."""
    diode = ep.Shockley(1e-7, 1.1, celsius)
    scale = 1.1 * BOLTZMANN * (celsius + 273.15) / CHARGE

    def current(v: float) -> float:
        below = 1e-7 * (exp(v / scale) - 1) if kind in (-1, 2) else 0.0
        return below - (1e-7 * (exp(-v / scale) - 1) if kind in (1, 2) else 0.0)

    node = Node({"out": kind}, diode, g=2e-6, load=1e-8)
    assert node.volts(x) == pytest.approx(settled(node, x, current), abs=1e-10)


def test_the_constants_of_ngspice_are_not_quite_those_of_today() -> None:
    """Hence `per_kelvin`; without it the voltage of a diode is off by more than what is asked for."""
    ours = BOLTZMANN / CHARGE
    assert per_kelvin() == pytest.approx(ours, rel=1e-6)
    net = shockley(*SMALL)
    text = spice.netlist(total(net), random(net), tuple(part[0] for part in examples(net)), per_kelvin=2 * ours)
    assert "N=0.55" in text


def test_an_ideal_diode_holds_a_node_on_its_side() -> None:
    assert Node({"out": 1}).volts(-3.0) == pytest.approx(0.0, abs=1e-6)
    assert Node({"out": 1}).volts(3.0) == pytest.approx(2.0, abs=1e-6)
    assert Node({"out": -1}).volts(3.0) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
def test_diodes_may_differ_from_node_to_node() -> None:
    net = ep.Resistive(
        {"input": 2, "output": 3},
        [("input", "output")],
        diodes={"output": [1, 2, -1]},
        diode=BAT42,
        spread={"output": [0.5, 2.0, 30.0]},
    )
    v = np.array([[1.0, -2.0], [2.0, 1.0]]), np.zeros((2, 3))
    found = spice.compare(total(net), random(net), v, BETAS)
    assert found.largest < 1e-11, str(found)
    even = spice.compare(total(shockley(2, 2, 3)), random(shockley(2, 2, 3)), v, BETAS)
    assert even.largest < 1e-11


@pytest.mark.parametrize("back", [0.25, 0.7])
def test_an_amplifier_multiplies_voltages_there_and_currents_back(back: float) -> None:
    """x —g₁— h —A▷—g₂— out —g₃— ground:  g₁ (x − h) = back · I,  I = g₂ (A h − out) = g₃ out."""
    A, x, g1, g2, g3 = 4.0, 3.0, 2.0, 5.0, 0.5
    step = back / A
    net = ep.Resistive(
        {"input": 2, "hidden": 1, "output": 1},
        [
            ep.Wires("input", "hidden", ((0, 0),)),
            ep.Crossbar("hidden", "output", (1, 1), amplification=A, share=step),
            ep.Wires("input", "output", ((1, 0),), share=step),
        ],
        rails=(0.0,),
    )
    W = {"input-hidden": jnp.array([g1]), "hidden-output": jnp.array([[g2]]), "input-output": jnp.array([g3])}
    F, theta, v = total(net), {"W": W, "b": {}}, (np.array([[x]]), np.array([[2.0]]))
    behind = A * g2 * g3 / (g2 + g3)
    h = g1 * x / (g1 + back * behind)
    found = spice.solve(F, theta, v)
    assert found["hidden"][0, 0] == pytest.approx(h, abs=1e-12)
    assert found["output"][0, 0] == pytest.approx(A * h * g2 / (g2 + g3), abs=1e-12)
    assert spice.compare(F, theta, v, (0.0, 0.05, -0.01)).largest < 1e-12


CIRCUITS: dict[str, Any] = {
    "two hidden layers with amplifiers": lambda: ep.Resistive.layered(
        3, 4, 4, 2, gain=2.0, amplification=4.0, diode=BAT42
    ),
    "sources with a resistance": lambda: ep.Resistive.layered(3, 4, 2, gain=2.0, source_resistance=0.2, diode=BAT42),
    "all of it": lambda: ep.Resistive.layered(
        3, 4, 4, 2, gain=2.0, amplification=3.0, back=0.6, source_resistance=0.2, diode=BAT42
    ),
    "currents": lambda: ep.Resistive(
        {"input": 2, "hidden": 3, "output": 2},
        [("input", "hidden"), ("hidden", "output")],
        sources=("hidden", "output"),
    ),
    "currents and diodes behind an amplifier": lambda: ep.Resistive(
        {"input": 2, "hidden": 3, "output": 2},
        [ep.Crossbar("input", "hidden", (2, 3)), ep.Crossbar("hidden", "output", (3, 2), 3.0, 1 / 9)],
        sources=("hidden", "output"),
        diodes={"output": [1, -1]},
        diode=BAT42,
    ),
    "resistors within a layer": lambda: ep.Resistive(
        {"input": 2, "output": 3}, [("input", "output"), ep.Wires("output", "output", ((0, 1), (1, 2)))]
    ),
}


@pytest.mark.parametrize("name", slow_but(CIRCUITS, "all of it"))
def test_elements_work_together(name: str) -> None:
    net = CIRCUITS[name]()
    theta = random(net)
    theta = theta | {"b": jax.tree.map(lambda b: jnp.linspace(-0.3, 0.5, b.size), theta["b"])}
    beta = 0.1 * net.share("output")
    found = spice.compare(total(net), theta, examples(net), (0.0, beta, -beta))
    assert found.largest < 1e-10, str(found)


def test_a_circuit_given_by_names() -> None:
    """Names that SPICE does not take, or takes for the ground, or cannot tell apart."""
    pairs = [("+in", "A"), ("A", "a"), ("a", "0"), ("A", "gnd"), ("a", "7 ω"), ("7 ω", "gnd")]
    net = ep.Resistive.netlist(pairs, inputs=["+in"], outputs=["0"], rails={"gnd": -0.5})
    F, theta, v = total(net), random(net), (np.array([[2.0]]), np.array([[1.0]]))
    assert spice.compare(F, theta, v, BETAS).largest < 1e-12
    text = spice.netlist(F, theta, (v[0][0], v[1][0]), 0.1)
    nodes = {word for line in text.splitlines() if line.startswith("R") for word in line.split()[1:3]}
    assert nodes == {"n_in", "gnd_2", "a", "a_2", "0_2", "n7__"}


def test_a_conductance_of_0_is_left_out() -> None:
    net = linear(1, 2, 1)
    theta = random(net)
    theta["W"]["input-hidden"] = theta["W"]["input-hidden"].at[0, 0].set(0)
    text = spice.netlist(total(net), theta, (np.ones(1), None))
    assert text.count("\nR") == net.parameters - 1
    assert "R1 input0 hidden1" in text


def test_another_cost_nudges_by_constant_currents() -> None:
    net = shockley(3, 4, 2)
    F, (x, _) = ep.Total(net, ep.CrossEntropy()), examples(net)
    v = x, np.array([[1.0, 0.0], [0.0, 1.0]])
    assert spice.compare(F, random(net), v, BETAS).largest < 1e-10
    with pytest.raises(ep.InputError, match=r"no SquaredError.*give the constant `currents`"):
        spice.netlist(F, random(net), (v[0][0], v[1][0]), 0.1)


def test_the_comparison_is_a_table() -> None:
    net = linear(2, 3, 1)
    lines = str(spice.compare(total(net), random(net), examples(net), (0.0, 0.1))).splitlines()
    assert lines[0] == "largest difference from ngspice in volts, 2 examples"
    assert lines[1].split() == ["β", "hidden", "output"]
    assert [line.split()[0] for line in lines[2:]] == ["0", "0.1"]


# What cannot be done is refused in words.


def test_without_ngspice_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(spice.SpiceError, match="apt-get install ngspice"):
        spice.run("* nothing\n.op\n.end\n")
    report = Report((Circuit().check(SUBJECTS["circuit, bridge"]()),))
    assert str(report).startswith("skip") and "ngspice is not installed" in str(report)
    assert "ngspice is not installed" in report.to_dict()["findings"][0]["skipped"]
    assert not report.passed, "nothing was checked"


def test_what_ngspice_says_is_told() -> None:
    with pytest.raises(spice.SpiceError, match=r"no operating point(.|\n)*unknown"):
        spice.run("* nothing\nV1 a 0 1\nD1 a 0 unknown\n.op\n.end\n")
    with pytest.raises(spice.SpiceError, match=r"longer than timeout=0\.001"):
        spice.run("* nothing\nV1 a 0 1\nR1 a 0 1\n.op\n.end\n", timeout=0.001)


def test_what_cannot_be_a_circuit_is_refused() -> None:
    net = linear(2, 3, 1)
    F, theta, v = total(net), random(net), (np.ones(2), np.ones(1))
    with pytest.raises(ep.InputError, match=r"netlist is that of a circuit.*Resistive"):
        spice.netlist(ep.Total(ep.Hopfield.layered(2, 1), ep.SquaredError()), theta, v)
    with pytest.raises(ep.InputError, match=r"conductance of -1\.0: give numbers of 0 or more"):
        spice.netlist(F, theta | {"W": jax.tree.map(lambda g: 0 * g - 1, theta["W"])}, v)
    with pytest.raises(ep.InputError, match="no target to nudge to"):
        spice.netlist(F, theta, (np.ones(2), None), 0.1)
    with pytest.raises(ep.InputError, match=r"currents of 'outptu'.*one for each node"):
        spice.netlist(F, theta, v, currents={"outptu": np.ones(1)})
    with pytest.raises(ep.InputError, match="2 targets for layer 'output'"):
        spice.netlist(F, theta, (np.ones(2), np.ones(2)), 0.1)
    with pytest.raises(ep.InputError, match=r"shape \(1, 2\) does not fit"):
        spice.netlist(F, theta, (np.ones((1, 2)), np.ones((1, 1))))
    with pytest.raises(ep.InputError, match="a push so strong has no minimum"):
        spice.compare(F, theta, (np.ones((1, 2)), np.ones((1, 1))), (-100.0,))
    loose = theta | {"W": jax.tree.map(lambda g: 0 * g, theta["W"])}
    with pytest.raises(spice.SpiceError, match="node 'hidden0' has no conductance above 0"):
        spice.solve(F, loose, (np.ones((1, 2)), None))


class Warmer(ep.Shockley):
    """Says one temperature and has another, by one degree."""

    @property
    def scale(self) -> float:
        return super().scale * 301 / 300


@pytest.mark.slow
@pytest.mark.parametrize("name", ["circuit, bridge", "circuit", "circuit, Shockley"])
def test_the_claim_holds_on_circuits(name: str) -> None:
    report = verify_zoo({name: SUBJECTS[name]}, (Circuit(),))
    assert report.passed, str(report)


@pytest.mark.slow
def test_the_claim_catches_what_derivatives_cannot() -> None:
    """A diode of another temperature is a proper energy too; only the circuit knows."""
    whole = SUBJECTS["circuit, bridge"]()
    assert Circuit().check(whole).passed
    net: Any = copy(whole.F.offer(ep.Resistive))
    object.__setattr__(net, "diode", Warmer(net.diode.saturation, net.diode.ideality))
    faulty = replace(whole, F=total(net))
    assert not Circuit().check(faulty).passed
    assert Proposition1().check(faulty).passed
