"""Predictive coding: a feed-forward network as an energy, settled in its errors; where it is backpropagation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import eqprop as ep

pytestmark = pytest.mark.usefixtures("x64")
NET = ep.Hopfield.layered(6, 8, 7, 5, activation=ep.tanh)
F = ep.Total(ep.Feedforward(NET), ep.SquaredError())
SETTLED = ep.ErrorDescent(1000, 1e-12)


def drawn() -> tuple[Any, Any, Any]:
    keys = jax.random.split(jax.random.key(0), 3)
    theta = NET.init(keys[0], gain=1.0)
    theta["b"] = jax.tree.map(lambda b: b + 0.3, theta["b"])
    v = jax.random.uniform(keys[1], (7, 6)), jax.random.normal(keys[2], (7, 5))
    return theta, v, F.space.rest(7)


def flat(tree: Any) -> np.ndarray:
    return np.asarray(ravel_pytree(tree)[0])


def off(found: Any, expected: Any) -> float:
    return float(np.linalg.norm(flat(found) - flat(expected)) / np.linalg.norm(flat(expected)))


def learn(nudge: ep.Nudge, v: Any, epsilon: float = 1.0) -> Any:
    theta, _, rest = drawn()
    settle = ep.ErrorDescent(1000, 1e-12, epsilon=epsilon)
    learned = ep.EquilibriumPropagation(nudge, ep.Forward(), settle)(F, theta, v, rest)
    assert learned.phases["nudged"].converged.all()
    return learned.gradient


@pytest.mark.parametrize("beta", [0.1, -0.1])
def test_it_settles_where_steps_in_the_states_do(beta: float) -> None:
    theta, v, rest = drawn()
    start, _ = ep.Forward()(F, theta, v, 0.0, rest)
    found, info = SETTLED(F, theta, v, beta, start)
    expected, slower = ep.Gradient(5000, 1e-12, epsilon=0.2)(F, theta, v, beta, start)
    assert info.converged.all() and slower.converged.all()
    assert off(found, expected) < 1e-9
    assert info.steps.max() < slower.steps.min() / 5


def test_its_first_step_is_backpropagation() -> None:
    """From a forward pass, e_k = −β ∂C/∂s_k with the total derivative, to the last digit."""
    theta, v, rest = drawn()
    start, _ = ep.Forward()(F, theta, v, 0.0, rest)
    moved, _ = ep.ErrorDescent(1)(F, theta, v, 1e-3, start)
    x, y = v

    def cost(added: Any, x: Any, y: Any) -> Any:
        """The cost of a forward pass by hand, with something added to each layer."""
        h1 = jnp.tanh(x @ theta["W"]["input-hidden1"] + theta["b"]["hidden1"]) + added["hidden1"]
        h2 = jnp.tanh(h1 @ theta["W"]["hidden1-hidden2"] + theta["b"]["hidden2"]) + added["hidden2"]
        out = h2 @ theta["W"]["hidden2-output"] + theta["b"]["output"] + added["output"]
        return jnp.sum((out - y) ** 2) / 2

    slopes = jax.vmap(jax.grad(cost))(jax.tree.map(jnp.zeros_like, start), x, y)
    errors = jax.vmap(F.energy.errors, in_axes=(None, 0, 0))(theta, x, moved)
    assert off(errors, jax.tree.map(lambda g: -1e-3 * g, slopes)) < 1e-9


def test_in_the_limit_of_a_weak_nudge_it_is_backpropagation() -> None:
    theta, v, rest = drawn()
    exact = ep.Backpropagation()(F, theta, v, rest).gradient
    betas = np.array([4e-3, 1e-3])
    for nudge, order, limit in ((ep.Symmetric, 2, 1e-4), (ep.OneSided, 1, 1e-2)):
        errors = [off(learn(nudge(float(beta)), v), exact) for beta in betas]
        assert errors[-1] < limit
        assert abs(np.polyfit(np.log(betas), np.log(errors), 1)[0] - order) < 0.05


def test_small_errors_of_the_outputs_alone_are_not_enough() -> None:
    """At β = ½ the outputs' response is not the identity, whatever the size of the error: the gradient stays turned.

    There 1 + κ, the curvature of F in the errors, is so large that steps of ε = 1 would grow.
    """
    theta, (x, y), rest = drawn()
    start, _ = ep.Forward()(F, theta, (x, None), 0.0, rest)
    v = (x, start["output"] + 1e-4 * y)
    found, exact = flat(learn(ep.OneSided(0.5), v, 0.2)), flat(ep.Backpropagation()(F, theta, v, rest).gradient)
    assert found @ exact / np.linalg.norm(found) / np.linalg.norm(exact) < 0.99
    assert off(learn(ep.Symmetric(1e-3), v), exact) < 1e-4


def test_other_energies_are_refused() -> None:
    with pytest.raises(ep.InputError, match="Feedforward"):
        ep.ErrorDescent().check(ep.Total(NET, ep.SquaredError()))
    with pytest.raises(ep.InputError, match="epsilon=2"):
        ep.ErrorDescent(epsilon=2.0)
