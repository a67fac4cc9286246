"""What others trained on CIFAR-10, in our terms: the commands, and the operations that they take."""

import shlex
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqprop as ep
from eqprop.cli.main import parse
from eqprop.cli.train import Train
from eqprop.study import operations
from eqprop.study.campaign import Trial
from eqprop.study.images import ImageCampaign
from eqprop.study.recipes import CLASSES, IMAGE, RECIPES, command

RNG = np.random.default_rng(0)


def test_the_network_of_scellier_takes_what_is_known_of_it() -> None:
    net = RECIPES["B"].experiment.layers(IMAGE, CLASSES)
    assert operations.iteration(net) == pytest.approx(0.77e9, rel=0.005)


# Without padding, as XLA does not count what is multiplied by a padding of 0.
SMALL = {
    "pooled": ep.Hopfield.convolutional((30, 30, 3), (32, 64, 64), 10, padding=0, activation=ep.relu6),
    "strided": ep.Hopfield.convolutional((31, 31, 3), (32, 64, 64), 10, padding=0, stride=2, pool=None),
}
STEPS = [ep.Gradient(1), *(ep.Block(1, omega=1.0, order=order) for order in ("forward", "backward", "both"))]


def counted(function: Any, *args: Any) -> float:
    """What XLA counts in a compiled program."""
    analysis: Any = jax.jit(function).lower(*args).compile().cost_analysis()
    return analysis["flops"]


@pytest.mark.parametrize("relaxation", STEPS, ids=lambda r: f"{type(r).__name__} {getattr(r, 'order', '')}")
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.slow
def test_the_operations_of_a_step_are_those_that_xla_counts(name: str, relaxation: ep.Stepwise) -> None:
    net = SMALL[name]
    F, theta = ep.Total(net, ep.SquaredError()), net.init(jax.random.key(0))
    v = (jnp.ones((1, *dict(net.layers)["input"])), jnp.zeros((1, 10)))
    settling = relaxation.init(net.rest(1))

    def step(settling: Any, theta: Any, v: Any) -> Any:
        return relaxation.step(F, theta, v, 0.1, settling)._replace(residual=settling.residual)

    # Outside of a loop, the input's drive is a part of each step; and each unit takes a few operations of its own.
    expected = operations.step(net, relaxation) + operations.drive(net)
    assert expected < counted(step, settling, theta, v) < 1.08 * expected


@pytest.mark.parametrize("name", SMALL)
def test_the_operations_of_a_contrast_are_those_that_xla_counts(name: str) -> None:
    net = SMALL[name]
    F, theta = ep.Total(net, ep.SquaredError()), net.init(jax.random.key(0))
    v = (jnp.ones((1, *dict(net.layers)["input"])), jnp.zeros((1, 10)))
    states = jax.tree.map(lambda u: jnp.stack([u + 0.1, u + 0.2]), net.rest(1))
    beta, w = ep.Symmetric(0.1)(jax.random.key(0))
    found = counted(lambda *args: F.contrast(args[0], args[1], beta, w, args[2]), theta, v, states)
    # Both states share what the input sends.
    assert 2 * operations.contrast(net) - operations.drive(net) < 1.08 * found < 1.15 * 2 * operations.contrast(net)


@pytest.mark.parametrize("name", RECIPES)
def test_the_command_of_a_recipe_is_the_recipe(name: str) -> None:
    experiment = RECIPES[name].experiment
    words = shlex.split(command(experiment))
    assert words[:3] == ["eqprop", "train", "cifar10"]
    parsed = parse(words[1:])
    assert isinstance(parsed, Train)
    assert parsed.experiment == experiment
    net = experiment.layers(IMAGE, CLASSES)
    last = {"A": (1, 1, 512), "B": (2, 2, 512), "C": (2, 2, 512)}[name]
    assert [shape for shape in net.shapes.values() if len(shape) == 3][-1] == last
    assert 1 < RECIPES[name].hours < 100


@pytest.mark.parametrize("trial", ImageCampaign(("digits", "cifar10")).trials(), ids=lambda trial: trial.name)
def test_the_command_of_a_trial_is_the_trial(trial: Trial) -> None:
    parsed = parse(shlex.split(command(trial.experiment))[1:])
    assert isinstance(parsed, Train)
    assert parsed.experiment == trial.experiment


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_recipe_a_in_our_terms_takes_the_steps_that_it_takes_in_its_own(beta: float) -> None:
    """s ← clip(½ ∂(Φ − βC)/∂s, 0, 1), all layers at once: our weights are twice theirs, our readout's half, β twice."""
    net = ep.Hopfield.convolutional((8, 8, 2), (3, 4), activation=ep.half_sigmoid, padding=(1, 0), kernel=3)
    cost = ep.SoftmaxReadout.of(net, 5)
    theirs = net.init(jax.random.key(0), 4.0) | cost.init(jax.random.key(1), 4.0)
    theirs["b"] = jax.tree.map(lambda b: b + 0.3, theirs["b"])
    x, y = jnp.asarray(RNG.normal(size=(8, 8, 2))), jnp.eye(5)[2]

    def interaction(s: Any) -> Any:
        return net.phi(theirs, s | {"input": x}) - beta * cost(theirs, y, s)

    s = {layer: jnp.zeros(shape) for layer, shape in net.shapes.items()}
    for _ in range(5):
        s = jax.tree.map(lambda g: jnp.clip(g / 2, 0, 1), jax.grad(interaction)(s))
    ours = {"W": theirs["W"], "b": theirs["b"]}
    ours = jax.tree.map(lambda w: 2 * w, ours) | {
        "readout": {"W": theirs["readout"]["W"] / 2, "b": theirs["readout"]["b"]}
    }
    F = ep.Total(net, cost)
    found, _ = ep.Gradient(5, epsilon=1.0)(F, ours, (x[None], y[None]), 2 * beta, net.rest(1))
    for layer, rate in s.items():
        assert 0 < float(rate.mean()) < 1
        np.testing.assert_allclose(found[layer][0] / 2, rate, atol=1e-9)
