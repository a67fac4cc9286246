"""Outputs that are held: the limit β → ∞ of a nudge (section 4.1)."""

from typing import Any

import equinox as eqx
from jax import Array

from eqprop.energy.total import box_of


class Clamped(eqx.Module):
    """E(θ, x, s) with the `layers` of s held at given values, v = (x, values); the state is what remains.

    As β → ∞, the only outputs of finite energy F = E + βC are those where C is least. Box, blocks and curvature are
    those of E, so whatever lets E settle also settles what remains.
    """

    energy: Any
    layers: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, theta: Any, v: tuple[Any, dict[str, Array]], beta: Any, s: dict[str, Array]) -> Array:
        x, held = v
        return self.energy(theta, x, s | held)

    @property
    def box(self) -> tuple[float, float]:
        """That of the energy."""
        return box_of(self.energy)

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """Those of the energy, without what is held."""
        left = (tuple(layer for layer in block if layer not in self.layers) for block in self.energy.blocks)
        return tuple(block for block in left if block)

    def curvature(self, theta: Any, v: Any, beta: Any, s: dict[str, Array], block: tuple[str, ...]) -> dict[str, Any]:
        """The bound of the energy, with the values held in place."""
        x, held = v
        return self.energy.curvature(theta, x, s | held, block)
