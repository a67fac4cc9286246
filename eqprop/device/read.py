"""Imperfect reading: what converters, noise and offsets leave of the settled states that a rule compares."""

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from eqprop.boundary import require_whole
from eqprop.errors import InputError
from eqprop.rule.reading import Reading
from eqprop.total import System
from eqprop.types import Array, Key, Seed, State

Scale = Any
"""A number, an array with one for each unit, or either for each layer by name."""


class Readings(Reading):
    """What is read of a unit's s in phase k; each effect is left out unless it is given:

        r = round(clip((1 + g) s + [k > 0] (o + o_k) + σ ξ, low, high)),  averaged over `repeats` reads

    `noise`, `offset` and `offset_spread` are shares of full scale, high − low. Without a range full scale is 1, so
    that they are in the units of the state.

    noise: σ, the standard deviation of one read; ξ is drawn anew for every unit, example, phase and read.
    bits: of the converter, which rounds to 2^bits levels from `low` to `high`.
    low, high: what the converter clips to: a number or an array with one for each unit, or such for each layer by name.
    offset: o, which all units have in every phase but the first.
    offset_spread: the standard deviation of o_k, which a unit has in phase k, always the same; in the first it is 0.
    gain_spread: the standard deviation of g, the error of a unit's amplifier, the same in all phases.
    repeats: reads that are averaged: noise falls by √repeats, and with noise the average is finer than the converter.
    seed: which o_k and g the units have.

        >>> read = Readings(bits=2, low=0.0, high=3.0)
        >>> read(jnp.array([[[0.2, 1.6, 7.0]]]), jax.random.key(0)).tolist()
        [[[0.0, 2.0, 3.0]]]
    """

    noise: float | None = None
    bits: int | None = None
    low: Scale = None
    high: Scale = None
    offset: float | None = None
    offset_spread: float | None = None
    gain_spread: float | None = None
    repeats: int = eqx.field(default=1, static=True)
    seed: Seed = 0

    def __check_init__(self) -> None:
        for name in ("noise", "offset_spread", "gain_spread"):
            if (value := getattr(self, name)) is not None and not 0 <= value < inf:
                raise InputError(f"{name}={value!r}: give a standard deviation of 0 or more, or None to leave it out")
        if self.offset is not None and not isfinite(self.offset):
            raise InputError(f"offset={self.offset!r}: give a finite number, or None to leave it out")
        if self.bits is not None and (not isinstance(self.bits, int) or not 1 <= self.bits <= 24):
            raise InputError(f"bits={self.bits!r}: give a whole number from 1 to 24, or None for no rounding")
        require_whole(1, repeats=self.repeats)
        self._check_range()

    def _check_range(self) -> None:
        if (self.low is None) != (self.high is None):
            raise InputError(f"low={self.low!r}, high={self.high!r}: give both ends of the range, or none")
        if self.bits is not None and self.low is None:
            raise InputError(f"bits={self.bits!r} without a range: give low and high, between which it has its levels")
        low, high = (end if isinstance(end, Mapping) else {"": end} for end in (self.low, self.high))
        if "" not in (*low, *high) and low.keys() != high.keys():
            raise InputError(f"low={self.low!r}, high={self.high!r}: give both for the same layers")
        for layer in low.keys() | high.keys():
            least, most = low.get(layer, low.get("")), high.get(layer, high.get(""))
            if least is not None and most is not None and not _below(least, most):
                where = f" of layer {layer!r}" if layer else ""
                raise InputError(f"low={least!r}, high={most!r}{where}: give finite numbers, the lower ones first")

    def check(self, F: System) -> None:
        """Refuse ranges that do not name every layer of the state, and no other."""
        for name, end in (("low", self.low), ("high", self.high)):
            there = F.space.shapes if isinstance(end, Mapping) else {}
            if isinstance(end, Mapping) and (odd := sorted({*end} ^ {*there})):
                what = "is no layer that settles" if odd[0] in end else "is missing"
                raise InputError(
                    f"{name}={dict(end)}: {odd[0]!r} {what}; give one number, or one for each of {[*there]}"
                )

    def __call__(self, states: State, key: Key) -> State:
        count = len(jax.tree.leaves(states)[0])
        return jax.vmap(self.phase)(states, jax.random.split(key, count), jnp.arange(count))

    def phase(self, states: State, key: Key, k: Any) -> State:
        """What is read in phase k alone, of states whose first axis counts examples."""
        low, high = (_broadcast(end, states) for end in (self.low, self.high))
        leaves, tree = jax.tree.flatten(states)
        keys = jax.random.split(key, len(leaves))
        own = jax.random.split(jax.random.key(self.seed), len(leaves))
        read = [self._read(*of_layer, k) for of_layer in zip(leaves, low, high, keys, own, strict=True)]
        return jax.tree.unflatten(tree, read)

    def _read(self, s: Array, low: Any, high: Any, key: Key, own: Key, k: Any) -> Array:
        """One layer, read as often as asked for."""
        if jnp.iscomplexobj(s):
            raise InputError("a complex state cannot be read by a device: take the symmetric nudge, or Exact()")
        scale = 1.0 if low is None else high - low
        gains, offsets = jax.random.split(own)
        seen = s
        if self.gain_spread is not None:
            seen = seen * (1 + self.gain_spread * jax.random.normal(gains, s.shape[1:], s.dtype))
        if self.offset is not None:
            seen = seen + jnp.where(k > 0, self.offset * scale, 0)
        if self.offset_spread is not None:
            drawn = jax.random.normal(jax.random.fold_in(offsets, k), s.shape[1:], s.dtype)
            seen = seen + jnp.where(k > 0, self.offset_spread * scale * drawn, 0)
        if self.noise is None:
            return self._convert(seen, low, high).astype(s.dtype)
        deviation = self.noise * scale

        def once(total: Array, key: Key) -> tuple[Array, None]:
            return total + self._convert(seen + deviation * jax.random.normal(key, s.shape, s.dtype), low, high), None

        total, _ = jax.lax.scan(once, jnp.zeros_like(s), jax.random.split(key, self.repeats))
        return total / self.repeats

    def _convert(self, s: Array, low: Any, high: Any) -> Array:
        """Clipped to the range, and rounded to the nearest level."""
        if low is None:
            return s
        clipped = jnp.clip(s, low, high)
        if self.bits is None:
            return clipped
        step = (high - low) / (2.0**self.bits - 1)
        return low + step * jnp.round((clipped - low) / step)


def _below(low: Any, high: Any) -> bool:
    low, high = np.asarray(low), np.asarray(high)
    if not all(np.issubdtype(end.dtype, np.number) for end in (low, high)):
        return False
    return bool(np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low < high))


def _broadcast(end: Scale, states: State) -> list[Any]:
    """One end of the range for each leaf of the states, in their order."""
    if isinstance(end, Mapping):
        return [end[layer] for layer in sorted(states)]
    return [end] * len(jax.tree.leaves(states))
