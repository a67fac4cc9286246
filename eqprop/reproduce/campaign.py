"""Several training runs in one folder, one after the other, that go on where they were left."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Literal

from eqprop import data
from eqprop.errors import InputError
from eqprop.experiment import perform, reopen, training_part
from eqprop.experiment.parsing import from_dict
from eqprop.files import read_json, write_json
from eqprop.reproduce import paper
from eqprop.reproduce.diagnosis import diagnose
from eqprop.reproduce.paper import NETS, Net, Trial
from eqprop.train import Progress, Run

Record = dict[str, float]
FILE = "campaign.json"


@dataclass(frozen=True)
class Campaign:
    """Which networks to train, how, and for how long.

    mode: "as-written", "as-published" or "fast".
    nets: which of `NETS`.
    seed: the first seed. As published, a seed is given up if an output dies, and the next one is taken.
    seeds: the first network is trained from so many seeds, to see the spread; the others from one.
    epochs, train, valid: in place of the full ones.
    minutes: a network's training ends with the last epoch that fits in; None: when its epochs are done.
    """

    mode: Literal["as-written", "as-published", "fast"]
    nets: tuple[Net, ...] = ("1", "2", "3", "fashion")
    seed: int = 0
    seeds: int = 1
    epochs: int | None = None
    train: int | None = None
    valid: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if not self.nets or len(set(self.nets)) < len(self.nets):
            raise InputError(f"nets={' '.join(self.nets)}: name each network once, of {', '.join(NETS)}")
        if self.mode != "as-published" and (odd := [net for net in self.nets if net.endswith("-accelerated")]):
            raise InputError(f"nets={odd[0]}: only `as-published` has an accelerated form; leave it out")
        if self.seeds < 1:
            raise InputError(f"seeds={self.seeds}: give a whole number of 1 or more")
        if self.valid is not None and self.valid < 1:
            raise InputError(f"valid={self.valid}: the paper's curves need at least one example to validate with")
        if self.minutes is not None and not self.minutes > 0:
            raise InputError(f"minutes={self.minutes}: give a positive number")
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
        epochs = paper.PATIENCE.get(trial.net, len(history) + 1) if self.mode == "as-published" else len(history) + 1
        full = self.train is None and trial.experiment.dataset == "mnist"
        return full and len(history) >= epochs and history[epochs - 1]["valid_error"] > 0.1

    def enough(self, history: list[Record]) -> bool:
        """Whether the time is up: another epoch as long as the longest would not fit in."""
        times = [record["seconds"] + record.get("valid_seconds", 0.0) for record in history]
        return self.minutes is not None and bool(times) and sum(times) + max(times) > 60 * self.minutes

    def save(self, folder: Path, commands: list[str]) -> None:
        """Keep the settings, and the commands that led to what is in the folder."""
        write_json(folder / FILE, {"settings": asdict(self), "commands": commands})

    @classmethod
    def load(cls, folder: Path) -> tuple["Campaign", list[str]]:
        """What `save` wrote."""
        path = folder / FILE
        try:
            kept = read_json(path)
            settings, commands = kept["settings"], kept["commands"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{folder} is not the folder of `eqprop reproduce`: no good {FILE} in it") from error
        return from_dict(cls, settings, f"{path}: the settings"), commands

    def check(self, folder: Path) -> None:
        """Refuse to go on with fewer epochs than are done."""
        for trial in self.trials(folder):
            done, asked = len(Run(folder / trial.name).read_history()), trial.experiment.learning.epochs
            if done > asked:
                raise InputError(f"epochs={asked}, but {folder / trial.name} has already done {done}: ask for more")

    def load_data(self, data_dir: Path | None, say: Callable[[str], None]) -> dict[str, data.Dataset]:
        """All the data, and whether they suffice: to be known before hours are spent."""
        names = sorted({trial.experiment.dataset for trial in self.trials()})
        if data_dir is not None and len(names) > 1:
            raise InputError(
                f"--data-dir {data_dir} holds one data set, but {' and '.join(names)} are wanted: see --nets"
            )
        sets = {name: data.load(name, data_dir, self.valid, say) for name in names}
        for trial in self.trials():
            training_part(trial.experiment, sets[trial.experiment.dataset])
        return sets


Follow = Callable[[Trial, int], AbstractContextManager[Callable[[Progress], None]]]
"""(trial, minibatches of an epoch) → what surrounds its training, and hears of its progress."""


def carry_out(
    campaign: Campaign,
    folder: Path,
    sets: dict[str, data.Dataset],
    *,
    checkpoint_seconds: float = 30.0,
    follow: Follow = lambda *_: nullcontext(lambda _: None),
    after: Callable[[], None] = lambda: None,
) -> None:
    """Train what is not trained yet; each run has its own folder in `folder`. `after` is called when one is done."""
    while trial := next((t for t in campaign.trials(folder) if not is_done(campaign, t, folder)), None):
        experiment, examples = trial.experiment, sets[trial.experiment.dataset]
        run = reopen(folder / trial.name, experiment)
        diagnosis(run).unlink(missing_ok=True)  # of weights that are about to change
        batches = -(-len(training_part(experiment, examples)) // experiment.learning.batch_size)
        with follow(trial, batches) as observe:
            perform(
                experiment,
                examples,
                run,
                checkpoint_seconds=checkpoint_seconds,
                enough=lambda history, trial=trial: campaign.enough(history) or campaign.hopeless(trial, history),
                observe=observe,
            )
        write_json(diagnosis(run), diagnose(experiment, examples, run))
        after()


def diagnosis(run: Run) -> Path:
    """The file with what `diagnose` found."""
    return run.folder / "diagnosis.json"


def is_done(campaign: Campaign, trial: Trial, folder: Path) -> bool:
    """Whether a trial has all that its campaign asks for."""
    run = Run(folder / trial.name)
    if not (run.finished and diagnosis(run).exists()):
        return False
    return run.read_result()["epochs"] >= trial.experiment.learning.epochs or campaign.enough(run.read_history())
