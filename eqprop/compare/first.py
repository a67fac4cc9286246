"""The first gradient of a method beside the true one, and how much settling it took."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from eqprop.data import Dataset
from eqprop.experiment import Experiment, start, training_part
from eqprop.relax import Info

EXAMPLES = 200


def first_gradient(experiment: Experiment, data: Dataset) -> dict[str, float]:
    """With the initial weights, on the first training examples.

    cosine: of the angle between the method's gradient and the true one.
    steps: of all phases of an example together, on average.
    """
    trainer, state = start(experiment, data)
    some = training_part(experiment, data)[:EXAMPLES]
    v, rest = jax.tree.map(jnp.asarray, some.v), trainer.rest(len(some))
    found, _, info = trainer.rule(trainer.F, state.theta, v, rest, state.key)
    true, _, _ = experiment.method.truth(trainer.F, state.theta, v, rest, state.key)
    a, b = (ravel_pytree(gradient)[0] for gradient in (found, true))
    return {"cosine": float(a @ b / (jnp.linalg.norm(a) * jnp.linalg.norm(b))), "steps": settling_steps(info)}


def settling_steps(info: Any) -> float:
    """The steps of all phases together that an example took, on average: every phase of a rule has an `Info`."""
    phases = jax.tree.leaves(info, is_leaf=lambda node: isinstance(node, Info))
    # Nudged phases have an axis more, for their β_k.
    return float(sum(jnp.mean(jnp.sum(jnp.atleast_2d(p.steps), 0)) for p in phases if isinstance(p, Info)))
