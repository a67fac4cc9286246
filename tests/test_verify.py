"""`eqprop.verify`: the claims hold on what is right, and say in words what is wrong with what is not."""

import json
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqprop as ep
from command import run
from eqprop.rule.implicit import multiplier
from eqprop.verification import CLAIMS, SUBJECTS, Claim, Finding, Subject, verify_zoo
from eqprop.verification.another_view import AnotherView
from eqprop.verification.base import at_most
from eqprop.verification.clamping import SETTLED, ContrastiveHebbianLearning, FullClamping
from eqprop.verification.divergence import GradientOfNothing
from eqprop.verification.dynamics import Dynamics
from eqprop.verification.health import _around, _given, _minimum, words
from eqprop.verification.lemma import Envelope, Lemma
from eqprop.verification.multiplier import Multiplier
from eqprop.verification.order import Order
from eqprop.verification.partition import StochasticLemma
from eqprop.verification.proposition1 import Proposition1
from eqprop.verification.sides import Sides
from eqprop.verification.surrogate import Surrogate
from eqprop.verification.theorem1 import SecondForm, Theorem1, slope_at
from eqprop.verification.weak_feedback import WeakFeedback
from marks import nothing_missing, slow, slow_but

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize("subject", ["user F", slow("layered, tanh")])
@pytest.mark.slow
def test_the_claims_hold_where_they_should(subject: str) -> None:
    report = verify_zoo({subject: SUBJECTS[subject]})
    assert report.passed, str(report)
    claims = {"theorem 1", "lemma", "dynamics"} | ({"another view"} if subject == "user F" else set())
    assert {finding.claim.name for finding in report.findings} >= claims


class Flipped(ep.EquilibriumPropagation):
    """−∂J/∂θ."""

    def learn(self, *args: Any) -> ep.Learned:
        learned = super().learn(*args)
        return learned._replace(gradient=jax.tree.map(jnp.negative, learned.gradient))


class Summed(ep.EquilibriumPropagation):
    """A sum over the examples, not their mean."""

    def learn(self, F: Any, theta: Any, v: Any, *args: Any) -> ep.Learned:
        learned = super().learn(F, theta, v, *args)
        return learned._replace(gradient=jax.tree.map(lambda g: len(jax.tree.leaves(v)[0]) * g, learned.gradient))


class OfTheEnergyAlone(ep.EquilibriumPropagation):
    """∂E/∂θ in place of ∂F/∂θ: what C has of θ is lost."""

    def gradient(self, F: Any, theta: Any, v: Any, settled: Any, weight: Any) -> Any:
        return super().gradient(F, theta, v, settled._replace(beta=0 * settled.beta), weight)


class Undivided(ep.Symmetric):
    """Without 1/β."""

    def __call__(self, key: Any) -> Any:
        beta, w = super().__call__(key)
        return beta, beta[0] * w


class HalfPulled(ep.Symmetric):
    """Called symmetric, but 0 and β."""

    def __call__(self, key: Any) -> Any:
        beta, _ = super().__call__(key)
        return jnp.array([0.0, beta[0]]), jnp.array([-1.0, 1.0]) / beta[0]


class Clockwise(ep.Holomorphic):
    """w_k that turn the wrong way."""

    def __call__(self, key: Any) -> Any:
        beta, w = super().__call__(key)
        return beta, w.conj()


class PushedAway(ep.Gradient):
    """−β in place of β."""

    def move(self, F: Any, theta: Any, v: Any, beta: Any, s: Any, t: Any) -> Any:
        return super().move(F, theta, v, -beta, s, t)


class HalfWay(ep.Gradient):
    """β/2 in place of β: what is contrasted at ±β has settled elsewhere."""

    def move(self, F: Any, theta: Any, v: Any, beta: Any, s: Any, t: Any) -> Any:
        return super().move(F, theta, v, beta / 2, s, t)


class WithoutSlope(ep.Gradient):
    """ρ' left out of the force on Hopfield units."""

    def move(self, F: Any, theta: Any, v: Any, beta: Any, s: Any, t: Any) -> Any:
        rates = F.energy.rates(v[0], s)
        field = jax.grad(F.energy.phi, argnums=1)(theta, rates)
        pull = jax.grad(F.cost, argnums=2)(theta, v[1], s)
        force = {layer: field[layer] - u - beta * pull[layer] for layer, u in s.items()}
        moved = {layer: u + self.epsilon * force[layer] for layer, u in s.items()}
        return moved, jnp.max(jnp.stack([jnp.max(jnp.abs(f)) for f in force.values()]))


class Unclipped(ep.Gradient):
    """Steps that ignore the bounds."""

    def move(self, F: Any, theta: Any, v: Any, beta: Any, s: Any, t: Any) -> Any:
        return super().move(ep.system(lambda *args: F(*args)), theta, v, beta, s, t)


def penalised(theta: Any, y: Any, s: Any) -> Any:
    return jnp.sum((s - y) ** 2) / 2 + 0.05 * sum(jnp.sum(leaf**2) for leaf in theta.values())


def untied(theta: Any, x: Any, s: Any) -> Any:
    """The first unit feels the second, and not the other way round."""
    hidden, output = s[:2], s[2:]
    heard = jax.lax.stop_gradient(hidden) @ theta["K"][:2, 2:]
    return s @ s / 2 - jnp.sum(jnp.tanh(output) * heard) - hidden @ theta["B"][:2] @ x


def untransposed(F: Any, theta: Any, v: Any, s: Any, tol: float) -> Any:
    """−λ*."""
    found, solved = multiplier(F, theta, v, s, tol)
    return jax.tree.map(jnp.negative, found), solved


class WithoutTheHessian(Lemma):
    """∂²F/∂s∂β where (∂²F/∂s²)⁻¹ ∂²F/∂s∂β belongs."""

    def respond(self, curvature: Any, pull: Any) -> Any:
        return pull


class WithoutTheCurvature(Lemma):
    """(∂s/∂θ)ᵀ ∂s/∂β, without the ∂²F/∂s² between them."""

    def bend(self, curvature: Any, move: Any) -> Any:
        return move


class CountedTwice(SecondForm):
    """∂C/∂θ beside a contrast of ∂F/∂θ, which has it already."""

    def slope(self, subject: Subject, beta: float, s: Any) -> Any:
        return slope_at(subject.F, subject.theta, subject.v, beta, s)


class Unsigned(ep.Gradient):
    """|β| in place of β."""

    def move(self, F: Any, theta: Any, v: Any, beta: Any, s: Any, t: Any) -> Any:
        return super().move(F, theta, v, jnp.abs(beta), s, t)


class OfTheFreeNetwork(StochasticLemma):
    """E⁰[∂F/∂θ] in place of E^β[∂F/∂θ]."""

    def by_theta(self, known: Any, theta: Any, beta: Any) -> Any:
        return known.by_theta(theta, 0 * beta)


class Misplaced(ep.SquaredError):
    """Says that it is least where it is not."""

    def clamp(self, y: Any) -> Any:
        return {self.layer: 0.9 * y + 0.05}


class EqualRates(WeakFeedback):
    """Without the factors γ^j, the same rate for all layers."""

    def update(self, subject: Subject, gamma: float, gradient: Any) -> Any:
        net = self.net(subject)
        rates = net.per_layer({layer: gamma**k for k, layer in enumerate(reversed(net.free))})
        return jax.tree.map(lambda g, rate: rate * g, gradient, rates)


def absolute(theta: Any, y: Any, s: Any) -> Any:
    """JAX's derivative of |θ| at 0 is 1, where that of a penalty that leaves zeros alone is 0."""
    return jnp.sum((s - y) ** 2) / 2 + 0.05 * sum(jnp.sum(jnp.abs(leaf)) for leaf in theta.values())


GRADIENT = ep.Gradient(20_000, 1e-13, epsilon=0.1)


def with_rule(subject: str, **changes: Any) -> Subject:
    whole = SUBJECTS[subject]()
    return replace(whole, rule=replace(whole.rule, **changes))


def with_class(subject: str, kind: type[ep.EquilibriumPropagation], cost: Any = None) -> Subject:
    whole = SUBJECTS[subject]()
    rule, F = whole.rule, whole.F
    if cost is not None:
        F = ep.Total(F.energy, cost)  # pyright: ignore[reportAttributeAccessIssue]
    return replace(whole, F=F, rule=kind(ep.Symmetric(), rule.free, rule.nudged))


def with_cost(subject: str, cost: Any) -> Subject:
    return with_class(subject, ep.EquilibriumPropagation, cost)


def with_zeros(subject: Subject) -> Subject:
    theta = subject.theta
    return replace(subject, theta=theta | {"B": theta["B"].at[0].set(0)})


def with_energy(subject: str, energy: Any) -> Subject:
    whole = SUBJECTS[subject]()
    return replace(whole, F=ep.Total(energy, whole.F.cost))  # pyright: ignore[reportAttributeAccessIssue]


def as_if(true: Any, felt: Any) -> Any:
    """The value of one, and the derivative of the other."""
    return felt + jax.lax.stop_gradient(true - felt)


class FrozenSwitches(ep.MaxPool):
    """The way back leads to the first pixel of a window, whichever is the largest."""

    def summed_up(self, windows: Any) -> Any:
        return as_if(super().summed_up(windows), windows[:, 0, :, 0])


class FixedShares(ep.SoftmaxPool):
    """The shares p of the pixels are taken for constants."""

    def summed_up(self, windows: Any) -> Any:
        p = jnp.exp(windows) / jnp.exp(windows).sum((1, 3), keepdims=True)
        return as_if(super().summed_up(windows), (jax.lax.stop_gradient(p) * windows).sum((1, 3)))


class SummedBack(ep.AveragePool):
    """The mean on the way there, and the sum on the way back."""

    def summed_up(self, windows: Any) -> Any:
        return as_if(super().summed_up(windows), windows.sum((1, 3)))


class Twisted(ep.Convolution):
    """The way back to the image has the kernel turned round, so that it is not the transpose of the way there."""

    def pooled(self, w: Any, rate: Any) -> Any:
        still = jax.lax.stop_gradient
        felt = super().pooled(still(w[::-1, ::-1]), rate) + super().pooled(w, still(rate))
        return as_if(super().pooled(w, rate), felt)


class OutOfPhase(ep.Convolution):
    """The kernel learns from the pixels beside those that it sees."""

    def pooled(self, w: Any, rate: Any) -> Any:
        still = jax.lax.stop_gradient
        felt = super().pooled(still(w), rate) + super().pooled(w, still(jnp.roll(rate, 1, axis=0)))
        return as_if(super().pooled(w, rate), felt)


def with_synapses(subject: str, change: Callable[[ep.Convolution], ep.Synapse]) -> Subject:
    whole = SUBJECTS[subject]()
    net: Any = whole.F.offer(ep.Hopfield)
    synapses = [change(syn) if isinstance(syn, ep.Convolution) else syn for syn in net.synapses]
    faulty = ep.Hopfield(dict(net.layers), synapses, activation=dict(net.activations))
    return replace(whole, F=ep.Total(faulty, whole.F.cost))  # pyright: ignore[reportAttributeAccessIssue]


def with_pool(subject: str, pool: ep.Pooling) -> Subject:
    return with_synapses(subject, lambda synapse: replace(synapse, pool=pool))


def only(stride: int, past: str, kind: type[ep.Convolution]) -> Callable[[ep.Convolution], ep.Synapse]:
    """Convolutions of this stride from this layer are of another kind; the rest stays as it is."""
    return lambda syn: kind(**vars(syn)) if (syn.stride, syn.pre) == (stride, past) else syn


# A fault, what it is planted in, the claim that must notice, and a claim that has no reason to.
FAULTS: dict[str, tuple[Callable[[], Subject], Claim, Claim | None]] = {
    "flipped sign": (lambda: with_class("quadratic", Flipped), Theorem1(), Dynamics()),
    "sum for mean": (lambda: with_class("quadratic", Summed), Theorem1(), Multiplier()),
    "missing 1/β": (lambda: with_rule("quadratic", nudge=Undivided()), Theorem1(), Proposition1()),
    "penalty left out of ∂F/∂θ": (lambda: with_class("quadratic", OfTheEnergyAlone, penalised), Theorem1(), Lemma()),
    "holomorphic weights turned round": (lambda: with_rule("quadratic", nudge=Clockwise()), Theorem1(), Lemma()),
    "one-sided, called symmetric": (SUBJECTS["quadratic"], Order({"fault": (HalfPulled(), 2)}), None),
    "weights of 4 points turned round": (SUBJECTS["quadratic"], Order({"fault": (Clockwise(points=4), 4)}), None),
    "ρ' dropped": (
        lambda: with_rule("layered, tanh", free=WithoutSlope(20_000, 1e-13, epsilon=0.1)),
        Dynamics(),
        None,
    ),
    "untied weights": (lambda: with_energy("quadratic", untied), Dynamics(), None),
    "free phase cut short": (lambda: with_rule("quadratic", free=ep.Gradient(5, epsilon=0.1)), Dynamics(), None),
    "nudged phase cut short": (lambda: with_rule("quadratic", nudged=ep.Gradient(2, epsilon=0.1)), Dynamics(), None),
    "steps without the clip": (SUBJECTS["layered"], Dynamics(steps=Unclipped(300)), None),
    "nudge away from the target": (
        lambda: with_rule("quadratic", nudged=PushedAway(20_000, 1e-13, epsilon=0.1)),
        Proposition1(),
        None,
    ),
    "λ* with the wrong sign": (SUBJECTS["quadratic"], Multiplier(untransposed), Multiplier()),
    "inverse Hessian left out": (SUBJECTS["quadratic"], WithoutTheHessian(), Lemma()),
    "Hessian left out": (SUBJECTS["quadratic"], WithoutTheCurvature(), None),
    "settled at another β": (
        lambda: with_rule("quadratic", nudged=PushedAway(20_000, 1e-13, epsilon=0.1)),
        Envelope(),
        None,
    ),
    "settled at half the β": (
        lambda: with_rule("quadratic", nudged=HalfWay(20_000, 1e-13, epsilon=0.1)),
        Surrogate(),
        None,
    ),
    "flipped sign, at a finite β": (lambda: with_class("quadratic", Flipped), Surrogate(), Dynamics()),
    "∂E/∂θ contrasted, where F is no E + βC": (lambda: with_class("user F", OfTheEnergyAlone), AnotherView(), Lemma()),
    "∂C/∂θ counted twice": (lambda: with_cost("quadratic", penalised), CountedTwice(), SecondForm()),
    "sign of β ignored": (
        lambda: with_rule("quadratic", nudged=Unsigned(20_000, 1e-13, epsilon=0.1)),
        Sides(),
        None,
    ),
    "E⁰ for E^β": (SUBJECTS["quadratic"], OfTheFreeNetwork(), StochasticLemma()),
    "clamped elsewhere": (lambda: with_cost("two units", Misplaced()), FullClamping(), ContrastiveHebbianLearning()),
    "hidden units that do not settle again": (
        SUBJECTS["two units"],
        ContrastiveHebbianLearning(ep.ContrastiveHebbian(SETTLED, ep.Block(1))),
        FullClamping(),
    ),
    "so many sweeps that it is the likelihood's gradient": (
        SUBJECTS["two units"],
        GradientOfNothing(k=30),
        GradientOfNothing(),
    ),
    "no γ^j": (SUBJECTS["layered"], EqualRates(), WeakFeedback()),
    "switches of max-pooling frozen": (lambda: with_pool("convolution, max", FrozenSwitches()), Dynamics(), None),
    "shares of softmax-pooling frozen": (lambda: with_pool("convolution, softmax", FixedShares()), Dynamics(), None),
    "average-pooling that sums on the way back": (
        lambda: with_pool("convolution, average, readout", SummedBack()),
        Dynamics(),
        None,
    ),
    "∂C/∂θ of a readout left out": (
        lambda: with_class("convolution, average, readout", OfTheEnergyAlone),
        Theorem1(),
        Multiplier(),
    ),
    "convolution that is not transposed": (
        lambda: with_synapses("convolution, max", lambda syn: Twisted(**vars(syn))),
        Dynamics(),
        None,
    ),
    "convolution with strides that is not transposed": (
        lambda: with_synapses("residual", only(2, "block1a", Twisted)),
        Dynamics(),
        None,
    ),
    "skip that learns at the wrong phase of its stride": (
        lambda: with_synapses("residual", only(2, "input", OutOfPhase)),
        Theorem1(),
        Dynamics(),
    ),
    "zeros that a penalty pushes": (lambda: with_zeros(with_cost("quadratic", absolute)), Theorem1(), None),
}


SLOW_FAULTS = {  # each claim notices another, too
    "switches of max-pooling frozen",
    "untied weights",
    "hidden units that do not settle again",
    "penalty left out of ∂F/∂θ",
    "zeros that a penalty pushes",
    "steps without the clip",
    "∂E/∂θ contrasted, where F is no E + βC",
    "clamped elsewhere",
    "flipped sign, at a finite β",
    "no γ^j",
    "shares of softmax-pooling frozen",
    "average-pooling that sums on the way back",
    "∂C/∂θ of a readout left out",
    "convolution that is not transposed",
    "convolution with strides that is not transposed",
    "skip that learns at the wrong phase of its stride",
}


@pytest.mark.parametrize("fault", slow_but(FAULTS, *(FAULTS.keys() - SLOW_FAULTS)))
def test_a_planted_fault_is_caught_by_the_claim_that_should(fault: str) -> None:
    make, caught_by, unmoved = FAULTS[fault]
    subject = make()
    assert not caught_by.check(subject).passed
    if unmoved is not None:
        assert unmoved.check(subject).passed


# Claims whose faults are planted in other files, and the tests that do it.
OTHER_FAULTS = {
    "backpropagation through time": "test_backward.py::test_feedback_through_other_weights_is_noticed",
    "errors travel backwards": "test_backward.py::test_feedback_through_other_weights_is_noticed",
    "STDP path integral": "test_stdp.py::test_faults_are_noticed",
    "STDP curve": "test_stdp.py::test_the_rule_has_the_curve_of_spike_timing_dependent_plasticity",
    "circuit": "test_spice.py::test_the_claim_catches_what_derivatives_cannot",
    "stationary distribution": "test_stochastic.py::test_planted_faults_are_caught",
    "theorem 2": "test_stochastic.py::test_planted_faults_are_caught",
    "proposition 2": "test_stochastic.py::test_planted_faults_are_caught",
}


def test_every_claim_has_a_planted_fault() -> None:
    planted = {caught_by.name for _, caught_by, _ in FAULTS.values()} | OTHER_FAULTS.keys()
    nothing_missing([claim.name for claim in CLAIMS], planted, "claims without a planted fault")
    for where in OTHER_FAULTS.values():
        file, _, test = where.partition("::")
        assert f"def {test}(" in (Path(__file__).parent / file).read_text(), f"there is no {where}"


X = jnp.linspace(0.1, 1.0, 6).reshape(3, 2)
Y = jnp.ones((3, 2))
MATRIX = {"A": jnp.array([[0.5, 0.2], [-0.4, 0.3]])}


def squared(theta: Any, y: Any, s: Any) -> Any:
    return jnp.sum((s - y) ** 2) / 2


def asymmetric(theta: Any, x: Any, s: Any) -> Any:
    """A network of one's own in which s₀ hears s₁ by another weight than s₁ hears s₀."""
    still = jax.lax.stop_gradient(s)
    return s @ s / 2 - s @ x - 0.5 * s[0] * still[1] + 0.3 * s[1] * still[0] - jnp.sum(theta["A"] @ x * s)


def bottomless(theta: Any, x: Any, s: Any) -> Any:
    return -s @ s / 2 + s @ theta["A"] @ x


def runaway(theta: Any, x: Any, s: Any) -> Any:
    return bottomless(theta, x, s) - jnp.sum(s**4)


def too_steep(theta: Any, x: Any, s: Any) -> Any:
    return 30 * jnp.sum((s - theta["A"] @ x) ** 2) + jnp.sum(jnp.cos(3 * s))


def kinked(theta: Any, x: Any, s: Any) -> Any:
    return jnp.sum(jnp.abs(s - theta["A"] @ x)) + s @ s / 200


BUGS = {
    "asymmetric weights": (asymmetric, ["not symmetric", "W_ij = W_ji"]),
    "no minimum": (bottomless, ["runs away to infinity", "bounds by eqprop.Space"]),
    "no minimum, ever steeper": (runaway, ["runs away to infinity"]),
    "steps too long": (too_steep, ["not converged", "overshoots", "smaller steps"]),
    "kink": (kinked, ["jumps by", "Smooth it"]),
}


@pytest.mark.parametrize("bug", slow_but(BUGS, "asymmetric weights", "kink"))
def test_a_bug_in_ones_own_energy_is_told_in_words(bug: str) -> None:
    energy, said = BUGS[bug]
    report = ep.verify(ep.Total(energy, squared), MATRIX, (X, Y), jnp.zeros((3, 2)))
    assert not report.passed
    for words_ in said:
        assert words_ in str(report)


def test_a_phase_cut_short_is_told_with_its_residual_and_the_way_out() -> None:
    told = words(with_rule("quadratic", free=ep.Gradient(5, epsilon=0.1)))
    assert "residual" in told
    assert "raise `steps` (now 5)" in told


def wells(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    return theta @ s**2 / 2 + beta * jnp.sum(s)


@pytest.mark.parametrize("least", [0.05, -0.05])
@pytest.mark.parametrize("units", [2, 2000])
def test_the_least_curvature_is_found_in_a_large_network_without_its_matrix(units: int, least: float) -> None:
    """Of F = ½ Σ θ_i s_i², whose curvatures are θ; unit 0, which is held at a bound, does not count."""
    theta = jnp.linspace(least, 3, units + 1).at[0].set(-1.0).at[1].set(least)
    low = jnp.full(units + 1, -jnp.inf).at[0].set(0.0)
    F = ep.system(wells, space=ep.Space((units + 1,), low))
    rule = ep.EquilibriumPropagation(ep.Symmetric(), ep.Gradient(1), ep.Gradient(1))
    s = jnp.zeros((2, units + 1))
    around = _around(Subject("wells", F, theta, jnp.zeros((2, 1)), s, rule), s)
    around.look(around.x[None])
    tracemalloc.start()
    check = _minimum(around)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10e6
    assert check.value == pytest.approx(least, abs=1e-3)
    assert check.passed == (least > 0)
    assert ("not at a minimum" in check.advice) == (least < 0)


def test_ones_own_energy_passes_and_the_report_can_be_printed_plotted_and_saved(tmp_path: Path) -> None:
    def springs(theta: Any, v: Any, beta: Any, s: Any) -> Any:
        x, y = v
        return jnp.sum((s - theta["A"] @ x) ** 2) / 2 + jnp.sum(s**4) / 4 + beta * squared(theta, y, s)

    report = ep.verify(springs, MATRIX, (X, Y), jnp.zeros((3, 2)), claims=[Theorem1(), Order(), Proposition1()])
    assert report.passed, str(report)
    assert str(report).count("pass  ") == 3
    assert set(report.plot()) == {"order of the nudges", "proposition 1"}
    report.save(tmp_path, ["eqprop verify"])
    page = (tmp_path / "README.md").read_text()
    assert "checks hold**, in 3 findings (a claim on a subject)." in page
    assert "## Theorem 1 (section 3.3)" in page
    assert (tmp_path / "order_of_the_nudges.png").stat().st_size > 10_000
    assert json.loads(json.dumps(report.to_dict()))["passed"]


def linear(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    x, y = v
    return jnp.sum((s - theta @ x) ** 2) / 2 + beta * jnp.sum((s - y) ** 2) / 2


A = MATRIX["A"]
NOTHING_LEFT_TO_LEARN = {
    "at the target": (linear, A, (X, X @ A.T), jnp.zeros((3, 2))),
    "from where it rests": (linear, A, (X, Y), X @ A.T),
    "exact at every β": (lambda t, v, b, s: linear(t, v, 0.0, s) + b * s @ v[1], A, (X, Y), jnp.zeros((3, 2))),
    "labels": (
        lambda t, v, b, s: jnp.sum((s - t @ v[0]) ** 2) / 2 - b * jax.nn.log_softmax(s)[v[1]],
        A,
        (X, jnp.array([0, 1, 1])),
        jnp.zeros((3, 2)),
    ),
}


@pytest.mark.parametrize("case", slow_but(NOTHING_LEFT_TO_LEARN, "from where it rests"))
@pytest.mark.slow
def test_what_is_right_is_not_called_wrong(case: str) -> None:
    claims = [Dynamics(), Theorem1(), Order(), Proposition1(), Multiplier()]
    report = ep.verify(*NOTHING_LEFT_TO_LEARN[case], claims=claims)
    assert report.passed, str(report)
    assert len(report.findings) == len(claims)


@pytest.mark.slow
def test_a_network_of_many_weights_or_with_a_cost_of_ones_own_can_be_verified() -> None:
    net = ep.Hopfield.layered(784, 60, 10)
    F = ep.Total(net, lambda theta, y, s: jnp.sum((s["output"] - y) ** 2))
    v = (jnp.linspace(0, 1, 784)[None], jnp.ones((1, 10)))
    report = ep.verify(F, net.init(jax.random.key(0)), v, claims=[Multiplier(), Theorem1()])
    assert report.passed, str(report)


@pytest.mark.slow
def test_the_slopes_are_those_of_the_theory() -> None:
    for check in Order().check(SUBJECTS["user energy"]()).checks:
        assert check.value == pytest.approx(int(check.wanted[0]), abs=0.15)


def test_the_free_phase_of_a_subject_settles_once() -> None:
    """Even if the first to ask for it does so within a compiled program."""
    subject = SUBJECTS["quadratic"]()
    jax.jit(lambda: subject.nudged(0.1))()
    s, info = subject.free
    assert info.converged.all()
    assert subject.free[0] is s
    assert subject.at_rest.s is s
    assert replace(subject, s=s + 1).free[0] is not s


SOME = np.linspace(0.1, 1.0, 12).reshape(3, 4)
PICTURES: dict[str, tuple[Claim, dict[str, Any]]] = {
    "downhill": (Dynamics(), {"times": SOME[0], "falling": -SOME, "speed": SOME}),
    "power law in β": (FullClamping(), {"betas": SOME[0], "errors": SOME[1]}),
    "power law in γ": (WeakFeedback(), {"γ": SOME[0], "update": SOME[1], "state": SOME[2]}),
    "asymmetry": (GradientOfNothing(), {"asymmetry": SOME[0]}),
}


@pytest.mark.parametrize("name", PICTURES)
def test_figures_of_claims_show_their_numbers(name: str) -> None:
    claim, curves = PICTURES[name]
    figure = claim.picture(Finding(claim, "a network", (), curves))
    assert figure is not None
    (axes,) = figure.axes
    assert axes.get_xlabel() and axes.get_ylabel() and "a network" in axes.get_title()
    assert np.asarray(axes.lines[0].get_ydata())[0] > 0
    assert len(axes.get_legend_handles_labels()[1]) >= 2


def test_a_line_to_compare_with_says_that_it_is_only_proportional() -> None:
    for name in ("power law in β", "power law in γ"):
        claim, curves = PICTURES[name]
        figure = claim.picture(Finding(claim, "a network", (), curves))
        assert figure is not None
        assert figure.axes[0].get_legend_handles_labels()[1][-1].startswith("proportional to ")


def test_the_cost_of_every_example_is_drawn() -> None:
    betas = np.array([-0.1, 0.0, 0.1])
    figure = Proposition1().picture(
        Finding(Proposition1(), "many", (), {"betas": betas, "costs": np.ones((3, 8)), "slopes": -np.ones(8)})
    )
    assert figure is not None
    assert len(figure.axes[0].get_legend_handles_labels()[1]) == 8


def test_nothing_checked_is_nothing_passed(capsys: pytest.CaptureFixture[str]) -> None:
    ailing = ep.verify(ep.Total(bottomless, squared), MATRIX, (X, Y), jnp.zeros((3, 2)), claims=[Lemma()])
    assert not ailing.passed
    assert "runs away" in str(ailing)
    assert run("verify", "--claims", "STDP curve", "--subjects", "quadratic") == 2
    assert "none of these claims" in capsys.readouterr().err
    assert run("verify", "--claims", "STDP curve", "theorem 1", "--subjects", "quadratic") == 0
    shown = capsys.readouterr()
    assert "not about these networks: STDP curve" in shown.err
    assert re.fullmatch(r"1 of 1 findings hold, in \d+ s", shown.out.splitlines()[-1])


def test_the_short_form_says_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("eqprop.cli.verify.SHORT", ("quadratic",))
    assert run("verify", "--short", "--claims", "Another view", "Theorem 1") == 0
    assert "not checked with --short: another view" in capsys.readouterr().err


def test_a_subject_is_examined_the_same_each_time() -> None:
    subject = SUBJECTS["quadratic"]()
    assert len(Dynamics().check(subject).checks) == len(Dynamics().check(subject).checks)


def test_what_cannot_be_verified_is_refused() -> None:
    with pytest.raises(ep.InputError, match="cannot be called"):
        ep.verify(3, {}, (X, Y))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ep.InputError, match="what state to start from"):
        ep.verify(lambda *_: jnp.zeros(()), {}, (X, Y))
    with pytest.raises(ep.InputError, match="same examples"):
        ep.verify(lambda *_: jnp.zeros(()), {}, (X, Y[:2]))
    with pytest.raises(ep.InputError, match="theta holds no arrays"):
        ep.verify(lambda *_: jnp.zeros(()), {}, (X, Y), Y)
    with pytest.raises(ep.InputError, match="v holds a value that is not finite"):
        ep.verify(linear, A, (X, Y * jnp.nan), Y)
    with pytest.raises(ep.InputError, match="give each example its state"):
        ep.verify(linear, A, (X, Y), Y[:2])
    with pytest.raises(ep.InputError, match="must give one number"):
        ep.verify(lambda theta, v, beta, s: s, A, (X, Y), Y)
    with pytest.raises(ep.InputError, match="examples=0"):
        ep.verify(linear, A, (X, Y), Y, examples=0)
    with pytest.raises(ep.InputError, match="no claim is chosen"):
        ep.verify(linear, A, (X, Y), Y, claims=[])
    with pytest.raises(ep.InputError, match="claims 'fermat'"):
        ep.verify(linear, A, (X, Y), Y, claims=["fermat"])
    directed = ep.Total(ep.Directed(ep.Hopfield.layered(2, 2, activation=ep.tanh)), ep.SquaredError())
    with pytest.raises(ep.InputError, match="settles along a vector field"):
        ep.verify(directed, A, (X, Y))


def deaf(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    """A whole F that uses neither β nor θ."""
    x, y = v
    return jnp.sum((s - x[:2]) ** 2) / 2 + jnp.sum((s - y) ** 2)


def test_a_network_whose_units_all_rest_at_a_bound_uses_its_arguments() -> None:
    subject = SUBJECTS["pair of units"]()
    assert _given(_around(subject, subject.s)).passed


def test_an_F_that_uses_neither_beta_nor_theta_does_not_pass() -> None:
    report = ep.verify(deaf, A, (X, Y), jnp.zeros((3, 2)), claims=["Proposition"])
    assert not report.passed
    assert "does F use its argument beta?" in str(report)
    assert "does F use its argument theta?" in str(report)


def steep(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    """A cost that is a thousand times as curved as the energy."""
    x, y = v
    return jnp.sum((s - theta @ x) ** 2) / 2 + jnp.sum(s**4) / 4 + beta * 500 * jnp.sum((s - y) ** 2)


@pytest.mark.slow
def test_costs_much_steeper_than_the_energy_are_no_reason_to_fail() -> None:
    claims = [Theorem1(), Sides(), Envelope(), Lemma(), Proposition1(), Multiplier()]
    report = ep.verify(steep, A, (X, Y), jnp.zeros((3, 2)), claims=claims)
    assert report.passed, str(report)
    assert len(report.findings) == len(claims)


class Broken(Claim):
    """Ends = early."""

    name, section = "broken", "0"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def check(self, subject: Subject) -> Any:
        raise self.error


def test_an_exception_fails_its_claim_and_the_others_go_on(tmp_path: Path) -> None:
    def checked(error: BaseException) -> Any:
        return ep.verify(linear, A, (X, Y), jnp.zeros((3, 2)), claims=[Broken(error), Proposition1()])

    report = checked(ValueError("not\nthis | way"))
    assert [finding.passed for finding in report.findings] == [False, True]
    assert "FAIL  broken, your energy" in str(report)
    assert "ValueError: not this | way" in str(report)
    report.save(tmp_path)
    assert "ValueError: not this ∣ way" in (tmp_path / "README.md").read_text()
    with pytest.raises(KeyboardInterrupt):
        checked(KeyboardInterrupt())


def test_an_exception_in_the_energy_itself_is_told_too() -> None:
    calls = []

    def moody(theta: Any, v: Any, beta: Any, s: Any) -> Any:
        calls.append(beta)
        if len(calls) > 1:  # the first look is at its shape
            raise ValueError("once is enough")
        return linear(theta, v, beta, s)

    report = ep.verify(moody, A, (X, Y), jnp.zeros((3, 2)), claims=[Multiplier()])
    assert not report.passed
    assert "ValueError: once is enough" in str(report)


def test_a_value_that_is_no_number_fails() -> None:
    assert not at_most("", float("nan"), 1.0).passed


def test_every_claim_has_a_name_a_section_and_a_formula() -> None:
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    for claim in CLAIMS:
        assert claim.section
        assert "=" in (claim.__doc__ or "")


def test_the_command_checks_what_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["verify", "--claims", "constrained", "proposition 1", "--subjects", "quad"]
    assert run(*asked, "--report", str(tmp_path / "page")) == 0
    shown = capsys.readouterr().out
    assert shown.count("pass  ") == 2
    assert "report in" in shown
    assert "proposition_1.png" in (tmp_path / "page" / "README.md").read_text()
    assert run(*asked, "--json") == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["passed"]
    assert {finding["claim"] for finding in result["findings"]} == {"constrained optimisation", "proposition 1"}


def test_the_command_fails_if_anything_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty = with_class("quadratic", Flipped)
    monkeypatch.setitem(SUBJECTS, "quadratic", lambda: faulty)
    assert run("verify", "--claims", "theorem 1", "--subjects", "quadratic") == 1
    shown = capsys.readouterr()
    assert "wrong sign" in shown.out
    assert "1 of 1 do not hold" in shown.err


def test_the_command_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "--list") == 0
    shown = capsys.readouterr().out
    assert all(claim.name in shown for claim in CLAIMS)
    assert all(name in shown for name in SUBJECTS)
    assert "theorem 2 (Appendix C)" in shown and "Theorem 4" in shown
    assert run("verify", "--claims", "fermat") == 2
    assert "eqprop verify --list" in capsys.readouterr().err


def test_progress_is_told_and_no_claim_begins_when_the_time_is_over() -> None:
    """On any F: nothing is settled when there is no time."""
    asked: list[str] = []

    class Asked(Claim):
        name, section = "asked", "none"

        def applies(self, subject: Subject) -> bool:
            asked.append(subject.name)
            return False

        def check(self, subject: Subject) -> Finding:
            raise AssertionError

    def F(theta: Any, v: Any, beta: Any, s: Any) -> Any:
        return (s - theta * v) ** 2 / 2 + beta * s**2

    told: list[tuple[int, int]] = []
    given = (F, jnp.array(0.5), jnp.ones(2), jnp.zeros(2))
    ep.verify(*given, claims=[Asked(), Asked()], observe=lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)] and len(asked) == 2
    late = ep.verify(*given, claims=[Asked()], seconds=0)
    assert len(asked) == 2 and "give more `seconds`" in str(late)
