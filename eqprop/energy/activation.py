"""ρ, the activation function: the firing rate ρ(u) of a unit whose state is u (paper, section 2.1)."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt

import jax
import jax.numpy as jnp
from jax import Array


@dataclass(frozen=True)
class Activation:
    """ρ together with what a relaxation must know of it.

    `low` and `high` are the box that states stay in, `slope` is sup |ρ'| and `bend` is sup |ρ''| on that
    box: bounds from which block descent takes steps that cannot raise the energy.
    """

    name: str
    rho: Callable[[Array], Array]
    low: float
    high: float
    slope: float
    bend: float

    def __call__(self, u: Array) -> Array:
        return self.rho(u)


def _clipped(name: str, low: float, high: float) -> Activation:
    """The identity on the box [low, high], and constant beyond it."""

    @jax.custom_jvp
    def clip(u: Array) -> Array:
        return jnp.clip(u, low, high)

    @clip.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        # 1 on the closed box, unlike the derivative of `clip`: a unit that rests at exactly an end of it must still
        # feel the force that would take it back inside (section 5.1).
        (u,), (du,) = primals, tangents
        return clip(u), jnp.where((u >= low) & (u <= high), du, 0)

    return Activation(name, clip, low, high, slope=1.0, bend=0.0)


hard_sigmoid = _clipped("hard_sigmoid", 0.0, 1.0)
"""ρ(u) = 0 ∨ u ∧ 1, the paper's choice; on the box [0, 1] it is the identity."""

hard_tanh = _clipped("hard_tanh", -1.0, 1.0)
"""ρ(u) = −1 ∨ u ∧ 1: the same on the box [−1, 1], for inputs of either sign."""

sigmoid = Activation("sigmoid", jax.nn.sigmoid, low=-inf, high=inf, slope=1 / 4, bend=1 / (6 * sqrt(3)))
"""ρ(u) = 1 / (1 + e⁻ᵘ); sup |ρ''| = 1 / (6√3)."""

tanh = Activation("tanh", jnp.tanh, low=-inf, high=inf, slope=1.0, bend=4 / (3 * sqrt(3)))
"""ρ(u) = tanh u; sup |ρ''| = 4 / (3√3)."""

ACTIVATIONS = {activation.name: activation for activation in (hard_sigmoid, hard_tanh, sigmoid, tanh)}
