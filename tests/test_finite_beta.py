"""A finite β: the objective that EP then follows, and the β at which its gradient errs least."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import eqprop as ep
from eqprop.device import Readings
from eqprop.verification.zoo import ZOO
from marks import slow

EXACT = ep.Gradient(20_000, 1e-13, epsilon=0.1)


def flat(tree: Any) -> np.ndarray:
    return np.asarray(ravel_pytree(tree)[0])


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("nudge", [ep.Symmetric(0.5), slow(ep.OneSided(0.5)), slow(ep.Asymmetric(0.5, push=0.2))])
def test_at_a_finite_β_it_is_the_gradient_of_the_surrogate(nudge: ep.Nudge) -> None:
    """Against differences of L = Σ_k w_k G(β_k) at β = ½, whose G come from settlings of their own."""
    problem = ZOO["user energy"]
    theta, v, rest = problem.draw(seed=1)
    betas, w = nudge(jax.random.key(0))
    rule = ep.EquilibriumPropagation(nudge, EXACT, EXACT, surrogate=True)
    learned = rule(problem.F, theta, v, rest)
    vector, restore = ravel_pytree(theta)

    @jax.jit
    def surrogate(vector: Any) -> Any:
        def G(beta: Any) -> Any:
            theta = restore(vector)
            s, _ = EXACT.settle(problem.F, theta, v, beta, rest)
            return jax.vmap(problem.F, in_axes=(None, 0, None, 0))(theta, v, beta, s)

        return w @ jax.vmap(G)(betas)

    moves = 1e-5 * jnp.eye(len(vector))
    slopes = [(surrogate(vector + d).mean() - surrogate(vector - d).mean()) / 2e-5 for d in moves]
    assert np.linalg.norm(flat(learned.gradient) - np.array(slopes)) < 1e-8 * np.linalg.norm(slopes)
    np.testing.assert_allclose(learned.measured["surrogate"], surrogate(vector), atol=1e-10)
    exact = flat(ep.ImplicitGradient(EXACT, tol=1e-12)(problem.F, theta, v, rest).gradient)
    assert np.linalg.norm(flat(learned.gradient) - exact) > 1e-3 * np.linalg.norm(exact)  # of the cost it is not


@pytest.mark.slow
def test_the_surrogate_is_in_the_history_if_asked_for() -> None:
    net = ep.Hopfield.layered(4, 6, 3, activation=ep.tanh)
    F, feed = ep.Total(net, ep.SquaredError()), ep.Shuffled((jnp.full((6, 4), 0.5), jnp.eye(3)[jnp.arange(6) % 3]), 3)
    plain = ep.EquilibriumPropagation(ep.Symmetric(0.01), ep.Block(30), ep.Block(30))
    assert plain.measures == ()
    trainer = ep.Trainer(F, replace(plain, surrogate=True), optax.sgd(0.1))
    _, history = ep.fit(trainer, trainer.init(net.init(jax.random.key(0)), feed, jax.random.key(1)), feed, epochs=1)
    assert history[0]["train_surrogate"] == pytest.approx(history[0]["train_cost"], abs=2e-4)


# ---- the β that errs least ----

NET = ep.Hopfield.layered(6, 8, 3)
TOTAL = ep.Total(NET, ep.SquaredError())
SETTLE = ep.Block(300, 1e-6)


def problem() -> tuple[Any, Any, Any]:
    keys = jax.random.split(jax.random.key(0), 3)
    theta = NET.init(keys[0], gain=1.0)
    theta["b"] = jax.tree.map(lambda b: b + 0.3, theta["b"])
    x, y = jax.random.uniform(keys[1], (40, 6)), jax.nn.one_hot(jnp.arange(40) % 3, 3)
    return theta, (x, y), NET.rest(40)


@pytest.mark.slow
def test_the_β_that_is_chosen_errs_little_more_than_the_best() -> None:
    """Noise of reading grows as 1/β, and units that reach a bound turn the gradient: both seen without the truth."""
    theta, v, rest = problem()
    exact = flat(ep.ImplicitGradient(ep.Block(2000, 1e-6))(TOTAL, theta, v, rest).gradient)
    chosen = []
    for noise in (1e-5, 1e-3, 1e-2):
        rule = ep.EquilibriumPropagation(ep.Symmetric(0.5), SETTLE, SETTLE, reading=Readings(noise=noise))
        tuned = ep.tune_nudge(rule, TOTAL, theta, v, rest)
        true = []
        for beta in tuned.betas:
            noisy = eqx.tree_at(lambda rule: rule.nudge.beta, rule, float(beta))
            found = [flat(noisy(TOTAL, theta, v, rest, jax.random.key(seed)).gradient) for seed in range(3)]
            true.append(np.sqrt(np.mean([np.sum((g - exact) ** 2) for g in found])) / np.linalg.norm(exact))
        assert true[tuned.error.argmin()] < 2 * min(true), (noise, true)
        assert 1 / 3 < tuned.error.min() / true[tuned.error.argmin()] < 3
        assert tuned.nudge.beta == tuned.beta
        chosen.append(tuned.beta)
    assert chosen[0] < chosen[1] < chosen[2]


@pytest.mark.slow
def test_a_β_that_leaves_no_minimum_is_not_chosen() -> None:
    net = ep.Hopfield.layered(6, 8, 3, activation=ep.tanh)
    _, v, rest = problem()
    rule = ep.EquilibriumPropagation(ep.Symmetric(1.0), SETTLE, SETTLE)
    found = ep.tune_nudge(rule, ep.Total(net, ep.SquaredError()), net.init(jax.random.key(0)), v, rest)
    assert np.isfinite(found.error[:5]).all() and found.beta < 1


@pytest.mark.usefixtures("x64")
def test_phases_of_another_system_are_tuned_as_they_settle() -> None:
    """How far the gradient turns from β to β is what the rule itself says, called at each."""
    net = ep.Directed(ep.Hopfield.layered(4, 5, 3, activation=ep.tanh))
    F, theta, settle = ep.Total(net, ep.SquaredError()), net.init(jax.random.key(0), 1.0), ep.Block(2000, 1e-12)
    v, rest = (jax.random.uniform(jax.random.key(1), (6, 4)), jnp.eye(3)[jnp.arange(6) % 3]), net.rest(6)
    rule = ep.AsymmetricEquilibriumPropagation(ep.Symmetric(0.1), settle, settle)
    tuned = ep.tune_nudge(rule, F, theta, v, rest, betas=np.array([0.1, 0.2, 0.4]))
    each = [eqx.tree_at(lambda rule: rule.nudge.beta, rule, beta)(F, theta, v, rest) for beta in (0.1, 0.2, 0.4)]
    gradients = [flat(learned.gradient) for learned in each]
    turned = np.cumsum([0.0] + [float(np.linalg.norm(b - a)) for a, b in pairwise(gradients)])
    np.testing.assert_allclose(tuned.bias, turned / np.linalg.norm(gradients[0]), rtol=1e-6)


@pytest.mark.parametrize(
    ("rule", "betas", "word"),
    [
        (ep.Backpropagation(), None, "is not eqprop.TwoPhase"),
        (ep.EquilibriumPropagation(), (0.1, 0.2), "three or more"),
        (ep.EquilibriumPropagation(), (0.3, 0.2, 0.1), "rising"),
        (ep.EquilibriumPropagation(), (0.0, 0.1, 0.2), "none of them 0"),
        (ep.EquilibriumPropagation(), [0.1, float("nan")], "a list, each part of which is a finite number"),
    ],
)
def test_what_cannot_be_tuned_is_refused(rule: Any, betas: Any, word: str) -> None:
    theta, v, rest = problem()
    with pytest.raises(ep.InputError, match=word):
        ep.tune_nudge(rule, TOTAL, theta, v, rest, betas=betas)
