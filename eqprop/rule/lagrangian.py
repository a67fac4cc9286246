"""The Lagrangian of Appendix B, through which a costate λ becomes a gradient."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from optax.tree_utils import tree_vdot

from eqprop.energy.total import TotalEnergy, cost_of, slope


def by_theta(F: TotalEnergy, theta: Any, v: Any, s: Any, costate: Any, weight: Array | None) -> Any:
    """∂L/∂θ of L = C + λ·∂F/∂s at free fixed points s, averaged over the batch."""

    def one(theta: Any, v: Any, s: Any, costate: Any) -> Array:
        return cost_of(F)(theta, v, s) + jnp.asarray(tree_vdot(costate, slope(F, theta, v, 0.0, s)))

    def mean(theta: Any) -> Array:
        return jnp.average(jax.vmap(one, in_axes=(None, 0, 0, 0))(theta, v, s, costate), weights=weight)

    return jax.grad(mean)(theta)
