"""The space of states: which layers there are, the shape of each, and the bounds of each unit."""

from collections.abc import Callable, Mapping
from functools import reduce
from math import inf, prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from eqprop.boundary import entrance, is_numeric, short
from eqprop.compile import check_process
from eqprop.errors import InputError
from eqprop.memory import check_memory
from eqprop.types import HowMany, Scalar, Shape, State


class Space(eqx.Module):
    """What a state is.

    layers: the shape of each layer by name, {"hidden": (500,), "output": (10,)}; a whole number is the size
        of a vector. A state that is one array has one shape. None: nothing is known but the bounds.
    low, high: the bounds of each unit: a number for all of them, an array for each unit, or a dict with one of these
        for each layer. None, or −∞ and ∞: no bound. Bounds are data: others compile nothing.

        >>> space = Space({"hidden": 2, "output": 1}, low=0.0, high={"hidden": jnp.array([1.0, 2.0]), "output": None})
        >>> space.project({"hidden": jnp.array([-1.0, 5.0]), "output": jnp.array([9.0])})["hidden"].tolist()
        [0.0, 2.0]
    """

    layers: tuple[tuple[str, Shape], ...] | Shape | None = eqx.field(static=True)
    low: Any
    high: Any

    def __init__(
        self, layers: Mapping[str, int | Shape] | Shape | int | None = None, low: Any = None, high: Any = None
    ):
        if isinstance(layers, Mapping):
            self.layers = tuple((name, as_shape(name, shape)) for name, shape in layers.items())
        else:
            self.layers = None if layers is None else as_shape("the state", layers)
        self.low = _bound("low", low, -inf)
        self.high = _bound("high", high, inf)
        if any(np.any(np.asarray(a) > b) for a, b in self._ends()):
            raise InputError(f"low={low!r}, high={high!r}: a lower bound lies above the upper one; exchange them")

    def _ends(self) -> list[tuple[Any, Any]]:
        """The bounds of each layer that has both, as far as their values are known."""
        names = {*(self.low if isinstance(self.low, dict) else ()), *(self.high if isinstance(self.high, dict) else ())}
        pairs = [
            tuple(bound.get(name) if isinstance(bound, dict) else bound for bound in (self.low, self.high))
            for name in names or {""}
        ]
        return [(a, b) for a, b in pairs if a is not None and b is not None and _known(a) and _known(b)]

    @property
    def bounded(self) -> bool:
        """Whether any unit has a bound."""
        return bool(jax.tree.leaves((self.low, self.high)))

    @property
    def named(self) -> bool:
        """Whether the state has named layers; else it is one array, or unknown."""
        return bool(self.layers) and isinstance(self.layers[0], tuple)

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shape of each layer by name; refused for a state without named layers."""
        if self.layers is None or not all(isinstance(layer, tuple) for layer in self.layers):
            raise InputError(f"the space {self!r} has no named layers: give Space({{layer: shape, …}})")
        return dict(self.layers)  # pyright: ignore  (names with shapes)

    @entrance
    def rest(self, batch: HowMany) -> State:
        """Where `batch` examples begin to settle: 0, or the bound that is nearest to it."""
        if self.layers is None:
            raise InputError(
                "F does not say which state to start from: give its space, as in "
                "eqprop.system(F, space=Space({'output': 10})), or Space((10,)) for a state that is one array"
            )
        check_process()
        shapes: Any = self.shapes.values() if self.named else [self.layers]
        needed = 4 * batch * sum(map(prod, shapes))
        check_memory(needed, f"states of {batch} examples", "give fewer at a time")
        if self.named:
            return self.project({layer: jnp.zeros((batch, *shape)) for layer, shape in self.shapes.items()})
        return self.project(jnp.zeros((batch, *self.layers)))  # pyright: ignore[reportArgumentType]

    def check(self, s: State) -> None:
        """Refuse the state of a batch if it has other layers, or other shapes behind the axis that counts examples."""
        if self.named:
            check_shapes("the state", self.shapes, s, axes=1)
        elif self.layers is not None:
            check_shapes("the state", {"F": self.layers}, {"F": s}, axes=1)  # pyright: ignore[reportArgumentType]

    def project(self, s: State) -> State:
        """Π(s): each unit clipped to its bounds (section 5.1)."""
        if not self.bounded:  # a complex state cannot be clipped
            return s
        return self._each(lambda u, low, high: jnp.clip(u, low, high), s)

    def inside(self, s: State) -> State:
        """For each unit, whether it is free to move either way; the others rest at a bound."""

        def free(u: Any, low: Any, high: Any) -> Any:
            return (u > (-inf if low is None else low)) & (u < (inf if high is None else high))

        return self._each(free, s) if self.bounded else jax.tree.map(lambda u: jnp.full(jnp.shape(u), True), s)

    def along(self, s: State, force: State) -> State:
        """The force, but 0 for a unit at a bound that it would push out."""
        if not self.bounded:
            return force

        def kept(u: Any, low: Any, high: Any, f: Any) -> Any:
            out_low = False if low is None else (u <= low) & (f < 0)
            out_high = False if high is None else (u >= high) & (f > 0)
            return jnp.where(out_low | out_high, 0, f)

        return self._each(kept, s, force)

    def residual(self, s: State, force: State) -> Scalar:
        """The largest |s_i − Π(s_i + force_i)|, where the force is −∂F/∂s: 0 just at a fixed point."""
        moved = self.project(jax.tree.map(jnp.add, s, force))
        gaps = jax.tree.map(lambda u, m: jnp.max(jnp.abs(u - m)), s, moved)
        return reduce(jnp.maximum, jax.tree.leaves(gaps))

    def _each(self, function: Callable[..., Any], s: State, *more: State) -> State:
        """`function` of each array of s, its lower and its upper bound."""
        low, high = (self._spread(bound, s) for bound in (self.low, self.high))
        return jax.tree.map(function, s, low, high, *more)

    def _spread(self, bound: Any, s: State) -> Any:
        """A bound for each array of s, which may be some of the layers only."""
        if isinstance(bound, dict) and isinstance(s, dict):
            if missing := sorted(s.keys() - bound.keys()):
                raise InputError(f"bounds for the layers {sorted(bound)}: {missing[0]!r} has none; give it None")
            return {layer: bound[layer] for layer in s}
        return jax.tree.map(lambda _: bound, s)


def as_shape(name: str, shape: Any) -> Shape:
    """The shape of a layer; a whole number is that of a vector."""
    sizes = [
        int(size) if isinstance(size, np.integer) else size
        for size in (shape if isinstance(shape, tuple | list) else (shape,))
    ]
    if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in sizes):
        raise InputError(f"layer {name!r} has size {shape!r}: give a positive whole number of units, or a shape")
    return tuple(sizes)


def check_shapes(what: str, shapes: Mapping[str, Shape], arrays: Any, axes: int = 0) -> None:
    """Refuse arrays of other names or shapes; `axes` of each come before its shape, as that of examples does."""
    if not isinstance(arrays, Mapping):
        raise InputError(f"{what} is of type {type(arrays).__name__} instead of a dict with {sorted(shapes)}")
    if odd := sorted(shapes.keys() ^ arrays.keys(), key=str):
        raise InputError(f"{what} has {sorted(arrays, key=str)} instead of {sorted(shapes)}: mind {odd[0]!r}")
    for key, shape in shapes.items():
        if isinstance(arrays[key], list | tuple | Mapping):
            raise InputError(
                f"{what} of {key!r} is of type {type(arrays[key]).__name__} instead of an array of {shape}"
            )
        if (given := jnp.shape(arrays[key])[axes:]) != shape:
            raise InputError(f"{what} of {key!r} has the shape {given} instead of {shape}")


def _bound(name: str, bound: Any, none: float) -> Any:
    """A bound as data; where it is no bound at all, None, which is part of the program."""
    if isinstance(bound, Mapping):
        return {layer: _bound(name, part, none) for layer, part in bound.items()}
    if bound is None or (isinstance(bound, int | float) and bound == none):
        return None
    if not is_numeric(bound):
        raise InputError(f"{name}={short(bound)}: a bound is a number, an array of numbers, or a dict of them")
    if _known(bound) and np.any(np.isnan(np.asarray(bound))):
        raise InputError(f"{name}={bound!r}: a bound is a number, or ±∞ for none")
    return bound


def _known(bound: Any) -> bool:
    """Whether a bound has a value yet, as it has not while a program is compiled."""
    return not isinstance(bound, Tracer)
