"""From JSON to dataclasses, with complaints that say where."""

import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

from eqprop.errors import InputError
from eqprop.store.atomic import read_json


def from_dict(kind: Any, values: Any, where: str) -> Any:
    """An object of the dataclass `kind`; every value must be of the annotated type.

    A field that is missing has its default, so that files written before a setting was added can still be read. An
    unknown field is refused, and so is a missing one that has no default. `where` begins the complaint.
    """
    if not isinstance(values, dict):
        raise InputError(f"{where} are {values!r} instead of a table of names and values")
    hints = typing.get_type_hints(kind)
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    known = {f.name for f in fields(kind)}
    for words, odd in (("lack", needed - values.keys()), ("have an unknown", values.keys() - known)):
        if odd:
            raise InputError(
                f"{where} {words} {', '.join(map(repr, sorted(odd)))}: written by another version, perhaps; "
                "mend the file, or start anew"
            )
    return kind(**{name: _value(hints[name], value, f"{where}' {name}") for name, value in values.items()})


def read_settings(kind: Any, path: Path, under: str, command: str) -> tuple[Any, dict[str, Any]]:
    """The settings that a command left in a JSON file, `under` a name, and all that the file has."""
    try:
        kept = read_json(path)
        settings, _ = kept[under], kept["commands"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path.parent} is not the folder of `{command}`: no good {path.name} in it") from error
    return from_dict(kind, settings, f"{path}: the settings"), kept


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
