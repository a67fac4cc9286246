"""Which numbers a setting may have: said beside its type, and checked in one place for commands, files and Python."""

import typing
from dataclasses import fields
from math import inf
from typing import Annotated, Any

import numpy as np

from eqprop.errors import InputError
from eqprop.store.schema import fitted
from eqprop.types import MOST, Count, Range, Seed

__all__ = ["Count", "Seed"]


MOST_STEPS = 10**6
LARGE = 1e6

Units = Annotated[int, Range(-MOST, 10**8, "give a whole number of units, up to 100,000,000")]  # graphs refuse the rest
Steps = Annotated[int, Range(1, MOST_STEPS, f"give a whole number of 1 or more, up to {MOST_STEPS}")]
Pixels = Annotated[int, Range(-1000, 1000, "give a whole number of pixels, 0 or more, up to 1000")]
Finite = Annotated[float, Range(-LARGE, LARGE, f"give a finite number, up to {LARGE:g}")]
Positive = Annotated[float, Range(0, LARGE, f"give a positive number, up to {LARGE:g}", "low")]
Factor = Annotated[float, Range(0, LARGE, "give a positive factor, 1 for no change", "low")]
Share = Annotated[float, Range(0, 1, "give a number from 0 to 1")]
AtLeastZero = Annotated[float, Range(0, LARGE, f"give a number of 0 or more, up to {LARGE:g}")]

# Numbers that only one setting, or one of a few commands, is limited to.
Tolerance = Annotated[float, Range(0, 1, "give a residual of 0 or more, below 1", "high")]
Momentum = Annotated[float, Range(0, 1, "give a number from 0 to just below 1", "high")]
Rate = Annotated[float, Range(0, inf, "learning rates are 0 or more, and finite")]
Epochs = Annotated[int, Range(1, 10**6, "give a whole number of 1 or more, up to 1,000,000")]
HeldOut = Annotated[int, Range(0, MOST, "give a whole number of 0 or more")]
Seeds = Annotated[int, Range(1, 1000, "give a whole number of 1 or more, up to 1000")]
Times = Annotated[int, Range(0, 1000, "give a whole number from 0 to 1000")]
Few = Annotated[int, Range(1, 10**5, "give a positive number, up to 100,000")]
Pause = Annotated[float, Range(0, LARGE, f"give a number of seconds, 0 or more, up to {LARGE:g}")]
Seconds = Annotated[float, Range(0, LARGE, f"give a positive number of seconds, up to {LARGE:g}", "low")]


def check_options(options: Any) -> None:
    """Refuse a value of a dataclass that is not of the type, or out of the range, that its annotation says.

    Lists in the place of tuples, and numbers of NumPy, are taken for what they mean.
    """
    kinds = typing.get_type_hints(type(options))
    hints = typing.get_type_hints(type(options), include_extras=True)
    for name, hint in ((field.name, hints[field.name]) for field in fields(options)):
        given = getattr(options, name)
        plain = given.tolist() if isinstance(given, np.generic | np.ndarray) else given
        if isinstance(plain, list | tuple):
            plain = tuple(part.item() if isinstance(part, np.generic) else part for part in plain)
        given = fitted(kinds[name], plain, name)
        object.__setattr__(options, name, given)  # the dataclass is frozen
        for found in _ranges(hint):
            for value in given if isinstance(given, tuple) else (given,):
                if value is not None and not found.holds(value):
                    raise InputError(f"{name}={given}: {found.words}")


def _ranges(hint: Any) -> list[Range]:
    """Those that the parts of a type hint say."""
    if found := [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Range)]:
        return found
    return [each for part in typing.get_args(hint) for each in _ranges(part)]
