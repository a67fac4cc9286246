"""Which numbers a setting may have: said beside its type, and checked in one place for commands, files and Python."""

import typing
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any

import numpy as np

from eqprop.errors import InputError
from eqprop.store.schema import fitted


@dataclass(frozen=True)
class Range:
    """Finite numbers from `low` to `high`, without the ends that are `open`; `words` say what to give."""

    low: float
    high: float
    words: str
    open: str = ""

    def holds(self, value: float) -> bool:
        """Whether it is one of them; NaN is not."""
        above = self.low < value if "low" in self.open else self.low <= value
        return above and (value < self.high if "high" in self.open else value <= self.high) and abs(value) < inf


MOST = 2**31 - 1  # JAX counts in 32 bits
MOST_STEPS = 10**6
LARGE = 1e6

Count = Annotated[int, Range(1, MOST, f"give a whole number of 1 or more, up to {MOST}")]
Units = Annotated[int, Range(-MOST, 10**8, "give a whole number of units, up to 100,000,000")]  # graphs refuse the rest
Steps = Annotated[int, Range(1, MOST_STEPS, f"give a whole number of 1 or more, up to {MOST_STEPS}")]
Pixels = Annotated[int, Range(-1000, 1000, "give a whole number of pixels, 0 or more, up to 1000")]
Finite = Annotated[float, Range(-LARGE, LARGE, f"give a finite number, up to {LARGE:g}")]
Positive = Annotated[float, Range(0, LARGE, f"give a positive number, up to {LARGE:g}", "low")]
Factor = Annotated[float, Range(0, LARGE, "give a positive factor, 1 for no change", "low")]
Share = Annotated[float, Range(0, 1, "give a number from 0 to 1")]
AtLeastZero = Annotated[float, Range(0, LARGE, f"give a number of 0 or more, up to {LARGE:g}")]


def check_options(options: Any) -> None:
    """Refuse a value of a dataclass that is not of the type, or out of the range, that its annotation says.

    Lists in the place of tuples, and numbers of NumPy, are taken for what they mean.
    """
    kinds = typing.get_type_hints(type(options))
    for name, hint in typing.get_type_hints(type(options), include_extras=True).items():
        given = getattr(options, name)
        plain = given.tolist() if isinstance(given, np.generic | np.ndarray) else given
        if isinstance(plain, list | tuple):
            plain = tuple(part.item() if isinstance(part, np.generic) else part for part in plain)
        given = fitted(kinds[name], plain, name)
        object.__setattr__(options, name, given)  # which is frozen otherwise
        for found in _ranges(hint):
            for value in given if isinstance(given, tuple) else (given,):
                if value is not None and not found.holds(value):
                    raise InputError(f"{name}={given}: {found.words}")


def _ranges(hint: Any) -> list[Range]:
    """Those that the parts of a type hint say."""
    if found := [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Range)]:
        return found
    return [each for part in typing.get_args(hint) for each in _ranges(part)]
