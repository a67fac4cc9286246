"""Networks of spikes, and networks of binary weights."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqprop as ep

COPIES, STEPS = 4000, 40
NET = ep.Hopfield.layered(4, 6, 3)
TANH = ep.Hopfield.layered(4, 6, 3, activation=ep.tanh)


def inside() -> tuple[Any, Any, Any]:
    """A network whose units fluctuate within their bounds, and never reach them."""
    theta = NET.init(jax.random.key(0), 0.1)
    theta["b"] = {"hidden": jnp.full(6, 0.4), "output": jnp.full(3, 0.5)}
    v = (jax.random.uniform(jax.random.key(1), (1, 4)), jnp.eye(3)[:1])
    return ep.Total(NET, ep.SquaredError()), theta, v


def copies(tree: Any) -> Any:
    return jax.tree.map(lambda a: jnp.repeat(a, COPIES, 0), tree)


@pytest.mark.slow
def test_its_mean_follows_the_rate_dynamics() -> None:
    """At every step, nudged too: within four standard errors of the mean over many copies."""
    F, theta, v = inside()
    start = jax.tree.map(lambda u: u + 0.3, NET.rest(1))
    rates = ep.Gradient(STEPS, epsilon=0.2).trace(F, theta, v, 0.5, start).state
    spikes = ep.Spiking(0.2, burn_in=0, samples=STEPS).trace(F, theta, copies(v), 0.5, copies(start)).state
    for layer, path in spikes.items():
        assert path[:, 1:].min() > 0 and path.max() < 1
        error = path[:, 1:].std(0) / np.sqrt(COPIES)
        assert (np.abs(path[:, 1:].mean(0) - rates[layer][0, 1:]) <= 4.5 * error + 1e-6).all()
        assert (np.abs(path[:, 2:] - rates[layer][0, 2:]).max() > 0.02).all()  # single copies are not the mean


def test_a_long_average_is_the_fixed_point() -> None:
    F, theta, v = inside()
    expected, _ = ep.Block(200, 1e-6)(F, theta, v, 0.0, NET.rest(1))
    means = []
    for samples in (100, 10_000):
        mean, info = ep.Spiking(0.2, burn_in=50, samples=samples)(F, theta, v, 0.0, NET.rest(1))
        means.append(max(float(np.abs(mean[k] - expected[k]).max()) for k in mean))
        assert not info.converged.any() and (info.steps == 50 + samples).all()
    assert means[1] < 0.005 < means[0]


@pytest.mark.slow
def test_phases_and_minibatches_have_spikes_of_their_own() -> None:
    F, theta, v = inside()
    spiking = ep.Spiking(0.2, burn_in=0, samples=20)
    rule, rest = ep.EquilibriumPropagation(ep.Symmetric(0.5), spiking, spiking), NET.rest(1)
    one, again, other = (rule(F, theta, v, rest, jax.random.key(k)).state["hidden"] for k in (1, 1, 2))
    assert np.array_equal(one, again) and not np.array_equal(one, other)
    both, _ = spiking.with_key(jax.random.key(3)).settle_each(F, theta, v, jnp.zeros(2), rest)
    assert not np.array_equal(both["hidden"][0], both["hidden"][1])


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: ep.Spiking(0.0), "epsilon=0.0"),
        (lambda: ep.Spiking(samples=0), "samples=0"),
        (lambda: ep.Spiking().check(ep.Total(TANH, ep.SquaredError())), "hard_sigmoid"),
        (lambda: ep.Spiking().check(ep.system(lambda *_: 0.0, space=ep.Space((1,), 0.0, 1.0))), "named layers"),
    ],
)
def test_what_cannot_spike_is_refused(build: Any, word: str) -> None:
    with pytest.raises(ep.InputError, match=word):
        build()


# ---- binary weights ----


def test_a_binary_network_is_the_plain_one_with_two_values() -> None:
    net = ep.binarised(NET)
    theta = net.init(jax.random.key(2))
    values = {k: jnp.mean(jnp.abs(w)) * jnp.sign(w) for k, w in theta["W"].items()}
    assert all(len(np.unique(np.abs(w))) == 1 for w in values.values())
    v = (jax.random.uniform(jax.random.key(1), (3, 4)), jnp.eye(3))
    rule = ep.EquilibriumPropagation()
    ours = rule(ep.Total(net, ep.SquaredError()), theta, v, net.rest(3))
    theirs = rule(ep.Total(NET, ep.SquaredError()), theta | {"W": values}, v, NET.rest(3))
    for a, b in zip(jax.tree.leaves(ours[:2]), jax.tree.leaves(theirs[:2]), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)  # latent weights have the gradient of the two values


@pytest.mark.slow
def test_every_kind_of_synapse_can_be_binary() -> None:
    for net in (
        ep.Hopfield.fully_connected(4, 5, 3),
        ep.Hopfield.convolutional((8, 8, 1), (4,), 3),
    ):
        binary = ep.binarised(net)
        theta = binary.init(jax.random.key(0))
        assert jax.tree.map(jnp.shape, theta) == jax.tree.map(jnp.shape, net.init(jax.random.key(0)))
        assert binary.smooth == net.smooth and repr(binary).startswith("Hopfield(")
        x, s = jnp.ones(dict(net.layers)["input"]), jax.tree.map(lambda u: u[0] + 0.5, net.rest(1))
        values = {k: jnp.mean(jnp.abs(w)) * jnp.sign(w) for k, w in theta["W"].items()}
        assert binary(theta, x, s) == pytest.approx(float(net(theta | {"W": values}, x, s)), rel=1e-6)
        for block in net.blocks:
            ours, theirs = (e.curvature(t, x, s, block) for e, t in ((binary, theta), (net, theta | {"W": values})))
            np.testing.assert_allclose(ours[block[0]], theirs[block[0]], rtol=1e-6)
