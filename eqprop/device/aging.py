"""What happens to a device while nobody writes it; the unit of time is an update."""

from math import inf

import jax
import jax.numpy as jnp
import optax

from eqprop.device.base import check_deviation, per_device
from eqprop.errors import InputError
from eqprop.types import Array, Key, Seed


def decay(lifetime: float, reset: float = 0.0) -> optax.GradientTransformation:
    """w relaxes towards `reset`, by the part 1/lifetime of the way with every update (aihwkit's lifetime):

    Δw ← Δw + (reset − w)/lifetime
    """
    if not 1 <= lifetime < inf:
        raise InputError(f"lifetime={lifetime!r}: give the number of updates in which w would be gone, 1 or more")
    if not -inf < reset < inf:
        raise InputError(f"reset={reset!r}: give the finite value that w relaxes to")
    return per_device(lambda change, w, own, key: (change + (reset - w) / lifetime, own))


def drift(nu: float, nu_dtod: float = 0.0, t_0: float = 1.0, seed: Seed = 0) -> optax.GradientTransformation:
    """w falls as a power of the number t of updates since it was last written (aihwkit's drift):

        w(t) = w(0) (1 + t/t_0)^(−ν_ij),  ν_ij = nu (1 + nu_dtod ξ_ij) drawn once.

    A write is any Δw other than 0: it adds to what drift has left, and begins a new t.
    """
    check_deviation(nu_dtod=nu_dtod)
    if not -inf < nu < inf:
        raise InputError(f"nu={nu!r}: give the exponent of the power law, a finite number (0.05, say)")
    if not 0 < t_0 < inf:
        raise InputError(f"t_0={t_0!r}: give the updates after which drift sets in, a positive number")

    def own(w: Array, key: Key) -> tuple[Array, Array]:
        return nu * (1 + nu_dtod * jax.random.normal(key, w.shape, w.dtype)), jnp.zeros_like(w)

    def write(change: Array, w: Array, own: tuple[Array, Array], key: Key) -> tuple[Array, tuple[Array, Array]]:
        power, age = own
        lost = w * jnp.expm1(-power * jnp.log1p(1 / (age + t_0)))  # from (1 + t/t_0)^−ν to that of t + 1
        return change + lost, (power, jnp.where(change != 0, 0, age + 1))

    return per_device(write, own, name="drift", seed=seed, once=True)
