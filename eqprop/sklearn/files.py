"""Fitted estimators as safetensors files: numbers as arrays, all else as JSON."""

import inspect
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from eqprop.errors import InputError
from eqprop.store import checkpoint
from eqprop.store.reading import MOST_WHOLE
from eqprop.store.schema import fitted, from_dict

Kind = TypeVar("Kind")


def save(estimator: Any, path: Path, left_out: tuple[str, ...]) -> None:
    """Write the parameters and what fitting found, except for what is `left_out`."""
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"path={str(path)!r} is a folder, or in a folder that is not there: name a file")
    params = {name: _plain(name, value) for name, value in estimator.get_params().items()}
    found = {name: value for name, value in vars(estimator).items() if name not in params and name not in left_out}
    texts = {name: value for name, value in found.items() if isinstance(value, np.ndarray) and value.dtype.kind in "OU"}
    arrays = {
        name: value for name, value in found.items() if isinstance(value, np.ndarray | dict) and name not in texts
    }
    notes = {
        "estimator": type(estimator).__name__,
        "params": params,
        "texts": {name: [value.dtype.kind, value.tolist()] for name, value in texts.items()},
        "values": {name: _plain(name, value) for name, value in found.items() if name not in arrays | texts},
    }
    checkpoint.save(path, arrays, notes)


@dataclass(frozen=True)
class Notes:
    """What a file says beside its arrays: whose it is, its parameters, and what fitting found that is no array."""

    estimator: str
    params: dict[str, Any]
    texts: dict[str, tuple[Literal["O", "U"], list[str | bool | int | float | None]]]
    values: dict[str, Any]


def load(kind: type[Kind], path: Path, added: dict[str, Any], found: dict[str, Any], maybe: dict[str, Any]) -> Kind:
    """The estimator that `save` wrote; `added` replaces what was left out.

    found, maybe: what fitting always finds, and what it finds sometimes, by name and type; nothing else is taken.
    """
    flat, notes = checkpoint.read(path)
    if notes.get("estimator") != kind.__name__:
        raise InputError(f"{path} holds {notes.get('estimator', 'no estimator')}, not {kind.__name__}: load it as that")
    notes = from_dict(Notes, notes, f"{path}: its notes")
    try:
        params, values = ({k: _restored(value) for k, value in part.items()} for part in (notes.params, notes.values))
        texts = {name: np.array(words, "O" if code == "O" else None) for name, (code, words) in notes.texts.items()}
        there = _nested(flat) | texts | values
    except (TypeError, ValueError, AttributeError, LookupError) as error:  # `_restored` and `_nested` raise them
        raise InputError(f"{path} was not written by eqprop ({error}): save the estimator again") from error
    known = set(inspect.signature(kind).parameters)
    odd = (params.keys() - known) | (there.keys() - found.keys() - maybe.keys())
    for what, names in (("lacks", found.keys() - there.keys()), ("has an unknown", odd)):
        if names:
            raise InputError(f"{path} {what} {min(names)!r}: save the estimator again, with this version")
    estimator = kind(**params)
    for name, value in there.items():
        setattr(estimator, name, fitted((found | maybe)[name], value, f"{path}: {name}"))
    for name, value in added.items():
        setattr(estimator, name, value)
    return estimator


def _plain(name: str, value: Any) -> Any:
    """The value in a form for JSON, which has neither tuples nor keys that are no texts."""
    if isinstance(value, dict):
        return {"dict": [[_plain(name, key), _plain(name, part)] for key, part in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_plain(name, part) for part in value]}
    if isinstance(value, list):
        return [_plain(name, part) for part in value]
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if not isinstance(value, bool | int | float | str | None) or not _is_json(value):
        raise InputError(
            f"{name}={value!r} cannot be written to a file: set_params({name}=…) to a number, a text or None"
        )
    return value


def _is_json(value: Any) -> bool:
    """Whether a number can be read again: it is finite, and if it is whole, an array can hold it."""
    return abs(value) < MOST_WHOLE if isinstance(value, int) else not isinstance(value, float) or isfinite(value)


def _restored(value: Any) -> Any:
    """The inverse of `_plain`."""
    if isinstance(value, dict) and "dict" in value:
        return {_restored(key): _restored(part) for key, part in value["dict"]}
    return tuple(map(_restored, value["tuple"])) if isinstance(value, dict) else value


def _nested(flat: dict[str, np.ndarray]) -> dict[str, Any]:
    """{"theta_/W/…": …} as {"theta_": {"W": {…}}}."""
    tree: dict[str, Any] = {}
    for path, array in flat.items():
        *folders, last = path.split("/")
        here = tree
        for folder in folders:
            here = here.setdefault(folder, {})
        here[last] = array
    return tree
