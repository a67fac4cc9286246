"""Whether training has killed the network: the cost still pulls at the outputs, and no weight learns from it."""

import jax
import jax.numpy as jnp

from eqprop.compile import compiled
from eqprop.total import System
from eqprop.train.feed import Feed
from eqprop.train.trainer import Trainer, TrainState, starts
from eqprop.types import Array, Data, State, Theta

ROUNDING = 16  # times the relative precision: a gradient that is a smaller part of ∂F/∂θ counts as 0


def is_dead(trainer: Trainer, state: TrainState, feed: Feed) -> bool:
    """Whether no example of the first minibatch has a gradient beyond rounding, though the cost pulls at most of them.

    Weights that are too large hold all units at their bounds, or where ρ is flat, and no nudge moves them. The
    examples are asked one by one, for at a minimum of J their gradients cancel each other but are not 0. A network that
    has learned its examples is not dead: the cost does not pull at outputs that are where they should be, or at the
    bound on that side. Chains that sample, which have no residual, are not judged: a draw of both phases
    that happens to be the same has no gradient, and the next draw has one.
    """
    batch = next(feed.epoch(state.key, int(state.epoch)))
    v, weight, start = batch.v, batch.weight, starts(trainer, state, batch)
    rule = trainer.rule.at(state.step)
    for place, i in enumerate(map(int, jnp.flatnonzero(weight))):
        learned = rule(trainer.F, state.theta, v, start, state.key, jnp.zeros(len(weight)).at[i].set(1.0))
        one_v, one_s = jax.tree.map(lambda a, i=i: a[i], (v, learned.state))
        if place == 0:
            sampled = not bool(jnp.isfinite(learned.phases["free"].residual).all())
            if sampled or not _pulls(trainer.F, state.theta, v, learned.state, weight):
                return False
        if _learns(trainer.F, state.theta, one_v, one_s, learned.gradient):
            return False
    return True


@compiled
def _pulls(F: System, theta: Theta, v: Data, s: State, weight: Array) -> Array:
    """Whether a step down the cost would move the state of more than half of the examples."""

    def pull(v: Data, s: State) -> Array:
        force = jax.tree.map(jnp.negative, jax.grad(F.cost_at, argnums=2)(theta, v, s))
        return jnp.asarray(F.space.residual(s, force))

    pulls = jnp.where(weight > 0, jax.vmap(pull)(v, s), jnp.nan)
    return jnp.nanmedian(pulls) > jnp.sqrt(jnp.finfo(pulls.dtype).eps)


@compiled
def _learns(F: System, theta: Theta, v: Data, s: State, gradient: Theta) -> Array:
    """Whether the gradient of an example is more than what rounding leaves of a contrast of ∂F/∂θ."""

    def beyond(g: Array, contrasted: Array) -> Array:
        largest = jnp.max(jnp.abs(contrasted), initial=0)  # 0 for an array without numbers
        return jnp.max(jnp.abs(g), initial=0) > ROUNDING * jnp.finfo(g.dtype).eps * largest

    found = jax.tree.map(beyond, gradient, jax.grad(F)(theta, v, 0.0, s))
    return jnp.any(jnp.stack(jax.tree.leaves(found)))
