"""Errors travel backwards in the nudged phase (section 2.3): the claims hold, and notice what would break them."""

from typing import Any

import jax
import pytest
from jax import Array

import eqprop as ep
from eqprop.verification.backward import BackpropagationThroughTime, ErrorsTravelBackwards
from eqprop.verification.base import Finding, Subject
from eqprop.verification.zoo import ZOO, Problem, hopfield
from marks import slow

pytestmark = pytest.mark.usefixtures("x64")

EXACT: dict[str, Any] = {"steps": 20_000, "tol": 1e-12, "epsilon": 0.2}


SHALLOW = hopfield(ep.Hopfield.layered(4, 6, 3, activation=ep.tanh))


def subject(problem: Problem, exact: ep.Gradient | None = None) -> Subject:
    theta, v, s = problem.draw(seed=3)
    exact = exact or ep.Gradient(**EXACT)
    return Subject("", problem.F, theta, v, s, ep.EquilibriumPropagation(ep.Symmetric(1e-3), exact, exact))


def failed(finding: Finding) -> list[str]:
    return [check.what for check in finding.checks if not check.passed]


class Untied(ep.Gradient):
    """The hidden units hear the output through weights of their own, not through the transposed ones."""

    def move(self, F: Any, theta: Any, v: Any, beta: Any, s: Any, t: Any) -> tuple[Any, Array]:
        feedback = theta["W"] | {"hidden-output": theta["W"]["hidden-output"][::-1]}
        other = F.force(theta | {"W": feedback}, v, beta, s)
        force = F.force(theta, v, beta, s) | {"hidden": other["hidden"]}
        moved = jax.tree.map(lambda u, f: u + self.epsilon * f, s, force)
        return F.space.project(moved), F.space.residual(s, force)


class Hurried(ep.Gradient):
    """Steps twice as long as it says."""

    def move(self, F: Any, theta: Any, v: Any, beta: Any, s: Any, t: Any) -> tuple[Any, Any]:
        moved, met = super().move(F, theta, v, beta, s, t)
        return jax.tree.map(lambda u, m: 2 * m - u, s, moved), met


@pytest.mark.parametrize("name", ["layered", slow("layered, tanh"), slow("layered, sigmoid")])
def test_layers_move_by_the_backpropagated_errors(name: str) -> None:
    claim = ErrorsTravelBackwards()
    finding = claim.check(subject(ZOO[name]))
    assert finding.passed, finding.checks
    assert claim.picture(finding).axes
    assert len(finding.checks) == 9  # power, direction and size in each of three layers


@pytest.mark.parametrize("name", [slow("layered, tanh"), "user F"])
def test_steps_of_the_second_phase_are_those_of_backpropagation_through_time(name: str) -> None:
    claim = BackpropagationThroughTime()
    finding = claim.check(subject(ZOO[name]))
    assert finding.passed, finding.checks
    assert claim.picture(finding).axes


@pytest.mark.slow
def test_feedback_through_other_weights_is_noticed() -> None:
    untied = subject(SHALLOW, Untied(**EXACT))
    found = failed(ErrorsTravelBackwards(Untied(steps=2000, epsilon=0.005)).check(untied))
    assert "1 − cosine of hidden with −δ_1" in found
    assert not any("output" in what for what in found)  # there the error enters
    found = failed(BackpropagationThroughTime(Untied(steps=40, epsilon=0.2)).check(untied))
    assert any("s/hidden" in what for what in found)


@pytest.mark.slow
def test_time_that_runs_at_another_pace_is_noticed() -> None:
    found = failed(ErrorsTravelBackwards(Hurried(steps=2000, epsilon=0.005)).check(subject(SHALLOW)))
    assert found == ["output relative to t^1/1! δ_0", "hidden relative to t^2/2! δ_1"]
    found = failed(BackpropagationThroughTime(Hurried(steps=40, epsilon=0.1)).check(subject(SHALLOW)))
    assert len(found) == 2  # the states; what θ is told is right for the longer step
    assert all("steps of s/" in what for what in found)


@pytest.mark.slow
def test_the_law_is_of_layered_networks() -> None:
    claim = ErrorsTravelBackwards()
    assert claim.applies(subject(SHALLOW))
    assert not any(claim.applies(subject(ZOO[name])) for name in ("skip", "fully connected", "user F"))
