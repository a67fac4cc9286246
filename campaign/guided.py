"""Files towards lines of the readers that none has reached yet: each case is a search of its own, from one file.

A file that reaches a new line is kept, and changed further.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from campaign.base import FAILURES, Outcome
from campaign.crafted import craft_arrays, craft_json
from campaign.damaged import damage
from campaign.material import FILES, copied, prepare, read_spoilt

FILES_EACH = 25
WHAT = f"searches of {FILES_EACH} files each for lines of the readers that no file has reached"
COUNTS = (4, 60)
SECONDS = 120.0
__all__ = ["prepare"]
READERS = ("/eqprop/store/", "/eqprop/sklearn/files.py", "/eqprop/study/experiment.py")


def attack(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    of = random.choice(sorted(FILES))
    name = random.choice([name for name in FILES[of] if name.endswith((".safetensors", "config.json"))])
    path = copied(folder) / name
    kept, reached, words = [path.read_bytes()], set(), set()
    for number in range(FILES_EACH):
        path.write_bytes(random.choice(kept))
        try:
            craft = craft_json if path.suffix == ".json" else craft_arrays
            how = craft(random, path) if random.random() < 0.5 else damage(random, path, folder)
        except Exception:  # what was kept cannot be read any more, and so not changed in this way
            path.write_bytes(kept[0])
            how = damage(random, path, folder)
        say(f"{name}, file {number}: {how}")
        content = path.read_bytes() if path.exists() else b""
        new = Lines()
        outcome = new.during(lambda: read_spoilt(of, folder, name, signed=True))
        if outcome.word in FAILURES:
            return outcome
        words.add(outcome.word)
        if new.lines - reached:
            reached |= new.lines
            kept.append(content)
        path.write_bytes(kept[0])
    return Outcome("refused" if "refused" in words else "fine", f"{len(reached)} lines")


class Lines:
    """The lines of the readers that a call goes through."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()

    def during(self, call: Callable[[], Outcome]) -> Outcome:
        """What the call returns."""
        sys.settrace(self._entered)
        try:
            return call()
        finally:
            sys.settrace(None)

    def _entered(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._at if any(part in frame.f_code.co_filename for part in READERS) else None

    def _at(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._at
