"""What a device can hold: a range, a number of states, what noise leaves of a write, or one value for ever."""

from math import inf
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import optax

from eqprop.boundary import require_whole
from eqprop.device.base import check_deviation, check_range, inside, per_device
from eqprop.errors import InputError
from eqprop.types import Array, Key, Seed

Rounding = Literal["nearest", "stochastic", "accumulate"]


def lowest(w_min: float | None, w_max: float | None, ratio: float | None) -> float:
    """w_min, or w_max/ratio."""
    if w_max is None or (w_min is None) == (ratio is None):
        raise InputError(
            f"w_min={w_min!r}, w_max={w_max!r}, ratio={ratio!r}: give w_max, and either w_min or the ratio w_max/w_min"
        )
    if ratio is not None and not (1 < ratio < inf and w_max > 0):
        raise InputError(f"ratio={ratio!r} with w_max={w_max!r}: give a ratio above 1, and a w_max above 0")
    least = w_max / ratio if ratio is not None else w_min
    assert least is not None
    check_range(least, w_max)
    return least


def bounds(
    w_min: float | None = None, w_max: float | None = None, *, ratio: float | None = None
) -> optax.GradientTransformation:
    """w_min ≤ w + Δw ≤ w_max; instead of w_min, the ratio w_max/w_min may be given.

    Put it behind all that is random, so that no noise leads beyond.
    """
    least, most = lowest(w_min, w_max, ratio), w_max
    assert most is not None
    return per_device(lambda change, w, own, key: (inside(change, w, least, most), own))


def states(
    number: int, w_min: float, w_max: float, rounding: Rounding = "stochastic", seed: Seed = 0
) -> optax.GradientTransformation:
    """`number` levels, δ = (w_max − w_min)/(number − 1) apart. A write goes k of them up or down:

        nearest:     k = round(Δw/δ): an update below half a level is lost.
        stochastic:  k = ⌊Δw/δ + U⌋ with U uniform in (0, 1): right on average, and at no cost.
        accumulate:  k = round(Δw/δ + r); r is what was left over before, kept in full precision beside each device.

    A device with k = 0 is not written. Before the first write every device is put on its nearest level.
    """
    check_range(w_min, w_max)
    require_whole(2, states=number)
    if rounding not in get_args(Rounding):
        raise InputError(f"rounding={rounding!r}: choose {', '.join(get_args(Rounding))}")
    step = (w_max - w_min) / (number - 1)

    def own(w: Array, key: Key) -> tuple[Array, Any]:
        return jnp.zeros((), bool), jnp.zeros_like(w) if rounding == "accumulate" else ()

    def write(change: Array, w: Array, own: tuple[Array, Any], key: Key) -> tuple[Array, tuple[Array, Any]]:
        begun, left = own
        asked = change / step
        if rounding == "stochastic":
            count = jnp.floor(asked + jax.random.uniform(key, w.shape, w.dtype))
        elif rounding == "accumulate":
            count, left = jnp.round(asked + left), asked + left - jnp.round(asked + left)
        else:
            count = jnp.round(asked)
        level = jnp.clip(jnp.round((w - w_min) / step) + count, 0, number - 1)
        written = jnp.where((count != 0) | ~begun, inside(w_min + level * step - w, w, w_min, w_max), 0)
        return written, (jnp.ones((), bool), left)

    return per_device(write, own, name="states", seed=seed)


def write_noise(relative: float = 0.0, absolute: float = 0.0, seed: Seed = 0) -> optax.GradientTransformation:
    """Δw ← Δw (1 + relative ξ) + absolute ζ, drawn anew for each write; where Δw = 0 nothing is written.

    `relative` is what aihwkit calls dw_min_std, for writes of any size.
    """
    check_deviation(relative=relative, absolute=absolute)

    def write(change: Array, w: Array, own: tuple[()], key: Key) -> tuple[Array, tuple[()]]:
        first, second = jax.random.split(key)
        noisy = change * (1 + relative * jax.random.normal(first, w.shape, w.dtype)) if relative else change
        if absolute:
            noisy += jnp.where(change != 0, absolute * jax.random.normal(second, w.shape, w.dtype), 0)
        return noisy, own

    return per_device(write, name="write_noise", seed=seed)


def stuck(share: float, value: float | None = None, seed: Seed = 0) -> optax.GradientTransformation:
    """A share of the devices, drawn once, never changes: Δw ← 0; or is at `value` from the first update on.

    Put it last, so that neither noise nor drift moves them.
    """
    if not 0 <= share <= 1:
        raise InputError(f"share={share!r}: give the share of devices that are stuck, from 0 to 1")
    if value is not None and not -inf < value < inf:
        raise InputError(f"value={value!r}: give the finite value they are stuck at, or None for where they began")

    def write(change: Array, w: Array, mask: Array, key: Key) -> tuple[Array, Array]:
        return jnp.where(mask, 0 if value is None else value - w, change), mask

    return per_device(
        write, lambda w, key: jax.random.bernoulli(key, share, w.shape), name="stuck", seed=seed, once=True
    )
