"""Weights that move during the nudged phase: what each step does, and the limit to Equilibrium Propagation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import eqprop as ep
from eqprop.verification.base import order
from marks import slow

pytestmark = pytest.mark.usefixtures("x64")

NET = ep.Hopfield.layered(4, 6, 3)
FREE, NUDGED = ep.Block(200, 1e-12), ep.Gradient(steps=12, epsilon=0.4)
RATES = np.array([1e-3, 3e-4, 1e-4, 3e-5])


def draw(cost: Any = None) -> tuple[Any, ...]:
    keys = jax.random.split(jax.random.key(1), 2)
    theta = NET.init(keys[0], 0.7)
    theta["b"] = jax.tree.map(lambda b: b + 0.3, theta["b"])
    v = (jax.random.uniform(keys[1], (3, 4)), jnp.eye(3))
    return ep.Total(NET, cost or ep.SquaredError()), theta, v, NET.rest(3)


def distance(found: Any, expected: Any) -> float:
    a, b = (np.asarray(ravel_pytree(tree)[0]) for tree in (found, expected))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


@pytest.mark.parametrize("nudge", [ep.Symmetric(0.1), slow(ep.OneSided(0.1)), slow(ep.RandomSign(0.1))], ids=str)
def test_it_tends_to_equilibrium_propagation_with_slope_1_in_the_rate(nudge: ep.Nudge) -> None:
    """Cut short on purpose: the limit is that of the same truncated phases."""
    F, theta, v, rest = draw(ep.SquaredError(l2=0.01))  # a cost that depends on θ itself
    key = jax.random.key(3)
    still = ep.EquilibriumPropagation(nudge, FREE, NUDGED)(F, theta, v, rest, key).gradient
    if not nudge.uses_free:  # the path goes on from s^β, not from the free state
        s_free, _ = FREE(F, theta, v, 0.0, rest)
        (here, there), w = nudge(key)
        s_here, _ = NUDGED(F, theta, v, here, s_free)
        s_there, _ = NUDGED(F, theta, v, there, s_here)
        states = jax.tree.map(lambda a, b: jnp.stack([a, b]), s_here, s_there)
        still = F.contrast(theta, v, jnp.stack([here, there]), w, states)
    far = [
        distance(ep.ContinualEquilibriumPropagation(nudge, FREE, NUDGED, float(rate))(F, theta, v, rest, key)[0], still)
        for rate in RATES
    ]
    assert order(RATES, far) == pytest.approx(1, abs=0.05)
    assert far[-1] < 1e-2


def test_gradient_descent_ends_where_the_weights_have_moved_to() -> None:
    """By hand, in NumPy: every step moves the states by the weights of the time, then the weights by the states."""
    F, theta, v, rest = draw()
    beta, rate = 0.2, {"W": {"input-hidden": 0.02, "hidden-output": 0.01}, "b": 0.03}
    rule = ep.ContinualEquilibriumPropagation(ep.OneSided(beta), FREE, NUDGED, rate)
    learned = rule(F, theta, v, rest)
    ended = jax.tree.map(lambda r, w, g: w - r * g, rate | {"b": dict.fromkeys(theta["b"], 0.03)}, theta, learned[0])

    x, y = map(np.asarray, v)
    U, W = (np.array(theta["W"][name]) for name in ("input-hidden", "hidden-output"))
    b, c = (np.array(theta["b"][name]) for name in ("hidden", "output"))
    s, _ = FREE(F, theta, v, 0.0, rest)
    h, o = np.array(s["hidden"]), np.array(s["output"])
    for _ in range(NUDGED.steps):
        force_h, force_o = x @ U + o @ W.T + b - h, h @ W + c - o - beta * (o - y)
        h1, o1 = np.clip(h + 0.4 * force_h, 0, 1), np.clip(o + 0.4 * force_o, 0, 1)
        U += 0.02 / beta * x.T @ (h1 - h) / 3
        W += 0.01 / beta * (h1.T @ o1 - h.T @ o) / 3
        b += 0.03 / beta * (h1 - h).mean(0)
        c += 0.03 / beta * (o1 - o).mean(0)
        h, o = h1, o1
    np.testing.assert_allclose(ended["W"]["input-hidden"], U, atol=1e-12)
    np.testing.assert_allclose(ended["W"]["hidden-output"], W, atol=1e-12)
    np.testing.assert_allclose(ended["b"]["hidden"], b, atol=1e-12)
    np.testing.assert_allclose(ended["b"]["output"], c, atol=1e-12)


@pytest.mark.slow
def test_rates_follow_their_schedule() -> None:
    F, theta, v, rest = draw()
    schedule = ep.Staircase(1.0, every=1, factor=0.5)
    rule = ep.ContinualEquilibriumPropagation(ep.OneSided(0.2), FREE, NUDGED, 0.1, schedule)
    trainer, feed = ep.Trainer(F, rule, ep.Rated(optax.sgd(1.0), 0.1, schedule)), ep.InOrder(v, 3)
    state = trainer.init(theta, feed, jax.random.key(0))
    one = trainer.advance(state, feed, 1)
    two = trainer.advance(one._replace(batch=state.batch, epoch=state.epoch), feed, 1)
    later = ep.ContinualEquilibriumPropagation(ep.OneSided(0.2), FREE, NUDGED, 0.05)
    expected = jax.tree.map(lambda w, g: w - 0.05 * g, one.theta, later(F, one.theta, v, rest).gradient)
    assert distance(two.theta, expected) <= 1e-12


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: ep.ContinualEquilibriumPropagation(nudged=ep.Gradient(9, tol=1e-3)), "without `accelerate` and `tol`"),
        (lambda: ep.ContinualEquilibriumPropagation(ep.Holomorphic(0.1)), "two real β"),
    ],
)
def test_what_has_no_path_is_refused(build: Any, word: str) -> None:
    with pytest.raises(ep.InputError, match=word):
        build()


@pytest.mark.parametrize("rate", [None, [0.1, 0.2], {"W": 0.1}, jnp.ones(3), float("nan")], ids=str)
def test_rates_that_are_not_those_of_θ_are_refused(rate: Any) -> None:
    net = ep.Hopfield.layered(3, 4, 2)
    theta, v = net.init(jax.random.key(0)), (jnp.zeros((2, 3)), jnp.zeros((2, 2)))
    with pytest.raises(ep.InputError, match="rate="):
        ep.ContinualEquilibriumPropagation(rate=rate)(ep.Total(net, ep.SquaredError()), theta, v, net.rest(2))
