"""Names for what flows through the library: in signatures they say which of the paper's symbols is meant.

Sizes in annotations: `batch` examples in a minibatch, `k` values of β, `units` in a layer.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from jax import Array
from jaxtyping import Bool, Float, Inexact, Int, PyTree

Shape: TypeAlias = tuple[int, ...]
Scalar: TypeAlias = Inexact[Array, ""]
"""One number."""
Number: TypeAlias = Inexact[Array, "..."] | float | complex
"""A number or an array of numbers, as β, which may be complex."""
Theta: TypeAlias = PyTree
"""θ: a tree of arrays, {"W": {"pre-post": …}, "b": {layer: …}} for the networks of the library."""
State: TypeAlias = PyTree
"""s: an array or a tree of arrays; {layer: …} for the networks of the library."""
Layers: TypeAlias = dict[str, Array]
"""One array for each layer, by name."""
Data: TypeAlias = PyTree
"""v: what an example consists of; (x, y) where F is an energy and a cost."""
Key: TypeAlias = Array
"""A key of `jax.random`."""
Weight: TypeAlias = Float[Array, " batch"]
"""The share of each example in an average; 0 for a padding row."""
Metric: TypeAlias = Callable[[Theta, Data, State], Array]
"""(θ, v, s) → a number for one example, s being its free fixed point."""

__all__ = [
    "Any",
    "Array",
    "Bool",
    "Data",
    "Float",
    "Inexact",
    "Int",
    "Key",
    "Layers",
    "Metric",
    "Number",
    "PyTree",
    "Scalar",
    "Shape",
    "State",
    "Theta",
    "Weight",
]
