"""Names for what flows through the library: in signatures they say which of the paper's symbols is meant.

Sizes in annotations: `batch` examples in a minibatch, `k` values of β, `units` in a layer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jaxtyping import Bool, Float, Inexact, Int, PyTree

from eqprop.boundary import INFINITE, is_finite, is_numeric, misfit


@dataclass(frozen=True)
class Numbers:
    """Says of a tree that it is made of finite floating numbers, or of `whole` ones too, all `real` (`boundary.py`)."""

    whole: bool = False
    real: bool = False

    def misfit(self, value: Any) -> str | None:
        """What is wrong with a tree, as the end of a sentence; None: nothing."""
        for path, leaf in jax.tree_util.tree_leaves_with_path(value):
            kind = getattr(leaf, "dtype", type(leaf).__name__)
            place = f"has {jax.tree_util.keystr(path) or 'a value'} of type {kind}"
            if not is_numeric(leaf):
                return f"{place}, which is no number: give arrays of NumPy or JAX"
            floating = self.whole or jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
            if not floating:
                return f"{place}, which are whole numbers: give floating ones"
            if self.real and jnp.iscomplexobj(leaf):
                return f"{place}, which are complex numbers: give real ones"
            if isinstance(leaf, int) and abs(leaf) > MOST and not jax.config.read("jax_enable_x64"):
                return f"is beyond the whole numbers of JAX, which end at {MOST}: give a floating one, as {leaf:.3g}"
            known = not isinstance(leaf, Tracer) and getattr(leaf, "is_fully_addressable", True)
            if known and not is_finite(leaf):
                return f"{place} with values that are not finite: look where they come from"
        return None


class Readable:
    """Says of a value that NumPy reads it as an array of numbers, whatever holds them (`boundary.py`)."""

    def misfit(self, value: Any) -> str | None:
        """What is wrong with it, as the end of a sentence; None: nothing."""
        try:
            numbers = np.asarray(value)
        except (TypeError, ValueError):
            numbers = np.asarray(None)
        return None if is_numeric(numbers) else "is no array of numbers: give one"


class RandomKey:
    """Says of an array that it is a key of `jax.random` (`boundary.py`)."""

    def misfit(self, value: Any) -> str | None:
        """What is wrong with a key, as the end of a sentence; None: nothing."""
        kind = getattr(value, "dtype", None)
        new = kind is not None and jnp.issubdtype(kind, jax.dtypes.prng_key) and np.ndim(value) == 0
        old = kind == np.uint32 and np.shape(value) == (2,)
        return None if new or old else "is no key: give one, as jax.random.key(0)"


@dataclass(frozen=True)
class Range:
    """Says which numbers are meant: finite ones from `low` to `high`, without the ends that are `open`.

    `words` say what to give.
    """

    low: float
    high: float
    words: str
    open: str = ""

    def holds(self, value: float) -> bool:
        """Whether it is one of them; NaN is not."""
        above = self.low < value if "low" in self.open else self.low <= value
        return above and (value < self.high if "high" in self.open else value <= self.high) and abs(value) < inf

    def misfit(self, value: Any) -> str | None:
        """What is wrong with a number, as the end of a sentence; None: nothing."""
        return None if isinstance(value, Tracer) or self.holds(value) else f"is out of range: {self.words}"


class Strength:
    """Says of a value that it is a number, or a function of the number of minibatches: a schedule (`boundary.py`)."""

    def misfit(self, value: Any) -> str | None:
        """What is wrong with it, as the end of a sentence; None: nothing."""
        return None if callable(value) else misfit(complex, value)


MOST = 2**31 - 1  # JAX counts in 32 bits
Count: TypeAlias = Annotated[int, Range(1, MOST, f"give a whole number of 1 or more, up to {MOST}")]
HowMany: TypeAlias = Annotated[int, Range(0, MOST, f"give a whole number of 0 or more, up to {MOST}")]
Seed: TypeAlias = Annotated[int, Range(0, 2**32 - 1, f"give a whole number of 0 or more, up to {2**32 - 1}")]
Gain: TypeAlias = Annotated[float, Range(-1e6, 1e6, "give a finite number, up to 1e6")]
Limit: TypeAlias = Annotated[float, INFINITE]
"""A number, or ±∞."""
Shape: TypeAlias = tuple[int, ...]
Scalar: TypeAlias = Inexact[Array, ""]
"""One number."""
Number: TypeAlias = Annotated[Inexact[Array, "..."] | float | complex, Numbers(whole=True)]
"""A number or an array of numbers, as β, which may be complex."""
Theta: TypeAlias = Annotated[PyTree, Numbers(real=True)]
"""θ: a tree of arrays, {"W": {"pre-post": …}, "b": {layer: …}} for the networks of the library."""
State: TypeAlias = Annotated[PyTree, Numbers()]
"""s: an array or a tree of arrays; {layer: …} for the networks of the library."""
Values: TypeAlias = Annotated[Any, Readable()]
"""Numbers to look at, in an array, a list or a table."""
Layers: TypeAlias = dict[str, Array]
"""One array for each layer, by name."""
Data: TypeAlias = PyTree
"""v: what an example consists of; (x, y) where F is an energy and a cost."""
Key: TypeAlias = Annotated[Any, RandomKey()]
"""A key of `jax.random`."""
Weight: TypeAlias = Float[Array, " batch"]
"""The share of each example in an average; 0 for a padding row."""
Metric: TypeAlias = Callable[[Theta, Data, State], Array]
"""(θ, v, s) → a number for one example, s being its free fixed point."""

__all__ = [
    "Any",
    "Array",
    "Bool",
    "Count",
    "Data",
    "Float",
    "Gain",
    "HowMany",
    "Inexact",
    "Int",
    "Key",
    "Layers",
    "Limit",
    "Metric",
    "Number",
    "Numbers",
    "PyTree",
    "Range",
    "Scalar",
    "Seed",
    "Shape",
    "State",
    "Strength",
    "Theta",
    "Values",
    "Weight",
]
