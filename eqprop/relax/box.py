"""The box that states stay in, and how far a state is from a fixed point within it."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from eqprop.energy.total import UNBOUNDED, TotalEnergy, box_of


def project(F: TotalEnergy, s: Any) -> Any:
    """Π: each unit clipped to the box of F, if F has one (section 5.1)."""
    low, high = box_of(F)
    if (low, high) == UNBOUNDED:  # complex states cannot be clipped, and need not be
        return s
    return jax.tree.map(lambda u: jnp.clip(u, low, high), s)


def inside(F: TotalEnergy, s: Any) -> Any:
    """Which units are free to move either way; the others rest at an end of the box."""
    low, high = box_of(F)
    return jax.tree.map(lambda u: (u > low) & (u < high), s)


def residual(F: TotalEnergy, s: Any, force: Any) -> Array:
    """The largest |s_i − Π(s_i + force_i)| where force = −∂F/∂s: 0 just at a fixed point."""
    moved = project(F, jax.tree.map(jnp.add, s, force))
    gaps = jax.tree.map(lambda u, m: jnp.max(jnp.abs(u - m)), s, moved)
    return jnp.max(jnp.stack(jax.tree.leaves(gaps)))
