"""Parts that are not alike: the spread of diodes."""

from collections.abc import Mapping
from math import inf

import numpy as np

from eqprop.errors import InputError
from eqprop.memory import check_memory
from eqprop.types import Seed


def diode_spread(layers: Mapping[str, int], deviation: float, seed: Seed = 0) -> dict[str, tuple[float, ...]]:
    """Factors e^{σ ξ} of the saturation current for every node of some layers, as `Resistive(spread=…)` takes them.

    layers: how many nodes each has, by name.
    deviation: σ, that of the logarithm; the median of the factors is 1.

        >>> factors = diode_spread({"hidden": 3}, 0.2)["hidden"]
        >>> len(factors), min(factors) > 0
        (3, True)
    """
    if not 0 <= deviation < inf:
        raise InputError(f"deviation={deviation!r}: give the standard deviation of the logarithm, 0 or more")
    if odd := [layer for layer, size in layers.items() if not isinstance(size, int) or size < 1]:
        raise InputError(f"layers={dict(layers)}: give each layer's number of nodes; {odd[0]!r} has none")
    nodes = sum(layers.values())
    check_memory(32 * nodes, f"factors for {nodes:,} nodes", "give fewer")
    drawn = np.random.default_rng(seed)
    return {layer: tuple(np.exp(deviation * drawn.normal(size=size)).tolist()) for layer, size in layers.items()}
