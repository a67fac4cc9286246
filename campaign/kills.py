"""SIGKILL at any moment: a training is killed five times, goes on, and ends with the same bits."""

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from campaign.base import FINE, Outcome
from campaign.trainings import begin, compared, finished, prepare, whole

TIMES = 5
WHAT = f"trainings killed {TIMES} times each by SIGKILL, at any moment, and resumed"
COUNTS = (2, 40)
SECONDS = 600.0
__all__ = ["prepare"]


def attack(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    seconds = whole()[1]
    moments: list[str] = []
    while len(moments) < TIMES:
        moment = random.uniform(0, seconds)
        say(f"kills after {', '.join([*moments, f'{moment:.2f}'])} of {seconds:.2f} s")
        training = begin(folder)
        time.sleep(moment)
        training.send(signal.SIGKILL)
        if (status := training.wait()) == 0:  # it was at its end before: another begins
            if (outcome := compared(folder)).word != FINE:
                return outcome
            shutil.rmtree(folder / "run")
        elif status != -signal.SIGKILL:
            return Outcome("traceback", f"status {status}: {training.words[-300:]}")
        else:
            moments.append(f"{moment:.2f}")
    return finished(folder)
