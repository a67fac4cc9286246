"""Resistive networks: voltages against Kirchhoff's laws solved by NumPy, gradients, and what bad circuits are told."""

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.optimize import brentq, lsq_linear

import eqprop as ep
from eqprop.errors import InputError
from marks import slow, slow_but

pytestmark = pytest.mark.usefixtures("x64")
SETTLED = ep.Block(steps=5000, tol=1e-12, omega=1.0)
DIODE = ep.Shockley(1e-7, 1.1)
BRIDGE = [("x", "a"), ("x", "b"), ("a", "b"), ("a", "out"), ("b", "out"), ("b", "low"), ("out", "high")]
CIRCUITS: dict[str, Callable[[], ep.Resistive]] = {
    "ideal": lambda: ep.Resistive.layered(4, 6, 3, gain=5.0),
    "shockley": lambda: ep.Resistive.layered(4, 6, 3, gain=5.0, diode=DIODE),
    "amplified": lambda: ep.Resistive.layered(4, 6, 5, 3, gain=5.0, amplification=3.0),
    "transformed": lambda: ep.Resistive.layered(4, 6, 3, gain=5.0, amplification=2.0, back=2.0),
    "sources": lambda: ep.Resistive.layered(4, 6, 3, gain=5.0, source_resistance=0.3),
    "bridge": lambda: ep.Resistive.netlist(
        BRIDGE, inputs=["x"], outputs=["out"], rails={"low": -1.0, "high": 2.0}, diodes={"a": 1}
    ),
}


def example(net: ep.Resistive, batch: int = 3) -> tuple[Any, tuple[Any, Any]]:
    """θ, and v."""
    theta = net.init(jax.random.key(0), 1.0)
    x = jax.random.uniform(jax.random.key(1), (batch, net.inputs_expected), minval=-1.0)
    return theta, (x, jax.random.uniform(jax.random.key(2), (batch, net.sizes["output"])))


def kirchhoff(net: ep.Resistive, theta: Any, x: Any) -> tuple[np.ndarray, np.ndarray, list[tuple[str, int]]]:
    """A and b of A v = b, the balance of currents at the nodes that settle, resistor by resistor.

    Behind an amplifier, what a layer gives back is `back` times the current.
    """
    place = {(layer, i): n for n, (layer, i) in enumerate((k, i) for k, size in net.free.items() for i in range(size))}
    held = np.concatenate([net.gain * x, -net.gain * x] if net.mirrored else [net.gain * x])
    held = np.concatenate([held, net.rails])
    front = {synapse.post: synapse.share for synapse in net.synapses if isinstance(synapse, ep.Crossbar)}
    A, b = np.zeros((len(place), len(place))), np.zeros(len(place))
    for synapse in net.synapses:
        assert isinstance(synapse, ep.Resistors)
        g = np.asarray(synapse.conductances(theta["W"][synapse.name]))
        for value, i, j in zip(g, *synapse.ends, strict=True):
            a = synapse.amplification
            post = place[synapse.post, j]
            pre = place.get((synapse.pre, i))
            A[post, post] += value
            if pre is None:
                b[post] += value * held[i]
                continue
            back = a * synapse.share / front.get(synapse.pre, synapse.share)
            A[post, pre] -= value * a
            A[pre, pre] += back * value * a
            A[pre, post] -= back * value
    return A, b, list(place)


@pytest.mark.parametrize("kind", slow_but(CIRCUITS, "shockley", "amplified", "bridge"))
def test_currents_balance_at_every_node_and_diodes_only_push_inwards(kind: str) -> None:
    net = CIRCUITS[kind]()
    theta, v = example(net)
    F = ep.Total(net, ep.SquaredError())
    s, info = SETTLED(F, theta, v, 0.0, net.space.rest(3))
    assert info.converged.all()
    for row in range(3):
        A, b, nodes = kirchhoff(net, theta, np.asarray(v[0][row]))
        settled = np.array([float(s[layer][row, i]) for layer, i in nodes])
        current = b - A @ settled
        for flow, volts, (layer, i) in zip(current, settled, nodes, strict=True):
            sense = dict(net.diodes).get(layer, (0,) * net.free[layer])[i]
            if sense and net.diode is not None:
                drawn = net.diode.current(volts, *(jnp.array(sense == side, float) for side in (1, -1)))
                assert abs(flow - drawn) < 1e-9
            elif sense and abs(volts) < 1e-12:
                assert flow * sense < 1e-9  # the diode conducts: it gives what is missing
            else:
                assert abs(flow) < 1e-9 and volts * sense >= 0


def test_ideal_diodes_settle_to_the_least_power_within_their_bounds() -> None:
    net = CIRCUITS["ideal"]()
    theta, v = example(net, 1)
    s, _ = SETTLED(ep.Total(net, ep.SquaredError()), theta, v, 0.0, net.space.rest(1))
    A, b, nodes = kirchhoff(net, theta, np.asarray(v[0][0]))
    senses = np.array([dict(net.diodes).get(layer, (0,) * 9)[i] for layer, i in nodes])
    root = np.linalg.cholesky(A).T  # ½ vᵀAv − bᵀv is ½ ‖Rv − R⁻ᵀb‖² but for a constant, with A = RᵀR
    low, high = np.where(senses == 1, 0, -np.inf), np.where(senses == -1, 0, np.inf)
    expected = lsq_linear(root, np.linalg.solve(root.T, b), (low, high), tol=1e-14).x
    found = [float(s[layer][0, i]) for layer, i in nodes]
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert (np.abs(expected) < 1e-9).sum() > 1  # some diodes conduct


@pytest.mark.parametrize("kind", slow_but(CIRCUITS, "shockley", "amplified", "bridge"))
def test_the_energy_is_the_sum_over_all_resistors_and_diodes(kind: str) -> None:
    net = CIRCUITS[kind]()
    theta, v = example(net, 1)
    x, s = v[0][0], {k: 0.1 * jax.random.normal(jax.random.key(i), (n,)) for i, (k, n) in enumerate(net.free.items())}
    volts = {k: np.asarray(u) for k, u in net.voltages(x, s).items()}
    total = 0.0
    for synapse in net.synapses:
        assert isinstance(synapse, ep.Resistors)
        for g, i, j in zip(synapse.conductances(theta["W"][synapse.name]), *synapse.ends, strict=True):
            drop = synapse.amplification * volts[synapse.pre][i] - volts[synapse.post][j]
            total += synapse.share * g * drop**2 / 2
    for layer, senses in net.diodes if net.diode is not None else ():
        for u, sense in zip(volts[layer], senses, strict=True):
            z = -sense * u / DIODE.scale
            total += DIODE.saturation * DIODE.scale * (np.exp(z) - 1 - z)
    assert abs(float(net(theta, x, s)) - total) < 1e-9 * abs(total)


@pytest.mark.parametrize("kind", slow_but(CIRCUITS, "shockley"))
def test_the_gradient_is_that_of_the_settled_cost(kind: str) -> None:
    net = CIRCUITS[kind]()
    theta, v = example(net)
    F = ep.Total(net, ep.SquaredError())
    exact = ep.ImplicitGradient(SETTLED)(F, theta, v, net.space.rest(3)).gradient
    nudged = ep.EquilibriumPropagation(ep.Symmetric(1e-5), SETTLED, SETTLED)
    found = nudged(F, theta, v, net.space.rest(3)).gradient
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True):
        # What is left is that of unfinished settling, 1e-12 V, divided by β.
        np.testing.assert_allclose(one, other, atol=1e-5 * float(jnp.max(jnp.abs(other), initial=0)))


@pytest.mark.parametrize("kind", slow_but(CIRCUITS, "bridge"))
@pytest.mark.slow
def test_a_step_of_block_descent_goes_to_the_minimum_over_its_layer(kind: str) -> None:
    net = CIRCUITS[kind]()
    theta, v = example(net, 1)
    x, s = v[0][0], jax.tree.map(lambda u: u[0], net.space.rest(1))
    F = ep.Total(net, ep.SquaredError())
    for (layer,) in net.blocks:
        force = F.force(theta, (x, None), 0.0, s)[layer]
        bound = net.curvature(theta, x, s, (layer,))[layer]
        s = s | net.space.project({layer: s[layer] + force / bound})
        left = net.space.along({layer: s[layer]}, {layer: F.force(theta, (x, None), 0.0, s)[layer]})[layer]
        assert jnp.max(jnp.abs(left)) < 1e-9, layer


@pytest.mark.parametrize(
    ("g", "u", "above", "below"), list(product([1e-3, 1.0, 50.0], [-20.0, -0.3, 1e-3, 4.0], (0.0, 1.3), (0.0, 1.0)))
)
def test_a_node_with_diodes_settles_where_currents_balance(g: float, u: float, above: float, below: float) -> None:
    sides = (jnp.array(above), jnp.array(below))
    found = float(DIODE.settled(jnp.array(g), jnp.array(u), *sides))

    def excess(v: float) -> float:
        z = v / DIODE.scale
        return g * (v - u) + DIODE.saturation * (below * np.expm1(z) - above * np.expm1(-z))

    assert abs(found - float(brentq(excess, *sorted((u, 0.0)), xtol=1e-15))) < 1e-9  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
def test_steep_diodes_approach_ideal_ones() -> None:
    theta, v = example(CIRCUITS["ideal"]())
    ideal = SETTLED(ep.Total(net := CIRCUITS["ideal"](), ep.SquaredError()), theta, v, 0.0, net.space.rest(3))[0]
    gaps = []
    for ideality in (1.0, 0.1, 0.01):
        net = ep.Resistive.layered(4, 6, 3, gain=5.0, diode=ep.Shockley(1e-9, ideality))
        real = SETTLED(ep.Total(net, ep.SquaredError()), theta, v, 0.0, net.space.rest(3))[0]
        gaps.append(max(float(jnp.max(jnp.abs(real[k] - ideal[k]))) for k in ideal))
    assert gaps[0] > 5 * gaps[1] > 25 * gaps[2] > 0


@pytest.mark.slow
def test_a_spread_of_diodes_is_felt() -> None:
    settled = []
    for spread in (None, {"hidden": [1.0] * 6}, {"hidden": [100.0] + [1.0] * 5}):
        net = ep.Resistive(
            {"input": 2, "hidden": 6, "output": 1},
            [("input", "hidden"), ("hidden", "output")],
            diodes={"hidden": [1, -1] * 3},
            diode=DIODE,
            spread=spread,
        )
        theta, v = example(net)
        settled.append(SETTLED(ep.Total(net, ep.SquaredError()), theta, v, 0.0, net.space.rest(3))[0]["hidden"])
    assert (settled[0] == settled[1]).all()
    assert (jnp.abs(settled[0] - settled[2])[:, 0] > 1e-3).any()


@pytest.mark.parametrize(
    "rule",
    [
        ep.EquilibriumPropagation(ep.Symmetric(0.5), ep.Block(20), ep.Block(20)),
        slow(ep.CoupledLearning(0.2, ep.Block(20), ep.Block(20))),
    ],
    ids=["equilibrium", "coupled"],
)
@pytest.mark.slow
def test_conductances_are_projected_and_learned(rule: ep.Rule) -> None:
    x = jax.random.uniform(jax.random.key(3), (60, 2))
    y = 0.4 * x[:, :1] - 0.3 * x[:, 1:]
    net = ep.Resistive.layered(2, 4, 1, gain=5.0, least=0.01, most=3.0)
    F = ep.Total(net, ep.SquaredError())
    trainer, feed = ep.Trainer(F, rule, optax.adam(0.03)), ep.Shuffled((x, y), 20)
    state = trainer.init(net.project(net.init(jax.random.key(0), 1.0)), feed, jax.random.key(1))
    state, history = ep.fit(trainer, state, feed, epochs=60)
    assert history[-1]["train_cost"] < 0.1 * history[0]["train_cost"]
    every = jnp.concatenate([g.ravel() for g in state.theta["W"].values()])
    assert (every >= 0.01).all() and (every <= 3.0).all() and (every == 0.01).any()


def test_conductances_of_any_unit_settle_alike() -> None:
    net = CIRCUITS["ideal"]()
    theta, v = example(net)
    small = jax.tree.map(lambda g: 1e-6 * g, theta)
    F = ep.Total(net, ep.SquaredError())
    one, other = (ep.Block(50, omega=1.0)(F, g, v, 0.0, net.space.rest(3))[0] for g in (theta, small))
    np.testing.assert_allclose(one["output"], other["output"], atol=1e-9)


def test_a_node_that_nothing_is_joined_to_stays() -> None:
    net = CIRCUITS["ideal"]()
    theta, v = example(net)
    theta["W"] = {name: g.at[..., 0].set(0.0) if "hidden" in name[-6:] else g for name, g in theta["W"].items()}
    theta["W"]["hidden-output"] = theta["W"]["hidden-output"].at[0].set(0.0)
    s, _ = SETTLED(ep.Total(net, ep.SquaredError()), theta, v, 0.0, net.space.rest(3))
    assert (s["hidden"][:, 0] == 0).all() and jnp.isfinite(s["output"]).all()


def test_current_sources_are_part_of_theta() -> None:
    net = ep.Resistive({"input": 1, "output": 1}, [("input", "output")], sources=["output"])
    theta = net.init(jax.random.key(0)) | {"b": {"output": jnp.array([0.6])}}
    theta["W"]["input-output"] = jnp.array([[2.0]])
    s, _ = SETTLED(ep.Total(net, ep.SquaredError()), theta, (jnp.ones((1, 1)), None), 0.0, net.space.rest(1))
    assert abs(float(s["output"][0, 0]) - 1.3) < 1e-9  # 1 V + 0.6 / 2


LAYERS = {"input": 2, "hidden": 2, "output": 1}
PAIRS = [("input", "hidden"), ("hidden", "output")]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ep.Resistive(LAYERS, [("input", "there")]), "no Crossbar, no Wires"),
        (lambda: ep.Resistive(LAYERS, PAIRS, least=2.0, most=1.0), "least=2.0"),
        (lambda: ep.Resistive(LAYERS, PAIRS, gain=0.0), "gain=0.0"),
        (lambda: ep.Resistive(LAYERS, PAIRS, diodes={"hidden": [1]}), "1 values for 2 nodes"),
        (lambda: ep.Resistive(LAYERS, PAIRS, diodes={"hidden": [1, 3]}), "3 is none of"),
        (lambda: ep.Resistive(LAYERS, PAIRS, diodes={"hidden": [2, 0]}), "Shockley"),
        (lambda: ep.Resistive(LAYERS, PAIRS, diodes={"input": [1, 1]}), "no layer that settles"),
        (lambda: ep.Resistive(LAYERS, PAIRS, spread={"hidden": [1.0, 1.0]}), "spread is for real diodes"),
        (lambda: ep.Resistive(LAYERS, PAIRS, diode=DIODE, spread={"hidden": [1.0, 0.0]}), "positive factors"),
        (lambda: ep.Resistive(LAYERS, PAIRS, sources=["input"]), "sources="),
        (lambda: ep.Resistive(LAYERS, PAIRS, rails=[1.0, 2.0]), "are rails"),
        (lambda: ep.Resistive(LAYERS, PAIRS, names={"input": ["a"]}), "names for the layers"),
        (lambda: ep.Resistive.layered(3), "sizes=(3,)"),
        (lambda: ep.Resistive.layered(3, 0), "sizes=(3, 0)"),
        (lambda: ep.Resistive.layered(3, 2, amplification=-1.0), "amplification=-1.0"),
        (lambda: ep.Resistive.layered(3, 2, source_resistance=-1.0), "source_resistance=-1.0"),
        (lambda: ep.Wires("input", "output", ()), "without pairs"),
        (lambda: ep.Wires("input", "output", ((0, 0),), fixed=0.0), "fixed=0.0"),
        (lambda: ep.Resistive(LAYERS, [*PAIRS, ep.Wires("input", "output", ((5, 0),))]), "joins node 5"),
        (lambda: ep.Resistive(LAYERS, [ep.Crossbar("input", "hidden", (3, 2)), PAIRS[1]]), "does not fit"),
        (lambda: ep.Shockley(0.0), "saturation=0.0"),
        (lambda: ep.Shockley(celsius=-300.0), "celsius=-300.0"),
        (lambda: ep.Resistive.netlist([("x", "a")], inputs=["x"], outputs=["out"]), "joined to node 'out'"),
        (lambda: ep.Resistive.netlist([("x", "out")], inputs=["x"], outputs=[]), "outputs=[]"),
        (lambda: ep.Resistive.netlist([("x", "out"), ("a", "b")], inputs=["x"], outputs=["out"]), "not determined"),
        (lambda: ep.Resistive.netlist([("x", "x")], inputs=["x"], outputs=["out"]), "two nodes"),
        (lambda: ep.Resistive.netlist([("x", "y"), ("x", "o")], inputs=["x", "y"], outputs=["o"]), "are held"),
        (lambda: ep.Resistive.netlist([("x", "o")], inputs=["x"], outputs=["o"], rails={"x": 1.0}), "twice"),
        (lambda: ep.Resistive.netlist([("x", "o")], inputs=["x"], outputs=["o"], diodes={"x": 1}), "diodes: 'x'"),
    ],
)
def test_bad_circuits_are_refused_in_words(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        make()


def test_an_input_of_another_size_is_refused() -> None:
    net = ep.Resistive.layered(3, 2, 1)
    with pytest.raises(InputError, match="circuit of 3 inputs"):
        net.check_inputs(jnp.zeros((5, 8)))


@pytest.mark.slow
def test_the_curvature_of_nodes_with_diodes_is_sound_where_forces_are_but_rounding() -> None:
    """In single precision at rest, where a force of 0 used to give a curvature of 0, and steps of 0/0."""
    with jax.enable_x64(False):
        net = ep.Resistive.layered(8, 40, 4, gain=10.0, diode=DIODE)
        theta, (x, _) = example(net, 100)
        s, _ = ep.Block(50)(ep.Total(net, ep.SquaredError()), theta, (x, None), 0.0, net.space.rest(100))
        found = jax.vmap(lambda x, s: net.curvature(theta, x, s, ("hidden",))["hidden"])(x, s)
        load = net.coupling(theta["W"], {layer: jnp.zeros(size) for layer, size in net.sizes.items()}, "hidden")
        assert found.dtype == jnp.float32
        assert (found >= load).all()
