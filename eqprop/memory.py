"""How much memory there is, asked before much of it is taken."""

import os
from pathlib import Path

from eqprop.errors import InputError

UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
GROUPS = (  # what the process's control group may take, and has taken: version 2 and version 1
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse what would take more than there is: `what` is the subject of the sentence, `remedy` ends it."""
    if (left := available()) is not None and needed > left:
        raise InputError(f"{what} would take {size(needed)} of memory, and {size(left)} are left: {remedy}")


def available() -> int | None:
    """The bytes that can still be taken: what the system has left, or less if the process is limited; None: unknown."""
    return min((left for left in (_of_system(), *map(_of_group, GROUPS)) if left is not None), default=None)


def size(count: int) -> str:
    """A number of bytes, in words."""
    power = min((len(str(max(count, 1))) - 1) // 3, len(UNITS) - 1)
    return f"{count / 1000**power:.3g} {UNITS[power]}"


def _of_system() -> int | None:
    try:
        with open("/proc/meminfo") as file:
            found = dict(line.split(":", 1) for line in file)
        return 1024 * int(found["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_group(files: tuple[Path, Path]) -> int | None:
    try:
        most, taken = (int(file.read_text()) for file in files)
    except (OSError, ValueError):  # no group, or no limit, which is the word "max"
        return None
    return max(0, most - taken)
