"""Reading: what a rule knows of settled states. On a computer that is all of them; on a device they are measured."""

import abc
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.total import System
from eqprop.types import Key, State


class Reading(eqx.Module):
    """From the settled states of all phases to what is measured of them, before they are contrasted.

    The dynamics never see it: where a nudged phase begins, and the particles that persist, are the states themselves.
    """

    def check(self, F: System) -> None:
        """Refuse an F whose states it cannot read; by default none."""

    @abc.abstractmethod
    def __call__(self, states: State, key: Key) -> State:
        """The states as they are read: the first axis counts phases, the second examples."""

    def each(self, phases: Sequence[State], key: Key) -> list[State]:
        """The same for a list of phases, one state of a batch each."""
        read = self(jax.tree.map(lambda *several: jnp.stack(several), *phases), key)
        return [jax.tree.map(lambda u, k=k: u[k], read) for k in range(len(phases))]


class Exact(Reading):
    """The states themselves."""

    def __call__(self, states: State, key: Key) -> State:
        return states

    def each(self, phases: Sequence[State], key: Key) -> list[State]:
        """The phases themselves."""
        return list(phases)
