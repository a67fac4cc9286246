"""Appendix C: Langevin dynamics, the stochastic rule, and the claims about them, which must be able to fail."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqprop as ep
from eqprop.verification import SUBJECTS
from eqprop.verification.base import Claim, Finding, Subject
from eqprop.verification.boltzmann import Energy, Gaussian, OnGrid, boltzmann
from eqprop.verification.stochastic import NUDGE, SAMPLER, ExpectedGradient, NudgedCost, Stationary, T
from marks import slow


def double_well(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    return jnp.sum(theta["a"] * (s**2 - 1) ** 2 - theta["b"] * s + beta * (s - v) ** 2 / 2)


def bowl(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    """Layers of 2 and 1 units, coupled by springs; the cost pulls at the second."""
    x, y = v
    return (
        jnp.sum(theta["k"] * (s["hidden"] - theta["A"] @ x) ** 2) / 2
        + jnp.sum((s["output"] - theta["B"] @ s["hidden"]) ** 2) / 2
        + beta * jnp.sum((s["output"] - y) ** 2) / 2
    )


def subject(name: str) -> Subject:
    """Each starts far from where it settles, so that it shows if a start is not forgotten."""
    rule = ep.EquilibriumPropagation()
    if name == "network":
        whole = SUBJECTS["two units"]()
        return replace(whole, s=jax.tree.map(lambda u: u + 3.0, whole.s))
    if name == "double well":
        theta = {"a": jnp.array(0.7), "b": jnp.array(0.4)}
        return Subject(name, ep.system(double_well), theta, jnp.array([-0.6]), jnp.array([[2.5]]), rule)
    theta = {
        "k": jnp.array([1.5, 2.0]),
        "A": jnp.array([[1.0, -0.5], [0.3, 0.8]]),
        "B": jnp.array([[0.5, -0.6]]),
    }
    v = (jnp.array([[1.0, 0.5]]), jnp.array([[1.5]]))
    s = {"hidden": jnp.zeros((1, 2)), "output": jnp.full((1, 1), 4.0)}
    return Subject(name, ep.system(bowl), theta, v, s, rule)


class Times(ep.Symmetric):
    """The symmetric nudge with weights that are `factor` times what they should be."""

    factor: float = 1.0

    def __call__(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        beta, w = super().__call__(key)
        return beta, self.factor * w


def failed(finding: Finding) -> list[str]:
    return [check.what for check in finding.checks if not check.passed]


HALF_AS_HOT = ep.Langevin(T / 2, SAMPLER.dt, SAMPLER.burn_in, SAMPLER.samples, SAMPLER.thin)  # σ = √T, not √(2T)
FEW = 300  # chains: enough to notice most of the faults below; `eqprop verify` takes more
HASTY = ep.Langevin(T, SAMPLER.dt, 0, SAMPLER.samples, SAMPLER.thin)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("claim", "name"),
    [
        slow(Stationary(chains=FEW), "double well"),
        slow(Stationary(chains=FEW), "bowl"),
        (ExpectedGradient(chains=FEW, nudge=Times(NUDGE)), "double well"),
        slow(ExpectedGradient(chains=FEW), "bowl"),
        slow(NudgedCost(chains=FEW), "double well"),
        slow(Stationary(chains=FEW), "network"),
        slow(ExpectedGradient(chains=FEW), "network"),
        slow(NudgedCost(chains=FEW), "network"),
    ],
)
def test_the_claims_of_appendix_c_hold(claim: Claim, name: str) -> None:
    assert claim.applies(subject(name))
    finding = claim.check(subject(name))
    assert failed(finding) == []
    if figure := claim.picture(finding):
        axes = figure.axes[0]
        assert axes.get_title() and axes.get_xlabel() and axes.get_ylabel()
        assert len(axes.get_legend_handles_labels()[1]) == 4


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("claim", "check"),
    [
        (Stationary(HALF_AS_HOT, FEW), "Cov[s] at β = 0"),
        slow(Stationary(HASTY), "E[s] at β = 0"),
        slow(ExpectedGradient(chains=FEW, nudge=Times(NUDGE, NUDGE)), "∂J̃/∂θ"),
        (ExpectedGradient(chains=FEW, nudge=Times(NUDGE, -1.0)), "∂J̃/∂θ"),
        slow(NudgedCost(HALF_AS_HOT, FEW), "slope of E[C]"),
        slow(NudgedCost(HALF_AS_HOT, FEW), "−Var[C]/T"),
    ],
    ids=["noise √T", "no burn-in", "no 1/β", "wrong sign", "noise √T, slope", "noise √T, variance"],
)
def test_planted_faults_are_caught(claim: Claim, check: str) -> None:
    assert any(what.startswith(check) for what in failed(claim.check(subject("double well"))))


@pytest.mark.usefixtures("x64")
def test_claims_apply_only_where_the_distribution_is_known() -> None:
    known = subject("bowl")

    def other(F: Any) -> Subject:
        return Subject("other", ep.system(F), known.theta, known.v, known.s, known.rule)

    assert not Stationary().applies(other(lambda t, v, b, s: bowl(t, v, b, s) + jnp.sum(s["hidden"] ** 4)))
    assert not Stationary().applies(other(lambda t, v, b, s: bowl(t, v, b, s) - 9 * b * jnp.sum(s["output"] ** 2)))
    F = ep.system(lambda t, v, b, s: b * jnp.sum(s**2))
    flat = Subject("flat", F, {}, jnp.zeros(1), jnp.zeros((1, 1)), known.rule)
    assert not Stationary().applies(flat)
    with pytest.raises(ep.InputError, match="flat"):
        Stationary().check(flat)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_a_grid_of_two_units_knows_what_the_closed_form_does() -> None:
    def tied(theta: Any, v: Any, beta: Any, s: Any) -> Any:
        """Springs of different strength, and one between the two units."""
        return s @ theta @ s / 2 - v @ s + beta * s[0] ** 2 / 2

    theta, v, s = jnp.array([[2.0, 0.7], [0.7, 1.0]]), jnp.array([[0.5, -1.0]]), jnp.ones((1, 2))
    F = ep.system(tied)
    known = boltzmann(Subject("tied", F, theta, v, s, ep.EquilibriumPropagation()), T, (0.0, 1.0))
    assert isinstance(known, OnGrid)
    closed, levels = Gaussian(Energy(F, v[0], s[0]), T, s[0]), jnp.array([0.03, 0.4, 0.9])
    for beta in (0.0, 1.0):
        assert known.log_partition(theta, beta) == pytest.approx(float(closed.log_partition(theta, beta)), abs=1e-12)
        np.testing.assert_allclose(known.by_theta(theta, beta), closed.by_theta(theta, beta), atol=1e-12)
        assert known.by_beta(theta, beta) == pytest.approx(float(closed.by_beta(theta, beta)), abs=1e-12)
        assert known.cost_variance(theta, beta) == pytest.approx(float(closed.cost_variance(theta, beta)), abs=1e-12)
        found, wanted = (one.quantiles(levels, theta, beta) for one in (known, closed))
        np.testing.assert_allclose(found, wanted, atol=5e-3)  # P is taken as straight between points, 0.08 apart


def spring(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    """Hooke's law around θ; the cost pulls to v."""
    return jnp.sum((s["u"] - theta) ** 2) / 2 + beta * jnp.sum((s["u"] - v) ** 2) / 2


def test_langevin_samples_the_closed_form() -> None:
    """N((θ + βv)/(1 + β), T/(1 + β)) for a spring, with a β for each example."""
    examples, temperature = 400, 0.3
    beta = jnp.arange(examples) % 2 * 1.0
    v, s = jnp.full((examples, 2), 4.0), {"u": jnp.zeros((examples, 2))}
    sampler = ep.Langevin(temperature, dt=0.1, burn_in=100, samples=50, thin=10)
    u = np.asarray(sampler.sample(spring, 1.0, v, beta, s, jax.random.key(0))["u"])
    assert u.shape == (examples, 50, 2)
    for b in (0, 1):
        part = u[b::2]  # 20,000 numbers, about half as many independent ones
        assert part.mean() == pytest.approx((1 + 4 * b) / (1 + b), abs=0.025)
        assert part.var() == pytest.approx(temperature / (1 + b), rel=0.06)
    means = u.mean(1)  # of examples and units, whose noise must be independent
    assert abs(np.corrcoef(means[::2, 0], means[::2, 1])[0, 1]) < 0.25
    assert abs(np.corrcoef(means[:-2:2, 0], means[2::2, 0])[0, 1]) < 0.25


def spread(beta: float, temperature: float, weight: Any = (1.0, 1.0), keys: int = 30) -> np.ndarray:
    """What the rule finds with different keys, for a spring at θ = 1 and two examples."""
    rule = ep.StochasticEquilibriumPropagation(ep.Symmetric(beta), ep.Langevin(temperature, 0.1, 200, 10, 10))
    v, s = jnp.array([[0.0], [2.0]]), {"u": jnp.zeros((2, 1))}
    found = [rule(spring, 1.0, v, s, jax.random.key(seed), jnp.array(weight)).gradient for seed in range(keys)]
    return np.asarray(found)


@pytest.mark.usefixtures("x64")
def test_phases_share_their_noise_so_that_a_small_nudge_is_no_noisier() -> None:
    assert spread(0.01, 0.5).std() == pytest.approx(spread(0.1, 0.5).std(), rel=0.2)


@pytest.mark.usefixtures("x64")
def test_without_noise_it_is_equilibrium_propagation() -> None:
    """(θ − v)/(1 − β²) for a spring and a symmetric nudge; examples enter by their weights."""
    for weight, wanted in (((1.0, 0.0), 1.0), ((0.0, 1.0), -1.0), ((3.0, 1.0), 0.5)):
        assert spread(0.5, 0.0, weight, keys=1) == pytest.approx(wanted / (1 - 0.5**2), rel=1e-4)


@pytest.mark.slow
def test_it_trains_a_network_with_noise() -> None:
    """Three clouds of points, in one epoch; chance is an error of 2/3."""
    labels = np.arange(1200) % 3
    y = np.eye(3, dtype=np.float32)[labels]
    x = y + 0.2 * np.random.default_rng(0).normal(size=y.shape).astype(np.float32)
    net = ep.Hopfield.layered(3, 8, 3, activation=ep.tanh)
    F = ep.Total(net, ep.SquaredError())
    rule = ep.StochasticEquilibriumPropagation(ep.Symmetric(0.5), ep.Langevin(0.01, 0.3, 20, 4, 10))
    trainer = ep.Trainer(F, rule, optax.adam(0.03), metrics={"error": F.cost.misclassified})
    feed = ep.Shuffled((x, y), 20)
    state = trainer.init(net.init(jax.random.key(0)), feed, jax.random.key(1))
    state = trainer.advance(state, feed, 60)
    assert trainer.measure(state.theta, (x, y), block=1200)["error"] < 0.02


def test_what_cannot_be_used_is_refused() -> None:
    wrong: dict[str, Any] = {"temperature": -1.0, "dt": 0.0, "burn_in": -1, "samples": 0, "thin": 1.5}
    for name, value in wrong.items():
        with pytest.raises(ep.InputError, match=f"{name}={value}"):
            ep.Langevin(**{name: value})
    with pytest.raises(ep.InputError, match="Symmetric"):
        ep.StochasticEquilibriumPropagation(ep.Holomorphic(0.5))
    with pytest.raises(ep.InputError, match="float"):
        ep.Langevin()(spring, 1.0, jnp.zeros((1, 1)), 0.0, {"u": jnp.zeros((1, 1), int)})
