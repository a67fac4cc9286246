"""Any units held, any others read: completion, generation, and queries of all kinds."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from eqprop.errors import InputError
from eqprop.state import Space
from eqprop.total.base import Ability, Blocks, System, system
from eqprop.types import Array, Data, Layers, Number, Scalar, State, Theta


class Hold(System):
    """F with units held: v = (v of F, {layer: (values, which)}), where `which` is 1 for units that are held, else 0.

    F'(θ, (v, held), β, s) = F(θ, v, β, s') + ½ Σ_held (s_i − value_i)²,   s' = s with the held units at their values

    The other units settle just as if the held ones had always been there; those go to their values on their own, and
    nothing pulls them away. Values and which units are held are data, with an example axis: each example may hold
    others, and none of it compiles anew. All that is learned, nudged or verified with F can be so with this one.
    """

    F: System = eqx.field(converter=system)

    def __check_init__(self) -> None:
        if not self.F.traceable:
            raise InputError(f"F={self.F!r} is measured, and only its device can hold units: let it clamp layers")

    def __call__(self, theta: Theta, v: tuple[Data, Any], beta: Number, s: Layers) -> Scalar:
        v, held = v
        away = (jnp.sum(jnp.where(w, s[k] - value, 0) ** 2) for k, (value, w) in _masks(held).items())
        return self.F(theta, v, beta, placed(held, s)) + sum(away) / 2

    @property
    def conservative(self) -> bool:
        """That of F, as all below; the force on a held unit leads to its value."""
        return self.F.conservative

    @property
    def space(self) -> Space:
        return self.F.space

    @property
    def smooth(self) -> bool:
        return self.F.smooth

    def field(self, theta: Theta, v: tuple[Data, Any], beta: Number, s: Layers) -> State:
        v, held = v
        field = self.F.field(theta, v, beta, placed(held, s))
        return field | {k: jnp.where(w, value - s[k], field[k]) for k, (value, w) in _masks(held).items()}

    def predict(self, theta: Theta, v: tuple[Data, Any], s: Layers) -> Array:
        v, held = v
        return self.F.predict(theta, v, placed(held, s))

    def project(self, theta: Theta) -> Theta:
        return self.F.project(theta)

    def check_data(self, v: tuple[Data, Any]) -> None:
        """Refuse what F refuses, layers that F does not have, and values out of their bounds."""
        if not isinstance(v, tuple | list) or len(v) != 2 or not isinstance(v[1], Mapping):
            raise InputError("a system that holds units has v = (v of F, {layer: (values, which)}): give that")
        v, held = v
        self.F.check_data(v)
        space = self.F.space
        for layer, pair in held.items():
            if layer not in space.shapes:
                raise InputError(f"layer {layer!r} is held and not in the state: there are {', '.join(space.shapes)}")
            if not isinstance(pair, tuple | list) or [np.shape(part)[1:] for part in pair] != 2 * [space.shapes[layer]]:
                raise InputError(f"layer {layer!r} needs (values, which), each with a number for each of its units")
            value, which = (np.asarray(part) for part in pair)
            if np.any((value != np.asarray(space.project({layer: value})[layer])) & which.astype(bool)):
                raise InputError(f"a unit of layer {layer!r} is held at a value outside of its bounds: clip it")

    def offer(self, ability: type[Ability]) -> Ability | None:
        """The blocks of F, if it has them."""
        if ability is Blocks and self.F.offer(Blocks) is not None:
            return HoldBlocks(self)  # pyright: ignore[reportReturnType]
        return super().offer(ability)


def placed(held: Mapping[str, tuple[Array, Array]], s: Layers) -> Layers:
    """The state of one example, with the held units at their values."""
    return s | {layer: jnp.where(w, value, s[layer]) for layer, (value, w) in _masks(held).items()}


def _masks(held: Mapping[str, tuple[Array, Array]]) -> dict[str, tuple[Array, Array]]:
    """Which units are held as truth values; the data may have numbers."""
    return {layer: (value, jnp.asarray(w, bool)) for layer, (value, w) in held.items()}


class HoldBlocks(eqx.Module, Blocks):
    """Those of F; a held unit has the curvature 1."""

    F: Hold

    @property
    def _inner(self) -> Blocks:
        return self.F.F.offer(Blocks)  # pyright: ignore[reportReturnType]

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        return self._inner.blocks

    def curvature(self, theta: Theta, v: Any, beta: Number, s: Layers, block: tuple[str, ...]) -> dict[str, Any]:
        v, held = v
        bounds = self._inner.curvature(theta, v, beta, placed(held, s), block)
        masks = {layer: pair for layer, pair in _masks(held).items() if layer in block}
        return bounds | {layer: jnp.where(w, 1.0, bounds[layer]) for layer, (_, w) in masks.items()}
