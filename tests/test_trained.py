"""The gradient of trained networks, whose units crowd the ends of the box."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import eqprop as ep
from eqprop.tree import cosine
from marks import slow

pytestmark = pytest.mark.usefixtures("x64")


@cache
def trained(hidden: int) -> tuple[Any, Any, Any, Any]:
    """F, θ after training on the digits, 50 training examples, and where they start to settle."""
    net = ep.Hopfield.layered(64, *[60] * hidden, 10)
    F = ep.Total(net, ep.SquaredError())
    digits = ep.data.load("digits")
    short = ep.EquilibriumPropagation(
        ep.Symmetric(1 / (hidden + 1)),
        ep.Block(steps=2 * hidden + 2),
        ep.Block(steps=hidden + 1, order="backward"),
    )
    feed = ep.Shuffled(digits.train.v, batch_size=10)
    decay = ep.Staircase(1.0, feed.batches, 0.75)
    optimizer = ep.Rated(optax.adam(1.0), 0.003 / (hidden + 1), decay)
    trainer = ep.Trainer(F, short, optimizer, metrics={"error": F.cost.misclassified})
    state = trainer.init(net.init(jax.random.key(hidden)), feed, jax.random.key(0))
    state, history = ep.fit(trainer, state, feed, epochs=10)
    assert history[-1]["train_error"] < 0.05  # it has learned
    return F, state.theta, jax.tree.map(lambda a: jnp.asarray(a[:50]), digits.train.v), net.rest(50)


def cosines(found: Any, expected: Any) -> dict[str, float]:
    """Per layer and kind: the cosine of the angle between two gradients."""
    pairs = zip(jax.tree.leaves_with_path(found), jax.tree.leaves(expected), strict=True)
    return {jax.tree_util.keystr(path): float(cosine(a, b)) for (path, a), b in pairs}


def implicit_gradient(F: Any, theta: Any, v: Any, s: Any) -> Any:
    """∂J/∂θ by the implicit function theorem, at free fixed points s, averaged over the examples.

    Units inside the box obey ∂F/∂s_i = 0; those at an end stay there. With A the former and λ_A the solution of
    ∂²F/∂s_A² λ_A = ∂C/∂s_A, the gradient is ∂C/∂θ − ∂/∂θ ⟨λ_A, ∂F/∂s_A⟩.
    """

    def one(v: Any, s: Any) -> Any:
        flat, restore = ravel_pytree(s)
        slope = jax.grad(lambda theta, u: F(theta, v, 0.0, restore(u)), argnums=1)
        cost = jax.grad(lambda u: ep.cost_of(F)(theta, v, restore(u)))(flat)
        inside = (flat > F.space.low) & (flat < F.space.high)
        hessian = jax.jacobian(slope, argnums=1)(theta, flat)
        system = jnp.where(inside[:, None] & inside, hessian, jnp.eye(len(flat)))
        multiplier = jnp.linalg.solve(system, jnp.where(inside, cost, 0))
        direct = jax.grad(lambda theta: ep.cost_of(F)(theta, v, s))(theta)
        _, pull = jax.vjp(lambda theta: slope(theta, flat), theta)
        return jax.tree.map(jnp.subtract, direct, pull(multiplier)[0])

    return jax.tree.map(lambda g: g.mean(0), jax.jit(jax.vmap(one))(v, s))


@pytest.mark.parametrize("hidden", [1, slow(2), slow(3)])
@pytest.mark.slow
def test_the_default_relaxation_turns_the_gradient_by_next_to_nothing(hidden: int) -> None:
    F, theta, v, rest = trained(hidden)
    default = ep.EquilibriumPropagation()
    exact = ep.Block(steps=5000, tol=1e-8)
    converged = ep.EquilibriumPropagation(default.nudge, exact, exact)
    found = default(F, theta, v, rest, jax.random.key(0)).gradient
    expected, _, phases, _ = converged(F, theta, v, rest, jax.random.key(0))
    assert phases["free"].converged.all()
    assert phases["nudged"].converged.all()
    assert min(cosines(found, expected).values()) >= 0.99, cosines(found, expected)


@pytest.mark.parametrize("hidden", [1, slow(2), slow(3)])
@pytest.mark.slow
def test_a_small_nudge_gives_the_implicit_gradient(hidden: int) -> None:
    F, theta, v, rest = trained(hidden)
    settle = ep.Block(steps=5000, tol=1e-6, accelerate=True)
    found, _, phases, _ = ep.EquilibriumPropagation(ep.Symmetric(0.001), settle, settle)(
        F, theta, v, rest, jax.random.key(0)
    )
    assert phases["nudged"].converged.all()
    exact, info = ep.Block(steps=5000, tol=1e-12)(F, theta, v, 0.0, rest)
    assert info.converged.all()
    expected = implicit_gradient(F, theta, v, exact)
    assert min(cosines(found, expected).values()) >= 0.999, cosines(found, expected)
    ratio = np.linalg.norm(ravel_pytree(found)[0]) / np.linalg.norm(ravel_pytree(expected)[0])
    assert ratio == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("hidden", [1, slow(3)])
@pytest.mark.slow
def test_the_rule_of_the_implicit_gradient_agrees_with_a_dense_solve(hidden: int) -> None:
    F, theta, v, rest = trained(hidden)
    rule = ep.ImplicitGradient(ep.Block(steps=5000, tol=1e-9, accelerate=True), tol=1e-12)
    found, s, phases, measured = rule(F, theta, v, rest)
    assert measured["solved"].all()
    assert phases["free"].converged.all()
    expected = implicit_gradient(F, theta, v, s)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9 * abs(b).max()), found, expected)


def test_layers_of_another_precision_have_an_implicit_gradient_too() -> None:
    net = ep.Hopfield.layered(3, 4, 2)
    F, theta = ep.Total(net, ep.SquaredError()), net.init(jax.random.key(0))
    v, rest = (jnp.full((2, 3), 0.5), jnp.eye(2)), net.rest(2)
    half = rest | {"hidden": rest["hidden"].astype(jnp.float16)}
    found = ep.ImplicitGradient()(F, theta, v, half).gradient
    for one, other in zip(
        *map(jax.tree.leaves, (found, ep.ImplicitGradient()(F, theta, v, rest).gradient)), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-2)
