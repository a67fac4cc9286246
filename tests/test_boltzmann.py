"""The Boltzmann machine: Gibbs sampling and its learning rules against sums over all states, taken in NumPy.

Means over independent chains or keys must lie within intervals that hold together with a probability of 99 %.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import eqprop as ep
from eqprop.energy import BoltzmannMachine
from eqprop.relax import Gibbs
from eqprop.rule import BoltzmannLearning, BoltzmannLikelihood, ContrastiveDivergence
from marks import slow, slow_but

NETS = {
    "one hidden": ep.Hopfield.layered(3, 4, 2),
    "deep": ep.Hopfield.layered(3, 3, 2, 2),
    "skip": ep.Hopfield(
        {"input": 3, "hidden": 2, "output": 3}, [("input", "hidden"), ("hidden", "output"), ("input", "output")]
    ),
    "no hidden": ep.Hopfield.layered(3, 2),
}
SAMPLED = slow_but(["one hidden", "deep", "skip"], "one hidden")
KEYS = 2000


@dataclass(frozen=True)
class Oracle:
    """All states of a machine with one input x; probabilities are rows over them."""

    net: ep.Hopfield
    theta: dict[str, Any]
    x: np.ndarray

    @cached_property
    def states(self) -> dict[str, np.ndarray]:
        every = np.array(list(product((0.0, 1.0), repeat=sum(self.net.free.values()))))
        parts = np.split(every, np.cumsum(list(self.net.free.values()))[:-1], axis=1)
        return dict(zip(self.net.free, parts, strict=True))

    @property
    def units(self) -> np.ndarray:
        return np.concatenate(list(self.states.values()), axis=1)

    def is_at(self, s: dict[str, Any]) -> np.ndarray:
        """For each state, whether the layers in s are as they are there."""
        return np.all([(self.states[layer] == np.asarray(u)).all(1) for layer, u in s.items()], axis=0)

    @cached_property
    def rates(self) -> dict[str, np.ndarray]:
        return {"input": np.broadcast_to(self.x, (len(self.units), len(self.x)))} | self.states

    def ends(self, synapse: str) -> tuple[np.ndarray, ...]:
        """The units that a synapse joins, in all states."""
        return tuple(self.rates[layer] for layer in synapse.split("-"))

    @cached_property
    def phi(self) -> np.ndarray:
        terms = [np.einsum("ij,si,sj->s", w, *self.ends(k)) for k, w in self.theta["W"].items()]
        return np.sum(terms + [self.states[layer] @ b for layer, b in self.theta["b"].items()], axis=0)

    def p(self, **held: Any) -> np.ndarray:
        """p(s | x, held)."""
        weights = np.exp(self.phi) * (self.is_at(held) if held else 1)
        return weights / weights.sum()

    def gradient(self, p: np.ndarray) -> np.ndarray:
        """E[∂E/∂θ] for states that follow p."""
        W = {k: -np.einsum("s,si,sj->ij", p, *self.ends(k)) for k in self.theta["W"]}
        return flat({"W": W, "b": {layer: -p @ self.states[layer] for layer in self.theta["b"]}})

    def sweep(self, p: np.ndarray, sweeps: int, *held: str) -> np.ndarray:
        """What p becomes: each layer, from the output to the first hidden one, is drawn from p(layer | all others)."""
        for layer in list(reversed(self.net.free)) * sweeps:
            if layer not in held:
                rest = np.concatenate(
                    [u for k, u in self.states.items() if k != layer] + [np.zeros((len(p), 0))], axis=1
                )
                same = (rest[:, None] == rest[None]).all(-1)  # states that differ in this layer only
                joint = np.where(same, np.exp(self.phi)[None], 0)
                p = p @ (joint / joint.sum(1, keepdims=True))
        return p


def flat(theta: Any) -> np.ndarray:
    return np.asarray(ravel_pytree(theta)[0])


def setting(name: str, scale: float = 1.0) -> tuple[ep.Total, Any, Any, list[Oracle]]:
    """F, θ, three examples v and the oracle of each."""
    net, rng = NETS[name], np.random.default_rng(3)
    theta = jax.tree.map(lambda w: scale * rng.normal(size=w.shape), net.init(jax.random.key(0)))
    x, y = rng.uniform(size=(3, 3)), rng.integers(0, 2, size=(3, net.free["output"])) * 1.0
    return ep.Total(BoltzmannMachine(net), ep.SquaredError()), theta, (x, y), [Oracle(net, theta, one) for one in x]


def within(values: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether the means over the first axis are near what is wanted, all of them at 99 %."""
    z = NormalDist().inv_cdf(1 - 0.005 / values.shape[1])
    error = values.std(0, ddof=1) / np.sqrt(len(values))
    return bool((np.abs(values.mean(0) - wanted) <= z * error + 1e-12).all())


def estimates(rule: Any, F: Any, theta: Any, v: Any, s: Any, weight: Any = None, seed: int = 0) -> np.ndarray:
    """The gradients found with different keys."""
    keys = jax.random.split(jax.random.key(seed), KEYS)
    gradient = jax.jit(jax.vmap(lambda key: ravel_pytree(rule(F, theta, v, s, key, weight).gradient)[0]))
    return np.asarray(gradient(keys))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", slow_but(NETS, "one hidden", "no hidden"))
def test_likelihood_and_its_gradient_are_exact(name: str) -> None:
    F, theta, v, oracles = setting(name)
    likelihood = jax.jit(jax.vmap(F.energy.log_likelihood, (None, 0, 0)))
    for y in product((0.0, 1.0), repeat=v[1].shape[1]):
        wanted = [np.log(oracle.p() @ oracle.is_at({"output": y})) for oracle in oracles]
        np.testing.assert_allclose(likelihood(theta, v[0], jnp.array([y] * 3)), wanted, atol=1e-10)
    s = {layer: u[2] for layer, u in oracles[0].states.items()}
    assert float(F.energy(theta, v[0][0], s)) == pytest.approx(-oracles[0].phi[2], abs=1e-10)

    weight = jnp.array([1.0, 0.0, 3.0])
    gradient = flat(BoltzmannLikelihood()(F, theta, v, F.space.rest(3), jax.random.key(0), weight).gradient)
    parts = [o.gradient(o.p(output=y)) - o.gradient(o.p()) for o, y in zip(oracles, v[1], strict=True)]
    np.testing.assert_allclose(gradient, np.average(parts, axis=0, weights=weight), atol=1e-10)

    vector, restore = ravel_pytree(theta)
    steps = 1e-5 * np.eye(len(vector))
    up, down = (jax.vmap(lambda step: likelihood(restore(vector + step), *v))(sign * steps) for sign in (1, -1))
    np.testing.assert_allclose(gradient, np.average((down - up) / 2e-5, axis=1, weights=weight), atol=1e-8)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("clamped", [False, True])
def test_gibbs_samples_the_distribution(name: str, clamped: bool) -> None:
    """Means and correlations of all pairs, from 2,000 chains."""
    F, theta, v, (oracle, *_) = setting(name)
    many = jax.tree.map(lambda a: jnp.broadcast_to(a[0], (KEYS, *a[0].shape)), v)
    held = {"output": many[1]} if clamped else {}
    gibbs = Gibbs(burn_in=50, samples=8, thin=3)
    kept, last = gibbs.sample(F, theta, many, F.space.rest(KEYS), jax.random.key(1), held)

    p = oracle.p(output=v[1][0]) if clamped else oracle.p()
    first, second = np.triu_indices(oracle.units.shape[1], k=1)
    pairs = oracle.units[:, first] * oracle.units[:, second]
    u = np.concatenate([kept[layer] for layer in oracle.states], axis=-1)
    chains = np.concatenate([u, u[..., first] * u[..., second]], axis=-1).mean(1)
    assert within(chains, p @ np.concatenate([oracle.units, pairs], axis=1))
    ends = np.concatenate([last[layer] for layer in oracle.states], axis=-1)
    assert within(ends, p @ oracle.units)
    assert set(np.unique(ends)) == {0, 1}
    if clamped:
        assert (kept["output"] == many[1][:, None]).all() and (last["output"] == many[1]).all()
    else:
        mean, info = gibbs(F, theta, many, 0.0, F.space.rest(KEYS))
        assert within(np.concatenate([mean[layer] for layer in oracle.states], axis=-1), p @ oracle.units)
        assert (info.steps == 74).all() and jnp.isnan(info.residual).all() and not info.converged.any()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", SAMPLED)
def test_boltzmann_learning_is_unbiased(name: str) -> None:
    F, theta, v, oracles = setting(name)
    weight = jnp.array([1.0, 0.0, 3.0])
    rule = BoltzmannLearning(clamped=Gibbs(40, 2, 5), chain=Gibbs(40, 2, 5))
    parts = [o.gradient(o.p(output=y)) - o.gradient(o.p()) for o, y in zip(oracles, v[1], strict=True)]
    found = estimates(rule, F, theta, v, F.space.rest(3), weight)
    assert within(found, np.average(parts, axis=0, weights=weight))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", slow_but(["one hidden", "deep"], "one hidden"))
def test_short_chains_are_the_sweeps_they_should_be(name: str) -> None:
    """From ones, which few sweeps do not forget: what PCD and CD-k expect is known from the transitions."""
    F, theta, v, oracles = setting(name)
    s = jax.tree.map(jnp.ones_like, F.space.rest(3))
    pcd, cd = [], []
    for o, y in zip(oracles, v[1], strict=True):
        ones = {layer: np.ones(size) for layer, size in o.net.free.items()}
        start, held = (o.is_at(at) * 1.0 for at in (ones, ones | {"output": y}))
        positive = o.sweep(held, 2, "output")
        pcd.append(o.gradient(positive) - o.gradient(o.sweep(start, 3)))
        cd.append(o.gradient(positive) - o.gradient(o.sweep(positive, 2)))
    clamped = Gibbs(burn_in=1, samples=1)
    rules = (BoltzmannLearning(clamped=clamped, chain=Gibbs(2, 1)), ContrastiveDivergence(2, clamped=clamped))
    for rule, parts in zip(rules, (pcd, cd), strict=True):
        assert within(estimates(rule, F, theta, v, s), np.mean(parts, axis=0))


@pytest.mark.usefixtures("x64")
@pytest.mark.slow
def test_contrastive_divergence_is_biased_and_less_so_with_more_sweeps() -> None:
    F, theta, v, oracles = setting("one hidden", scale=3.0)
    exact = np.mean([o.gradient(o.p(output=y)) - o.gradient(o.p()) for o, y in zip(oracles, v[1], strict=True)], axis=0)
    bias = []
    for k in (1, 8):
        found = estimates(ContrastiveDivergence(k), F, theta, v, F.space.rest(3))
        bias.append(np.linalg.norm(found.mean(0) - exact))
        if k == 1:
            assert not within(found, exact)
    assert bias[1] < 0.5 * bias[0]


@pytest.mark.parametrize(
    ("rule", "persistent"),
    [
        (ContrastiveDivergence(), False),
        slow(BoltzmannLearning(clamped=Gibbs(0, 1), chain=Gibbs(4, 1)), True),
        slow(BoltzmannLikelihood(), False),
    ],
    ids=["CD", "PCD", "exact"],
)
@pytest.mark.slow
def test_they_train_a_machine(rule: Any, persistent: bool) -> None:
    """Three clouds of points, in one epoch; chance is an error of 2/3."""
    y = np.eye(3, dtype=np.float32)[np.arange(1200) % 3]
    x = y + 0.2 * np.random.default_rng(0).normal(size=y.shape).astype(np.float32)
    F = ep.Total(BoltzmannMachine(ep.Hopfield.layered(3, 8, 3)), ep.SquaredError())
    metrics = {"error": F.cost.misclassified}
    trainer, feed = (
        ep.Trainer(F, rule, optax.adam(0.05), persistent=persistent, metrics=metrics),
        ep.Shuffled((x, y), 20),
    )
    state = trainer.init(F.energy.init(jax.random.key(0)), feed, jax.random.key(1))
    state = trainer.advance(state, feed, 60)
    assert trainer.measure(state.theta, (x, y), block=1200)["error"] < 0.05
    if persistent:
        for u in state.particles.values():
            assert set(np.unique(u)) == {0, 1}


@pytest.mark.usefixtures("x64")
def test_without_hidden_units_all_rules_agree_and_tell_their_sweeps() -> None:
    """The outputs are then independent, and stand as their probabilities: there is no noise left."""
    F, theta, v, _ = setting("no hidden")
    short, free = Gibbs(1, 2, 3), Gibbs(2, 3)
    exact, *_ = BoltzmannLikelihood(free)(F, theta, v, F.space.rest(3), jax.random.key(0))
    for rule, sweeps in (
        (BoltzmannLearning(free, short, short), 7 + 7),
        (ContrastiveDivergence(4, free, short), 5 + 7 + 4),
        (BoltzmannLikelihood(free), 5),
    ):
        gradient, s, phases, _ = rule(F, theta, v, F.space.rest(3), jax.random.key(0))
        jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=1e-12), gradient, exact)
        assert jax.tree.map(jnp.shape, s) == jax.tree.map(jnp.shape, F.space.rest(3))
        taken = np.sum([info.steps for info in phases.values()], axis=0)
        assert taken.tolist() == [sweeps] * 3


def test_what_cannot_be_used_is_refused() -> None:
    F, theta, v, _ = setting("one hidden")
    machine, s, key = F.energy, F.space.rest(3), jax.random.key(0)
    with pytest.raises(ep.InputError, match="within layer 'hidden'"):
        BoltzmannMachine(ep.Hopfield.fully_connected(3, 4, 2))
    for name, value in {"burn_in": -1, "samples": 0, "thin": 1.5}.items():
        with pytest.raises(ep.InputError, match=f"{name}={value}"):
            Gibbs(**{name: value})
    with pytest.raises(ep.InputError, match="k=0"):
        ContrastiveDivergence(0)
    with pytest.raises(ep.InputError, match="clamped, not nudged"):
        Gibbs()(F, theta, v, 0.5, s)
    with pytest.raises(ep.InputError, match="float"):
        Gibbs()(F, theta, v, 0.0, jax.tree.map(lambda u: u.astype(int), s))
    for held in ({"outputs": v[1]}, {"output": v[1][:2]}):
        with pytest.raises(ep.InputError, match=f"held\\['{next(iter(held))}'\\]"):
            Gibbs().sample(F, theta, v, s, key, held)
    with pytest.raises(ep.InputError, match="does not fit the layers"):
        machine.log_likelihood(theta, v[0][0], v[1][0], "hidden")
    large = BoltzmannMachine(ep.Hopfield.layered(3, 20, 17))
    with pytest.raises(ep.InputError, match="17 units beside"):
        large.log_likelihood(large.init(key), jnp.zeros(3), jnp.zeros(17))
    with pytest.raises(ep.InputError, match="17 units beside"):
        ep.Trainer(ep.Total(large, ep.SquaredError()), BoltzmannLikelihood(), optax.sgd(0.1))
    for rule in (BoltzmannLearning(), ContrastiveDivergence(), BoltzmannLikelihood()):
        for wrong, what in (
            (ep.Total(machine.net, ep.SquaredError()), "EquilibriumPropagation"),
            (ep.Total(machine, lambda theta, y, s: 0.0), "outputs can be clamped"),
            (ep.Total(machine, ep.SquaredError(l1=0.1)), "l1=0.1"),
            (ep.Total(machine, ep.SquaredError(l2=0.1)), "weight decay"),
        ):
            with pytest.raises(ep.InputError, match=what):
                rule(wrong, theta, v, s, key)
