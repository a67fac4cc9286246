"""Networks as JSON: which classes of the library they are made of, and with which values.

Nothing else is written or read: no functions, and no classes from elsewhere, so that a file cannot run code.
"""

from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from typing import Any

import jax
import numpy as np

from eqprop.energy.activation import ACTIVATIONS, Activation
from eqprop.errors import InputError

KIND, VALUES, ITEMS, ARRAY, RHO = "class", "values", "tuple", "array", "activation"
OURS = "eqprop."


class Unwritable(Exception):
    """Something has no place in a file; the message says what."""


def described(thing: Any) -> Any:
    """What JSON can hold, from which `rebuilt` makes the same thing again."""
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if isinstance(thing, np.ndarray | np.generic | jax.Array):
        return {ARRAY: np.asarray(thing).tolist(), "dtype": str(thing.dtype)}
    if isinstance(thing, Activation) and ACTIVATIONS.get(thing.name) is thing:
        return {RHO: thing.name}
    if type(thing) is tuple:
        return {ITEMS: [described(item) for item in thing]}
    if type(thing) is list:
        return [described(item) for item in thing]
    if isinstance(thing, dict):
        return {VALUES: {str(key): described(value) for key, value in thing.items()}}
    kind = type(thing)
    if not is_dataclass(thing) or not kind.__module__.startswith(OURS):
        raise Unwritable(f"{getattr(thing, '__name__', kind.__name__)!r}, which is no class of the library")
    values = {field.name: described(getattr(thing, field.name)) for field in fields(thing)}
    return {KIND: f"{kind.__module__}:{kind.__qualname__}", VALUES: values}


def rebuilt(told: Any) -> Any:
    """The thing of which `described` told."""
    if isinstance(told, list):
        return [rebuilt(item) for item in told]
    if not isinstance(told, dict):
        return told
    if ARRAY in told:
        return np.asarray(told[ARRAY], told["dtype"])
    if RHO in told:
        return ACTIVATIONS[told[RHO]]
    if ITEMS in told:
        return tuple(rebuilt(item) for item in told[ITEMS])
    values = {name: rebuilt(value) for name, value in told[VALUES].items()}
    if KIND not in told:
        return values
    module, _, name = told[KIND].partition(":")
    kind = getattr(import_module(module), name, None) if module.startswith(OURS) else None
    if not isinstance(kind, type) or not is_dataclass(kind) or not kind.__module__.startswith(OURS):
        raise InputError(f"the file names {told[KIND]!r}, which is no class of this version of eqprop")
    values = _filled(values, kind)
    thing = object.__new__(kind)  # its values have been checked when it was first made
    for key, value in values.items():
        object.__setattr__(thing, key, value)
    return thing


def _filled(values: dict[str, Any], kind: Any) -> dict[str, Any]:
    """A value for each field; one that was added since the file was written has its default."""
    known = {field.name: field for field in fields(kind)}
    added = {name: field for name, field in known.items() if name not in values}
    defaults = {name: field.default for name, field in added.items() if field.default is not MISSING}
    defaults |= {name: f.default_factory() for name, f in added.items() if f.default_factory is not MISSING}
    if odd := sorted((values | defaults).keys() ^ known.keys()):
        raise InputError(
            f"the file is of another version of eqprop: {odd[0]!r} of {kind.__name__} is unknown or missing"
        )
    return defaults | values
