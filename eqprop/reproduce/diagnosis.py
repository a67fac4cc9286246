"""Why a network does or does not learn: saturation, residual, and the angle to the exact gradient, layer by layer."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from eqprop.data import Dataset
from eqprop.energy import Hopfield
from eqprop.energy.synapse import name
from eqprop.experiment import Experiment, start, training_part
from eqprop.nudge import RandomSign, Symmetric
from eqprop.relax import Block
from eqprop.rule import EquilibriumPropagation, ImplicitGradient
from eqprop.train import Run, Trainer

EXAMPLES = 200
EXACT = ImplicitGradient(Block(steps=5000, tol=1e-8, accelerate=True), tol=1e-8)


def diagnose(experiment: Experiment, data: Dataset, run: Run) -> dict[str, Any]:
    """What `measure` finds with the initial and with the final weights of a run, on training examples."""
    trainer, fresh = start(experiment, data)
    net, _ = experiment.build(*data.widths)
    trained, _, _ = run.load(fresh)
    count = min(EXAMPLES, len(training_part(experiment, data)))
    v = jax.tree.map(lambda a: jnp.asarray(a[:count]), training_part(experiment, data).v)
    found = {}
    for when, state in (("start", fresh), ("end", trained)):
        particles = jax.tree.map(lambda u: u[:count], state.particles) if trainer.persistent else net.rest(count)
        # Exact gradients need more than single precision.
        with jax.enable_x64(True):
            found[when] = measure(net, trainer, *jax.tree.map(lambda a: a.astype(float), (state.theta, v, particles)))
    return found


def measure(net: Hopfield, trainer: Trainer, theta: Any, v: Any, s: Any) -> dict[str, Any]:
    """Of one batch that settles from s by the trainer's own rule.

    residual: of the free phase at its end; median over the examples.
    at_0, at_1: the share of each layer's units that rest at either end of the box.
    dead: how many outputs rest at the lower end for every example.
    cosine, norm: the gradient of each layer's weights beside the exact one; None where either is 0 or the exact one was
    not found. With a random sign of β, its mean over both signs, which is the symmetric nudge's.
    """
    rule: EquilibriumPropagation = trainer.rule
    if isinstance(rule.nudge, RandomSign):
        rule = replace(rule, nudge=Symmetric(rule.nudge.beta))
    gradient, free, phases = rule(trainer.F, theta, v, s, jax.random.key(0))
    exact, _, found = EXACT(trainer.F, theta, v, free)
    exact = jax.tree.map(lambda g: jnp.where(found.solved & found.free.converged.all(), g, 0), exact)
    weights = {synapse.post: (gradient["W"][name(synapse)], exact["W"][name(synapse)]) for synapse in net.synapses}
    low, high = net.box
    return {
        "residual": float(jnp.median(phases.free.residual)),
        "at_0": {layer: float(jnp.mean(free[layer] <= low)) for layer in net.free},
        "at_1": {layer: float(jnp.mean(free[layer] >= high)) for layer in net.free},
        "dead": int(jnp.sum(jnp.all(free["output"] <= low, axis=0))),
        "cosine": {layer: cosine(*pair) for layer, pair in weights.items()},
        "norm": {layer: ratio(*pair) for layer, pair in weights.items()},
    }


def cosine(a: Any, b: Any) -> float | None:
    """Of the angle between two arrays; None where one of them is 0."""
    size = jnp.linalg.norm(a) * jnp.linalg.norm(b)
    return float(jnp.vdot(a, b) / size) if size > 0 else None


def ratio(a: Any, b: Any) -> float | None:
    """‖a‖/‖b‖; None if b is 0."""
    size = jnp.linalg.norm(b)
    return float(jnp.linalg.norm(a) / size) if size > 0 else None
