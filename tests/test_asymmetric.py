"""Vector fields: asymmetric and dyadic EP beside the gradient by dense linear algebra."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import eqprop as ep
from eqprop.rule.asymmetric import Transposed
from eqprop.rule.dyadic import Dyad, joined
from marks import slow

pytestmark = pytest.mark.usefixtures("x64")

EXACT = ep.Block(5000, 1e-13, omega=1.0)
DESCENT = ep.Gradient(20_000, 1e-13, epsilon=0.2)
NETS = {rho.name: ep.Hopfield.layered(4, 6, 5, 3, activation=rho) for rho in (ep.hard_sigmoid, ep.tanh)}


class Dense(ep.System):
    """ds/dt = −s + tanh(M s + A x) − β (s − y) on all units: no blocks, no energy, any matrix M."""

    conservative = False

    def __call__(self, theta: Any, v: Any, beta: Any, s: Any) -> Any:
        return beta * jnp.sum((s["all"] - v[1]) ** 2) / 2

    @property
    def space(self) -> ep.Space:
        return ep.Space({"all": 5})

    def field(self, theta: Any, v: Any, beta: Any, s: Any) -> Any:
        u = s["all"]
        return {"all": jnp.tanh(theta["M"] @ u + theta["A"] @ v[0]) - u - beta * (u - v[1])}


class Unreversed(ep.Total):
    """A network that does not say how it is reversed."""

    def offer(self, ability: Any) -> Any:
        return None if ability is ep.Reversal else super().offer(ability)


def directed(name: str, seed: int = 1, fixed: bool = False) -> tuple[Any, ...]:
    net = NETS[name]
    energy = ep.Directed.with_fixed_feedback(net, jax.random.key(9), 0.7) if fixed else ep.Directed(net)
    keys = jax.random.split(jax.random.key(seed), 2)
    theta = energy.init(keys[0], 0.7)
    theta["b"] = jax.tree.map(lambda b: b + 0.3, theta["b"])
    v = (jax.random.uniform(keys[1], (3, 4)), jnp.eye(3))
    return ep.Total(energy, ep.SquaredError()), theta, v, net.rest(3), EXACT


def dense() -> tuple[Any, ...]:
    keys = jax.random.split(jax.random.key(3), 4)
    theta = {"M": 0.5 * jax.random.normal(keys[0], (5, 5)), "A": jax.random.normal(keys[1], (5, 4))}
    v = (jax.random.normal(keys[2], (3, 4)), jax.random.normal(keys[3], (3, 5)))
    return Dense(), theta, v, {"all": jnp.zeros((3, 5))}, DESCENT


def truth(F: Any, theta: Any, v: Any, s: Any) -> Any:
    """−Σ (∂μ/∂θ)ᵀ J⁻ᵀ ∂C/∂s at the fixed points s, with J a matrix; units at a bound stay there."""

    def one(v: Any, s: Any) -> Any:
        flat, restore = ravel_pytree(s)
        here = ravel_pytree(F.space.inside(s))[0]

        def field(theta: Any, flat: Any) -> Any:
            return jnp.where(here, ravel_pytree(F.force(theta, v, 0.0, restore(flat)))[0], 0.0)

        J = jax.jacobian(field, argnums=1)(theta, flat)
        J = jnp.where(here[:, None] & here, J, -jnp.eye(len(flat)))
        slope = jnp.where(here, jax.grad(lambda flat: F.cost_at(theta, v, restore(flat)))(flat), 0.0)
        return jax.vjp(lambda theta: -field(theta, flat), theta)[1](jnp.linalg.solve(J.T, slope))[0]

    return jax.tree.map(lambda g: jnp.mean(g, 0), jax.vmap(one)(v, s))


PLAIN = ep.system(lambda *_: 0.0, space=ep.Space((3,)))


def relative(found: Any, expected: Any) -> float:
    a, b = (np.asarray(ravel_pytree(tree)[0]) for tree in (found, expected))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def rule(kind: Any, settle: Any, beta: float = 1e-4) -> Any:
    return kind(ep.Symmetric(beta), settle, settle)


CASES = [
    slow("directed", lambda: directed("hard_sigmoid")),
    slow("directed, another seed", lambda: directed("hard_sigmoid", seed=5)),
    slow("directed, tanh", lambda: directed("tanh")),
    slow("fixed feedback", lambda: directed("hard_sigmoid", fixed=True)),
    ("dense, by automatic differentiation", dense),
]


@pytest.mark.parametrize(("name", "make"), CASES)
def test_the_gradient_of_a_vector_field_is_exact(name: str, make: Any) -> None:
    F, theta, v, rest, settle = make()
    ours = rule(ep.AsymmetricEquilibriumPropagation, settle)(F, theta, v, rest)
    assert ours.phases["free"].converged.all() and ours.phases["nudged"].converged.all()
    expected = truth(F, theta, v, ours.state)
    assert relative(ours.gradient, expected) <= 1e-6
    theirs = rule(ep.VectorField, settle)(F, theta, v, rest)
    assert relative(theirs.gradient, expected) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: directed("tanh"), dense], ids=["directed, tanh", "dense"])
def test_its_error_is_of_second_order_in_the_nudge(make: Any) -> None:
    F, theta, v, rest, settle = make()
    errors = []
    for beta in (1e-2, 1e-3):
        learned = rule(ep.AsymmetricEquilibriumPropagation, settle, beta)(F, theta, v, rest)
        errors.append(relative(learned.gradient, truth(F, theta, v, learned.state)))
    assert 80 < errors[0] / errors[1] < 120


@pytest.mark.slow
def test_exchanged_weights_are_the_added_force() -> None:
    """Away from s⁰ too, for clipped activations: −(J − Jᵀ)(s − s⁰), by automatic differentiation."""
    F, theta, v, rest, settle = directed("hard_sigmoid")
    s0, _ = settle(F, theta, v, 0.0, rest)
    s = jax.tree.map(lambda u: jax.random.uniform(jax.random.key(u.shape[1]), u.shape), rest)
    forces = []
    for reversal in (F.offer(ep.Reversal), Transposed(F)):
        held = jax.vmap(reversal.held_at, (None, 0, 0))(theta, v, s0)
        forces.append(jax.vmap(reversal.reversed.force, (None, 0, None, 0))(theta, held, 0.3, s))
    assert relative(*forces) <= 1e-12


def test_a_vector_field_to_first_order_is_the_added_force_up_to_second_order() -> None:
    """μ(s) − β ∂C/∂s − (J − Jᵀ)(s − s⁰), with J a matrix; s⁰ may be any state."""
    F, theta, v, *_ = dense()
    v, s0, beta, away = jax.tree.map(lambda a: a[0], v), jnp.linspace(-1, 1, 5), 0.3, jnp.array([1.0, -2, 0.5, 1, -1])
    reversal = Transposed(F)
    held = reversal.held_at(theta, v, {"all": s0})
    J = jax.jacobian(lambda u: F.force(theta, v, 0.0, {"all": u})["all"])(s0)
    off = []
    for step in (1e-2, 1e-3):
        s = {"all": s0 + step * away}
        added = F.force(theta, v, beta, s)["all"] - (J - J.T) @ (step * away)
        off.append(jnp.linalg.norm(reversal.reversed.force(theta, held, beta, s)["all"] - added))
    assert 80 < off[0] / off[1] < 120 and off[1] < 1e-5


@pytest.mark.slow
def test_a_network_that_cannot_be_reversed_is_pushed() -> None:
    F, theta, v, rest, settle = directed("tanh")
    learned = rule(ep.AsymmetricEquilibriumPropagation, settle)(Unreversed(F.energy, F.cost), theta, v, rest)
    assert relative(learned.gradient, truth(F, theta, v, learned.state)) <= 1e-6


@pytest.mark.slow
def test_of_an_energy_it_is_equilibrium_propagation() -> None:
    _, theta, v, rest, settle = directed("tanh")
    F, theta = ep.Total(NETS["tanh"], ep.SquaredError()), {"W": theta["W"], "b": theta["b"]}
    kinds = (ep.AsymmetricEquilibriumPropagation, ep.EquilibriumPropagation)
    ours, theirs = (rule(kind, settle)(F, theta, v, rest).gradient for kind in kinds)
    assert relative(ours, theirs) <= 1e-6


@pytest.mark.parametrize(("name", "make"), [slow("directed, tanh", lambda: directed("tanh")), ("dense", dense)])
@pytest.mark.parametrize("beta", [0.1, 1.0])
def test_a_pair_of_states_has_the_gradient_at_any_nudge(name: str, make: Any, beta: float) -> None:
    F, theta, v, rest, settle = make()
    learned = ep.DyadicEquilibriumPropagation(beta, settle, settle)(F, theta, v, rest)
    assert learned.phases["pair"].converged.all()
    assert relative(learned.gradient, truth(F, theta, v, learned.state)) <= 1e-9


def test_one_of_the_pair_descends_and_the_other_ascends() -> None:
    F, theta, v, *_ = dense()
    v, beta = jax.tree.map(lambda a: a[0], v), 0.3
    s = joined({"all": jnp.linspace(-1, 1, 5)}, {"all": jnp.linspace(0.5, -0.2, 5)})
    slope = jax.grad(Dyad(F), argnums=3)(theta, v, beta, s)
    field = Dyad(F).force(theta, v, beta, s)
    np.testing.assert_allclose(field["all"], -slope["all"], atol=1e-12)
    np.testing.assert_allclose(field["all'"], slope["all'"], atol=1e-12)


# ---- feedback that is fixed ----


@pytest.mark.slow
def test_fixed_feedback_is_no_part_of_what_learns() -> None:
    F, theta, v, rest, _ = directed("hard_sigmoid", fixed=True)
    energy = F.energy
    assert set(theta) == {"W", "b"}
    learned = ep.Directed(energy.net)
    with_v = theta | {"V": energy.fixed}
    s = jax.tree.map(lambda u: u[0] + 0.4, rest)
    for one, other in zip(
        jax.tree.leaves(energy.field(theta, v[0][0], s)),
        jax.tree.leaves(learned.field(with_v, v[0][0], s)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    assert float(energy.angle(theta)) == float(learned.angle(with_v))
    assert set(energy.per_layer(dict.fromkeys(energy.free, 1.0))) == {"W", "b"}
    drawn = ep.Directed.with_fixed_feedback(energy.net, jax.random.key(8)).fixed
    assert drawn is not None
    assert not np.array_equal(drawn["hidden1-hidden2"], energy.fixed["hidden1-hidden2"])


def test_points_on_a_circle_do_as_well() -> None:
    """The error of six of them is O(β⁶)."""
    F, theta, v, s, _ = directed("tanh")
    circle = ep.AsymmetricEquilibriumPropagation(ep.Holomorphic(0.05), EXACT, EXACT)(F, theta, v, s)
    assert relative(circle.gradient, truth(F, theta, v, circle.state)) < 1e-5


def test_what_cannot_be_meant_is_refused() -> None:
    net = NETS["hard_sigmoid"]
    with pytest.raises(ep.InputError, match="hidden2-output"):
        ep.Directed(net, {"hidden1-hidden2": jnp.ones((6, 5))})
    back = ep.Directed(net).init(jax.random.key(0))["V"]
    with pytest.raises(ep.InputError, match=r"fixed of 'hidden1-hidden2' has the shape \(5, 6\)"):
        ep.Directed(net, back | {"hidden1-hidden2": jnp.ones((5, 6))})
    with pytest.raises(ep.InputError, match="not finite"):
        ep.Directed(net, jax.tree.map(lambda w: w / 0, back))
    with pytest.raises(ep.InputError, match="lacks 'V'"):
        F = ep.Total(ep.Directed(net), ep.SquaredError())
        EXACT(F, net.init(jax.random.key(0)), (jnp.zeros((2, 4)), None), 0.0, net.rest(2))
    with pytest.raises(ep.InputError, match="beta=0"):
        ep.DyadicEquilibriumPropagation(0.0)
    with pytest.raises(ep.InputError, match="no named layers"):
        ep.DyadicEquilibriumPropagation(0.1, DESCENT, DESCENT).check(PLAIN)


class Field(ep.Energy):
    """ds/dt = A x − s + s rolled, of which no energy is known."""

    conservative = False

    @property
    def space(self) -> ep.Space:
        return ep.Space({"output": 3})

    def __call__(self, theta: Any, x: Any, s: Any) -> Any:
        raise NotImplementedError

    def field(self, theta: Any, x: Any, s: Any) -> Any:
        return {"output": theta @ x - s["output"] + jnp.roll(s["output"], 1) / 2}


def test_a_vector_field_that_says_no_energy_learns() -> None:
    settle = ep.Gradient(100, tol=1e-6)
    trainer = ep.Trainer(
        ep.Total(Field(), ep.SquaredError()), ep.VectorField(free=settle, nudged=settle), optax.sgd(0.1)
    )
    feed = ep.Shuffled((np.eye(4), np.eye(3)[[0, 1, 2, 0]]), 4)
    state = trainer.init(jnp.zeros((3, 4)), feed, jax.random.key(0))
    _, history = ep.fit(trainer, state, feed, epochs=5)
    assert history[-1]["train_cost"] < 0.9 * history[0]["train_cost"]
