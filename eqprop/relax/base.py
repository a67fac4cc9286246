"""What all relaxations share: the loop, the stopping, the information they return."""

import abc
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.hopfield import Hopfield
from eqprop.energy.total import TotalEnergy
from eqprop.energy.variant import Variant
from eqprop.errors import InputError
from eqprop.relax.anderson import Memory, extrapolate


class Info(NamedTuple):
    """How the settling went, per example.

    `residual` is the largest |s_i − Π(s_i − ∂F/∂s_i)|, with Π the projection on the box, that the last step
    met: the state returned has moved once more since. `converged` says whether that was within the
    tolerance (0 where none was given).
    """

    residual: Array
    steps: Array
    converged: Array


def restless(examples: int, steps: int) -> Info:
    """Of chains that sample, and come to no rest: the residual is not a number, and they have not converged."""
    return Info(jnp.full(examples, jnp.nan), jnp.full(examples, steps), jnp.zeros(examples, bool))


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
    below it, whatever the others of its batch do. `accelerate` extrapolates from each step and the one before
    (see `anderson.py`), each example on its own.
    """

    steps: int = eqx.field(default=100, static=True)
    tol: float | None = None
    accelerate: bool = eqx.field(default=False, static=True, kw_only=True)

    def __check_init__(self) -> None:
        if not isinstance(self.steps, int) or self.steps < 1:
            raise InputError(f"steps={self.steps!r}: give a positive whole number of steps")
        if self.tol is not None and not 0 <= self.tol < float("inf"):
            raise InputError(f"tol={self.tol!r}: give a residual of 0 or more, or None for a fixed number of steps")

    @abc.abstractmethod
    def step(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any, t: Any) -> tuple[Any, Array]:
        """One step of one example, after t others: the new state, and the residual met on the way."""

    def __call__(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any) -> tuple[Any, Info]:
        """Settle from s. In v and s the first axis counts examples; β is one number, or one per example."""
        return _over_examples(_settle, self, F, theta, v, beta, s)

    def trace(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any) -> Trace:
        """Take all `steps` steps, whatever the tolerance, and keep the way."""
        return _over_examples(_trace, self, F, theta, v, beta, s)


def require_floats(s: Any) -> None:
    """Refuse a state that cannot move by little."""
    leaves = jax.tree.leaves(s)
    if not leaves or not all(jnp.issubdtype(jnp.result_type(u), jnp.inexact) for u in leaves):
        raise InputError(f"a state of {[str(jnp.result_type(u)) for u in leaves]} cannot settle: give floating numbers")


@compiled
def _over_examples(run: Any, relaxation: Relaxation, F: Any, theta: Any, v: Any, beta: Any, s: Any) -> Any:
    if isinstance(F, Hopfield | Variant):
        raise InputError(f"F={F!r} is an energy without a cost: give Total(energy, cost), e.g. with SquaredError()")
    require_floats(s)
    # The loop is written for one example: vmap makes it one loop over the batch in which those that are done
    # keep their state.
    beta_axis = 0 if jnp.ndim(beta) else None

    def one(v: Any, beta: Any, s: Any) -> Any:
        return run(relaxation, F, theta, v, beta, s)

    return jax.vmap(one, in_axes=(0, beta_axis, 0))(v, beta, s)


class _Moving(NamedTuple):
    """What a loop over the steps carries for one example; `last` only if it accelerates."""

    s: Any
    last: Memory | None


def _begin(relaxation: Relaxation, s: Any) -> _Moving:
    return _Moving(s, Memory(s, jax.tree.map(jnp.zeros_like, s)) if relaxation.accelerate else None)


def _advance(
    relaxation: Relaxation, F: Any, theta: Any, v: Any, beta: Any, moving: _Moving, t: Any
) -> tuple[_Moving, Array]:
    """A step in the state's own precision, whatever that of θ and β."""
    s, last = moving
    moved, residual = relaxation.step(F, theta, v, beta, s, t)
    moved = _like(s, moved)
    if last is not None:
        moved, last = extrapolate(F, s, moved, last)
        moved = _like(s, moved)
    return _Moving(moved, last), residual.astype(_real(s))


def _settle(relaxation: Relaxation, F: Any, theta: Any, v: Any, beta: Any, s: Any) -> tuple[Any, Info]:
    advance = functools.partial(_advance, relaxation, F, theta, v, beta)
    begin = _begin(relaxation, s)
    if relaxation.tol is None:
        # Only the last residual is told, so the others are not computed.
        last = relaxation.steps - 1
        moving = jax.lax.fori_loop(0, last, lambda t, moving: advance(moving, t)[0], begin)
        moving, residual = advance(moving, last)
        return moving.s, Info(residual, jnp.array(relaxation.steps), residual <= 0)

    def unsettled(carry: Any) -> Array:
        _, residual, t = carry
        return (residual > relaxation.tol) & (t < relaxation.steps)

    start = (begin, _unmet(s), jnp.array(0))
    moving, residual, t = jax.lax.while_loop(unsettled, lambda c: (*advance(c[0], c[2]), c[2] + 1), start)
    return moving.s, Info(residual, t, residual <= relaxation.tol)


def _trace(relaxation: Relaxation, F: Any, theta: Any, v: Any, beta: Any, s: Any) -> Trace:
    def record(moving: _Moving, t: Array) -> tuple[_Moving, Trace]:
        moving, residual = _advance(relaxation, F, theta, v, beta, moving, t)
        return moving, Trace(moving.s, F(theta, v, beta, moving.s), residual)

    _, path = jax.lax.scan(record, _begin(relaxation, s), jnp.arange(relaxation.steps))
    start = Trace(s, F(theta, v, beta, s), _unmet(s))
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, path)


def _like(s: Any, moved: Any) -> Any:
    return jax.tree.map(lambda new, old: new.astype(old.dtype), moved, s)


def _unmet(s: Any) -> Array:
    """The residual before any step."""
    return jnp.array(jnp.inf, _real(s))


def _real(s: Any) -> Any:
    """The type of the residuals of s: that of its numbers, or of their real parts."""
    return jnp.finfo(jnp.result_type(*jax.tree.leaves(s))).dtype
