"""The first gradient of a method beside the true one, and how much settling it took."""

import jax
import jax.numpy as jnp

from eqprop.relax import Info
from eqprop.study.experiment import Setup
from eqprop.tree import cosine

EXAMPLES = 200


def first_gradient(setup: Setup) -> dict[str, float]:
    """What is found with the initial weights, on the first training examples.

    cosine: of the angle between the method's gradient and the true one.
    steps: of all phases of an example together, on average.
    """
    trainer, state, some = setup.trainer, setup.state, setup.train[:EXAMPLES]
    v, rest = jax.tree.map(jnp.asarray, some.v), trainer.rest(len(some))
    found = trainer.rule(trainer.F, state.theta, v, rest, state.key)
    true = setup.experiment.method.truth(trainer.F, state.theta, v, rest, state.key)
    return {"cosine": float(cosine(found.gradient, true.gradient)), "steps": settling_steps(found.phases)}


def settling_steps(phases: dict[str, Info]) -> float:
    """The steps of all phases together that an example took, on average."""
    # Nudged phases have an axis more, for their β_k.
    return float(sum(jnp.mean(jnp.sum(jnp.atleast_2d(phase.steps), 0)) for phase in phases.values()))
