"""What is handed over from outside fits the annotations, or is refused in words: one mechanism for all public calls.

`guard` puts the check before constructors, class methods and functions that a package exports; `entrance` before a
method. What the library calls itself is not checked again: only the outermost call is, so that training and compiled
programs take as long as without. Values inside of a larger compiled program are not known yet, and pass.
"""

import functools
import inspect
import os
import threading
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import PurePath
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import PyTree

from eqprop.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])
NUMBERS = {int: "a whole number", float: "a finite number", complex: "a finite number", bool: "True or False"}
WORDS = NUMBERS | {
    str: "a text",
    dict: "a dict",
    list: "a list",
    tuple: "a tuple",
    type(None): "None",
    PyTree: "an array, or a tree of arrays",
}
INFINITE = "it may be infinite"
"""Marks a number that may be infinite, as `Annotated[float, INFINITE]`; all others must be finite."""
CHECKED = "the call itself refuses others, in better words"
"""Marks an argument that is not checked here, as `Annotated[Feed, CHECKED]`."""
GIVE = "give one"
"""The way out, unless an annotation has another, as `Annotated[Batch, "take one of a feed"]`."""
MOST = 1000  # parts of a list or dict that are looked at

_within = threading.local()


@runtime_checkable
class Meaning(Protocol):
    """What an annotation says beyond the type, as `Annotated[PyTree, Numbers()]`."""

    def misfit(self, value: Any) -> str | None:
        """What is wrong with a value, as the end of a sentence that begins with the value; None: nothing."""
        ...


def guard(namespace: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Put the check before the constructors and class methods of public classes; return the functions with theirs."""
    functions = {}
    for name in names:
        value = namespace.get(name)
        if isinstance(value, type):
            _guard_class(value)
        elif inspect.isfunction(value):
            functions[name] = entrance(value)
    return functions


def _guard_class(kind: type) -> None:
    for base in kind.__mro__:
        ours = base.__module__.startswith("eqprop.") and not issubclass(base, BaseException | tuple)
        if not ours or "_guarded" in vars(base):
            continue
        base._guarded = True  # pyright: ignore[reportAttributeAccessIssue]
        for name, member in list(vars(base).items()):
            if name == "__init__" and inspect.isfunction(member) and not getattr(base, "_is_protocol", False):
                base.__init__ = entrance(member, base.__qualname__)
            elif isinstance(member, classmethod) and not name.startswith("_"):
                setattr(base, name, classmethod(entrance(member.__func__)))


def entrance(function: Function, name: str | None = None) -> Function:
    """The function, which refuses arguments from outside that its annotations do not allow."""
    name = name or function.__qualname__.removesuffix(".__call__")
    known: list[tuple[inspect.Signature, dict[str, Any]]] = []  # once they are needed

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if getattr(_within, "call", False):
            return function(*args, **kwargs)
        if not known:
            known.append((inspect.signature(function), _hints(function)))
        args, kwargs = tuple(map(_plain, args)), {name: _plain(value) for name, value in kwargs.items()}
        _within.call = True
        try:
            _check(name, *known[0], args, kwargs)
            return function(*args, **kwargs)
        finally:
            _within.call = False

    checked.entrance = True  # pyright: ignore[reportAttributeAccessIssue]  (the campaign looks for them)
    return checked  # pyright: ignore[reportReturnType]


def _plain(value: Any) -> Any:
    """A whole number of NumPy as one of Python, which may shape a program; anything else as it is."""
    return int(value) if isinstance(value, np.integer) else value


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError:  # a name that is imported for type checkers only
        return dict(map(functools.partial(_resolved, function), function.__annotations__.items()))


def _resolved(function: Any, annotation: tuple[str, Any]) -> tuple[str, Any]:
    name, hint = annotation
    try:
        alone = types.SimpleNamespace(__annotations__={name: hint})
        return name, typing.get_type_hints(alone, function.__globals__, include_extras=True)[name]
    except NameError:
        return name, Any


def _check(name: str, signature: inspect.Signature, hints: dict[str, Any], args: Any, kwargs: Any) -> None:
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return  # Python itself says which argument is missing or too much
    for parameter, value in given.items():
        if parameter not in hints:
            continue
        kind = signature.parameters[parameter].kind
        several = kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD)
        for part in (value.values() if isinstance(value, dict) else value) if several else (value,):
            if (wrong := misfit(hints[parameter], part)) is not None:
                raise InputError(f"{name}: {parameter}={short(part)} {wrong}")


def misfit(hint: Any, value: Any) -> str | None:
    """What is wrong with a value, as the end of a sentence; None if it fits the type hint."""
    if typing.get_origin(hint) is typing.Annotated:
        kind, *meanings = typing.get_args(hint)
        if CHECKED in meanings:
            return None
        wrong = misfit(kind, value) if INFINITE not in meanings or not _is_infinite(value) else None
        way_out = next((m for m in meanings if isinstance(m, str) and m != INFINITE), GIVE)
        wrong = wrong and wrong.replace(GIVE, way_out)
        return wrong or next(filter(None, (m.misfit(value) for m in meanings if isinstance(m, Meaning))), None)
    if _fits(hint, value):
        return None
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        reasons = [misfit(part, value) for part in typing.get_args(hint) if part is not type(None)]
        near = [
            reason for reason in reasons if reason and not reason.startswith("is not ")
        ]  # only its values are wrong
        if len(reasons) == 1 or len(near) == 1:
            return [*near, *reasons][0]
    return f"is not {words(hint)}: {GIVE}"


def _fits(hint: Any, value: Any) -> bool:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar | str | typing.ForwardRef):
        return True
    if origin in (types.UnionType, typing.Union):
        return any(misfit(part, value) is None for part in args)
    if origin is Literal:
        return isinstance(value, str | int | bool | None) and value in args
    if origin is type:
        return isinstance(value, type)
    if hint in NUMBERS:
        return _is_number(hint, value)
    if hint is None:
        return value is None
    if hint is Callable or origin in (Callable, typing.get_origin(Callable[..., Any])):
        return callable(value)
    if _is_array(hint):
        if not is_numeric(value) or isinstance(value, bool | int | float | complex):
            return False
        return hint is not np.ndarray or np.ndim(value) > 0
    return _fits_class(origin or hint, args, value)


def _fits_class(kind: Any, args: tuple[Any, ...], value: Any) -> bool:
    if kind is tuple:
        if not isinstance(value, tuple | list):
            return False
        kinds = args[:1] * min(len(value), MOST) if args[1:] == (...,) else args
        if args and args[1:] != (...,) and len(value) != len(args):
            return False
        return all(misfit(kind, part) is None for kind, part in zip(kinds, value, strict=False))
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return isinstance(value, str | os.PathLike)
    if not isinstance(kind, type):
        return True
    if getattr(kind, "_is_protocol", False):
        return callable(value) or "__call__" not in vars(kind)
    if isinstance(value, str | bytes) and kind not in (str, bytes, object):
        return False  # its letters are hardly ever meant as the parts of a list
    try:
        if not isinstance(value, kind) or (kind is Iterable and not is_iterable(value)):
            return False
    except TypeError:  # `isinstance` takes no such class
        return True
    if isinstance(value, Mapping) and len(args) == 2:
        parts = list(value.items())[:MOST]
        return all(misfit(args[0], name) is None and misfit(args[1], part) is None for name, part in parts)
    if isinstance(value, Sequence) and len(args) == 1:
        return all(misfit(args[0], part) is None for part in value[:MOST])
    return True


def _is_number(hint: Any, value: Any) -> bool:
    """Whether it is one finite number of the kind, be it of Python, NumPy or JAX."""
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if isinstance(value, bool | np.bool_) or not is_numeric(value) or np.ndim(value):
        return False
    kinds = {int: jnp.integer, float: (jnp.integer, jnp.floating), complex: jnp.number}[hint]
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    if not any(jnp.issubdtype(_dtype(value), kind) for kind in kinds):
        return False
    return isinstance(value, Tracer | int) or is_finite(value)


def is_finite(value: Any) -> bool:
    """Whether all numbers are finite, also in the precision that JAX computes in."""
    numbers = np.asarray(value)
    if numbers.dtype in (np.float64, np.complex128) and not jax.config.read("jax_enable_x64"):
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32 if numbers.dtype == np.float64 else np.complex64)
    return bool(np.isfinite(numbers).all())


def is_iterable(value: Any) -> bool:
    """Whether a loop can go over it; arrays of no axes have the method, and refuse."""
    try:
        iter(value)
    except TypeError:
        return False
    return True


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and value in (float("inf"), -float("inf"))


def is_numeric(value: Any) -> bool:
    """Whether it is a number, or an array of numbers of NumPy or JAX."""
    if isinstance(value, bool | int | float | complex):
        return not isinstance(value, int) or abs(value) < 2**63
    if not isinstance(value, np.ndarray | np.generic | jax.Array) or isinstance(value, np.ma.MaskedArray):
        return False
    return value.dtype == bool or jnp.issubdtype(value.dtype, jnp.number)


def require_arguments(function: Any, name: str, *arguments: str) -> None:
    """Refuse a function of the user that cannot be called with these arguments."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        wanted = f"({', '.join(arguments)})"
        raise InputError(
            f"{name}={short(function)} cannot be called as {wanted} ({error}): give a function of these"
        ) from error
    except ValueError:  # Python does not know the arguments of every function
        return


def require_whole(least: int, **values: Any) -> None:
    """Refuse arguments, given by name, that are not whole numbers of `least` or more."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InputError(f"{name}={value!r}: give a whole number of {least} or more")


def one_number(value: Any, name: str, function: Any) -> Any:
    """What a function of the user gave for one example; refused if it is not one number."""
    if not is_numeric(value) or np.ndim(value):
        raise InputError(f"{name}={short(function)} gave {short(value)} for one example: it must give one number")
    return value


def _dtype(value: Any) -> Any:
    return value.dtype if hasattr(value, "dtype") else np.result_type(value if not isinstance(value, int) else int)


def _is_array(hint: Any) -> bool:
    return hint is jax.Array or hint is np.ndarray or hasattr(hint, "array_type")


def words(hint: Any) -> str:
    """What a type hint asks for."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return words(args[0])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(map(words, args)))
    if origin is Literal:
        return f"one of {', '.join(map(repr, args))}"
    if origin in (tuple, list, Sequence) and args:
        return f"a list, each part of which is {words(args[0])}"
    if _is_array(hint):
        return "an array of numbers"
    if hint in WORDS or origin in WORDS:
        return WORDS[origin or hint]
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a dict, each value of which is {words(args[1])}" if len(args) == 2 else "a dict"
    if (callable(hint) and getattr(hint, "_is_protocol", False)) or "Callable" in str(origin):
        return "a function"
    kind = origin or hint
    module = getattr(kind, "__module__", "").split(".")[0]
    name = getattr(kind, "__name__", str(kind))
    return f"eqprop.{name}" if module == "eqprop" else article(name)


def article(name: str) -> str:
    """The name of a kind of things as one of them: an int, a Tensor."""
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def short(value: Any) -> str:
    """A value in a few words, whatever it is."""
    if isinstance(value, np.ndarray | jax.Array) and np.ndim(value):
        kind = "a masked array" if isinstance(value, np.ma.MaskedArray) else "an array"
        return f"({kind} of shape {np.shape(value)} and type {value.dtype})"
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = ""
    return text if 0 < len(text) <= 80 and not is_dataclass(value) else f"(of type {type(value).__name__})"
