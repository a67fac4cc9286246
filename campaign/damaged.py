"""Damaged files: bytes flipped, cut off, zeroed, doubled or moved, files exchanged or gone."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from campaign.base import Outcome
from campaign.material import FILES, copied, prepare, read_spoilt

WHAT = "files of runs, networks and estimators with bytes flipped, cut off, zeroed, doubled or exchanged"
COUNTS = (400, 5_500)
SECONDS = 30.0
__all__ = ["prepare"]


def attack(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    of = random.choice(["run", *FILES])
    place = copied(folder)
    name = random.choice(FILES[of])
    say(f"{name}: {damage(random, place / name, place)}")
    return read_spoilt(of, place, name)


def damage(random: Random, path: Path, place: Path) -> str:
    """Spoil a file; say how."""
    content = bytearray(path.read_bytes())
    where = random.randrange(len(content))
    if path.suffix == ".safetensors" and random.random() < 0.5:
        where = random.randrange(min(len(content), 600))  # the header has more to lose
    much = min(random.choice([1, 1, 2, 8, 64, 512]), len(content) - where)
    way = random.choice(
        ["flip", "flip", "set", "cut", "cut start", "zero", "double", "move", "exchange", "remove", "empty"]
    )
    if way == "flip":
        content[where] ^= 1 << random.randrange(8)
    elif way == "set":
        content[where : where + much] = random.randbytes(much)
    elif way == "cut":
        del content[where:]
    elif way == "cut start":
        del content[:where]
    elif way == "zero":
        content[where : where + much] = bytes(much)
    elif way == "double":
        content[where:where] = content[where : where + much]
    elif way == "move":
        piece = content[where : where + much]
        del content[where : where + much]
        there = random.randrange(len(content) + 1)
        content[there:there] = piece
    elif way == "exchange":
        others = [other for other in place.rglob("*") if other.is_file() and other != path]
        if path.name in ("network.safetensors", "weights.safetensors"):  # weights of another run are as good a network
            others = [other for other in others if other.name != "weights.safetensors"]
        other = random.choice(sorted(others))
        content = bytearray(other.read_bytes())
    if way == "remove":
        path.unlink()
    else:
        path.write_bytes(b"" if way == "empty" else content)
    return f"{way} at {where}, {much} bytes"
