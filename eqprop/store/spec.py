"""Networks as JSON: which classes of the library they are made of, and with which values.

Nothing else is written or read: no functions, and no classes from elsewhere, so that a file cannot run code.
"""

import typing
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from inspect import isabstract
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.boundary import is_numeric, misfit, short
from eqprop.energy.activation import ACTIVATIONS, Activation
from eqprop.errors import InputError
from eqprop.store.schema import fitted

KIND, VALUES, ENTRIES, ITEMS, ARRAY, RHO = "class", "values", "entries", "tuple", "array", "activation"
OURS = "eqprop."
ROOMS = ("state", "energy", "cost", "readout", "total", "nudge", "relax", "rule", "device")  # with such classes


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
    if isinstance(thing, dict) and all(isinstance(key, str) for key in thing):
        return {VALUES: {key: described(value) for key, value in thing.items()}}
    if isinstance(thing, dict):  # JSON would make texts of the keys
        if not all(type(key) in (str, int) for key in thing):
            raise Unwritable(f"a dict with the keys {', '.join(map(repr, thing))}, which are no texts or whole numbers")
        return {ENTRIES: [[key, described(value)] for key, value in thing.items()]}
    kind = type(thing)
    if not is_dataclass(thing) or not kind.__module__.startswith(OURS):
        raise Unwritable(f"{getattr(thing, '__name__', kind.__name__)!r}, which is no class of the library")
    values = {field.name: described(getattr(thing, field.name)) for field in fields(thing)}
    return {KIND: f"{kind.__module__}:{kind.__qualname__}", VALUES: values}


def rebuilt(told: Any) -> Any:
    """The thing that `described` described."""
    if isinstance(told, list):
        return [rebuilt(item) for item in told]
    if not isinstance(told, dict):
        return told
    if ARRAY in told:
        return _array(told)
    if RHO in told:
        return ACTIVATIONS[fitted(Literal[*ACTIVATIONS], told[RHO], "an activation in the file")]  # pyright: ignore
    if ITEMS in told:
        return tuple(rebuilt(item) for item in fitted(list[Any], told[ITEMS], "a tuple in the file"))
    if ENTRIES in told:
        entries = fitted(list[tuple[str | int, Any]], told[ENTRIES], "a dict in the file")
        return {key: rebuilt(value) for key, value in entries}
    table = fitted(dict[str, Any], told.get(VALUES), "a table in the file")
    values = {name: rebuilt(value) for name, value in table.items()}
    if KIND not in told:
        return values
    kind = _class(fitted(str, told[KIND], "a class in the file"))
    thing = object.__new__(kind)
    for key, value in _filled(values, kind).items():
        object.__setattr__(thing, key, value)
    _check(thing)
    return thing


def _array(told: dict[str, Any]) -> np.ndarray:
    try:
        array = np.asarray(told[ARRAY], jnp.dtype(told.get("dtype")))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the file has an array that is none ({error})") from error
    if not is_numeric(array):
        raise InputError(f"the file has an array of type {array.dtype}, which are no numbers")
    return array


def _class(named: str) -> Any:
    """A class of those that networks are made of; nothing else is looked for."""
    module, _, name = named.partition(":")
    known = module.split(".")[:2] in (["eqprop", room] for room in ROOMS) and _is_there(module)
    kind = getattr(import_module(module), name, None) if known else None
    if not isinstance(kind, type) or not is_dataclass(kind) or kind.__module__ != module or isabstract(kind):
        raise InputError(
            f"the file names {named!r}, which is no class of this version of eqprop that it can be made of"
        )
    return kind


def _is_there(module: str) -> bool:
    """Whether there is a module of this name."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _check(thing: Any) -> None:
    """Refuse a thing whose values are not of the types that its class says, or that it would not take."""
    hints = typing.get_type_hints(type(thing), include_extras=True)
    for field in fields(thing):
        if (wrong := misfit(hints[field.name], value := getattr(thing, field.name))) is not None:
            raise InputError(f"the file has a {type(thing).__name__} whose {field.name}={short(value)} {wrong}")
    for kind in reversed(type(thing).__mro__):
        for name in ("__post_init__", "__check_init__"):
            if (check := vars(kind).get(name)) is not None:
                check(thing)


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
