"""Crafted files: checksums are right, as anybody can compute one, and the content is not."""

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import safetensors.numpy

from campaign.base import Outcome
from campaign.material import FILES, copied, prepare, read_spoilt
from eqprop.store import checkpoint
from eqprop.store.checkpoint import NOTES, SUM, _digest

WHAT = "crafted files: any JSON in place of a setting or a note, arrays of other names, types and shapes, false headers"
COUNTS = (150, 1_500)
SECONDS = 30.0
__all__ = ["prepare"]

DEEP = "[" * 50_000 + "]" * 50_000
RAW = (
    DEEP,
    '{"a":' * 5000 + "1" + "}" * 5000,
    "9" * 5000,
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    '"\\ud800"',
    "",
    "nul",
    "{",
    '{"a":1,"a":2}',
)
VALUES: list[Any] = [
    None, True, False, 0, -1, -7, 1, 2, 10**12, 2**31, 2**63 - 1, 2**63, -(2**63), 10**400, 0.5, -0.5, 1e308, 1e-320,
    "", "x", "nan",
    "__class__", "__reduce__", "os.system", "eval", "../../x", "\x00", "a" * 10_000, [], [[]], [None], [1, "2"], {},
    {"a": 1},
    {"__reduce__": ["os.system", "touch executed"]}, {"tuple": []}, {"tuple": [10**9]}, {"dict": 3}, [10**12],
    [0] * 1000, "numpy.ndarray", "eqprop.__main__:main", "eqprop.cli.main:main", "eqprop.energy.hopfield:Hopfield",
    {"class": "os.system", "values": {}}, {"class": "Hopfield", "values": []}, "digits", "mnist", "/etc/passwd",
]  # fmt: skip
WATCHED = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "socket.connect",
    "ctypes.dlopen",
)
_heard: list[str] = []
_on = [False]


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _on[0] and event in WATCHED:
        _heard.append(f"{event}{args!r}"[:200])


sys.addaudithook(_hook)


def attack(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    of = random.choice(["run", *FILES])
    place = copied(folder)
    name = random.choice([name for name in FILES[of] if name.endswith((".safetensors", "config.json"))] or FILES[of])
    path = place / name
    say(f"{name}: {craft_json(random, path) if path.suffix == '.json' else craft_arrays(random, path)}")
    _heard.clear()
    _on[0] = True
    outcome = read_spoilt(of, place, name, signed=True)
    _on[0] = False
    if _heard or (place / "executed").exists():
        return Outcome("executed", "; ".join(_heard))
    return outcome


def craft_json(random: Random, path: Path) -> str:
    text, told = changed(random, json.loads(path.read_text()))
    path.write_text(text, errors="surrogatepass")
    return told


def changed(random: Random, value: Any) -> tuple[str, str]:
    """JSON with something else somewhere in it, and what."""
    if random.random() < 0.1:
        text = random.choice(RAW)
        return text, f"all is {text[:20]!r}"
    places = list(paths(value))
    path = random.choice(places)
    mark = "\x01here\x01"
    way = random.choice(["replace", "replace", "replace", "raw", "remove", "add", "rename"])
    new = random.choice(VALUES)
    raw = random.choice(RAW) if way == "raw" else json.dumps(new)
    edited = put(value, path, mark if way in ("replace", "raw") else way, mark)
    return json.dumps(edited).replace(json.dumps(mark), raw), f"{way} {'.'.join(map(str, path))} {raw[:40]}"


def paths(value: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from paths(part, (*path, name))


def put(value: Any, path: tuple[Any, ...], what: str, mark: str) -> Any:
    """The value with the mark at a path, or with that path removed, or with a name more beside it."""
    if not path:
        return mark
    name, *below = path
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    if below:
        copy[name] = put(copy[name], tuple(below), what, mark)
    elif what == "remove":
        del copy[name]
    elif what == "add" and isinstance(copy, dict):
        copy["more"] = mark
    elif what == "rename" and isinstance(copy, dict):
        copy[f"x{name}"] = copy.pop(name)
    else:
        copy[name] = mark
    return copy


def craft_arrays(random: Random, path: Path) -> str:
    arrays, notes = checkpoint.read(path)
    if random.random() < 0.15:
        return craft_header(random, path)
    text = json.dumps(notes)
    if random.random() < 0.5:
        text, told = changed(random, notes)
    else:
        told = craft_one(random, arrays)
    text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    path.write_bytes(safetensors.numpy.save(arrays, {NOTES: text, SUM: _digest(arrays, text)}))
    return told


def craft_one(random: Random, arrays: dict[str, np.ndarray]) -> str:
    name = random.choice(sorted(arrays))
    a = arrays[name]
    ways: dict[str, Callable[[], Any]] = {
        "nan": lambda: np.full(a.shape, np.nan, np.float32),
        "inf": lambda: np.full(a.shape, -np.inf, a.dtype if a.dtype.kind == "f" else np.float64),
        "minus": lambda: np.full(a.shape, -7, a.dtype if a.dtype.kind != "u" else np.int64),
        "large": lambda: np.full(a.shape, 2**31 - 1 if a.dtype.itemsize < 8 else 2**62, a.dtype),
        "double": lambda: a.astype(np.float64),
        "whole": lambda: np.zeros(a.shape, np.int16),
        "half": lambda: np.zeros(a.shape, np.float16),
        "flag": lambda: np.zeros(a.shape, bool),
        "empty": lambda: np.zeros((0, *a.shape), a.dtype),
        "longer": lambda: np.zeros((*a.shape, 2), a.dtype),
        "flat": lambda: a.ravel()[:1],
        "turned": lambda: np.ascontiguousarray(a.T),
        "deep": lambda: a.reshape((1,) * 20 + a.shape),
    }
    way = random.choice([*ways, "remove", "rename", "add", "below"])
    if way == "remove":
        del arrays[name]
    elif way == "rename":
        arrays[random.choice(["", "x", "../x", name + "/x", name.upper(), "__metadata", "/" * 50])] = arrays.pop(name)
    elif way == "add":
        arrays[random.choice(["more", "theta/W/x", "", "a" * 5000])] = a
    elif way == "below":
        arrays[f"{name}/below"] = np.zeros(1, np.float32)
    else:
        arrays[name] = ways[way]()
    return f"{way} {name}"


def craft_header(random: Random, path: Path) -> str:
    """Another header before the same bytes: types, shapes and places that the bytes do not have."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, rest = json.loads(content[8 : 8 + length]), content[8 + length :]
    name = random.choice([name for name in header if name != "__metadata__"])
    key = random.choice(["dtype", "shape", "data_offsets"])
    odd: dict[str, list[Any]] = {
        "dtype": ["F64", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I64", "U8", "BOOL", "C64", "F4", "X", "", None, 3],
        "shape": [[], [0], [-1], [10**12], [2**63], [1] * 100, "3", None, [2**32, 2**32], [0, 10**18]],
        "data_offsets": [[0, 0], [0, 10**15], [-4, 0], [4, 0], [0], None, "x", [2**63, 2**63 + 4]],
    }
    header[name][key] = random.choice(odd[key])
    text = json.dumps(header).encode()
    claimed = random.choice([len(text)] * 4 + [0, 2**63, len(text) + 10**6, len(text) - 1])
    path.write_bytes(struct.pack("<Q", claimed) + text + rest)
    return f"header: {name}.{key} is {header[name][key]!r}, length {claimed}"
