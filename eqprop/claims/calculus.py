"""Derivatives of what a subject does, by settling again: what the claims compare with."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from optax.tree_utils import tree_vdot

from eqprop.claims.base import Subject
from eqprop.compile import compiled
from eqprop.energy.total import UNBOUNDED, box_of, slope
from eqprop.train.naming import named

DIRECTIONS = 40


def is_smooth(subject: Subject) -> bool:
    """Whether F has no box: then settled states have no kinks either."""
    return box_of(subject.F) == UNBOUNDED


def step_size(subject: Subject) -> float:
    """For differences: small where a unit may reach an end of its box on the way, or a weight the kink of |θ|."""
    kinked = getattr(getattr(subject.F, "cost", None), "l1", 0)
    return 1e-3 if is_smooth(subject) and not kinked else 1e-6


def differences(subject: Subject, f: Callable[[Any], Any], x: Any) -> Any:
    """The derivative of f at x along each `direction` (first axis), from values of f only.

    (8 (f(x+δd) − f(x−δd)) − (f(x+2δd) − f(x−2δd))) / 12δ  =  f'(x) d + O(δ⁴)
    """
    delta = step_size(subject)
    far = delta * jnp.array([-2.0, -1.0, 1.0, 2.0])
    weights = jnp.array([1.0, -8.0, 8.0, -1.0]) / (12 * delta)

    def one(i: Array) -> Any:
        d = direction(x, i)
        values = jax.lax.map(lambda distance: f(jax.tree.map(lambda a, b: a + distance * b, x, d)), far)
        return jax.tree.map(lambda values: jnp.tensordot(weights, values, 1), values)

    return jax.jit(lambda: jax.lax.map(one, jnp.arange(_count(x))))()


def derivative(subject: Subject, f: Callable[[Any], Any], x: float = 0.0) -> Any:
    """The derivative of f at the number x, from values of f only."""
    return jax.tree.map(lambda a: a[0], differences(subject, f, jnp.asarray(x)))


@compiled
def along(gradient: Any) -> Array:
    """⟨gradient, d⟩ for each `direction` d in what it is shaped like."""
    return jax.lax.map(lambda i: tree_vdot(gradient, direction(gradient, i)), jnp.arange(_count(gradient)))


def direction(x: Any, i: Array) -> Any:
    """The i-th direction in x, which is 0 but in one of its `parts`.

    In parts of up to `DIRECTIONS` numbers there is one along each; in others there are so many at random. All of them
    together would be far larger than x, so they are made when they are needed.
    """
    made = []
    for leaf, part in zip(jax.tree.leaves(x), parts(x).values(), strict=True):
        if (size := np.size(leaf)) <= DIRECTIONS:
            d = jnp.where(jnp.arange(size) == i - part.start, 1.0, 0.0)
        else:
            here = (i >= part.start) & (i < part.stop)
            d = here * jax.random.normal(jax.random.fold_in(jax.random.key(0), i), (size,)) / np.sqrt(size)
        made.append(d.reshape(np.shape(leaf)))
    return jax.tree.unflatten(jax.tree.structure(x), made)


def parts(x: Any) -> dict[str, slice]:
    """Which of the directions lie in each of x's leaves, by name."""
    counts = {name or "θ": min(np.size(leaf), DIRECTIONS) for name, leaf in named(x).items()}
    ends = np.cumsum([*counts.values()])
    return {name: slice(int(end) - count, int(end)) for (name, count), end in zip(counts.items(), ends, strict=True)}


def _count(x: Any) -> int:
    return max(part.stop for part in parts(x).values())


def hessian(subject: Subject, v: Any, beta: Any, s: Any) -> Array:
    """∂²F/∂s² of one example, as the derivative of the force on each unit: a matrix."""
    flat, restore = ravel_pytree(s)
    return jax.jacfwd(lambda x: ravel_pytree(slope(subject.F, subject.theta, v, beta, restore(x)))[0])(flat)
