"""The one loop in which relaxations take their steps, and those who watch it."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.types import Array, Float, Int, State

BACKWARD = (
    "a settling with a tolerance takes as many steps as it needs, and JAX cannot differentiate back through these: "
    "take tol=None for a fixed number of steps, jax.jvp, or a rule, as EquilibriumPropagation or ImplicitGradient"
)

FEW = 8  # steps: up to here vectors compute all residuals, as a separate last step would take longer than they do


class Settling(NamedTuple):
    """A settling in progress, of a batch of examples.

    s: where it is.
    residual: what the last step met, per example; ∞ before the first.
    t: the steps taken, per example.
    memory: what the acceleration remembers of the last step; None without acceleration.
    """

    s: State
    residual: Float[Array, "*batch"]
    t: Int[Array, "*batch"]
    memory: Any


class Observer(eqx.Module):
    """Sees every step of a settling, and carries on what it makes of them."""

    @abc.abstractmethod
    def init(self, settling: Settling) -> Any:
        """What it carries before the first step."""

    @abc.abstractmethod
    def __call__(self, seen: Any, before: Settling, after: Settling) -> Any:
        """What it carries after a step."""


class Stopping(Protocol):
    """What the loop asks of a relaxation."""

    @property
    def steps(self) -> int: ...

    @property
    def tol(self) -> float | None: ...


def loop(relaxation: Stopping, step: Callable[[Settling], Settling], settling: Settling) -> Settling:
    """All steps of a relaxation, unobserved."""
    if relaxation.tol is not None:
        return run(relaxation, step, settling, relaxation.steps)[0]

    # One count for all examples compiles to less than a count that each example carries on: so `t` stays until the end.
    def counted(count: Array, now: Settling) -> Settling:
        """A step after `count` others."""
        return step(now._replace(t=now.t + count))._replace(t=now.t)

    def blind(count: Array, now: Settling) -> Settling:
        """A step after `count` others, without its residual, which nobody asks for before the last."""
        return step(now._replace(t=now.t + count))._replace(residual=now.residual, t=now.t)

    of_images = any(u.ndim > settling.residual.ndim + 1 for u in jax.tree.leaves(settling.s))
    last = relaxation.steps - 1
    if last < FEW and not of_images:
        settled = jax.lax.fori_loop(0, last + 1, counted, settling)
        return settled._replace(t=settled.t + last + 1)
    settled = jax.lax.fori_loop(0, last, blind, settling)
    settled = step(settled._replace(t=settled.t + last))
    return settled._replace(s=_kept_apart(settled.s)) if of_images else settled


def _kept_apart(s: State) -> State:
    """The state itself, in a way that XLA cannot look through.

    Otherwise XLA would compute the last step again wherever the settled state is read; with convolutions, that took a
    quarter of an update. Networks of vectors do without it: their first call took up to 7 % longer with it, though
    training steps were 5 and 8 % quicker in the two trainings measured.
    """
    units = jnp.ravel(jax.tree.leaves(s)[0])
    if not units.size:
        return s
    always = jnp.abs(units[0]) != -1  # for NaN too; XLA cannot know that
    return jax.lax.cond(always, lambda s: s, lambda s: jax.tree.map(jnp.negative, s), s)


def run(
    relaxation: Stopping,
    step: Callable[[Settling], Settling],
    settling: Settling,
    steps: int | Array,
    observer: Observer | None = None,
) -> tuple[Settling, Any]:
    """At most `steps` steps, seen by the observer: the settling, and what the observer carries in the end.

    With a tolerance, an example whose residual is at or below it keeps its state, and the loop ends when all do.
    """

    def move(settling: Settling, seen: Any) -> tuple[Settling, Any]:
        after = step(settling)
        if relaxation.tol is not None:
            moving = settling.residual > relaxation.tol
            after = jax.tree.map(lambda new, old: jnp.where(_fit(moving, new), new, old), after, settling)
        return after, None if observer is None else observer(seen, settling, after)

    begin = (settling, None if observer is None else observer.init(settling))
    if relaxation.tol is None:
        return jax.lax.fori_loop(0, steps, lambda _, carry: move(*carry), begin)

    def moves(carry: tuple[Any, Array]) -> Array:
        (settling, _), count = carry
        return jnp.any(settling.residual > relaxation.tol) & (count < steps)

    ended = jax.lax.while_loop(moves, lambda carry: (move(*carry[0]), carry[1] + 1), (begin, jnp.array(0)))[0]
    from equinox.internal import nondifferentiable_backward  # `import eqprop` would take a tenth of a second longer

    return nondifferentiable_backward(ended, msg=BACKWARD)


def _fit(moving: Array, u: Array) -> Array:
    """Which examples move, with axes to match an array of their states."""
    return moving.reshape(moving.shape + (1,) * (u.ndim - moving.ndim))
