"""Learning in the second phase only (section 2.4): the claims hold, notice what would break them, and it trains."""

from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
import pytest
from jax import Array

import eqprop as ep
from eqprop.rule.stdp import Plasticity
from eqprop.verification.base import Finding, Subject, relative
from eqprop.verification.stdp import PATH, ChainRule, PathIntegral, TimingCurve
from eqprop.verification.zoo import ZOO, fully_connected, hopfield, pair
from marks import slow

EXACT = ep.Gradient(steps=20_000, tol=1e-12, epsilon=0.2)


def subject() -> Subject:
    """A network with two hidden layers, and ρ' < 1."""
    problem = ZOO["layered, tanh"]
    theta, v, s = problem.draw(seed=3)
    return Subject("", problem.F, theta, v, s, ep.EquilibriumPropagation(ep.Symmetric(1e-3), EXACT, EXACT))


def failed(finding: Finding) -> list[str]:
    return [check.what for check in finding.checks if not check.passed]


class Forwards(Plasticity):
    """ρ(u_i) dρ(u_j)/dt only, from the layer below to the one above."""

    def gain(self, theta: Any, rho: Any, change: Any) -> Array:
        net: Any = self.units
        one_way = [(syn, {syn.pre: rho[syn.pre], syn.post: change[syn.post]}) for syn in net.synapses]
        gained = [syn.phi(theta["W"][syn.name], mixed) for syn, mixed in one_way]
        return jnp.stack(gained + [jnp.dot(b, change[layer]) for layer, b in theta["b"].items()]).sum()


class OneDirection(ep.STDP):
    """Synapses learn from what they send forwards alone."""

    plasticity: ClassVar[type[Plasticity]] = Forwards


class Unscaled(ep.OneSided):
    """Without 1/β."""

    def __call__(self, key: Array) -> tuple[Array, Array]:
        beta, w = super().__call__(key)
        return beta, w * beta[1]


class SymmetricCurve(TimingCurve):
    """ρ(u_i) ρ(u_j): as Hebb has it, whatever comes first."""

    def plasticity(self, rho: Array, change: Array) -> Array:
        return rho[0] * rho[1] * self.path.epsilon


def test_the_integral_is_the_contrastive_update(x64: None) -> None:
    claim = PathIntegral()
    finding = claim.check(subject())
    assert finding.passed, finding.checks
    assert claim.picture(finding).axes


@pytest.mark.parametrize(
    "fault",
    [PathIntegral().plain, OneDirection(**PATH), replace(PathIntegral().rule, nudge=Unscaled(0.1))],
    ids=["no factor ρ'", "one direction", "no 1/β"],
)
def test_faults_are_noticed(fault: ep.STDP, x64: None) -> None:
    found = failed(PathIntegral(rule=fault).check(subject()))
    assert found == ["order in ε of the error of ∫ ρ dρ", "relative error of ∫ ρ dρ at ε = 0.025"]


def test_the_rule_has_the_curve_of_spike_timing_dependent_plasticity(x64: None) -> None:
    claim = TimingCurve()
    assert claim.applies(pair())
    finding = claim.check(pair())
    assert finding.passed, finding.checks
    assert claim.picture(finding).axes
    assert "delays with the wrong sign" in failed(SymmetricCurve().check(pair()))


@pytest.mark.parametrize("nudge", [slow(ep.RandomSign(-0.2)), ep.Symmetric(0.2)], ids=["random sign", "symmetric"])
@pytest.mark.slow
def test_every_nudge_will_do_and_penalties_count(nudge: ep.Nudge, x64: None) -> None:
    """In a network with lateral synapses, and examples of unequal weight."""
    theta, v, s = (problem := fully_connected(ep.tanh)).draw(seed=1)
    F = ep.Total(problem.F.energy, ep.SquaredError(l2=0.1))
    weight = jnp.array([1.0, 0.0, 3.0])
    settle = ep.Gradient(steps=500, epsilon=0.1)
    found, *_ = ep.STDP(nudge, settle, ep.Gradient(steps=2000, epsilon=0.02))(F, theta, v, s, jax.random.key(2), weight)
    expected, *_ = ep.EquilibriumPropagation(nudge, settle, settle)(F, theta, v, s, jax.random.key(2), weight)
    assert relative(found, expected) <= 1e-3


@pytest.mark.slow
def test_digits_are_learned_as_well_as_by_equilibrium_propagation() -> None:
    digits = ep.data.load("digits")
    net = ep.Hopfield.layered(64, 32, 10)
    F = ep.Total(net, ep.SquaredError())
    free, nudge, optimizer = ep.Gradient(steps=20), ep.OneSided(0.5), optax.adam(0.01)
    feed, errors = ep.Shuffled(digits.train.v, 50), []
    for rule in (
        ep.STDP(nudge, free, ep.Gradient(steps=10, epsilon=0.2)),
        ep.EquilibriumPropagation(nudge, free, ep.Gradient(steps=10, epsilon=0.2)),
    ):
        trainer = ep.Trainer(F, rule, optimizer, metrics={"error": F.cost.misclassified})
        state = trainer.init(net.init(jax.random.key(0)), feed, jax.random.key(1))
        state, _ = ep.fit(trainer, state, feed, epochs=5)
        errors.append(trainer.measure(state.theta, digits.test.v)["error"])
    assert max(errors) < 0.1
    assert errors[0] == pytest.approx(errors[1], abs=0.01)


def test_it_says_what_it_is_not_for() -> None:
    with pytest.raises(ep.InputError, match="take EquilibriumPropagation"):
        ep.STDP().check(ZOO["user energy"].F)
    with pytest.raises(ep.InputError, match="path of small steps"):
        ep.STDP(nudged=ep.Gradient(tol=1e-3))
    with pytest.raises(ep.InputError, match="is not one of 'rho', 'u'"):
        ep.STDP(of="v")  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
def test_a_path_that_ends_too_soon_is_made_longer_or_told(x64: None) -> None:
    """With large weights F is flat in one direction, and 2,000 of the smallest steps do not come to the end of it."""
    flat = hopfield(ep.Hopfield.residual((4, 4, 1), (2,), 3), gain=0.8).subject("flat")
    assert not failed(PathIntegral().check(flat))
    few: dict[str, Any] = PATH | {"nudged": ep.Gradient(steps=150)}
    cut = PathIntegral(rule=ep.STDP(**few), chain=ChainRule(**few)).check(flat)
    assert "ends before it rests" in next(check.advice for check in cut.checks if not check.passed)
