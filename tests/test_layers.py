"""EP as a layer: its derivatives are those of the settled state, in any program; and chains of such layers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import eqprop as ep
from eqprop import data
from eqprop.rule.layer import Pull
from eqprop.study import METHODS, preset
from eqprop.study.training import errors
from marks import slow

EXACT = ep.Block(5000, 1e-13, omega=1.0)
STEPS = ep.Gradient(5000, 1e-13, epsilon=0.2)
NETS = {rho.name: ep.Hopfield.layered(6, 8, 5, activation=rho) for rho in (ep.tanh, ep.hard_sigmoid)}


def springs(theta: Any, x: Any, s: Any) -> Any:
    """An energy that is a plain function, and a state that is one array."""
    return jnp.sum((s - theta["A"] @ x) ** 2) / 2 + jnp.sum(s**4) / 4 + jnp.sum(jnp.cos(s[1:] * s[:-1])) / 5


def drawn(name: str) -> tuple[Any, Any]:
    """θ and x."""
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.uniform(keys[0], (7, 6))
    if name == "springs":
        return {"A": jax.random.normal(keys[1], (5, 6)) / 2}, x
    theta = NETS[name].init(keys[1], gain=1.0)
    theta["b"] = jax.tree.map(lambda b: b + 0.3, theta["b"])
    return theta, x


def layer(name: str, nudge: ep.Nudge) -> ep.Layer:
    if name == "springs":
        return ep.layer(springs, nudge, STEPS, STEPS, space=ep.Space((5,)))
    return ep.layer(NETS[name], nudge, EXACT, EXACT)


def behind(s: Any, scale: Any = 1.0) -> Any:
    """What a program makes of the settled states: no two units alike."""
    flat = ravel_pytree(s)[0]
    return scale * jnp.sum(jnp.sin(flat) * jnp.cos(jnp.arange(len(flat)))) + scale * jnp.sum(flat**3)


def implicit(name: str, theta: Any, x: Any, s: Any) -> Any:
    """The derivatives of what is `behind`, by a dense solve: ds = −H⁻¹ ∂²E/∂s∂(θ, x) for units between their bounds."""
    energy, space = (springs, ep.Space()) if name == "springs" else (NETS[name], NETS[name].space)

    def settled(theta: Any, x: Any) -> Any:
        def one(x: Any, s: Any) -> Any:
            flat, restore = ravel_pytree(s)
            inside = ravel_pytree(space.inside(s))[0]

            def slope(flat: Any) -> Any:
                return ravel_pytree(jax.grad(energy, argnums=2)(theta, x, restore(flat)))[0]

            both = inside[:, None] & inside[None, :]
            hessian = jnp.where(both, jax.lax.stop_gradient(jax.jacobian(slope)(flat)), jnp.eye(len(flat)))
            return restore(flat - jnp.linalg.solve(hessian, jnp.where(inside, slope(flat), 0)))

        return jax.vmap(one)(x, s)

    return jax.jit(jax.grad(lambda theta, x: behind(settled(theta, x)), argnums=(0, 1)))(theta, x)


def off(found: Any, expected: Any) -> float:
    a, b = (np.asarray(ravel_pytree(tree)[0]) for tree in (found, expected))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "nudge", "limit"),
    [
        ("tanh", ep.Symmetric(1e-3), 1e-5),
        slow("springs", ep.Symmetric(1e-3), 1e-5),
        slow("hard_sigmoid", ep.Symmetric(1e-3), 1e-5),
        slow("hard_sigmoid", ep.RandomSign(1e-4), 1e-3),
        slow("tanh", ep.OneSided(1e-4), 1e-3),
        slow("tanh", ep.Holomorphic(0.05), 1e-5),
    ],
)
def test_its_derivatives_are_those_of_the_implicit_solution(name: str, nudge: ep.Nudge, limit: float) -> None:
    theta, x = drawn(name)
    settle = layer(name, nudge)
    found = jax.jit(jax.grad(lambda theta, x, scale: behind(settle(theta, x), scale), argnums=(0, 1)))
    s, info = settle.settle(theta, x)
    assert info.converged.all()
    gradient = found(theta, x, 1.0)
    for ours, exact in zip(gradient, implicit(name, theta, x, s), strict=True):
        assert off(ours, exact) <= limit

    # The size of what comes back does not matter, and where nothing comes back nothing is learned.
    for scale in (1e-12, 1e12):
        assert off(found(theta, x, scale), jax.tree.map(lambda g, scale=scale: scale * g, gradient)) < 1e-9
    assert not any(np.any(g) for g in jax.tree.leaves(found(theta, x, 0.0)))


@pytest.mark.usefixtures("x64")
@pytest.mark.slow
def test_a_chain_learns_what_a_program_of_layers_does() -> None:
    """EP within blocks and backpropagation between, by the rule and by JAX through three layers."""
    net = ep.Hopfield.layered(6, 5, 4, 5, 4, 3, activation=ep.tanh)
    chain = ep.Chain(net)
    F, theta = ep.Total(chain, ep.SquaredError()), net.init(jax.random.key(0), gain=0.8)
    keys = jax.random.split(jax.random.key(1))
    x, y = jax.random.uniform(keys[0], (4, 6)), jax.random.uniform(keys[1], (4, 3))
    weight = jnp.array([1.0, 2.0, 0.0, 1.0])
    learned = ep.ChainPropagation(ep.Symmetric(1e-3), EXACT, EXACT)(F, theta, (x, y), chain.rest(4), weight=weight)
    assert learned.phases["free"].converged.all() and learned.phases["nudged"].converged.all()
    blocks = [ep.layer(link, ep.Symmetric(1e-3), EXACT, EXACT) for link in chain.links]
    assert [link.layers for link in chain.links] == [("hidden1", "hidden2"), ("hidden3", "hidden4"), ("output",)]

    def cost(theta: Any) -> Any:
        known = {"input": x}
        for block, link in zip(blocks, chain.links, strict=True):
            known |= block(theta, link.heard(known))
        return jnp.average(jnp.sum((known["output"] - y) ** 2, axis=1) / 2, weights=weight)

    assert off(learned.gradient, jax.jit(jax.grad(cost))(theta)) < 1e-9
    assert jnp.any(learned.gradient["W"]["input-hidden1"])


class Model(eqx.Module):
    """A layer between two linear maps."""

    before: eqx.nn.Linear
    theta: Any
    after: eqx.nn.Linear
    settle: ep.Layer

    def __init__(self, key: Any):
        net, keys = ep.Hopfield.layered(4, 6, 3, activation=ep.tanh), jax.random.split(key, 3)
        self.before, self.after = eqx.nn.Linear(5, 4, key=keys[0]), eqx.nn.Linear(3, 1, key=keys[1])
        self.theta, self.settle = net.init(keys[2]), ep.layer(net)

    def __call__(self, x: Any) -> Any:
        h = jax.nn.sigmoid(jax.vmap(self.before)(x))
        return jax.vmap(self.after)(self.settle(self.theta, h)["output"])


@pytest.mark.slow
def test_a_model_contains_it_and_learns() -> None:
    """In Equinox and Optax, in float32: an ensemble of two models, by `vmap` over their weights."""
    x = jax.random.uniform(jax.random.key(3), (20, 5))
    y = jnp.sum(x[:, :2], axis=1, keepdims=True)
    models, adam = eqx.filter_vmap(Model)(jax.random.split(jax.random.key(0), 2)), optax.adam(0.05)

    @eqx.filter_jit
    def step(models: Model, state: Any) -> Any:
        def cost(model: Model) -> Any:
            return jnp.mean((model(x) - y) ** 2)

        costs, slopes = eqx.filter_vmap(eqx.filter_value_and_grad(cost))(models)
        updates, state = adam.update(slopes, state)
        return costs, eqx.apply_updates(models, updates), state

    state, costs = adam.init(eqx.filter(models, eqx.is_array)), []
    for _ in range(200):
        cost, models, state = step(models, state)
        costs.append(np.asarray(cost))
    assert np.all(costs[-1] < 0.1 * costs[0]), costs[-1]
    assert not np.allclose(*costs[-1])


def several() -> ep.Layer:
    return ep.layer(lambda theta, x, s: (s - theta * x) ** 2, ep.Symmetric(0.1), STEPS, STEPS, space=ep.Space((3,)))


NET = NETS["tanh"]
REFUSED: dict[str, tuple[Any, str]] = {
    "a total energy": (lambda: ep.layer(ep.Total(NET, ep.SquaredError())), "energy alone"),  # pyright: ignore
    "a vector field": (lambda: ep.layer(ep.Directed(NET)), "symmetric weights"),
    "block descent without blocks": (lambda: ep.layer(springs), "Gradient"),
    "a nudge that needs smoothness": (lambda: ep.layer(NETS["hard_sigmoid"], ep.Holomorphic()), "smooth"),
    "a schedule": (lambda: ep.layer(NET, ep.Symmetric(ep.Staircase(0.1, 10, 0.5))), "schedule"),
    "a nudge that rounding swallows": (lambda: ep.layer(NET, free=ep.Block(5, precision="bfloat16")), "bfloat16"),
    "one example": (lambda: ep.layer(NET)(drawn("tanh")[0], jnp.zeros(6)), "is one example"),
    "a start that is none": (
        lambda: ep.layer(NET).settle(drawn("tanh")[0], jnp.zeros((2, 6)), "rest"),
        "s='rest' is not",
    ),  # pyright: ignore
    "an energy of several numbers": (lambda: several()(jnp.ones(3), jnp.ones((2, 3))), "must give one number"),
    "numbers": (lambda: ep.layer(NET)(drawn("tanh")[0], 3.0), "counts examples"),
    "a text": (lambda: ep.layer(NET)(drawn("tanh")[0], "x"), "x='x' is not an array, or a tree of arrays"),
    "a list": (lambda: ep.layer(NET)(drawn("tanh")[0], [[0.5] * 6]), "^x has the single number 0.5: give arrays"),
    "no input and no start": (
        lambda: ep.layer(ep.Memory({"units": 2}, ep.LogSumExp()))({"patterns": jnp.eye(2)}, None),
        "x=None does not tell how many",
    ),
    "blocks of nothing": (lambda: ep.Chain(NET, 0), "size=0"),
    "a chain where there is none": (lambda: ep.ChainPropagation().check(ep.Total(NET, ep.SquaredError())), "Chain"),
    "a chain whose last block alone would learn": (
        lambda: ep.EquilibriumPropagation().check(ep.Total(ep.Chain(NET, 1), ep.SquaredError())),
        "take ChainPropagation",
    ),
    "a chain that leads nowhere": (lambda: ep.Chain(ep.Hopfield.fully_connected(3, 4, 2)), "hidden-hidden"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_it_cannot_take_is_refused(what: str) -> None:
    build, word = REFUSED[what]
    with pytest.raises(ep.InputError, match=word):
        build()


def test_no_examples_teach_nothing() -> None:
    theta, x = drawn("tanh")
    gradient = jax.grad(lambda theta: behind(ep.layer(NET)(theta, x[:0])))(theta)
    assert not ravel_pytree(gradient)[0].any()


def test_its_key_decides_the_spikes_of_both_phases() -> None:
    net, (theta, x), spikes = NETS["hard_sigmoid"], drawn("hard_sigmoid"), ep.Spiking(0.2, 0, 5)
    keys = jax.random.key(0), jax.random.key(1)
    noisy = ep.layer(net, ep.Symmetric(0.5), spikes, spikes)
    assert off(*(noisy(theta, x, None, key) for key in keys)) > 1e-3
    settled = ep.layer(net, ep.Symmetric(0.5), ep.Block(5), spikes)
    first, other = (jax.grad(lambda x, key=key: behind(settled(theta, x, None, key)))(x) for key in keys)
    assert off(first, other) > 1e-3


def test_the_pull_is_linear() -> None:
    assert float(Pull()(None, {"a": jnp.ones(2)}, {"a": jnp.array([2.0, 3.0])})) == 5
    assert Pull().curvature(None, 0.5) == {}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["chain", "predictive-coding"])
def test_it_learns_the_digits(method: str) -> None:
    """By the usual settings: three blocks of two layers; one hidden layer for predictive coding."""
    experiment = preset("digits", method)
    setup = experiment.build(data.load("digits"))
    epochs = experiment.learning.epochs
    state, _ = ep.fit(setup.trainer, setup.state, setup.feed, epochs=epochs)
    assert errors(setup, state.theta, epochs)["test_error"] <= 0.04


def test_the_nudge_of_a_method_is_its_own_on_any_data() -> None:
    """The β of digits is for networks in one piece, and far too strong for a pull on blocks or on predictions."""
    for method in ("chain", "predictive-coding"):
        for dataset in ("digits", "mnist"):
            assert preset(dataset, method).phases.nudge.beta == METHODS[method].beta


def test_weights_between_blocks_begin_larger_than_those_within() -> None:
    experiment = preset("digits", "chain")
    assert len(experiment.layers(64, 10).free) == 6
    _, *gains, _ = experiment.network.gains
    assert max(gains[::2]) < min(gains[1::2])
    assert preset("digits", "chain", hidden=(7, 8)).network.hidden == (7, 8)
    assert experiment.rates == (0.001,)
