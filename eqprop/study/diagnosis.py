"""Why a network does or does not learn: saturation, residual, and the angle to the exact gradient, layer by layer."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from eqprop.energy import Hopfield
from eqprop.nudge import RandomSign, Symmetric
from eqprop.relax import Block
from eqprop.rule import EquilibriumPropagation, ImplicitGradient
from eqprop.study.training import Trained
from eqprop.train import Trainer
from eqprop.tree import cosine
from eqprop.types import Array, Data, Layers, Theta

EXAMPLES = 200
EXACT = ImplicitGradient(Block(steps=5000, tol=1e-8, accelerate=True), tol=1e-8)


def diagnose(trained: Trained) -> dict[str, Any]:
    """What `measure` finds with the initial and with the final weights, on the first training examples."""
    net, trainer, some = trained.setup.net, trained.setup.trainer, trained.setup.train[:EXAMPLES]
    assert isinstance(net, Hopfield)
    found, count = {}, len(some)
    for when, state in (("start", trained.setup.state), ("end", trained.state)):
        particles = jax.tree.map(lambda u: u[:count], state.particles) if trainer.persistent else net.rest(count)
        # Exact gradients need more than single precision.
        with jax.enable_x64(True):
            doubled = jax.tree.map(lambda a: jnp.asarray(a, float), (state.theta, some.v, particles))
            found[when] = measure(net, trainer, *doubled)
    return found


def measure(net: Hopfield, trainer: Trainer, theta: Theta, v: Data, s: Layers) -> dict[str, Any]:
    """What there is to see in one batch that settles from s by the trainer's own rule.

    residual: of the free phase at its end; median over the examples.
    at_0, at_1: the share of each layer's units that rest at the lower and at the upper bound.
    dead: how many outputs rest at the lower bound for every example.
    cosine, norm: the gradient of each layer's weights beside the exact one; None where either is 0 or the exact one was
    not found. With a random sign of β, its mean over both signs, which is the symmetric nudge's.
    """
    rule = trainer.rule
    assert isinstance(rule, EquilibriumPropagation)
    if isinstance(rule.nudge, RandomSign):
        rule = replace(rule, nudge=Symmetric(rule.nudge.beta))
    gradient, free, phases, _ = rule(trainer.F, theta, v, s, jax.random.key(0))
    exact, _, settled, found = EXACT(trainer.F, theta, v, free)
    solved = found["solved"].all() & settled["free"].converged.all()
    exact = jax.tree.map(lambda g: jnp.where(solved, g, 0), exact)
    weights = {syn.post: (gradient["W"][syn.name], exact["W"][syn.name]) for syn in net.synapses}
    outputs = jax.vmap(trainer.F.predict, in_axes=(None, 0, 0))(theta, v, free)
    rho, output = net.rho, [*net.free][-1]
    return {
        "residual": float(jnp.median(phases["free"].residual)),
        "at_0": {layer: float(jnp.mean(free[layer] <= rho[layer].low)) for layer in net.free},
        "at_1": {layer: float(jnp.mean(free[layer] >= rho[layer].high)) for layer in net.free},
        "dead": int(jnp.sum(jnp.all(outputs <= rho[output].low, axis=0))),
        "cosine": {layer: cosine_or_none(*pair) for layer, pair in weights.items()},
        "norm": {layer: ratio(*pair) for layer, pair in weights.items()},
    }


def cosine_or_none(a: Array, b: Array) -> float | None:
    """The cosine of the angle between two arrays; None where one of them is 0."""
    return float(cosine(a, b)) if jnp.linalg.norm(a) * jnp.linalg.norm(b) > 0 else None


def ratio(a: Array, b: Array) -> float | None:
    """‖a‖/‖b‖; None if b is 0."""
    size = jnp.linalg.norm(b)
    return float(jnp.linalg.norm(a) / size) if size > 0 else None
