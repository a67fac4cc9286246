"""What page and session say to each other: requests that are checked, and replies of words and arrays."""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from eqprop.errors import InputError


class Reply(NamedTuple):
    """An answer: words for JSON, and arrays by name."""

    words: dict[str, Any]
    arrays: dict[str, np.ndarray] = {}  # noqa: RUF012  (never changed)

    def header(self) -> dict[str, Any]:
        """The words, with the names and shapes of the arrays."""
        return self.words | {"arrays": [[name, list(np.shape(a))] for name, a in self.arrays.items()]}

    def buffers(self) -> list[bytes]:
        """The arrays as bytes of float32, little-endian, in C order."""
        return [np.ascontiguousarray(a, "<f4").tobytes() for a in self.arrays.values()]

    def pack(self) -> bytes:
        """All of it in one message: the length of the header, the header, the arrays."""
        header = json.dumps(self.header(), ensure_ascii=False, allow_nan=False).encode()
        header += b" " * (-len(header) % 4)
        return b"".join([struct.pack("<I", len(header)), header, *self.buffers()])


class Request:
    """A message from the page. Every value is asked for by name and kind, and refused in words if it is another."""

    def __init__(self, fields: Any):
        if not isinstance(fields, dict):
            raise InputError(f"a message is a JSON object, and this is {type(fields).__name__}")
        self.fields: dict[str, Any] = fields

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number from low to high."""
        value = self.fields.get(name, default)
        if type(value) is not int or not low <= value <= high:
            raise InputError(f"{name}={_short(value)}: give a whole number from {low} to {high}")
        return value

    def maybe_whole(self, name: str, low: int, high: int) -> int | None:
        """A whole number, or None."""
        return None if self.fields.get(name) is None else self.whole(name, low, high)

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A number from low to high."""
        value = self.fields.get(name, default)
        if type(value) not in (int, float) or not low <= value <= high:  # also where it is not a number
            raise InputError(f"{name}={_short(value)}: give a number from {low:g} to {high:g}")
        return float(value)

    def choice(self, name: str, among: Sequence[str] | Mapping[str, Any], default: str | None = None) -> str:
        """One of the names given."""
        value = self.fields.get(name, default)
        if not isinstance(value, str) or value not in among:
            raise InputError(f"{name}={_short(value)}: choose {', '.join(among)}")
        return value

    def flag(self, name: str) -> bool:
        """Yes or no."""
        value = self.fields.get(name)
        if not isinstance(value, bool):
            raise InputError(f"{name}={_short(value)}: give true or false")
        return value

    def items(self, name: str, most: int) -> list[Any]:
        """A list of at most `most` things; an empty one if it is left out."""
        value = self.fields.get(name) or []
        if not isinstance(value, list) or len(value) > most:
            raise InputError(f"{name}: give a list of at most {most}")
        return value

    def inner(self, name: str) -> "Request":
        """An object within the message."""
        if not isinstance(value := self.fields.get(name), dict):
            raise InputError(f"{name}={_short(value)}: give a JSON object")
        return Request(value)

    def numbers(self, name: str, count: int, low: float, high: float) -> np.ndarray:
        """So many numbers from low to high."""
        value = self.fields.get(name)
        if not isinstance(value, list) or len(value) != count or not all(type(v) in (int, float) for v in value):
            raise InputError(f"{name}: give a list of {count} numbers")
        numbers = np.asarray(value, np.float32)
        slack = 1e-6 * max(1.0, abs(low), abs(high))
        if not ((numbers >= low - slack) & (numbers <= high + slack)).all():
            raise InputError(f"{name}: give numbers from {low:g} to {high:g}")
        return numbers


def parse(text: str | bytes) -> Request:
    """The message of a page; refused in words if it is none."""
    try:
        return Request(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"a message is a JSON object, and this is none ({type(error).__name__})") from error


def _short(value: Any) -> str:
    return text if len(text := repr(value)) <= 60 else text[:57] + "..."
