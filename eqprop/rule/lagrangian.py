"""The Lagrangian of Appendix B, through which a costate λ becomes a gradient."""

import jax
import jax.numpy as jnp
from optax.tree_utils import tree_vdot

from eqprop.total import System
from eqprop.types import Array, Data, State, Theta, Weight


def by_theta(F: System, theta: Theta, v: Data, s: State, costate: State, weight: Weight | None) -> Theta:
    """∂L/∂θ of L = C + λ·∂F/∂s at free fixed points s, averaged over the batch."""

    def one(theta: Theta, v: Data, s: State, costate: State) -> Array:
        return F.cost_at(theta, v, s) - jnp.asarray(tree_vdot(costate, F.force(theta, v, 0.0, s)))

    def mean(theta: Theta) -> Array:
        return jnp.average(jax.vmap(one, in_axes=(None, 0, 0, 0))(theta, v, s, costate), weights=weight)

    return jax.grad(mean)(theta)
