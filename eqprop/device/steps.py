"""How large the step of a device is: pulses, factors of its own, up and down, near the ends of its range."""

from math import inf

import jax
import jax.numpy as jnp
import optax

from eqprop.device.base import check_deviation, check_range, inside, per_device
from eqprop.errors import InputError
from eqprop.types import Array, Key, Seed


def constant_step(
    dw_min: float,
    dw_min_std: float = 0.0,
    dw_min_dtod: float = 0.0,
    up_down: float = 0.0,
    up_down_dtod: float = 0.0,
    seed: Seed = 0,
) -> optax.GradientTransformation:
    """A whole number of pulses, each a step of about dw_min (aihwkit's ConstantStep):

        n = ⌊|Δw|/dw_min + U⌋,  U uniform in (0, 1),  so that n dw_min is |Δw| on average,
        Δw ← ± dw_min (n + dw_min_std √n ξ), which is the sum of n steps dw_min (1 + dw_min_std ξ),

    and then what `device_to_device(dw_min_dtod)` and `up_down(up_down, up_down_dtod)` make of it.
    """
    check_deviation(dw_min_std=dw_min_std)
    if not 0 < dw_min < inf:
        raise InputError(f"dw_min={dw_min!r}: give the size of a pulse's step, a positive number")

    def write(change: Array, w: Array, own: tuple[()], key: Key) -> tuple[Array, tuple[()]]:
        whole, noise = jax.random.split(key)
        count = jnp.floor(jnp.abs(change) / dw_min + jax.random.uniform(whole, w.shape, w.dtype))
        total = count + dw_min_std * jnp.sqrt(count) * jax.random.normal(noise, w.shape, w.dtype)
        return jnp.sign(change) * dw_min * total, own

    pulses = per_device(write, name="constant_step", seed=seed)
    factors = [device_to_device(dw_min_dtod, seed)] if dw_min_dtod else []
    sides = [_up_down(up_down, up_down_dtod, seed)] if up_down or up_down_dtod else []
    return optax.chain(pulses, *factors, *sides)


def device_to_device(dw_min_dtod: float, seed: Seed = 0) -> optax.GradientTransformation:
    """Each device has its own factor on its steps, drawn once: Δw ← max(0, 1 + dw_min_dtod ξ_ij) Δw."""
    check_deviation(dw_min_dtod=dw_min_dtod)
    return per_device(
        lambda change, w, factor, key: (factor * change, factor),
        lambda w, key: jnp.maximum(0, 1 + dw_min_dtod * jax.random.normal(key, w.shape, w.dtype)),
        name="device_to_device",
        seed=seed,
        once=True,
    )


def up_down(up_down: float, up_down_dtod: float = 0.0, seed: Seed = 0) -> optax.GradientTransformation:
    """Steps up and down have different sizes: Δw ← max(0, 1 ± β_ij) Δw, + for steps up, with
    β_ij = up_down + up_down_dtod ξ_ij drawn once.

    As in aihwkit, 0.1 makes steps up 10 % larger and steps down 10 % smaller: their ratio is (1 + β)/(1 − β).
    """
    return _up_down(up_down, up_down_dtod, seed)


def linear_step(
    w_min: float, w_max: float, gamma_up: float = 1.0, gamma_down: float = 1.0
) -> optax.GradientTransformation:
    """Steps depend on where the device is, linearly (aihwkit's LinearStep). With z = −1 at w_min and 1 at w_max:

        Δw ← max(0, 1 − gamma_up z) Δw for steps up,  max(0, 1 + gamma_down z) Δw for steps down,

    and never beyond the range. In the middle of it steps have the size that was asked for.
    """
    check_range(w_min, w_max)
    for name, gamma in (("gamma_up", gamma_up), ("gamma_down", gamma_down)):
        if not 0 <= gamma < inf:
            raise InputError(
                f"{name}={gamma!r}: give 0 for steps of one size, 1 for a step of 0 at the bound, or between"
            )
    middle, half = (w_max + w_min) / 2, (w_max - w_min) / 2

    def write(change: Array, w: Array, own: tuple[()], key: None) -> tuple[Array, tuple[()]]:
        z = (w - middle) / half
        factor = jnp.where(change > 0, 1 - gamma_up * z, 1 + gamma_down * z)
        return inside(jnp.maximum(0, factor) * change, w, w_min, w_max), own

    return per_device(write)


def soft_bounds(w_min: float, w_max: float) -> optax.GradientTransformation:
    """Steps shrink linearly to 0 at the bound they go to (aihwkit's SoftBounds): with the half range h,

        Δw ← Δw (w_max − w)/h for steps up,  Δw (w − w_min)/h for steps down.

    As many steps up as down lead to w* = middle + β h with the `up_down` β: what is not learned is pulled there.
    """
    return linear_step(w_min, w_max)


def _up_down(mean: float, deviation: float, seed: Seed) -> optax.GradientTransformation:
    check_deviation(up_down_dtod=deviation)
    if not -1 <= mean <= 1:
        raise InputError(f"up_down={mean!r}: give a number from −1 (no steps up) to 1 (no steps down)")
    return per_device(
        lambda change, w, beta, key: (jnp.maximum(0, 1 + jnp.sign(change) * beta) * change, beta),
        lambda w, key: mean + deviation * jax.random.normal(key, w.shape, w.dtype),
        name="up_down",
        seed=seed,
        once=True,
    )
