"""Derivatives of what a subject does, by settling again: what the claims compare with."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from eqprop.claims.base import Subject
from eqprop.energy.total import UNBOUNDED, box_of, slope

DIRECTIONS = 40


def is_smooth(subject: Subject) -> bool:
    """Whether F has no box: then settled states have no kinks either."""
    return box_of(subject.F) == UNBOUNDED


def step_size(subject: Subject) -> float:
    """For differences: small where a unit may reach an end of its box on the way, or a weight the kink of |θ|."""
    kinked = getattr(getattr(subject.F, "cost", None), "l1", 0)
    return 1e-3 if is_smooth(subject) and not kinked else 1e-6


def differences(subject: Subject, f: Callable[[Any], Any], x: Any, directions: Any) -> Any:
    """The derivative of f at x along each of the `directions` (first axis), from values of f only.

    (8 (f(x+δd) − f(x−δd)) − (f(x+2δd) − f(x−2δd))) / 12δ  =  f'(x) d + O(δ⁴)
    """
    delta = step_size(subject)
    far = delta * jnp.array([-2.0, -1.0, 1.0, 2.0])
    weights = jnp.array([1.0, -8.0, 8.0, -1.0]) / (12 * delta)

    def at(point: tuple[Any, Any]) -> Any:
        direction, distance = point
        return f(jax.tree.map(lambda a, d: a + distance * d, x, direction))

    def along(direction: Any) -> Any:
        points = jax.tree.map(lambda d: jnp.stack([d] * 4), direction), far
        return jax.tree.map(lambda values: jnp.tensordot(weights, values, 1), jax.lax.map(at, points))

    return jax.jit(lambda: jax.lax.map(along, directions))()


def directions(theta: Any) -> tuple[Any, dict[str, slice]]:
    """Directions in θ, and which of them are within each part of it, by name.

    One for each number of a part, or `DIRECTIONS` at random if it has more.
    """
    leaves, treedef = jax.tree.flatten(theta)
    paths = [jax.tree_util.keystr(path, simple=True, separator=" ") for path, _ in jax.tree.leaves_with_path(theta)]
    counts = [min(leaf.size, DIRECTIONS) for leaf in leaves]
    ends = np.cumsum(counts)
    parts, random = [], np.random.default_rng(0)
    for leaf, count, end in zip(leaves, counts, ends, strict=True):
        moves = np.zeros((ends[-1], leaf.size))
        few, many = np.eye(leaf.size), random.normal(size=(count, leaf.size)) / np.sqrt(leaf.size)
        moves[end - count : end] = few if count == leaf.size else many
        parts.append(moves.reshape(-1, *leaf.shape))
    slices = [slice(int(end - count), int(end)) for end, count in zip(ends, counts, strict=True)]
    return jax.tree.unflatten(treedef, parts), dict(zip((path or "θ" for path in paths), slices, strict=True))


def along(gradient: Any, directions: Any) -> np.ndarray:
    """⟨gradient, d⟩ for each direction d."""
    products = jax.tree.map(lambda g, d: np.tensordot(d, np.asarray(g), np.ndim(g)), gradient, directions)
    return np.sum(jax.tree.leaves(products), axis=0)


def derivative(subject: Subject, f: Callable[[Any], Any], x: float = 0.0) -> Any:
    """The derivative of f at the number x, from values of f only."""
    found = differences(subject, f, jnp.asarray(x), jnp.ones(1))
    return jax.tree.map(lambda a: a[0], found)


def hessian(subject: Subject, v: Any, beta: Any, s: Any) -> Array:
    """∂²F/∂s² of one example, as the derivative of the force on each unit: a matrix."""
    flat, restore = ravel_pytree(s)
    return jax.jacfwd(lambda x: ravel_pytree(slope(subject.F, subject.theta, v, beta, restore(x)))[0])(flat)
