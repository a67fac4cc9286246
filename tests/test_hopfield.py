"""The Hopfield energy against the paper's formulas, written out with loops and NumPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqprop as ep
from eqprop.verification.zoo import HOPFIELD
from marks import slow_but

pytestmark = pytest.mark.usefixtures("x64")


def full_matrix(net: ep.Hopfield, theta: Any) -> tuple[np.ndarray, dict[str, slice]]:
    """The symmetric W over all units of the network, and where each layer lies in it."""
    ends = np.cumsum(list(net.sizes.values()))
    where = {layer: slice(end - size, end) for (layer, size), end in zip(net.sizes.items(), ends, strict=True)}
    W = np.zeros((ends[-1], ends[-1]))
    for name, w in theta["W"].items():
        pre, post = name.split("-")
        if pre == post:
            square = np.zeros((len(range(*where[pre].indices(ends[-1]))),) * 2)
            square[np.triu_indices(len(square), k=1)] = w
            W[where[pre], where[pre]] = square + square.T
        else:
            W[where[pre], where[post]] = w
            W[where[post], where[pre]] = np.asarray(w).T
    return W, where


def drawn(name: str) -> tuple[Any, Any, Any, Any]:
    problem = HOPFIELD[name]
    theta, (x, _), rest = problem.draw(seed=7)
    key = jax.random.key(8)
    s = {k: jax.random.uniform(key, u.shape[1:]) for k, u in rest.items()}
    return problem.F.energy, theta, x[0], s


@pytest.mark.parametrize("name", slow_but(HOPFIELD, "layered, sigmoid", "fully connected"))
def test_the_energy_is_the_papers_double_sum(name: str) -> None:
    """E(u) = ½ Σ u_i² − ½ Σ_{i≠j} W_ij ρ(u_i) ρ(u_j) − Σ b_i ρ(u_i), less the constants of the inputs."""
    net, theta, x, s = drawn(name)
    W, where = full_matrix(net, theta)
    u = np.zeros(len(W))
    b = np.zeros(len(W))
    for layer, values in ({"input": x} | s).items():
        u[where[layer]] = values
    for layer, values in theta["b"].items():
        b[where[layer]] = values
    rho = np.asarray(net.rho["input"](jnp.asarray(u)))
    expected = (u**2).sum() / 2 - (x**2).sum() / 2
    for i in range(len(u)):
        expected -= b[i] * rho[i]
        for j in range(len(u)):
            if i != j:
                expected -= W[i, j] * rho[i] * rho[j] / 2
    assert np.array_equal(W, W.T)
    assert net(theta, x, s) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.slow
def test_the_order_of_the_inputs_does_not_matter() -> None:
    """Permutation-invariant: shuffled inputs, whose weights are shuffled alike, change neither energy nor force."""
    net, theta, x, s = drawn("layered")
    order = np.random.default_rng(0).permutation(len(x))
    other = theta | {"W": {k: W[order] if k.startswith("input-") else W for k, W in theta["W"].items()}}
    assert not np.array_equal(x, x[order])
    assert net(other, x[order], s) == pytest.approx(float(net(theta, x, s)), rel=1e-12)
    forces = [jax.grad(net, argnums=2)(*args, s) for args in ((theta, x), (other, x[order]))]
    for layer in s:
        np.testing.assert_allclose(forces[0][layer], forces[1][layer], rtol=1e-12)


@pytest.mark.parametrize("name", slow_but(HOPFIELD, "layered", "fully connected"))
def test_the_force_is_the_leaky_integrator(name: str) -> None:
    """−∂E/∂s_i = ρ'(s_i) (Σ_j W_ij ρ(u_j) + b_i) − s_i (section 2.2)."""
    net, theta, x, s = drawn(name)
    W, where = full_matrix(net, theta)
    rho, slope = net.rho["input"], jax.vmap(jax.grad(net.rho["input"].rho))
    rates = np.zeros(len(W))
    for layer, values in ({"input": x} | s).items():
        rates[where[layer]] = rho(values)
    force = jax.tree.map(jnp.negative, jax.grad(net, argnums=2)(theta, x, s))
    for layer, values in s.items():
        field = (W @ rates)[where[layer]] + theta["b"][layer]
        np.testing.assert_allclose(force[layer], slope(values) * field - values, rtol=1e-10, atol=1e-12)


def test_the_hard_sigmoids_slope_is_one_on_the_closed_box() -> None:
    slope = jax.vmap(jax.grad(ep.hard_sigmoid.rho))
    found = slope(jnp.array([-1e-9, 0.0, 1e-9, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9]))
    np.testing.assert_array_equal(found, [0, 1, 1, 1, 1, 1, 0])


def test_a_saturated_unit_hears_nothing_and_its_leak_drives_it_back() -> None:
    """Outside of the box ρ' = 0, so that ds/dt = −s whatever the weights and the others are: s falls as (1 − ε)ⁿ."""
    net = ep.Hopfield.layered(3, 4, 2)
    theta, x = net.init(jax.random.key(0), 5.0), jnp.array([0.2, 0.9, 0.4])
    s = {"hidden": jnp.array([1.7, 2.0, 3.0, 1.5]), "output": jnp.array([-0.5, 1.9])}
    for _ in range(3):  # none has come back yet
        s = jax.tree.map(lambda u, slope: u - 0.1 * slope, s, jax.grad(net, 2)(theta, x, s))
    np.testing.assert_allclose(s["hidden"], 0.9**3 * np.array([1.7, 2.0, 3.0, 1.5]), rtol=1e-6)
    np.testing.assert_allclose(s["output"], 0.9**3 * np.array([-0.5, 1.9]), rtol=1e-6)


@pytest.mark.parametrize("rho", [ep.hard_sigmoid, ep.sigmoid, ep.tanh], ids=lambda rho: rho.name)
def test_the_bounds_of_an_activation_hold_and_are_tight(rho: ep.Activation) -> None:
    u = jnp.linspace(max(rho.low, -6), min(rho.high, 6), 20_001)
    slope = jnp.abs(jax.vmap(jax.grad(rho.rho))(u)).max()
    bend = jnp.abs(jax.vmap(jax.grad(jax.grad(rho.rho)))(u)).max()
    assert slope == pytest.approx(rho.slope, rel=1e-6)
    assert bend == pytest.approx(rho.bend, rel=1e-6)


@pytest.mark.parametrize("name", slow_but(HOPFIELD, "skip, sigmoid", "L2 penalty"))
def test_the_curvature_bounds_each_block_of_the_hessian(name: str) -> None:
    """diag(c) − ∂²F/∂s_k² is positive semidefinite for every block: the condition for descent."""
    F = HOPFIELD[name].F
    offered: Any = F.offer(ep.Blocks)
    _, theta, x, s = drawn(name)
    v = (x, jax.nn.one_hot(1, 3))

    @jax.jit
    def both(beta: float) -> list[Any]:
        return [
            (
                jax.hessian(lambda part: F(theta, v, beta, s | part))({layer: s[layer] for layer in block}),
                offered.curvature(theta, v, beta, s, block),
            )
            for block in offered.blocks
        ]

    for beta in (-0.5, 0.0, 0.7):
        for block, (hessian, bound) in zip(offered.blocks, both(beta), strict=True):
            rows = [np.concatenate([hessian[a][b] for b in block], axis=1) for a in block]
            c = np.concatenate([np.broadcast_to(bound[layer], s[layer].shape) for layer in block])
            assert np.linalg.eigvalsh(np.diag(c) - np.concatenate(rows)).min() >= -1e-12


def test_blocks_are_the_layers_in_order() -> None:
    deep = ep.Hopfield.layered(2, 3, 3, 2)
    assert deep.blocks == (("hidden1",), ("hidden2",), ("output",))


def test_a_fully_connected_network_has_a_weight_for_every_pair_but_two_inputs() -> None:
    net = ep.Hopfield.fully_connected(4, 6, 3)
    weights = sum(w.size for w in net.init(jax.random.key(0))["W"].values())
    units = 4 + 6 + 3
    assert weights == units * (units - 1) // 2 - 4 * 3 // 2


def test_one_unit_has_no_pair_within_its_layer() -> None:
    net = ep.Hopfield.fully_connected(4, 1, 1)
    assert set(net.init(jax.random.key(0))["W"]) == {"input-hidden", "input-output", "hidden-output"}


def test_a_skip_network_joins_its_output_to_every_layer() -> None:
    net = ep.Hopfield.skip(5, 4, 3, 2)
    chain = {"input-hidden1", "hidden1-hidden2", "hidden2-output"}
    assert set(net.init(jax.random.key(0))["W"]) == chain | {"input-output", "hidden1-output"}
    assert ep.Hopfield.skip(5, 2) == ep.Hopfield.layered(5, 2)  # there is nothing to skip
    rates = net.per_layer({"hidden1": 1.0, "hidden2": 2.0, "output": 3.0})["W"]
    assert {synapse for synapse, rate in rates.items() if rate == 3} == {k for k in rates if k.endswith("-output")}


def test_initial_weights_fill_glorots_range_times_the_gain() -> None:
    net = ep.Hopfield.layered(300, 200, 10)
    for gain in (1.0, 0.5):
        theta = net.init(jax.random.key(0), gain)
        for name, (fan_in, fan_out) in {"input-hidden": (300, 200), "hidden-output": (200, 10)}.items():
            limit = gain * np.sqrt(6 / (fan_in + fan_out))
            w = theta["W"][name]
            assert 0.99 * limit < jnp.abs(w).max() <= limit
            assert w.std() == pytest.approx(limit / np.sqrt(3), rel=0.03)
        assert all((b == 0).all() for b in theta["b"].values())


def test_layer_values_go_to_biases_and_to_the_synapses_that_lead_there() -> None:
    net = ep.Hopfield.layered(4, 3, 2)
    assert net.per_layer({"hidden": 0.1, "output": 0.05}) == {
        "W": {"input-hidden": 0.1, "hidden-output": 0.05},
        "b": {"hidden": 0.1, "output": 0.05},
    }
    with pytest.raises(ep.InputError, match="'hiden'"):
        net.per_layer({"hiden": 0.1, "output": 0.05})


def test_equal_networks_are_equal_and_hash_alike() -> None:
    one, two = ep.Hopfield.layered(4, 3, 2), ep.Hopfield.layered(4, 3, 2)
    assert one == two
    assert hash(one) == hash(two)
    assert one != ep.Hopfield.layered(4, 3, 2, activation=ep.tanh)
    shown = (
        "Hopfield({input: 4, hidden: 3, output: 2}, [input-hidden: 12, hidden-output: 6], hard_sigmoid, 23 parameters)"
    )
    assert repr(one) == shown
    assert shown in repr(ep.Total(one, ep.SquaredError()))
    assert one.parameters == sum(leaf.size for leaf in jax.tree.leaves(one.init(jax.random.key(0))))
    assert "23 parameters" in one._repr_html_()
