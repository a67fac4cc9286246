"""Disks that are full, broken or read-only from any write on, and folders that vanish: what was saved stays good."""

import errno
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from campaign.base import Outcome
from campaign.trainings import begin, finished, prepare, until_a_moment

WHAT = "trainings whose disk is full, fails or is read-only from any write on, or whose folder vanishes"
COUNTS = (4, 60)
SECONDS = 120.0
__all__ = ["prepare"]
ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES)
SIZE = 400_000  # bytes of the small disk, which a training fills half


def attack(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    way = random.choice(["full", "full", "fails", "fails", "gone", "read-only"])
    with small_disk(folder) as real:
        return ATTACKS[way if real or way not in ("full", "read-only") else "fails"](random, folder, say)


def full(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    """The rest of a small disk is taken by another file at any moment."""
    training = until_a_moment(random, folder, say, "the disk is full")
    try:
        with open(folder / "ballast", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError:
        status = training.wait()
    (folder / "ballast").unlink()
    return told(folder, status, training.words)


def fails(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    """From some call on, the system refuses to make, flush or rename files."""
    number, first, name = random.choice(ERRORS), random.randrange(30), random.choice(["fsync", "replace", "mkstemp"])
    say(f"{name} fails with {errno.errorcode[number]} from call {first} on")
    training = begin(folder, prepare=lambda: break_call(number, first, name))
    return told(folder, training.wait(), training.words)


def gone(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    """The folder of the run is removed at any moment."""
    training = until_a_moment(random, folder, say, "the folder is removed")
    shutil.rmtree(folder / "run", ignore_errors=True)
    status = training.wait()
    if status not in (0, 1) or "Traceback" in training.words:
        return Outcome("traceback", f"status {status}: {training.words[-400:]}")
    shutil.rmtree(folder / "run", ignore_errors=True)  # of which a part may be there again
    return finished(folder)


def read_only(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    """A training that was killed at any moment goes on, or begins, where nothing may be written."""
    training = until_a_moment(random, folder, say, "it is killed, and its disk read-only")
    training.send(signal.SIGKILL)
    training.wait()
    mounted(folder, "remount,ro")
    training = begin(folder)
    status = training.wait()
    mounted(folder, "remount,rw")
    if status == 0:
        return Outcome("lost", f"it went on where it cannot write: {training.words[-300:]}")
    return told(folder, status, training.words)


def told(folder: Path, status: int, words: str) -> Outcome:
    """Status 1 and words, or 2 if there was no folder yet, or the end; then it goes on."""
    if status not in (0, 1, 2) or "Traceback" in words:
        return Outcome("traceback", f"status {status}: {words[-400:]}")
    if status and {1: "error: cannot write", 2: "error: cannot make the run folder"}[status] not in words:
        return Outcome("lost", f"no word of the disk: {words[-300:]}")
    return finished(folder)


def break_call(number: int, first: int, name: str) -> None:
    module: Any = tempfile if name == "mkstemp" else os
    right, calls = getattr(module, name), [0]

    def wrong(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] > first:
            raise OSError(number, os.strerror(number))
        return right(*args, **kwargs)

    setattr(module, name, wrong)


def mounted(folder: Path, options: str) -> bool:
    """Whether a disk in memory could be put in the place of the folder, or be changed."""
    command = ["mount", "-t", "tmpfs", "-o", options, "campaign", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def small_disk(folder: Path) -> Any:
    """A disk of little room in the place of the folder, where the system allows one."""
    real = os.name == "posix" and mounted(folder, f"size={SIZE}")
    home = Path.cwd()
    if real:
        os.chdir(folder)
    try:
        yield real
    finally:
        if real:
            os.chdir(home.parent)
            subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


ATTACKS = {"full": full, "fails": fails, "gone": gone, "read-only": read_only}
