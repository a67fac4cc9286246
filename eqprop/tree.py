"""Trees of arrays, as θ and gradients are: names for their parts, and angles between them."""

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from optax.tree_utils import tree_norm, tree_vdot

from eqprop.types import Array, PyTree


def named(tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree by their paths: {"W/input-hidden": …}."""
    leaves = jax.tree.flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def summary(tree: PyTree) -> str:
    """The parts of a tree with their shapes, and how many numbers it has: W/input-output 64×10: 640 numbers."""
    shapes = {name: jnp.shape(leaf) for name, leaf in named(tree).items()}
    parts = ", ".join(" ".join(filter(None, (name, "×".join(map(str, shape))))) for name, shape in shapes.items())
    return f"{parts}: {sum(map(prod, shapes.values())):,} numbers"


def cosine(a: PyTree, b: PyTree) -> Array:
    """The cosine of the angle between two trees of the same shape; 0 if either is 0."""
    lengths = tree_norm(a) * tree_norm(b)
    return jnp.where(lengths > 0, tree_vdot(a, b) / jnp.where(lengths > 0, lengths, 1), 0)
