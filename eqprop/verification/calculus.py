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

from eqprop.compile import compiled
from eqprop.cost import OutputCost
from eqprop.relax import Relaxation
from eqprop.rule.implicit import multiplier
from eqprop.rule.lagrangian import by_theta
from eqprop.total import System, Total
from eqprop.tree import named
from eqprop.types import Data, Number, PyTree, State, Theta
from eqprop.verification.base import Subject

DIRECTIONS = 20


def is_smooth(subject: Subject) -> bool:
    """Whether states have no bounds: then settled states have no kinks either."""
    return not subject.F.space.bounded


def output_cost(subject: Subject) -> OutputCost | None:
    """The cost, if it compares an output layer with a target."""
    F = subject.F
    return F.cost if isinstance(F, Total) and isinstance(F.cost, OutputCost) else None


def step_size(subject: Subject) -> float:
    """For differences: small where a unit may reach a bound on the way, or a weight the kink of |θ|."""
    cost = output_cost(subject)
    return 1e-3 if is_smooth(subject) and (cost is None or not cost.l1) else 1e-6


@lru_cache(maxsize=32)
def implicit(subject: Subject) -> Theta:
    """∂J/∂θ by the implicit function theorem, averaged over the examples."""
    s, _ = subject.free
    costate, _ = multiplier(subject.F, subject.theta, subject.v, s, 1e-13)
    return _by_costate(subject.F, subject.theta, subject.v, s, costate)


@compiled
def _by_costate(F: System, theta: Theta, v: Data, s: State, costate: State) -> Theta:
    return by_theta(F, theta, v, s, costate, None)


@lru_cache(maxsize=32)
def unit(subject: Subject) -> float:
    """The β that acts on this subject as 1 acts on one whose cost is about as steep and curved as its energy.

    1 / max(1, max_i |λ_i|, ‖∂²C/∂s² λ‖ / ‖∂C/∂s‖) with λ = ds^β/dβ at β = 0, for the example where it is least: the
    state moves with β by λ, and the pull of the cost changes on that way by ∂²C/∂s² λ. A small β must be small beside
    this one: if C is κ times as curved as E, then s^β bends with κβ.
    """
    s, _ = subject.free
    move, _ = multiplier(subject.F, subject.theta, subject.v, s, 1e-12)
    sizes = np.asarray(_pulls(subject.F, subject.theta, subject.v, s, move))
    return float(1 / np.max(sizes, initial=1.0, where=np.isfinite(sizes)))


@compiled
def _pulls(F: System, theta: Theta, v: Data, s: State, move: State) -> Array:
    """max_i |λ_i| and ‖∂²C/∂s² λ‖ / ‖∂C/∂s‖ of each example; the second is nan where the cost does not pull."""

    def one(v: Data, s: State, move: State) -> Array:
        pull, change = jax.jvp(lambda s: jax.grad(F.cost_at, argnums=2)(theta, v, s), (s,), (move,))
        move, change, pull = (ravel_pytree(d)[0] for d in (move, change, pull))
        return jnp.stack([jnp.max(jnp.abs(move)), jnp.linalg.norm(change) / jnp.linalg.norm(pull)])

    return jax.vmap(one)(v, s, move)


def offsets(subject: Subject, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Distances from x at which to ask for f, and the weights with which its values there add up to f'(x).

    (8 (f(x+δ) − f(x−δ)) − (f(x+2δ) − f(x−2δ))) / 12δ  =  f'(x) + O(δ⁴),  where δ is `scale` times `step_size`. A δ
    that is tiny because of kinks needs the first pair only: (f(x+δ) − f(x−δ)) / 2δ errs by O(δ²), less than rounding.
    """
    step = step_size(subject)
    far, weights = ([-2, -1, 1, 2], [1 / 12, -8 / 12, 8 / 12, -1 / 12]) if step > 1e-5 else ([-1, 1], [-1 / 2, 1 / 2])
    return scale * step * np.array(far), np.array(weights) / (scale * step)


def differences(subject: Subject, f: Callable[[Any], PyTree], x: PyTree) -> Any:
    """The derivative of f at x along each `direction` (first axis), from values of f only."""
    far, weights = map(jnp.asarray, offsets(subject))
    return jax.jit(lambda: _differences(f, x, far, weights))()


def derivative(subject: Subject, f: Callable[[float], PyTree], beta: float = 0.0) -> Any:
    """The derivative of f(β) at β, from values of f only. What f calls should be compiled: f itself is not."""
    far, weights = offsets(subject, unit(subject))
    values = [f(float(beta + d)) for d in far]
    return jax.tree.map(lambda *some: np.tensordot(weights, np.stack(some), 1), *values)


@lru_cache(maxsize=32)
def settled_by_theta(subject: Subject, beta: float = 0.0) -> dict[str, np.ndarray]:
    """How the settled states of all examples change with θ, by differences: first axis directions, second examples.

    "s": s^β itself, as a vector; "G": F(θ, v, β, s^β); "C": ∂F/∂β there, which at β = 0 is the objective J.
    """
    relaxation, start = subject.rule.free, subject.free[0]
    if beta:
        relaxation, start = subject.rule.nudged, subject.nudged(beta)
    given = (subject.F, subject.theta, subject.v, beta, start)
    return jax.tree.map(np.asarray, _settled_by_theta(relaxation, *given, *map(jnp.asarray, offsets(subject))))


@compiled
def _settled_by_theta(
    relaxation: Relaxation, F: System, theta: Theta, v: Data, beta: Number, s: State, far: Array, weights: Array
) -> dict[str, Array]:
    def settled(theta: Theta) -> dict[str, Array]:
        def one(v: Data, s: State) -> dict[str, Array]:
            G, C = jax.value_and_grad(F, argnums=2)(theta, v, jnp.asarray(beta), s)
            return {"s": ravel_pytree(s)[0], "G": G, "C": C}

        return jax.vmap(one)(v, relaxation.settle(F, theta, v, beta, s)[0])

    return _differences(settled, theta, far, weights)


def _differences(f: Callable[[Any], PyTree], x: PyTree, far: Array, weights: Array) -> PyTree:
    def one(i: Array) -> PyTree:
        d = direction(x, i)
        values = jax.lax.map(lambda distance: f(jax.tree.map(lambda a, b: a + distance * b, x, d)), far)
        return jax.tree.map(lambda values: jnp.tensordot(weights, values, 1), values)

    return jax.lax.map(one, jnp.arange(_count(x)))


def along(gradient: PyTree) -> np.ndarray:
    """⟨gradient, d⟩ for each `direction` d of a tree of its shape."""
    return np.asarray(_along(gradient))


@compiled
def _along(gradient: PyTree) -> Array:
    return jax.lax.map(lambda i: tree_vdot(gradient, direction(gradient, i)), jnp.arange(_count(gradient)))


def direction(x: PyTree, i: Array) -> PyTree:
    """The i-th direction in x, which is 0 except in one of its `parts`.

    A part of up to `DIRECTIONS` numbers has one direction along each number; a larger part has `DIRECTIONS` random
    ones. All of them together would be far larger than x, so each is made when it is needed.
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


def parts(x: PyTree) -> dict[str, slice]:
    """Which of the directions lie in each leaf of x, by name."""
    counts = {name or "θ": min(np.size(leaf), DIRECTIONS) for name, leaf in named(x).items()}
    ends = np.cumsum([*counts.values()])
    return {name: slice(int(end) - count, int(end)) for (name, count), end in zip(counts.items(), ends, strict=True)}


def _count(x: PyTree) -> int:
    return max(part.stop for part in parts(x).values())
