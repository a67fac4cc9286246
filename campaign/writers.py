"""Two writers: a second process on the folder of a run is refused while the first one writes, and disturbs nothing."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from campaign.base import Outcome
from campaign.trainings import begin, finished, prepare, until_a_moment

WHAT = "a second training in the folder of one that is under way"
COUNTS = (2, 20)
SECONDS = 120.0
__all__ = ["prepare"]


def attack(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    first = until_a_moment(random, folder, say, "the second begins")
    said = folder / "second"
    said.mkdir()
    (said / "run").symlink_to(folder / "run")
    second = begin(said)
    statuses = first.wait(), second.wait()
    if any("Traceback" in one.words for one in (first, second)) or not {*statuses} <= {0, 2} or 0 not in statuses:
        return Outcome("traceback", f"{statuses}: {first.words[-200:]} | {second.words[-200:]}")
    refused = first if statuses[0] == 2 else second
    if 2 in statuses and not any(word in refused.words for word in ("is writing into", "is not empty", "run folder")):
        return Outcome("lost", f"no word of the other one: {refused.words[-300:]}")
    return finished(folder)
