"""The log of a session: one JSON object a line, only ever added to, readable after any kill.

Each line is handed to the system in one piece, so a kill leaves at most one that is cut short; readers pass over it.
"""

import base64
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


class Log:
    """Lines added to the file at `path`, behind what is there."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")  # the end of a line that a kill cut short

    def write(self, entry: Mapping[str, Any]) -> None:
        """One line."""
        line = json.dumps(entry).encode() + b"\n"
        while line:  # a nearly full disk takes a part
            line = line[os.write(self._file, line) :]

    def sync(self) -> None:
        """Let what was written survive a power cut."""
        os.fsync(self._file)

    def close(self) -> None:
        """Write no more."""
        os.close(self._file)


def packed(readings: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Readings as text: float32, compressed, base64; with their shapes."""
    return {
        layer: {
            "shape": list(u.shape),
            "float32": base64.b64encode(zlib.compress(u.astype("<f4").tobytes(), 1)).decode(),
        }
        for layer, u in readings.items()
    }


def unpacked(entry: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The readings that `packed` made text of."""
    return {
        layer: np.frombuffer(zlib.decompress(base64.b64decode(part["float32"])), "<f4").reshape(part["shape"])
        for layer, part in entry.items()
    }


def read_log(path: str | Path) -> Iterator[dict[str, Any]]:
    """The lines of a log, with the `readings` of each as arrays; a line that was cut short is passed over."""
    with open(path, "rb") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if "readings" in entry:
                entry["readings"] = unpacked(entry["readings"])
            yield entry
