"""ρ, the activation function: the firing rate ρ(u) of a unit whose state is u (paper, section 2.1)."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isinf, sqrt
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax import Array

from eqprop.boundary import entrance
from eqprop.errors import InputError
from eqprop.types import Limit, Number


@dataclass(frozen=True)
class Activation:
    """ρ together with what a relaxation must know of it.

    `low` and `high` are the box that states stay in, `slope` is sup |ρ'| and `bend` is sup |ρ''| on that
    box: bounds from which block descent takes steps that cannot raise the energy.
    """

    name: str
    rho: Callable[[Array], Array]
    low: Limit
    high: Limit
    slope: float
    bend: float

    @entrance
    def __call__(self, u: Number) -> Array:
        if isinf(self.low) < jnp.iscomplexobj(u):
            raise InputError(f"{self.name} of complex numbers, which have no order: take sigmoid, tanh or smooth_step")
        return self.rho(u if jnp.issubdtype(jnp.result_type(u), jnp.inexact) else jnp.asarray(u, float))

    def curvature(self, field: Callable[[], Array], coupling: Array | float) -> Array | float:
        """A bound on |∂²Φ/∂u²| for the units of a layer, the others being given.

        It is sup|ρ''| |a| with a the field ∂Φ/∂ρ, which is asked for only where ρ bends. Where units of the layer feel
        each other with the strength r (`Synapse.coupling`), the field may change by 2 r on the way, and sup|ρ'|² r is
        added.
        """
        bend = self.bend * (jnp.abs(field()) + 2 * coupling) if self.bend else 0.0
        return bend + self.slope**2 * coupling


Rho: TypeAlias = Activation | str
"""An activation, or the name of one in `ACTIVATIONS`."""


def _clipped(name: str, low: float, high: float, slope: float = 1.0) -> Activation:
    """slope · u on the box [low, high], and constant beyond it."""

    @jax.custom_jvp
    def clip(u: Array) -> Array:
        return slope * jnp.clip(u, low, high) if slope != 1 else jnp.clip(u, low, high)

    @clip.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        # `slope` on the closed box, unlike the derivative of `clip`: a unit that rests at exactly an end of it must
        # still feel the force that would take it back inside (section 5.1).
        (u,), (du,) = primals, tangents
        return clip(u), jnp.where((u >= low) & (u <= high), slope * du if slope != 1 else du, 0)

    return Activation(name, clip, low, high, slope=slope, bend=0.0)


hard_sigmoid = _clipped("hard_sigmoid", 0.0, 1.0)
"""ρ(u) = 0 ∨ u ∧ 1, the paper's choice; on the box [0, 1] it is the identity."""

hard_tanh = _clipped("hard_tanh", -1.0, 1.0)
"""ρ(u) = −1 ∨ u ∧ 1: the same on the box [−1, 1], for inputs of either sign."""

sigmoid = Activation("sigmoid", jax.nn.sigmoid, low=-inf, high=inf, slope=1 / 4, bend=1 / (6 * sqrt(3)))
"""ρ(u) = 1 / (1 + e⁻ᵘ); sup |ρ''| = 1 / (6√3)."""

tanh = Activation("tanh", jnp.tanh, low=-inf, high=inf, slope=1.0, bend=4 / (3 * sqrt(3)))
"""ρ(u) = tanh u; sup |ρ''| = 4 / (3√3)."""

half_sigmoid = _clipped("half_sigmoid", 0.0, 2.0, slope=0.5)
"""ρ(u) = 0 ∨ u/2 ∧ 1, on the box [0, 2], for deep convolutional networks (Laborieux et al. 2021).

They write E = ‖r‖² − Φ(r) in the rates r = ρ(u); with weights W, ours is twice that with weights W/2.
"""

relu6 = _clipped("relu6", 0.0, 6.0)
"""ρ(u) = 0 ∨ u ∧ 6: rectified, on the box [0, 6]."""

identity = Activation("identity", lambda u: u, low=-inf, high=inf, slope=1.0, bend=0.0)
"""ρ(u) = u, without bounds: for inputs of any range, and for linear outputs."""


def _smooth(u: Array) -> Array:
    return u / 2 * jax.nn.sigmoid(u) + (1 - u / 2) * jax.nn.sigmoid(u - 2)


smooth_step = Activation("smooth_step", _smooth, low=-inf, high=inf, slope=0.428, bend=0.235)
"""ρ(u) = ½ u σ(u) + (1 − ½ u) σ(u − 2): near `half_sigmoid`, but smooth.

For the holomorphic nudge (Laborieux & Zenke 2022). It goes from −0.09 to 1.09.
"""

ACTIVATIONS = {
    activation.name: activation
    for activation in (hard_sigmoid, hard_tanh, sigmoid, tanh, half_sigmoid, relu6, identity, smooth_step)
}
