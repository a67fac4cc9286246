"""Diodes: what keeps the voltage of a node on one side of its reference."""

from dataclasses import dataclass
from math import inf
from typing import Any

import jax
import jax.numpy as jnp

from eqprop.errors import InputError
from eqprop.types import Array

BOLTZMANN, CHARGE, KELVIN = 1.380649e-23, 1.602176634e-19, 273.15
STEEPEST = 80.0
"""Where exp(z) goes on as a parabola: a diode is far beyond any current that flows there, and numbers stay finite."""
NEWTON = 12
"""Steps to the voltage of a node: from where they begin, each about doubles the digits that are right."""


@dataclass(frozen=True)
class Shockley:
    """I(v) = saturation · (exp(v / (ideality · V_T)) − 1), with the thermal voltage V_T = kT/q.

    saturation: the current that leaks backwards, in the unit of conductance times volts.
    ideality: from 1 to 2 for real diodes; an ideal diode is the limit of 0.
    celsius: the temperature.

        >>> round(Shockley(1e-7, 1.0).scale, 5)
        0.02586
    """

    saturation: float = 1e-7
    ideality: float = 1.0
    celsius: float = 27.0

    def __post_init__(self) -> None:
        for name in ("saturation", "ideality"):
            if not 0 < (value := getattr(self, name)) < inf:
                raise InputError(f"{name}={value!r} of a diode: give a positive number")
        if not -KELVIN < self.celsius < inf:
            raise InputError(f"celsius={self.celsius!r} of a diode: give a temperature above −273.15")

    @property
    def scale(self) -> float:
        """ideality · V_T, in volts."""
        return self.ideality * BOLTZMANN * (self.celsius + KELVIN) / CHARGE

    def content(self, v: Array, above: Array, below: Array) -> Array:
        """∫ I dv of the diodes at each node, from 0 to v.

        above, below: how many times `saturation` those have that keep v above 0, and below 0; 0 for none.
        """
        up, down = _arguments(v / self.scale, above, below)
        parts = above * (_grown(up) - 1 - up) + below * (_grown(down) - 1 - down)
        return self.saturation * self.scale * parts

    def current(self, v: Array, above: Array, below: Array) -> Array:
        """The current that leaves the node through its diodes."""
        up, down = _arguments(v / self.scale, above, below)
        return self.saturation * (below * (_growth(down) - 1) - above * (_growth(up) - 1))

    def curvature(self, v: Array, above: Array, below: Array) -> Array:
        """∂I/∂v."""
        up, down = _arguments(v / self.scale, above, below)
        return self.saturation / self.scale * (below * _growth(down) + above * _growth(up))

    def settled(self, g: Array, u: Array, above: Array, below: Array) -> Array:
        """The v where g (u − v) = I(v): that of a node joined by g to the voltage u.

        Newton's method, from a v beyond the solution on the side of u, where the diode alone would take all current
        that u can give: as I bends upwards, every step stays on that side and comes nearer.
        """
        ahead = jnp.where(u > 0, below, above)
        most = self.scale * jnp.log1p(g * jnp.abs(u) / (self.saturation * jnp.maximum(ahead, 1e-30)))
        v = jnp.sign(u) * jnp.minimum(jnp.abs(u), jnp.where(ahead > 0, most, inf))
        low, high = jnp.minimum(u, 0), jnp.maximum(u, 0)

        def step(_: Any, v: Array) -> Array:
            slope = g + self.curvature(v, above, below)
            return jnp.clip(v + (g * (u - v) - self.current(v, above, below)) / slope, low, high)

        return jax.lax.fori_loop(0, NEWTON, step, v)  # unrolled, it takes longer, to compile and to run


def _arguments(z: Array, above: Array, below: Array) -> tuple[Array, Array]:
    """What the exponentials of the diodes on either side see; 0 where there is no diode."""
    return jnp.where(above > 0, -z, 0.0), jnp.where(below > 0, z, 0.0)


def _grown(z: Array) -> Array:
    """∫ exp, which is exp, and beyond the steepest place a parabola."""
    more = jnp.maximum(z - STEEPEST, 0.0)
    return jnp.exp(jnp.minimum(z, STEEPEST)) * (1 + more + more**2 / 2)


def _growth(z: Array) -> Array:
    """The derivative of `_grown`."""
    return jnp.exp(jnp.minimum(z, STEEPEST)) * (1 + jnp.maximum(z - STEEPEST, 0.0))
