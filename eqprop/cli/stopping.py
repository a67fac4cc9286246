"""What ends a command from outside, and how it can go on: signals, and disks that are full or gone."""

import _thread
import gc
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

WORDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
Seen = TypeVar("Seen")


class Stop:
    """Signals that ask the process to end become a KeyboardInterrupt, by which everything saves that can."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.collects = False

    def __enter__(self) -> "Stop":
        self.before: dict[int, Any] = {}
        global _current
        _current = self
        if threading.current_thread() is threading.main_thread():
            for name in WORDS:
                number = getattr(signal, name, None)  # Windows has no SIGHUP
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup, a background job
                    self.before[number] = signal.signal(number, self._heard)
        gc.callbacks.insert(0, self._collecting)  # around those of others, which a signal may interrupt
        gc.callbacks.append(self._collected)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._collecting)
        gc.callbacks.remove(self._collected)
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def ignore(self) -> None:
        """From now on, heed no more signals: what is left to do takes no time."""
        for number in self.before:
            signal.signal(number, signal.SIG_IGN)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        if self.collects or _deletes(frame):  # Python would print the exception, and go on
            later = threading.Timer(0.01, _thread.interrupt_main, (number,))
            later.daemon = True
            later.start()
            return
        raise KeyboardInterrupt

    def _collecting(self, phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            self.collects = True

    def _collected(self, phase: str, _: dict[str, Any]) -> None:
        if phase == "stop":
            self.collects = False

    @property
    def status(self) -> int:
        """The exit status that shells expect: 128 and the number of the signal."""
        return 128 + (self.number or signal.SIGINT)

    @property
    def word(self) -> str:
        """What happened."""
        return WORDS[signal.Signals(self.number or signal.SIGINT).name]


def _deletes(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


_current = Stop()


def heeding(observe: Callable[[Seen], None]) -> Callable[[Seen], None]:
    """`observe`, and an end if a signal came whose interrupt was lost, as happens within a callback of C code."""

    def observed(seen: Seen) -> None:
        observe(seen)
        if _current.number is not None:
            raise KeyboardInterrupt

    return observed


@contextmanager
def resumable(command: list[str], folder: Path, before: str = "") -> Iterator[None]:
    """Tell how to go on in the folder, if a signal or a disk ends what is done; `before` is said before that."""
    again = f"go on with `{shlex.join(['eqprop', *command])}`"
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{before}{again}") from None
    except OSError as error:
        reason = f"cannot write {error.filename or folder} ({error.strerror or error})"
        if not folder.is_dir():
            raise OSError(f"{reason}: the folder {folder} is gone, with what was saved in it") from error
        raise OSError(f"{reason}. {before}What was saved until then is whole: mend that, and {again}") from error
