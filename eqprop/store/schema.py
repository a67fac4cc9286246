"""From JSON to dataclasses and other types, with complaints that say where."""

import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal

from eqprop.errors import InputError

WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", dict: "a table"}


def from_dict(kind: Any, values: Any, where: str) -> Any:
    """An object of the dataclass `kind`; every value must be of the annotated type.

    A field that is missing has its default, so that files written before a setting was added can still be read. An
    unknown field is refused, and so is a missing one that has no default. `where` begins the complaint.
    """
    if not isinstance(values, dict):
        raise InputError(f"{where} are {_short(values)} instead of a table of names and values")
    hints = typing.get_type_hints(kind)
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    known = {f.name for f in fields(kind)}
    for words, odd in (("lack", needed - values.keys()), ("have an unknown", values.keys() - known)):
        if odd:
            raise InputError(
                f"{where} {words} {', '.join(map(_short, sorted(odd)))}: written by another version, perhaps; "
                "mend the file, or start anew"
            )
    return kind(**{name: fitted(hints[name], value, f"{where}' {name}") for name, value in values.items()})


def fitted(hint: Any, value: Any, where: str) -> Any:
    """The value, if it is of the type that the `hint` says; lists become tuples, and tables dataclasses, if so."""
    if is_dataclass(hint):
        return from_dict(hint, value, where)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and isinstance(value, list | tuple):
        if args[-1] is not Ellipsis and len(value) != len(args):
            raise InputError(f"{where} is {_short(value)}, which is not {len(args)} values")
        kinds = args if args[-1] is not Ellipsis else args[:1] * len(value)
        return tuple(fitted(kind, item, where) for kind, item in zip(kinds, value, strict=True))
    if origin is list and isinstance(value, list):
        return [fitted(args[0], item, where) for item in value]
    if origin is dict and isinstance(value, dict):
        return {fitted(args[0], name, where): fitted(args[1], item, f"{where}: {name}") for name, item in value.items()}
    if origin in (types.UnionType, typing.Union) and value is not None:
        choices = [arg for arg in args if arg is not type(None)]
        if len(choices) == 1 and typing.get_origin(choices[0]) is not None:
            return fitted(choices[0], value, where)
    if not _fits(hint, value):
        raise InputError(f"{where} is {_short(value)}, which is not {_words(hint)}")
    return value


def _short(value: Any) -> str:
    return text if len(text := repr(value)) <= 200 else text[:197] + "..."


def _words(hint: Any) -> str:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(map(repr, args))}"
    if origin in (tuple, list):
        return f"a list of {_words(args[0]).removeprefix('a ')}s"
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(_words, args))
    return WORDS.get(origin or hint, "null")


def _fits(hint: Any, value: Any) -> bool:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return isinstance(value, str | int | bool | None) and value in args
    if origin in (types.UnionType, typing.Union):
        return any(_fits(arg, value) for arg in args)
    if isinstance(value, bool):
        return hint is bool
    if origin is not None:
        return False
    return isinstance(value, int | float if hint is float else hint)
