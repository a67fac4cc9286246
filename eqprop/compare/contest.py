"""The same network, data, seed and budget for every method, each in a run folder of its own."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from eqprop import data
from eqprop.compare.first import first_gradient
from eqprop.compare.limit import weak_feedback
from eqprop.compare.modes import different_modes
from eqprop.compare.speed import speeds
from eqprop.errors import InputError
from eqprop.experiment import METHODS, CostOptions, Experiment, SettlingOptions, perform, preset, reopen, training_part
from eqprop.experiment.parsing import from_dict
from eqprop.files import read_json, write_json
from eqprop.train import Progress, Run

FILE, LIMIT, MODES = "contest.json", "weak_feedback.json", "modes.json"
EPOCHS = {"digits": 30, "mnist": 10}


class Trial(NamedTuple):
    """A method on a data set."""

    method: str
    experiment: Experiment

    @property
    def name(self) -> str:
        return f"{self.experiment.dataset}-{self.method}"


@dataclass(frozen=True)
class Contest:
    """Which methods to compare, on which data sets.

    epochs, train: in place of the full ones; `train` limits the examples of MNIST only.
    """

    datasets: tuple[str, ...] = tuple(EPOCHS)
    methods: tuple[str, ...] = tuple(METHODS)
    epochs: int | None = None
    train: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for what, asked, there in (("datasets", self.datasets, EPOCHS), ("methods", self.methods, METHODS)):
            if not asked or len(set(asked)) < len(asked) or set(asked) - there.keys():
                raise InputError(f"{what}={' '.join(asked)}: name some, each once, of {', '.join(there)}")
        self.trials()  # the settings check themselves

    def trials(self) -> list[Trial]:
        return [Trial(method, self.experiment(name, method)) for name in self.datasets for method in self.methods]

    def experiment(self, dataset: str, method: str) -> Experiment:
        """The data set's usual network and minibatches, and what suits all methods.

        Outputs have targets inside of the box, and begin at the mean of these: where they rest at an end of the box, an
        exact gradient is 0, and a push away from the target moves nothing. Phases come closer to rest than in `eqprop
        train`: to contrast a free phase with another, it has to be finished.
        """
        usual = preset(dataset, method)
        learning = replace(
            usual.learning,
            learning_rate=(0.001,),
            epochs=EPOCHS[dataset] if self.epochs is None else self.epochs,
            train=self.train if dataset == "mnist" else None,
            seed=self.seed,
        )
        return replace(
            usual,
            network=replace(usual.network, bias=0.26),
            cost=CostOptions(targets=(0.2, 0.8)),
            settling=SettlingOptions(beta=0.25, free_steps=10, nudged_steps=6),
            learning=learning,
        )

    def save(self, folder: Path, commands: list[str]) -> None:
        """Keep the settings, and the commands that led to what is in the folder."""
        write_json(folder / FILE, {"settings": asdict(self), "commands": commands})

    @classmethod
    def load(cls, folder: Path) -> tuple["Contest", list[str]]:
        """What `save` wrote."""
        path = folder / FILE
        try:
            kept = read_json(path)
            settings, commands = kept["settings"], kept["commands"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{folder} is not the folder of `eqprop compare`: no good {FILE} in it") from error
        return from_dict(cls, settings, f"{path}: the settings"), commands

    def load_data(self, data_dir: Path | None, say: Callable[[str], None]) -> dict[str, data.Dataset]:
        """All the data, and whether they suffice: to be known before anything is trained."""
        sets = {name: data.load(name, data_dir if name != "digits" else None, None, say) for name in self.datasets}
        for trial in self.trials():
            training_part(trial.experiment, sets[trial.experiment.dataset])
        return sets


Follow = Callable[[Trial, int], AbstractContextManager[Callable[[Progress], None]]]
"""(trial, minibatches of an epoch) → what surrounds its training, and hears of its progress."""


def carry_out(
    contest: Contest,
    folder: Path,
    sets: dict[str, data.Dataset],
    *,
    follow: Follow = lambda *_: nullcontext(lambda _: None),
    after: Callable[[], None] = lambda: None,
) -> None:
    """Train what is not trained yet, each in its own folder, then time all against each other."""
    for trial in contest.trials():
        experiment, examples = trial.experiment, sets[trial.experiment.dataset]
        run = reopen(folder / trial.name, experiment)
        if is_done(run):
            continue
        batches = -(-len(training_part(experiment, examples)) // experiment.learning.batch_size)
        with follow(trial, batches) as observe:
            perform(experiment, examples, run, checkpoint_seconds=30.0, observe=observe)
        write_json(first(run), first_gradient(experiment, examples))
        after()
    for name, examples in sets.items():
        if not speed(folder, name).exists():
            rivals = {method: contest.experiment(name, method) for method in contest.methods}
            write_json(speed(folder, name), speeds(rivals, examples))
            after()
    if "xie-seung" in contest.methods and not (folder / LIMIT).exists():
        write_json(folder / LIMIT, weak_feedback(sets[contest.datasets[0]]))
    if "contrastive-hebbian" in contest.methods and not (folder / MODES).exists():
        write_json(folder / MODES, different_modes())


def first(run: Run) -> Path:
    """The file with what `first_gradient` found."""
    return run.folder / "first_gradient.json"


def speed(folder: Path, dataset: str) -> Path:
    """The file with what `speeds` found."""
    return folder / f"speed-{dataset}.json"


def is_done(run: Run) -> bool:
    return run.finished and first(run).exists()
