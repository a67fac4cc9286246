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


@jax.custom_jvp
def _clip01(u: Array) -> Array:
    return jnp.clip(u, 0, 1)


@_clip01.defjvp
def _clip01_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # 1 on the closed box, unlike the derivative of `clip`: a unit that rests at exactly 0 or 1 must still
    # feel the force that would take it back inside (section 5.1).
    (u,), (du,) = primals, tangents
    return _clip01(u), jnp.where((u >= 0) & (u <= 1), du, 0)


hard_sigmoid = Activation("hard_sigmoid", _clip01, low=0.0, high=1.0, slope=1.0, bend=0.0)
"""ρ(u) = 0 ∨ u ∧ 1, the paper's choice; on the box [0, 1] it is the identity."""

sigmoid = Activation("sigmoid", jax.nn.sigmoid, low=-inf, high=inf, slope=1 / 4, bend=1 / (6 * sqrt(3)))
"""ρ(u) = 1 / (1 + e⁻ᵘ); sup |ρ''| = 1 / (6√3)."""

tanh = Activation("tanh", jnp.tanh, low=-inf, high=inf, slope=1.0, bend=4 / (3 * sqrt(3)))
"""ρ(u) = tanh u; sup |ρ''| = 4 / (3√3)."""

ACTIVATIONS = {activation.name: activation for activation in (hard_sigmoid, sigmoid, tanh)}
