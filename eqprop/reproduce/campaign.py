"""Several training runs in one folder, one after the other, that go on where they were left."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from eqprop import data
from eqprop.errors import InputError
from eqprop.experiment import perform, training_part
from eqprop.experiment.parsing import from_dict
from eqprop.files import read_json, write_json
from eqprop.reproduce import paper
from eqprop.reproduce.diagnosis import diagnose
from eqprop.reproduce.paper import NETS, Net, Trial
from eqprop.train import Progress, Run

Record = dict[str, float]


@dataclass(frozen=True)
class Campaign:
    """Which networks to train, how, and for how long.

    mode: "as-written" or "fast".
    nets: which of `NETS`.
    seeds: the first network is trained from so many seeds, to see the spread; the others from one.
    epochs, train, valid: in place of the full ones.
    minutes: a network's training ends with the last epoch that fits in; None: when its epochs are done.
    """

    mode: Literal["as-written", "fast"]
    nets: tuple[Net, ...] = ("1", "2", "3", "fashion")
    seeds: int = 1
    epochs: int | None = None
    train: int | None = None
    valid: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if not self.nets or len(set(self.nets)) < len(self.nets):
            raise InputError(f"nets={' '.join(self.nets)}: name each network once, of {', '.join(NETS)}")
        if self.seeds < 1:
            raise InputError(f"seeds={self.seeds}: give a whole number of 1 or more")
        if self.minutes is not None and not self.minutes > 0:
            raise InputError(f"minutes={self.minutes}: give a positive number")
        self.trials()  # the settings check themselves

    def trials(self) -> list[Trial]:
        make = paper.as_written if self.mode == "as-written" else paper.fast
        return [
            paper.shortened(make(net, seed), self.epochs, self.train, self.valid)
            for net in self.nets
            for seed in range(self.seeds if net == self.nets[0] else 1)
        ]

    def enough(self, history: list[Record]) -> bool:
        """Whether the time is up: another epoch as long as the longest would not fit in."""
        times = [record["seconds"] + record.get("valid_seconds", 0.0) for record in history]
        return self.minutes is not None and bool(times) and sum(times) + max(times) > 60 * self.minutes

    def save(self, folder: Path) -> None:
        write_json(folder / "campaign.json", asdict(self))

    @classmethod
    def load(cls, folder: Path) -> "Campaign":
        path = folder / "campaign.json"
        try:
            return from_dict(cls, read_json(path), f"{path}: the settings")
        except (OSError, ValueError) as error:
            raise InputError(f"{folder} is not the folder of `eqprop reproduce`: no good {path.name} in it") from error


Follow = Callable[[Trial, int], AbstractContextManager[Callable[[Progress], None]]]
"""(trial, minibatches of an epoch) → what surrounds its training, and hears of its progress."""


def carry_out(
    campaign: Campaign,
    folder: Path,
    *,
    data_dir: Path | None = None,
    checkpoint_seconds: float = 30.0,
    follow: Follow = lambda *_: nullcontext(lambda _: None),
    say: Callable[[str], None] = lambda _: None,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Train what is not trained yet; each run has its own folder in `folder`. `after` is called when one is done."""
    trials = campaign.trials()
    # All the data first: what is missing should be known before hours are spent.
    names = {trial.experiment.dataset for trial in trials}
    if data_dir is not None and len(names) > 1:
        raise InputError(f"--data-dir {data_dir} holds one data set, but {' and '.join(sorted(names))} are wanted")
    sets = {name: data.load(name, data_dir, campaign.valid, say) for name in sorted(names)}
    for trial in trials:
        experiment, examples = trial.experiment, sets[trial.experiment.dataset]
        run = _open(folder / trial.name, experiment.to_dict())
        if is_done(campaign, trial, run):
            continue
        batches = -(-len(training_part(experiment, examples)) // experiment.learning.batch_size)
        with follow(trial, batches) as observe:
            perform(
                experiment,
                examples,
                run,
                checkpoint_seconds=checkpoint_seconds,
                enough=campaign.enough,
                observe=observe,
            )
        found = diagnose(experiment, examples, run)
        write_json(run.folder / "diagnosis.json", found)
        after()


def is_done(campaign: Campaign, trial: Trial, run: Run) -> bool:
    """Whether a trial has all that its campaign asks for."""
    if not (run.finished and (run.folder / "diagnosis.json").exists()):
        return False
    return run.read_result()["epochs"] >= trial.experiment.learning.epochs or campaign.enough(run.read_history())


def _open(folder: Path, config: dict[str, Any]) -> Run:
    """The run of the folder; a kill may have come before its settings were written."""
    if not (folder / "config.json").exists():
        return Run.create(folder, config)
    run = Run.open(folder)
    run.clear_leftovers()
    return run
