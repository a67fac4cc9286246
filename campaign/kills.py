"""SIGKILL at any moment: a training is killed five times, goes on, and ends with the same bits."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from campaign.base import Outcome
from campaign.trainings import begin, finished, prepare, whole

TIMES = 5
WHAT = f"trainings killed {TIMES} times each by SIGKILL, at any moment, and resumed"
COUNTS = (2, 40)
SECONDS = 300.0
__all__ = ["prepare"]


def attack(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    seconds = whole()[1]
    moments = [random.uniform(0, seconds) for _ in range(TIMES)]
    say(f"kills after {', '.join(f'{moment:.2f}' for moment in moments)} of {seconds:.2f} s")
    for moment in moments:
        training = begin(folder)
        time.sleep(moment)
        training.send(signal.SIGKILL)
        if (status := training.wait()) not in (0, -signal.SIGKILL):
            return Outcome("traceback", f"status {status}: {training.words[-300:]}")
    return finished(folder)
