"""Systems as they are watched: with units held by hand, with the input let go, with a name for a nameless state."""

from math import inf
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from eqprop.state import Space
from eqprop.total import System
from eqprop.total.base import Ability
from eqprop.types import Array, Data, Layers, Number, Scalar, Shape, State, Theta

INPUT, STATE = "input", "state"


class Held(System):
    """F with other bounds: a unit whose two bounds are one value is held there, and the others settle around it.

    Bounds are data, so that holding another unit compiles nothing.
    """

    F: System
    low: Layers
    high: Layers

    def __call__(self, theta: Theta, v: Data, beta: Number, s: State) -> Scalar:
        return self.F(theta, v, beta, s)

    @property
    def conservative(self) -> bool:
        """That of F, as all below but the bounds."""
        return self.F.conservative

    @property
    def space(self) -> Space:
        """That of F, with the bounds given."""
        return Space(self.F.space.shapes, self.low, self.high)  # pyright: ignore[reportArgumentType]

    def field(self, theta: Theta, v: Data, beta: Number, s: State) -> State:
        return self.F.field(theta, v, beta, s)

    def cost_at(self, theta: Theta, v: Data, s: State) -> Scalar:
        return self.F.cost_at(theta, v, s)

    def predict(self, theta: Theta, v: Data, s: State) -> Array:
        return self.F.predict(theta, v, s)

    def offer(self, ability: type[Ability]) -> Ability | None:
        return self.F.offer(ability)


class Dreaming(System):
    """F with its input as one more layer, "input", which settles like the others: v = (nothing, y).

    An input unit has the energy x²/2 of every unit (section 2.1, where inputs are units too), and the bounds given.
    """

    F: System
    shape: Shape = eqx.field(static=True)
    low: float = 0.0
    high: float = 1.0

    def __call__(self, theta: Theta, v: Data, beta: Number, s: Layers) -> Scalar:
        x, rest = _apart(s)
        return self.F(theta, (x, v[1]), beta, rest) + jnp.sum(x**2) / 2

    @property
    def space(self) -> Space:
        """That of F, and the input."""
        low, high = bounds_of(self.F.space)
        return Space({INPUT: self.shape, **self.F.space.shapes}, {INPUT: self.low, **low}, {INPUT: self.high, **high})

    def predict(self, theta: Theta, v: Data, s: Layers) -> Array:
        """That of F."""
        x, rest = _apart(s)
        return self.F.predict(theta, (x, v[1]), rest)


class Named(System):
    """F whose state is one array, as the layer "state"."""

    F: System

    def __call__(self, theta: Theta, v: Data, beta: Number, s: Layers) -> Scalar:
        return self.F(theta, v, beta, s[STATE])

    @property
    def conservative(self) -> bool:
        """That of F, as all below."""
        return self.F.conservative

    @property
    def space(self) -> Space:
        inner = self.F.space
        return Space({STATE: inner.layers}, inner.low, inner.high)  # pyright: ignore[reportArgumentType]  (a shape)

    def field(self, theta: Theta, v: Data, beta: Number, s: Layers) -> Layers:
        return {STATE: self.F.field(theta, v, beta, s[STATE])}

    def predict(self, theta: Theta, v: Data, s: Layers) -> Array:
        return self.F.predict(theta, v, s[STATE])

    def project(self, theta: Theta) -> Theta:
        return self.F.project(theta)


def bounds_of(space: Space) -> tuple[Layers, Layers]:
    """The lower and the upper bound of every unit, by layer; ±∞ where there is none."""

    def spread(bound: Any, none: float) -> Layers:
        each = {layer: bound.get(layer) if isinstance(bound, dict) else bound for layer in space.shapes}
        return {
            layer: jnp.broadcast_to(jnp.asarray(none if each[layer] is None else each[layer], float), shape)
            for layer, shape in space.shapes.items()
        }

    return spread(space.low, -inf), spread(space.high, inf)


def _apart(s: Layers) -> tuple[Array, Layers]:
    """The input, and the other layers."""
    return s[INPUT], {layer: u for layer, u in s.items() if layer != INPUT}
