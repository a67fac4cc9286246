"""Whether training has killed the network: the cost still pulls at the outputs, and no weight learns from it."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import TotalEnergy, cost_of
from eqprop.relax.box import residual
from eqprop.train.loop import Trainer, TrainState, rule_at

ROUNDING = 16  # times the relative precision of a number: a gradient below that part of ∂F/∂θ is none


def is_dead(trainer: Trainer, state: TrainState, v: Any) -> bool:
    """Whether no example of the first minibatch has a gradient beyond rounding, though the cost pulls at most of them.

    Weights that are too large hold all units at the ends of their box, or where ρ is flat, and no nudge moves them. The
    examples are asked one by one, for at a minimum of J their gradients cancel each other but are not 0. A network that
    has learned its examples is not dead: the cost does not pull at outputs that are where they should be, or at the end
    of the box on that side.
    """
    v = jax.tree.map(lambda a: a[: trainer.batch_size], v)
    count = len(jax.tree.leaves(v)[0])
    start = jax.tree.map(lambda p: p[:count], state.particles) if trainer.persistent else trainer.rest(count)
    rule = rule_at(trainer, state.epoch)
    for i in range(count):
        gradient, s, _ = rule(trainer.F, state.theta, v, start, state.key, jnp.zeros(count).at[i].set(1.0))
        one_v, one_s = jax.tree.map(lambda a, i=i: a[i], (v, s))
        if not (i or _pulls(trainer.F, state.theta, v, s)) or _learns(trainer.F, state.theta, one_v, one_s, gradient):
            return False
    return True


@compiled
def _pulls(F: TotalEnergy, theta: Any, v: Any, s: Any) -> Array:
    """Whether a step down the cost would move the state of more than half of the examples."""

    def pull(v: Any, s: Any) -> Array:
        force = jax.tree.map(jnp.negative, jax.grad(cost_of(F), argnums=2)(theta, v, s))
        return residual(F, s, force)

    pulls = jax.vmap(pull)(v, s)
    return jnp.median(pulls) > jnp.sqrt(jnp.finfo(pulls.dtype).eps)


@compiled
def _learns(F: TotalEnergy, theta: Any, v: Any, s: Any, gradient: Any) -> Array:
    """Whether the gradient of an example is more than what rounding leaves of a contrast of ∂F/∂θ."""

    def beyond(g: Array, contrasted: Array) -> Array:
        return jnp.max(jnp.abs(g)) > ROUNDING * jnp.finfo(g.dtype).eps * jnp.max(jnp.abs(contrasted))

    found = jax.tree.map(beyond, gradient, jax.grad(F)(theta, v, 0.0, s))
    return jnp.any(jnp.stack(jax.tree.leaves(found)))
