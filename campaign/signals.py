"""SIGINT, SIGTERM and SIGHUP at any moment: the state is saved, the status is right, the words say how to go on."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from campaign.base import Outcome
from campaign.trainings import SIGNALS, finished, prepare, until_a_moment
from eqprop.cli.stopping import WORDS

WHAT = "trainings ended by SIGINT, SIGTERM or SIGHUP at any moment, and resumed"
COUNTS = (3, 60)
SECONDS = 120.0
__all__ = ["prepare"]


def attack(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    number = random.choice(SIGNALS)
    training = until_a_moment(random, folder, say, number.name)
    training.send(number)
    status = training.wait()
    if status not in (0, 128 + number, -number) or "Traceback" in training.words:
        return Outcome("traceback", f"status {status}: {training.words[-400:]}")
    if status == 128 + number and WORDS[number.name] not in training.words:
        return Outcome("lost", f"no word of the signal: {training.words[-300:]}")
    if (folder / "run" / "checkpoint.safetensors").exists() and status > 0 and "--resume run" not in training.words:
        return Outcome("lost", f"no word of how to go on: {training.words[-300:]}")
    outcome = finished(folder)
    return outcome._replace(detail=outcome.detail or f"it ended with status {status}")
