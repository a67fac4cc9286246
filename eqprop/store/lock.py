"""One writer at a time: a lock on a file in the folder, which the system takes back when its process ends.

The lock is flock(2) on `.lock`. It vanishes with its process, whatever ends that, so that there are no stale locks to
recognise; a file that a kill left behind is locked again. On NFS, Linux turns it into a lock of the server, which holds
for all machines, unless the folder is mounted with `local_lock` or `nolock`. Where there are no such locks, as on
Windows, writers are not kept apart.
"""

import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eqprop.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

NAME = ".lock"
_held = threading.local()


@contextmanager
def locked(folder: Path, wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Be the only one that writes into the folder; a lock within a lock of the same thread changes nothing.

    If another process does, it is named in an InputError, or told to `wait`, and waited for.
    """
    path, mine = folder.resolve() / NAME, vars(_held).setdefault("paths", set())
    if path in mine or fcntl is None:
        yield
        return
    descriptor = _acquired(path, wait)
    mine.add(path)
    try:
        yield
    finally:
        mine.discard(path)
        with suppress(OSError):  # the folder may be gone
            path.unlink()  # before it is unlocked: who waits for it looks for a new one
        os.close(descriptor)


def require_empty(folder: Path) -> None:
    """Refuse a folder that has something in it; half a file that a kill left behind before the first was whole is none.

    Whoever asks has locked it: such a half is nobody's, and is removed.
    """
    halves = [*folder.glob(".*.json.*.part")]
    if {*folder.iterdir()} - {*halves, folder / NAME}:
        ours = f", or go on with --resume {folder}" if any(folder.glob("*.json")) else ""
        run = f", in Python by eqprop.Run.open({str(folder)!r})" if (folder / "config.json").exists() else ""
        raise InputError(f"the folder {folder} is not empty: choose another{ours}{run}")
    for half in halves:
        half.unlink()


def _acquired(path: Path, wait: Callable[[str], None] | None) -> int:
    """The descriptor of the lock file, locked, with a word about this process in it."""
    assert fcntl is not None
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(descriptor, path, wait)
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, _about().encode(errors="backslashreplace"), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder took it away before this one got it


def _lock(descriptor: int, path: Path, wait: Callable[[str], None] | None) -> None:
    assert fcntl is not None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        who = os.pread(descriptor, 400, 0).decode(errors="replace").strip() or "another process"
        if wait is None:
            raise InputError(
                f"{who} is writing into {path.parent}: wait for it to end, or choose another folder"
            ) from error
        wait(f"waiting for {who}, which is writing into {path.parent}")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _about() -> str:
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else "python"
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"process {os.getpid()} on {socket.gethostname()} (`{command[:200]}`, since {since})"
