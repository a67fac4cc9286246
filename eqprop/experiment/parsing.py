"""From JSON to dataclasses, with complaints that say where."""

import types
import typing
from dataclasses import fields, is_dataclass
from typing import Any, Literal

from eqprop.errors import InputError


def from_dict(kind: Any, values: Any, where: str) -> Any:
    """An object of the dataclass `kind`, all of whose fields must be there and of the annotated type.

    `where` begins the complaint if they are not.
    """
    if not isinstance(values, dict):
        raise InputError(f"{where} are {values!r} instead of a table of names and values")
    hints = typing.get_type_hints(kind)
    names = [f.name for f in fields(kind)]
    for name in values.keys() ^ set(names):
        raise InputError(f"{where} {'lack' if name in names else 'have an unknown'} {name!r}")
    return kind(**{name: _value(hints[name], values[name], f"{where}' {name}") for name in names})


def _value(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint):
        return from_dict(hint, value, where)
    if typing.get_origin(hint) is tuple and isinstance(value, list | tuple):
        kinds = typing.get_args(hint)
        if kinds[-1] is not Ellipsis and len(value) != len(kinds):
            raise InputError(f"{where} is {value!r}, which is not {len(kinds)} values")
        return tuple(_value(kinds[0], item, where) for item in value)
    if not _fits(hint, value):
        raise InputError(f"{where} is {value!r}, which is not {_words(hint)}")
    return value


def _words(hint: Any) -> str:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(map(repr, args))}"
    if origin is tuple:
        return f"a list of {_words(args[0]).removeprefix('a ')}s"
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(_words, args))
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}.get(hint, "null")


def _fits(hint: Any, value: Any) -> bool:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return value in args
    if origin in (types.UnionType, typing.Union):
        return any(_fits(arg, value) for arg in args)
    if origin is tuple or isinstance(value, bool):
        return hint is bool
    return isinstance(value, int | float if hint is float else hint)
