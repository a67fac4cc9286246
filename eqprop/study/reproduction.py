"""The paper's networks as a campaign (section 5): as written, as published, or fast."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any, ClassVar, Literal

from eqprop.errors import InputError
from eqprop.store import Run
from eqprop.store.ranges import Count, Epochs, Positive, Seed, Seeds, check_options
from eqprop.store.run import Record
from eqprop.study import paper
from eqprop.study.campaign import Campaign, Outcome, Trial, require_names, time_is_up
from eqprop.study.diagnosis import diagnose
from eqprop.study.paper import NETS, Net
from eqprop.study.training import Trained


@dataclass(frozen=True)
class Reproduction(Campaign):
    """Which networks to train, how, and for how long.

    mode: "as-written", "as-published" or "fast".
    nets: which of `NETS`.
    seed: the first seed. As published, a seed is given up if an output dies, and the next one is taken.
    seeds: from how many seeds the first network is trained, to see the spread; the others are trained from one.
    epochs, train, valid: in place of the full ones.
    minutes: a network's training ends with the last epoch that fits in; None: when its epochs are done.
    """

    command: ClassVar[str] = "eqprop reproduce"
    file: ClassVar[str] = "campaign.json"
    notes_file: ClassVar[str] = "diagnosis.json"

    mode: Literal["as-written", "as-published", "fast"]
    nets: tuple[Net, ...] = ("1", "2", "3", "fashion")
    seed: Seed = 0
    seeds: Seeds = 1
    epochs: Epochs | None = None
    train: Count | None = None
    valid: Count | None = None
    minutes: Positive | None = None

    def __post_init__(self) -> None:
        check_options(self)
        require_names("nets", self.nets, NETS)
        if self.mode != "as-published" and (odd := [net for net in self.nets if net.endswith("-accelerated")]):
            raise InputError(f"nets={odd[0]}: only `as-published` has an accelerated form; leave it out")
        self.trials()  # the settings check themselves

    def trials(self, folder: Path | None = None) -> list[Trial]:
        """What to train. Where the runs in `folder` show that a seed was given up, the next one takes its place."""
        found = []
        for net in self.nets:
            kept = (trial for trial in self._seeds(net) if not self._given_up(trial, folder))
            found += islice(kept, self.seeds if net == self.nets[0] else 1)
        return found

    def given_up(self, folder: Path) -> list[Trial]:
        """The trials in `folder` that were given up."""
        tried = (takewhile(lambda trial: Run(folder / trial.name).saved, self._seeds(net)) for net in self.nets)
        return [trial for some in tried for trial in some if self._given_up(trial, folder)]

    def _seeds(self, net: Net) -> Iterator[Trial]:
        make = {"as-written": paper.as_written, "as-published": paper.as_published, "fast": paper.fast}[self.mode]
        return (paper.shortened(make(net, seed), self.epochs, self.train, self.valid) for seed in count(self.seed))

    def _given_up(self, trial: Trial, folder: Path | None) -> bool:
        return folder is not None and self.hopeless(trial, Run(folder / trial.name).read_history())

    def hopeless(self, trial: Trial, history: list[Record]) -> bool:
        """Whether an output has died in a network as published: its images, a tenth of all, are never learned then."""
        patience = paper.PATIENCE.get(trial.kind)
        full = self.mode == "as-published" and self.train is None and trial.experiment.dataset == "mnist"
        if patience is None or not full or len(history) < patience:
            return False
        return history[patience - 1]["valid_error"] > 0.1

    def time_is_up(self, history: list[Record]) -> bool:
        """Whether another epoch would not fit in."""
        return time_is_up(self.minutes, history)

    def enough(self, trial: Trial, history: list[Record]) -> bool:
        """Whether the time is up, or the trial is hopeless."""
        return self.time_is_up(history) or self.hopeless(trial, history)

    def examine(self, trained: Trained) -> dict[str, Any]:
        """Why the network does or does not learn."""
        return diagnose(trained)

    def page(self, folder: Path, done: list[Outcome]) -> tuple[list[str], dict[str, Any]]:
        """The networks beside the paper's."""
        from eqprop.study import reproduction_page  # loads matplotlib, which takes its time

        return reproduction_page.page(self, folder, done)

    def check(self, folder: Path) -> None:
        """Refuse to go on with fewer epochs than are done."""
        for trial in self.trials(folder):
            done, asked = len(Run(folder / trial.name).read_history()), trial.experiment.learning.epochs
            if done > asked:
                raise InputError(f"epochs={asked}, but {folder / trial.name} has already done {done}: ask for more")
