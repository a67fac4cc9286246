"""Costs against formulas of others; nudges against the two sums that define them."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eqprop as ep

THETA = {"W": {"a": jnp.array([[1.0, -2.0]])}, "b": {"c": jnp.array([3.0])}}
Y = jnp.array([0.0, 1.0, 0.0])
S = {"hidden": jnp.ones(4), "output": jnp.array([0.2, 0.7, 0.1])}


def test_squared_error_is_half_the_squared_distance() -> None:
    assert ep.SquaredError()(THETA, Y, S) == pytest.approx((0.2**2 + 0.3**2 + 0.1**2) / 2)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_cross_entropy_is_that_of_optax(scale: float) -> None:
    expected = optax.losses.softmax_cross_entropy(scale * S["output"], Y)
    assert ep.CrossEntropy(scale=scale)(THETA, Y, S) == pytest.approx(float(expected))


@pytest.mark.parametrize("cost", [ep.SquaredError, ep.CrossEntropy])
def test_penalties_are_on_all_of_theta(cost: type[ep.SquaredError | ep.CrossEntropy]) -> None:
    bare = cost()(THETA, Y, S)
    assert cost(l1=0.1)(THETA, Y, S) - bare == pytest.approx(0.1 * 6, rel=1e-5)
    assert cost(l2=0.1)(THETA, Y, S) - bare == pytest.approx(0.1 * 14 / 2, rel=1e-5)
    slope = jax.grad(cost(l2=0.1))(THETA, Y, S)
    np.testing.assert_allclose(slope["W"]["a"], 0.1 * THETA["W"]["a"], rtol=1e-6)


OPTIMIZERS = {"sgd": optax.sgd(0.1), "momentum": optax.sgd(0.1, 0.9), "adam": optax.adam(0.1)}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_weight_of_zero_that_nothing_pulls_at_stays_zero(optimizer: str) -> None:
    """The weights of a dark input, under an L1 penalty: |w| has a kink at 0, where its derivative is to be 0."""
    net, step = ep.Hopfield.layered(3, 2), OPTIMIZERS[optimizer]
    F, rule = ep.Total(net, ep.SquaredError(l1=0.01)), ep.EquilibriumPropagation(ep.Symmetric(0.1))
    v = (jnp.array([[0.0, 0.5, 1.0], [0.0, 1.0, 0.2]]), jnp.array([[0.2, 0.7], [0.6, 0.1]]))
    before = jnp.array([[0.0, 0.0], [0.3, 0.2], [0.2, 0.4]])
    theta: Any = {"W": {"input-output": before}, "b": {"output": jnp.full(2, 0.1)}}
    state = step.init(theta)
    for _ in range(3):
        gradient = rule(F, theta, v, net.rest(2)).gradient
        changes, state = step.update(gradient, state, theta)
        theta = optax.apply_updates(theta, changes)
    after = theta["W"]["input-output"]
    np.testing.assert_array_equal(after[0], 0)
    assert (jnp.abs(after - before)[1:] > 1e-4).all()


def test_another_layer_can_be_the_output() -> None:
    assert ep.SquaredError("hidden")(THETA, jnp.zeros(4), S) == pytest.approx(2.0)


def test_an_example_is_misclassified_if_its_largest_output_is_elsewhere() -> None:
    cost = ep.SquaredError()
    assert cost.misclassified(THETA, (None, Y), S) == 0
    assert cost.misclassified(THETA, (None, jnp.array([1.0, 0.0, 0.0])), S) == 1


def test_misclassified_refuses_labels_and_a_single_output_of_which_none_is_largest() -> None:
    cost, one = ep.SquaredError(), {"output": jnp.array([0.8])}
    with pytest.raises(ep.InputError, match="one-hot"):
        cost.misclassified(THETA, (None, jnp.array(2)), S)
    with pytest.raises(ep.InputError, match="give two outputs"):
        cost.misclassified(THETA, (None, jnp.array([0.0])), one)


@pytest.mark.parametrize("kind", [ep.OneSided, ep.RandomSign, ep.Symmetric])
@given(beta=st.floats(1e-3, 10) | st.floats(-10, -1e-3), seed=st.integers(0, 1000))
def test_the_weights_of_a_nudge_sum_to_zero_and_pick_the_derivative(
    kind: type[ep.Nudge], beta: float, seed: int
) -> None:
    betas, weights = kind(beta)(jax.random.key(seed))
    assert jnp.sum(weights) == pytest.approx(0, abs=1e-6 / abs(beta))
    assert jnp.sum(weights * betas) == pytest.approx(1, rel=1e-5)
    assert kind.uses_free == (betas[0] == 0).item()


@given(beta=st.floats(1e-3, 10), push=st.floats(1e-3, 10))
def test_so_do_those_of_an_asymmetric_one(beta: float, push: float) -> None:
    betas, weights = ep.Asymmetric(beta, push)(jax.random.key(0))
    assert jnp.sum(weights) == pytest.approx(0, abs=1e-6 / (beta + push))
    assert jnp.sum(weights * betas) == pytest.approx(1, rel=1e-5)


def test_an_asymmetric_nudge_reaches_an_output_that_a_weak_one_does_not() -> None:
    """An output held at 0 by a bias of −1.5, whose target is 1, learns just from a pull of more than 1.5."""
    net = ep.Hopfield.layered(1, 1)
    theta = {"W": {"input-output": jnp.zeros((1, 1))}, "b": {"output": jnp.array([-1.5])}}
    v, F = (jnp.zeros((1, 1)), jnp.ones((1, 1))), ep.Total(net, ep.SquaredError())
    for nudge, learns in ((ep.Symmetric(0.5), False), (ep.Asymmetric(2.0, 0.5), True)):
        gradient = ep.EquilibriumPropagation(nudge)(F, theta, v, net.rest(1)).gradient
        assert bool(gradient["b"]["output"] < 0) == learns


def test_the_random_sign_is_either_with_equal_chance() -> None:
    keys = jax.random.split(jax.random.key(0), 1000)
    signs = jnp.sign(jax.vmap(lambda key: ep.RandomSign(0.5)(key)[0][1])(keys))
    assert abs(signs.mean()) < 0.1  # three standard deviations
    assert set(np.unique(signs)) == {-1.0, 1.0}


def bent(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    """Smooth for real states, and not analytic: its cost has the conjugate of a complex state."""
    x, y = v
    return jnp.sum((s - theta * x) ** 2) / 2 + beta * jnp.vdot(s - y, s - y)


def test_the_holomorphic_nudge_refuses_what_is_smooth_for_real_states_only() -> None:
    settle, v = ep.Gradient(5, epsilon=0.1), (jnp.ones((2, 3)), jnp.zeros((2, 3)))
    rule, s = ep.EquilibriumPropagation(ep.Holomorphic(0.1), settle, settle), jnp.zeros((2, 3))
    with pytest.raises(ep.InputError, match="an analytic F"):
        rule(bent, jnp.ones(3), v, s)
    trainer = ep.Trainer(ep.system(bent, space=ep.Space((3,))), rule, optax.sgd(0.1))
    feed = ep.Shuffled(v, batch_size=2)
    with pytest.raises(ep.InputError, match="an analytic F"):
        ep.fit(trainer, trainer.init(jnp.ones(3), feed, jax.random.key(0)), feed, epochs=1)
    # A real part that is constant nearly everywhere bends nothing, nor does a field that is analytic.
    for F in (ep.Total(lambda theta, x, s: jnp.sum((s["output"] - x) ** 2), ep.PhaseError()), ep.system(TURNING)):
        ep.Holomorphic().check_at(F, jnp.ones(3), v, {"output": s})


class Turning(ep.System):
    """A vector field."""

    conservative: ClassVar[bool] = False

    def __call__(self, theta: Any, v: Any, beta: Any, s: Any) -> Any:
        raise NotImplementedError

    def field(self, theta: Any, v: Any, beta: Any, s: Any) -> Any:
        return {"output": theta * v[0] - s["output"] ** 3 + beta * v[1] + s["output"][::-1]}


TURNING = Turning()
