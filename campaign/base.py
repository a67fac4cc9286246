"""What all attacks share: what a case comes to, and what of that is a failure."""

import dataclasses
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

import eqprop as ep

FINE, REFUSED = "fine", "refused"
FAILURES = ("traceback", "hang", "crash", "not finite", "lost", "executed")
UNBOUNDED = {"residual", "low", "high", "most"}  # fields that may be infinite: a start, or no bound


class Outcome(NamedTuple):
    """What became of a case: `FINE`, `REFUSED`, or one of the `FAILURES`, with details."""

    word: str
    detail: str = ""


class Attack(Protocol):
    """A module of this folder."""

    WHAT: str
    """What is tried, for the table."""
    COUNTS: tuple[int, int]
    """How many cases the short form has, and the long one."""
    SECONDS: float
    """A case that takes longer hangs."""

    @staticmethod
    def prepare() -> None:
        """Make what all cases need, in the current folder, before the first."""
        ...

    @staticmethod
    def attack(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
        """Carry out one case, which follows from the random numbers, in an empty folder; `say` first what is tried."""
        ...


def judged(call: Callable[[], Any]) -> tuple[Outcome, Any]:
    """What a call comes to, and its result if there is one."""
    try:
        result = call()
    except (ep.InputError, ep.DivergedError) as error:
        return Outcome(REFUSED, str(error)), None
    except OSError as error:
        return Outcome(REFUSED if error.filename else "traceback", told(error)), None
    except Exception as error:
        return Outcome("traceback", told(error)), None
    return Outcome(FINE), result


def told(error: BaseException) -> str:
    """An exception in a line: its type, what it says, and where in eqprop it comes from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/eqprop/" in frame.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside"
    return f"{type(error).__name__} at {place}: {' '.join(str(error).split())[:200]}"


def odd_numbers(value: Any, path: str = "", depth: int = 0) -> Iterator[str]:
    """Where in a value there are numbers that are not finite."""
    if isinstance(value, float | complex | np.ndarray | np.generic | jax.Array):
        if _numeric(value) and not np.isfinite(np.asarray(value, complex)).all():
            yield path or "it"
        return
    if depth > 6 or isinstance(value, str | bytes | type):
        return
    if isinstance(value, Mapping):
        parts = value.items()
    elif names := getattr(type(value), "_fields", None):
        parts = zip(names, value, strict=True)
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    elif dataclasses.is_dataclass(value):
        parts = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    else:
        return
    for name, part in parts:
        if name not in UNBOUNDED:
            yield from odd_numbers(part, f"{path}.{name}", depth + 1)


def _numeric(value: Any) -> bool:
    kind = getattr(value, "dtype", None)
    return kind is None or (not jnp.issubdtype(kind, jax.dtypes.extended) and jnp.issubdtype(kind, jnp.inexact))
