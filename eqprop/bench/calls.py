"""Calls that may hang: each in a thread of its own, given up after a time, and never two at once."""

import threading
from collections.abc import Callable
from typing import Any


class HangsError(Exception):
    """A call did not return in time, or one before it still has not."""


class Calls:
    """Calls a device with a time limit.

    A call that hangs cannot be ended from outside. It is left behind, and what it may still return is thrown away; as
    long as it has not returned, no other is begun, for two at once could drive the hardware against itself.
    """

    def __init__(self) -> None:
        self._running: threading.Thread | None = None

    def __call__(self, what: str, timeout: float, act: Callable[[], Any]) -> Any:
        if not self.wait(timeout):
            raise HangsError(f"a call before {what} still hangs")
        thread, outcome = begin(act)
        self._running = thread
        thread.join(timeout)
        if thread.is_alive():
            raise HangsError(f"{what} took longer than {timeout:g} s")
        value, error = outcome[0]
        if error is not None:
            raise error
        return value

    def wait(self, timeout: float) -> bool:
        """Whether no call is running, once `timeout` has passed at the latest."""
        if self._running is not None:
            self._running.join(timeout)
            if self._running.is_alive():
                return False
            self._running = None
        return True


def begin(act: Callable[[], Any]) -> tuple[threading.Thread, list[tuple[Any, BaseException | None]]]:
    """The thread in which `act` runs, and the list in which its value or its error will be."""
    outcome: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((act(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome
