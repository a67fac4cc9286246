"""Where files are read: bounded in size and depth, and whatever is wrong becomes a sentence that names the file."""

import json
import os
from pathlib import Path
from typing import Any

from eqprop.errors import InputError
from eqprop.memory import size
from eqprop.store.schema import fitted, from_dict

MOST_TEXT = 256 * 10**6  # bytes of JSON; the history of 100,000 epochs has 30 MB
MOST_DEPTH = 40  # lists and tables in each other; ours have up to eight
MOST_WHOLE = 2**63  # whole numbers beyond fit into no array


def read_json(path: Path, kind: Any = Any, remedy: str = "restore it, or start anew") -> Any:
    """What a JSON file says; it must be of the type `kind`, which is a type hint or a dataclass."""
    return fitted(kind, parse_json(read_bytes(path, remedy=remedy), str(path), remedy), str(path))


def read_json_lines(path: Path, kind: Any = Any, remedy: str = "restore it, or start anew") -> list[Any]:
    """What each line of a file says in JSON."""
    lines = read_bytes(path, remedy=remedy).splitlines()
    return [fitted(kind, parse_json(line, str(path), remedy), f"{path}, line {k}") for k, line in enumerate(lines, 1)]


def read_bytes(path: Path, most: int = MOST_TEXT, remedy: str = "restore it, or start anew") -> bytes:
    """The content of a file that has at most `most` bytes."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not path.is_file():
                raise InputError(f"{path} is no file: {remedy}")
            content = file.read(most + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): {remedy}") from error
    if len(content) > most:
        raise InputError(f"{path} has more than {size(most)}, which no such file needs: {remedy}")
    return content


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe, which would be waited for, is opened at once."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def parse_json(text: str | bytes, where: str, remedy: str) -> Any:
    """What a text says in JSON; `where` it is from and the `remedy` are for the complaint."""
    try:
        value = json.loads(text, parse_int=_whole)
        _check_depth(value)
    except (ValueError, RecursionError) as error:
        reason = "lists too deep in each other" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{where} is damaged ({reason}): {remedy}") from error
    return value


def _whole(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) >= MOST_WHOLE:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MOST_DEPTH):
        inner = (part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list))
        level = [part for parts in inner for part in parts if isinstance(part, dict | list)]
        if not level:
            return
    raise RecursionError


def read_settings(kind: Any, path: Path, under: str, command: str) -> tuple[Any, dict[str, Any]]:
    """The settings that a command left in a JSON file, `under` a name, and all that the file has."""
    try:
        kept = read_json(path, dict[str, Any])
        settings, kept["commands"] = kept[under], fitted(list[str], kept["commands"], "its commands")
    except (InputError, KeyError) as error:
        raise InputError(f"{path.parent} is not the folder of `{command}`: no good {path.name} in it") from error
    return from_dict(kind, settings, f"{path}: the settings"), kept
