"""How often to save: seldom enough that it takes no more than 2 % of the time."""

import time
from collections.abc import Callable

SECONDS, SHARE = 10.0, 0.02


class Pace:
    """When to save again.

    seconds: after that many at the least; None: after ten, or fifty times as long as the last saving took, if that is
        more.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic):
        self.seconds, self.clock = seconds, clock
        self.last, self.cost = clock(), 0.0

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        wait = max(SECONDS, self.cost / SHARE) if self.seconds is None else self.seconds
        return self.clock() - self.last >= wait

    def save(self, write: Callable[[], None]) -> None:
        """Save by `write`, and see how long it takes."""
        began = self.clock()
        write()
        self.last = self.clock()
        self.cost = self.last - began
