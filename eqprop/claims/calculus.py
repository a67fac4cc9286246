"""Derivatives of what a subject does, by settling again: what the claims compare with."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from optax.tree_utils import tree_vdot

from eqprop.claims.base import Subject
from eqprop.compile import compiled
from eqprop.energy.total import UNBOUNDED, box_of, cost_of, slope
from eqprop.rule.implicit import multiplier
from eqprop.train.naming import named

DIRECTIONS = 40


def is_smooth(subject: Subject) -> bool:
    """Whether F has no box: then settled states have no kinks either."""
    return box_of(subject.F) == UNBOUNDED


def step_size(subject: Subject) -> float:
    """For differences: small where a unit may reach an end of its box on the way, or a weight the kink of |θ|."""
    kinked = getattr(getattr(subject.F, "cost", None), "l1", 0)
    return 1e-3 if is_smooth(subject) and not kinked else 1e-6


@lru_cache(maxsize=32)
def unit(subject: Subject) -> float:
    """The β that is as much for this subject as 1 is for one whose cost is about as steep and curved as its energy.

    1 / max(1, max_i |λ_i|, ‖∂²C/∂s² λ‖ / ‖∂C/∂s‖) with λ = ds^β/dβ at β = 0, for the example where it is least: by λ
    the state moves with β, and by ∂²C/∂s² λ the pull of the cost changes on that way. What counts as a small β must be
    small beside it: if C is κ times as curved as E, then s^β bends with κβ.
    """
    s, _ = subject.free()
    move, _ = multiplier(subject.F, subject.theta, subject.v, s, 1e-12)
    sizes = np.asarray(_pulls(subject.F, subject.theta, subject.v, s, move))
    return float(1 / np.max(sizes, initial=1.0, where=np.isfinite(sizes)))


@compiled
def _pulls(F: Any, theta: Any, v: Any, s: Any, move: Any) -> Array:
    """max_i |λ_i| and ‖∂²C/∂s² λ‖ / ‖∂C/∂s‖ of each example; the second is nan where the cost does not pull."""

    def one(v: Any, s: Any, move: Any) -> Array:
        pull, change = jax.jvp(lambda s: jax.grad(cost_of(F), argnums=2)(theta, v, s), (s,), (move,))
        move, change, pull = (ravel_pytree(d)[0] for d in (move, change, pull))
        return jnp.stack([jnp.max(jnp.abs(move)), jnp.linalg.norm(change) / jnp.linalg.norm(pull)])

    return jax.vmap(one)(v, s, move)


def differences(subject: Subject, f: Callable[[Any], Any], x: Any, scale: float = 1.0) -> Any:
    """The derivative of f at x along each `direction` (first axis), from values of f only.

    (8 (f(x+δd) − f(x−δd)) − (f(x+2δd) − f(x−2δd))) / 12δ  =  f'(x) d + O(δ⁴),  where δ is `scale` times the usual
    """
    delta = scale * step_size(subject)
    far = delta * jnp.array([-2.0, -1.0, 1.0, 2.0])
    weights = jnp.array([1.0, -8.0, 8.0, -1.0]) / (12 * delta)

    def one(i: Array) -> Any:
        d = direction(x, i)
        values = jax.lax.map(lambda distance: f(jax.tree.map(lambda a, b: a + distance * b, x, d)), far)
        return jax.tree.map(lambda values: jnp.tensordot(weights, values, 1), values)

    return jax.jit(lambda: jax.lax.map(one, jnp.arange(_count(x))))()


def derivative(subject: Subject, f: Callable[[Any], Any], beta: float = 0.0) -> Any:
    """The derivative of f(β) at β, from values of f only."""
    return jax.tree.map(lambda a: a[0], differences(subject, f, jnp.asarray(beta), unit(subject)))


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
