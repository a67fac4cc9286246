"""Learning rates and schedules whose numbers are data: others compile nothing."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from eqprop.errors import InputError
from eqprop.types import Array, Count, Number, Numbers, PyTree, Theta

Updates: TypeAlias = Count | Annotated[Array, Numbers(whole=True)]
"""How many: a whole number, or an array of them."""


class Staircase(eqx.Module):
    """An Optax schedule: start · factor^k, where k counts how often `every` minibatches were learned.

    >>> schedule = Staircase(0.1, every=100, factor=0.5)
    >>> print(*(round(float(schedule(count)), 3) for count in (0, 99, 100, 250)))
    0.1 0.1 0.05 0.025
    """

    start: Annotated[Any, Numbers(whole=True)]
    every: Updates
    factor: float

    def __check_init__(self) -> None:
        if not 0 < self.factor < float("inf"):
            raise InputError(f"factor={self.factor!r}: give a positive factor, 1 for no change")

    def __call__(self, count: Number) -> Array:
        # `//` would compile more, to round quotients below 0, and there are none.
        times = jax.lax.div(jnp.asarray(count, int), jnp.asarray(self.every, int))
        return self.start * jnp.asarray(self.factor, float) ** times


class Cosine(eqx.Module):
    """An Optax schedule: start · ½ (1 + cos(π k / steps)) after k of `steps` minibatches, and 0 from then on.

    >>> schedule = Cosine(0.1, steps=100)
    >>> print(*(round(float(schedule(count)), 3) for count in (0, 50, 100)))
    0.1 0.05 0.0
    """

    start: Annotated[Any, Numbers(whole=True)]
    steps: Updates

    def __call__(self, count: Number) -> Array:
        done = jnp.minimum(jnp.asarray(count) / self.steps, 1.0)
        return self.start * (1 + jnp.cos(jnp.pi * done)) / 2


class RatedState(NamedTuple):
    """The optimizer's state, and how many updates were made."""

    inner: Any
    count: Array


class Rated(eqx.Module):
    """An optimizer of learning rate 1, whose updates are multiplied by rates that are data.

    optimizer: any Optax optimizer, as `optax.adam(1.0)`.
    rates: one number, or a tree like θ or the top of one, as `Hopfield.per_layer` makes it (section 5.2).
    schedule: from the number of updates made to a factor for all rates; a `Staircase` is data as well.

        >>> optimizer = Rated(optax.adam(1.0), 0.002, Staircase(1.0, every=1000, factor=0.65))
    """

    optimizer: optax.GradientTransformation
    rates: Annotated[PyTree, Numbers(whole=True)] = 1.0
    schedule: Callable[[Any], Any] | None = None

    def __check_init__(self) -> None:
        if not all(np.all(np.isfinite(rate)) and np.all(np.asarray(rate) >= 0) for rate in jax.tree.leaves(self.rates)):
            raise InputError(f"rates={self.rates!r}: learning rates are 0 or more")

    def init(self, params: Theta) -> RatedState:
        """The state before the first update."""
        try:
            jax.tree.broadcast(self.rates, params)
        except ValueError as error:
            raise InputError(f"rates={self.rates!r} do not fit theta: {error}") from error
        return RatedState(self.optimizer.init(params), jnp.zeros((), int))

    def update(self, updates: Theta, state: Any, params: Theta | None = None) -> tuple[Theta, RatedState]:
        """The optimizer's updates times the rates."""
        changes, inner = self.optimizer.update(updates, state.inner, params)
        factor = 1.0 if self.schedule is None else self.schedule(state.count)
        rates = jax.tree.broadcast(self.rates, changes)
        scaled = jax.tree.map(lambda change, rate: (change * (rate * factor)).astype(change.dtype), changes, rates)
        return scaled, RatedState(inner, state.count + 1)
