"""Theorem 1: Equilibrium Propagation computes the gradient of J (section 3.3), whatever the energy."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import eqprop as ep
from eqprop.verification.zoo import ZOO, Problem
from marks import slow_but

pytestmark = pytest.mark.usefixtures("x64")


def objective(problem: Problem, v: Any, rest: Any) -> Any:
    """J(θ) = C(θ, v, s⁰), with a settling of its own: plain projected descent for a very long time."""
    activation = problem.F.energy.rho["output"] if problem.block else ep.tanh  # a Hopfield network, or without bounds
    low, high = activation.low, activation.high

    def one(theta: Any, v: Any, s: Any) -> Any:
        def downhill(_: int, s: Any) -> Any:
            slope = jax.grad(lambda s: problem.F(theta, v, 0.0, s))(s)
            return jax.tree.map(lambda u, g: jnp.clip(u - 0.1 * g, low, high), s, slope)

        s = jax.lax.fori_loop(0, 2500, downhill, s)
        return jax.grad(lambda beta: problem.F(theta, v, beta, s))(0.0)

    return lambda theta: jnp.mean(jax.vmap(one, in_axes=(None, 0, 0))(theta, v, rest))


def central_differences(J: Any, theta: Any, delta: float = 1e-5) -> np.ndarray:
    flat, restore = ravel_pytree(theta)
    moves = delta * jnp.eye(len(flat))
    values = jax.jit(jax.vmap(lambda move: J(restore(flat + move))))(jnp.concatenate([moves, -moves]))
    return np.asarray((values[: len(flat)] - values[len(flat) :]) / (2 * delta))


def relaxations(problem: Problem) -> Sequence[ep.Relaxation]:
    exact = {"steps": 20_000, "tol": 1e-11}
    return [ep.Gradient(epsilon=0.1, **exact)] + [ep.Block(omega=1.1, **exact)] * problem.block


@pytest.mark.parametrize("name", slow_but(ZOO, "cross-entropy", "user F"))
def test_the_gradient_is_that_of_central_differences(name: str) -> None:
    problem = ZOO[name]
    theta, v, rest = problem.draw(seed=3)
    expected = central_differences(objective(problem, v, rest), theta)
    for relaxation in relaxations(problem):
        # β so small that no unit crosses a kink of the hard sigmoid on the way: one rests 4e-5 from the end of the box.
        rule = ep.EquilibriumPropagation(ep.Symmetric(1e-5), relaxation, relaxation)
        gradient, _, phases, _ = rule(problem.F, theta, v, rest, jax.random.key(0))
        assert phases["free"].converged.all()
        assert phases["nudged"].converged.all()
        found = np.asarray(ravel_pytree(gradient)[0])
        assert np.linalg.norm(found - expected) <= 1e-5 * np.linalg.norm(expected), type(relaxation)


@pytest.mark.slow
def test_the_average_over_random_signs_is_the_symmetric_estimate() -> None:
    problem = ZOO["layered"]
    theta, v, rest = problem.draw(seed=2)
    exact = ep.Block(steps=5000, tol=1e-12, omega=1.0)

    def estimate(nudge: ep.Nudge) -> np.ndarray:
        rule = ep.EquilibriumPropagation(nudge, exact, exact)
        return np.asarray(ravel_pytree(rule(problem.F, theta, v, rest, jax.random.key(0)).gradient)[0])

    both = (estimate(ep.OneSided(0.3)) + estimate(ep.OneSided(-0.3))) / 2
    np.testing.assert_allclose(both, estimate(ep.Symmetric(0.3)), rtol=1e-9, atol=1e-12)
    drawn = estimate(ep.RandomSign(0.3))
    assert any(np.allclose(drawn, estimate(ep.OneSided(beta))) for beta in (0.3, -0.3))


def test_it_is_the_papers_contrastive_update() -> None:
    """ΔW_ij ∝ 1/β (ρ(u_i^β) ρ(u_j^β) − ρ(u_i⁰) ρ(u_j⁰)) (section 2.3), here by hand."""
    problem = ZOO["layered"]
    theta, (x, y), rest = problem.draw(seed=5)
    beta, relaxation = 0.4, ep.Gradient(steps=300)
    rule = ep.EquilibriumPropagation(ep.OneSided(beta), relaxation, relaxation)
    gradient, free, *_ = rule(problem.F, theta, (x, y), rest, jax.random.key(0))
    nudged, _ = relaxation(problem.F, theta, (x, y), beta, free)

    def hebb(s: Any, pre: str, post: str) -> np.ndarray:
        units = {"input": x} | s
        return np.einsum("bi,bj->ij", units[pre], units[post]) / len(x)

    for synapse, found in gradient["W"].items():
        expected = (hebb(nudged, *synapse.split("-")) - hebb(free, *synapse.split("-"))) / beta
        np.testing.assert_allclose(-found, expected, rtol=1e-10, atol=1e-14)
    for layer, found in gradient["b"].items():
        np.testing.assert_allclose(-found, (nudged[layer] - free[layer]).mean(0) / beta, rtol=1e-10, atol=1e-14)


def test_energy_and_cost_are_recovered_from_F() -> None:
    problem = ZOO["layered"]
    theta, (x, y), rest = problem.draw(seed=0)
    s = jax.tree.map(lambda u: u[0] + 0.3, rest)
    v = (x[0], y[0])
    F = problem.F
    assert ep.energy_of(F)(theta, v, s) == pytest.approx(float(F.energy(theta, x[0], s)), rel=1e-14)
    assert ep.cost_of(F)(theta, v, s) == pytest.approx(float(F.cost(theta, y[0], s)), rel=1e-14)


def test_weights_of_examples_are_their_share() -> None:
    problem = ZOO["skip"]
    theta, v, rest = problem.draw(seed=4)
    rule = ep.EquilibriumPropagation()

    def gradient(rows: Any, weight: Any = None) -> np.ndarray:
        part, start = jax.tree.map(lambda a: a[rows], (v, rest))
        return np.asarray(ravel_pytree(rule(problem.F, theta, part, start, jax.random.key(0), weight).gradient)[0])

    one, two, both = np.array([0]), np.array([1]), np.array([0, 1])
    mixed = 0.25 * gradient(one) + 0.75 * gradient(two)
    np.testing.assert_allclose(gradient(both, jnp.array([1.0, 3.0])), mixed, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gradient(both, jnp.array([0.0, 1.0])), gradient(two), rtol=1e-9, atol=1e-12)


def test_an_energy_may_be_a_module_with_arrays_of_its_own() -> None:
    class Springs(eqx.Module):
        stiffness: jax.Array

        def __call__(self, theta: Any, v: Any, beta: Any, s: Any) -> Any:
            x, y = v
            return jnp.sum(self.stiffness * (s - theta * x) ** 2) / 2 + beta * jnp.sum((s - y) ** 2) / 2

    F = Springs(jnp.array([1.0, 2.0]))
    x, y = jnp.array([[1.0, 2.0]]), jnp.array([[0.0, 0.0]])
    exact = ep.Gradient(steps=2000, tol=1e-12, epsilon=0.3)
    rule = ep.EquilibriumPropagation(ep.Symmetric(1e-3), exact, exact)
    gradient, s, *_ = rule(F, jnp.array([0.5, 0.5]), (x, y), jnp.zeros((1, 2)), jax.random.key(0))
    np.testing.assert_allclose(s[0], [0.5, 1.0], rtol=1e-9)  # s⁰ = θ x
    np.testing.assert_allclose(gradient, [0.5, 2.0], rtol=1e-5)  # ∂/∂θ ½ ‖θx − y‖²
