"""What all relaxations share: the loop, the stopping, the information they return."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import UNBOUNDED, TotalEnergy
from eqprop.errors import InputError


class Info(NamedTuple):
    """How the settling went, per example.

    `residual` is the largest |s_i − Π(s_i − ∂F/∂s_i)|, with Π the projection on the box, that the last step
    met: the state returned has moved once more since. `converged` says whether that was within the
    tolerance (0 where none was given).
    """

    residual: Array
    steps: Array
    converged: Array


class Trace(NamedTuple):
    """The path of a settling: entry 0 is the start, entry t what step t led to; examples come first.

    `energy` is F and `residual` what step t met.
    """

    state: Any
    energy: Array
    residual: Array


class Relaxation(eqx.Module):
    """Lets s settle to a minimum of F(θ, v, β, ·), for a batch of examples at once.

    At most `steps` steps are taken; with a tolerance `tol`, an example rests as soon as its residual is at or
    below it, whatever the others of its batch do.
    """

    steps: int = eqx.field(default=100, static=True)
    tol: float | None = None

    def __check_init__(self) -> None:
        if not isinstance(self.steps, int) or self.steps < 1:
            raise InputError(f"steps={self.steps!r}: give a positive whole number of steps")
        if self.tol is not None and not 0 <= self.tol < float("inf"):
            raise InputError(f"tol={self.tol!r}: give a residual of 0 or more, or None for a fixed number of steps")

    @abc.abstractmethod
    def step(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any) -> tuple[Any, Array]:
        """One step of one example: the new state, and the residual met on the way."""

    def __call__(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any) -> tuple[Any, Info]:
        """Settle from s. In v and s the first axis counts examples; β is one number, or one per example."""
        return _over_examples(_settle, self, F, theta, v, beta, s)

    def trace(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any) -> Trace:
        """Take all `steps` steps, whatever the tolerance, and keep the way."""
        return _over_examples(_trace, self, F, theta, v, beta, s)


@compiled
def _over_examples(run: Any, relaxation: Relaxation, F: Any, theta: Any, v: Any, beta: Any, s: Any) -> Any:
    leaves = jax.tree.leaves(s)
    if not leaves or not all(jnp.issubdtype(jnp.result_type(u), jnp.inexact) for u in leaves):
        raise InputError(f"a state of {[str(jnp.result_type(u)) for u in leaves]} cannot settle: give floating numbers")
    # The loop is written for one example: vmap makes it one loop over the batch in which those that are done
    # keep their state.
    beta_axis = 0 if jnp.ndim(beta) else None

    def one(v: Any, beta: Any, s: Any) -> Any:
        return run(relaxation, F, theta, v, beta, s)

    return jax.vmap(one, in_axes=(0, beta_axis, 0))(v, beta, s)


def _settle(relaxation: Relaxation, F: Any, theta: Any, v: Any, beta: Any, s: Any) -> tuple[Any, Info]:
    unmet = jnp.array(jnp.inf, jnp.result_type(*jax.tree.leaves(s)))

    def advance(s: Any) -> tuple[Any, Array]:
        return _step(relaxation, F, theta, v, beta, s)

    if relaxation.tol is None:
        s, residual = jax.lax.fori_loop(0, relaxation.steps, lambda _, c: advance(c[0]), (s, unmet))
        return s, Info(residual, jnp.array(relaxation.steps), residual <= 0)

    def moving(carry: Any) -> Array:
        _, residual, steps = carry
        return (residual > relaxation.tol) & (steps < relaxation.steps)

    s, residual, steps = jax.lax.while_loop(moving, lambda c: (*advance(c[0]), c[2] + 1), (s, unmet, jnp.array(0)))
    return s, Info(residual, steps, residual <= relaxation.tol)


def _step(relaxation: Relaxation, F: Any, theta: Any, v: Any, beta: Any, s: Any) -> tuple[Any, Array]:
    """A step in the state's own precision, whatever that of θ and β."""
    moved, residual = relaxation.step(F, theta, v, beta, s)
    moved = jax.tree.map(lambda new, old: new.astype(old.dtype), moved, s)
    return moved, residual.astype(jnp.result_type(*jax.tree.leaves(s)))


def _trace(relaxation: Relaxation, F: Any, theta: Any, v: Any, beta: Any, s: Any) -> Trace:
    def record(s: Any, _: None) -> tuple[Any, Trace]:
        s, residual = _step(relaxation, F, theta, v, beta, s)
        return s, Trace(s, F(theta, v, beta, s), residual)

    _, path = jax.lax.scan(record, s, length=relaxation.steps)
    start = Trace(s, F(theta, v, beta, s), jnp.full_like(path.residual[0], jnp.inf))
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, path)


def project(F: TotalEnergy, s: Any) -> Any:
    """Π: each unit clipped to the box of F, if F has one (section 5.1)."""
    low, high = getattr(F, "box", UNBOUNDED)
    return jax.tree.map(lambda u: jnp.clip(u, low, high), s)


def residual(F: TotalEnergy, s: Any, force: Any) -> Array:
    """The largest |s_i − Π(s_i + force_i)| where force = −∂F/∂s: 0 just at a fixed point."""
    moved = project(F, jax.tree.map(jnp.add, s, force))
    gaps = jax.tree.map(lambda u, m: jnp.max(jnp.abs(u - m)), s, moved)
    return jnp.max(jnp.stack(jax.tree.leaves(gaps)))
