"""Checks of annotations while tests run: arguments, results and fields, with the sizes of arrays that go together."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from beartype import BeartypeConf, FrozenDict, beartype
from beartype.roar import BeartypeDecorHintException

# A whole number is a number, and may be of NumPy; `Self` can be checked in a class only, and jaxtyping has functions
# checked one by one.
CONF = BeartypeConf(is_pep484_tower=True, hint_overrides=FrozenDict({Self: object, int: int | np.integer}))


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its annotations checked, except where they name a protocol, which has no instances."""
    try:
        return beartype(conf=CONF)(function)
    except BeartypeDecorHintException:
        return function
