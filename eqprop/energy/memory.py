"""Associative memories: patterns that a network stores, and completes from a part."""

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.boundary import entrance, short
from eqprop.energy.base import Blockwise, Energy
from eqprop.energy.separation import Separation
from eqprop.errors import InputError
from eqprop.state import Space, as_shape
from eqprop.types import Count, Gain, HowMany, Key, Layers, Numbers, Scalar, Shape, Theta


class Memory(Energy, Blockwise, eqx.Module):
    """E(θ, x, s) = ½ ‖s‖² − Q(Ξ s), with a pattern in each row of Ξ = θ["patterns"], and no input.

    layers: the parts that a pattern has, with their shapes: {"pixels": (8, 8), "label": 10}.
    separation: Q, one of `Power` and `LogSumExp`.

    A state settles from a start near a pattern, or with some units held (`Hold`), to the pattern that completes it. The
    patterns are stored (`store`), or learned like any θ: hold some layers, let a cost look at others.

        >>> import eqprop as ep
        >>> memory = Memory({"cue": 3, "answer": 1}, ep.LogSumExp(8.0))
        >>> theta = memory.store({"cue": jnp.eye(3), "answer": jnp.array([[-1.0], [0.0], [1.0]])})
        >>> F = ep.Hold(ep.Total(memory, ep.SquaredError("answer")))
        >>> v = ((None, None), {"cue": (jnp.eye(3), jnp.ones((3, 3)))})
        >>> settled, _ = ep.Gradient(50, 1e-5, epsilon=1.0)(F, theta, v, 0.0, memory.rest(3))
        >>> settled["answer"].round(1).ravel().tolist()
        [-1.0, 0.0, 1.0]
    """

    layers: tuple[tuple[str, Shape], ...] = eqx.field(static=True)
    separation: Separation

    def __init__(self, layers: Mapping[str, int | Shape], separation: Separation):
        if not isinstance(separation, Separation):
            raise InputError(f"separation={separation!r}: give Power(n) or LogSumExp(sharpness)")
        if not layers:
            raise InputError("layers={}: give the parts that a pattern has, as {'pixels': 64, 'label': 10}")
        self.layers = tuple((name, as_shape(name, shape)) for name, shape in layers.items())
        self.separation = separation

    @property
    def space(self) -> Space:
        """The layers, with the bounds that the separation sets."""
        return Space(dict(self.layers), self.separation.low, self.separation.high)

    @property
    def smooth(self) -> bool:
        """As the separation is."""
        return self.separation.smooth

    @property
    def units(self) -> int:
        """N, over all layers."""
        return sum(prod(shape) for _, shape in self.layers)

    @entrance
    def rest(self, batch: HowMany) -> Layers:
        """The state s = 0 for `batch` examples."""
        return self.space.rest(batch)

    @entrance
    def store(self, patterns: Annotated[Mapping[str, Any], Numbers(whole=True)]) -> Theta:
        """θ that holds these patterns, which are given by layer; the first axis counts them."""
        if patterns.keys() != (names := dict(self.layers)).keys():
            raise InputError(f"patterns of the layers {list(patterns)}: give one part for each of {list(names)}")
        try:
            parts = [jnp.asarray(patterns[name], float) for name in names]
        except (TypeError, ValueError) as error:
            raise InputError(f"patterns are no arrays of numbers ({error}): give one for each layer") from error
        count = max(part.shape[0] if part.ndim else 0 for part in parts)
        for part, (name, shape) in zip(parts, self.layers, strict=True):
            if part.shape != (count, *shape) or not count:
                rows = ", ".join(map(str, (count or "patterns", *shape)))
                raise InputError(f"patterns of layer {name!r} have the shape {part.shape}: give ({rows})")
        return {"patterns": jnp.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)}

    @entrance
    def init(self, key: Key, patterns: Count, gain: Gain = 0.5) -> Theta:
        """So many random patterns to learn from, of a length of about `gain`."""
        return {"patterns": gain * jax.random.normal(key, (patterns, self.units)) / self.units**0.5}

    def __call__(self, theta: Theta, x: None, s: Layers) -> Scalar:
        if not isinstance(theta, Mapping) or "patterns" not in theta:
            raise InputError(f"theta is {short(theta)} and lacks 'patterns': make it with store or init")
        if (shape := jnp.shape(theta["patterns"]))[1:] != (self.units,) or not shape[0]:
            raise InputError(f"theta['patterns'] has the shape {shape}: give rows of {self.units} units, one or more")
        flat = jnp.concatenate([jnp.ravel(s[layer]) for layer, _ in self.layers])
        return jnp.sum(flat**2) / 2 - self.separation(theta["patterns"] @ flat, self.units)

    def check_inputs(self, x: None) -> None:
        """Refuse any."""
        if x is not None:
            raise InputError("a memory has no input: give x=None; a cue is where states begin, or units held (Hold)")

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The layers one by one."""
        return tuple((layer,) for layer, _ in self.layers)

    def curvature(self, theta: Theta, x: None, s: Layers, block: tuple[str, ...]) -> dict[str, float]:
        """1, the leak: as Q is convex, nothing adds to it."""
        return dict.fromkeys(block, 1.0)
