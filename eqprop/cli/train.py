"""`eqprop train`: a network on a data set, with a run folder for all that comes of it."""

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import jax
import tyro
from jax.sharding import Mesh

from eqprop import data
from eqprop.cli.console import out, print_json, result_table, screen
from eqprop.cli.folders import fresh_folder
from eqprop.cli.parallel import ParallelOptions
from eqprop.cli.stopping import heeding, resumable
from eqprop.energy import ACTIVATIONS
from eqprop.errors import InputError, warn
from eqprop.progress import TrainingBar
from eqprop.store import Follower, Run
from eqprop.store.atomic import write_figure
from eqprop.store.ranges import Pause, check_options
from eqprop.study import (
    CircuitOptions,
    CostOptions,
    DeviceOptions,
    Experiment,
    ImageOptions,
    LearningOptions,
    NetworkOptions,
    SettlingOptions,
    Setup,
    Trained,
    check_agreement,
    experiment_of,
    perform,
    preset,
    settling_maps,
)
from eqprop.study.options import ArchitectureName
from eqprop.total import Blocks
from eqprop.train.layout import whole

PARTS = ("cost", "settling", "learning", "images", "circuit", "devices")


@dataclass(frozen=True)
class NamedNetwork(NetworkOptions):
    """what the network is"""

    architecture: Annotated[ArchitectureName, tyro.conf.arg(aliases=["--net"])] = "layered"


@dataclass(frozen=True)
class OutputOptions:
    """where things come from and go to"""

    run_dir: Path | None = None
    """folder for settings, history, checkpoint, weights and pictures; None: a new one in runs/"""
    resume: Path | None = None
    """go on with the run in this folder, by its settings; only --epochs may change, to no fewer than were begun, and
    not where rates follow a cosine"""
    data_dir: Path | None = None
    """folder with the data set's own files; None: the cache, filled from public sources"""
    checkpoint_seconds: Pause | None = None
    """save no more often than this, and at the end; None: 10, or as much more as keeps saving within 2 % of the time"""
    json: bool = False
    """print the result as one JSON object, the last line of stdout"""

    def check(self) -> None:
        if self.run_dir is not None and self.resume is not None:
            raise InputError(f"--run-dir {self.run_dir} and --resume {self.resume} exclude each other: give one")
        check_options(self)


@dataclass(frozen=True)
class Train:
    """Train a network by equilibrium propagation, or by one of its relatives."""

    dataset: tyro.conf.Positional[str] = "digits"
    """digits, mnist, fashion, cifar10 or cifar100, which decides some of the defaults below; or a folder, with a / in
    its name, of .npy files train-x…, train-y…, test-x…, test-y…: training examples are read as they are needed"""
    network: NamedNetwork = field(default_factory=NamedNetwork)
    cost: CostOptions = field(default_factory=CostOptions)
    settling: SettlingOptions = field(default_factory=SettlingOptions)
    learning: LearningOptions = field(default_factory=LearningOptions)
    images: ImageOptions = field(default_factory=ImageOptions)
    circuit: CircuitOptions = field(default_factory=CircuitOptions)
    devices: DeviceOptions = field(default_factory=DeviceOptions)
    parallel: ParallelOptions = field(default_factory=ParallelOptions)
    output: OutputOptions = field(default_factory=OutputOptions)

    @classmethod
    def of(cls, experiment: Experiment) -> "Train":
        """The command that carries out the experiment."""
        network = NamedNetwork(**vars(experiment.network))
        parts = [getattr(experiment, part) for part in PARTS]
        return cls(experiment.dataset, network, *parts)

    def without_hidden(self) -> "Train":
        """The same without hidden layers: those that a reading of it has are the ones that were asked for."""
        return replace(self, network=replace(self.network, hidden=()))

    @property
    def experiment(self) -> Experiment:
        network = NetworkOptions(**vars(self.network))
        return Experiment(data.full_name(self.dataset), network, *(getattr(self, part) for part in PARTS))

    def run(self) -> None:
        self.output.check()
        with self.parallel.together(self._again) as together:
            setup = self._setup(together.mesh)
            run = self._open_run(setup.name, together.first)
            together.folder = run.folder
            with (
                resumable(self._resume(run.folder), run.folder),
                TrainingBar(self.learning.epochs, setup.feed.batches, self.learning.batch_size) as bar,
            ):
                observe = heeding(bar.update) if together.first else lambda _: None
                trained = perform(setup, run, checkpoint_seconds=self.output.checkpoint_seconds, observe=observe)
            state = trained.state._replace(theta=jax.tree.map(whole, trained.state.theta))
            if together.first:
                before = f"the trained network is saved in {run.folder}, and what is left is to draw it; "
                with resumable(self._resume(run.folder), run.folder, before):
                    self._tell(run, trained._replace(state=state))

    def _again(self, folder: Path | None) -> str:
        """How to go on with the run in a folder, in words."""
        return "start again" if folder is None else f"go on with `{shlex.join(['eqprop', *self._resume(folder)])}`"

    def _resume(self, folder: Path) -> list[str]:
        """The command that goes on with the run in a folder."""
        more = ["--data-dir", str(self.output.data_dir)] if self.output.data_dir else []
        return ["train", "--resume", str(folder), *more]

    def _setup(self, mesh: Mesh | None) -> Setup:
        """What to train, and on which data; refused before anything is fetched or written, where that can be known."""
        experiment, resume = self.experiment, self.output.resume
        check_use(experiment)
        if resume is not None:
            remedy = "leave the option out to go on with the run, or start a new one"
            check_agreement(saved(resume), experiment, "the run was begun", remedy)
        if experiment.convolves:  # an image that it does not fit is refused before it is fetched
            experiment.assemble(*experiment.widths(data.outline(self.dataset)))
        examples = data.load(self.dataset, self.output.data_dir, self.learning.valid, screen.print)
        setup = experiment.build(examples, mesh)
        if self.learning.batch_size > len(setup.train):
            warn(
                f"batch_size={self.learning.batch_size} is more than the {len(setup.train)} training examples, so an "
                "epoch is one update: give a smaller --batch-size",
            )
        return setup

    def _tell(self, run: Run, trained: Trained) -> None:
        """Draw, and print what came of it."""
        draw(run, trained)
        if self.output.json:
            print_json(trained.result)
        else:
            out.print(result_table(trained.result))
            out.print(f"in {run.folder}", markup=False, highlight=False, soft_wrap=True)

    def _open_run(self, net: str, first: bool) -> Run:
        if not first:
            return Follower(self.output.resume or self.output.run_dir or Path("runs"))
        if self.output.resume is not None:
            return Run.open(self.output.resume)
        return Run.create(
            self.output.run_dir or fresh_folder(f"{Path(self.dataset).name}-{net}"), self.experiment.to_dict()
        )


def draw(run: Run, trained: Trained) -> None:
    """Draw in the run's folder: the learning curve, and for images the weights of the first layer.

    For a convolutional network also the states of its layers while an image settles and is nudged.
    """
    from eqprop import plots  # loaded only now, as matplotlib takes a while

    title = f"{trained.result['dataset']}, {trained.result['net']}"
    write_figure(run.folder / "learning_curve.png", plots.learning_curve(trained.history, title))
    first = trained.setup.net.fields(trained.state.theta)
    if trained.setup.experiment.convolves:
        write_figure(run.folder / "filters.png", plots.filters(first, title=title))
        if trained.setup.trainer.F.offer(Blocks) is not None:
            maps = settling_maps(trained.setup, trained.state.theta)
            write_figure(run.folder / "feature_maps.png", plots.feature_maps(maps, title=title))
    elif len(shape := trained.setup.data.shape) == 2:
        write_figure(run.folder / "receptive_fields.png", plots.receptive_fields(first, shape, title=title))


def saved(folder: Path) -> Experiment:
    """The experiment of the run in a folder."""
    return experiment_of(Run.open(folder))


def usual(of: Experiment | Train) -> Experiment:
    """The settings that hold unless others are asked for."""
    return preset(of.dataset, of.learning.method, of.network.architecture, of.network.hidden)


def check_use(experiment: Experiment) -> None:
    """Refuse settling options that the method does not use, and targets that it cannot learn."""
    low, high = ACTIVATIONS[experiment.network.activation].low, ACTIVATIONS[experiment.network.activation].high
    if experiment.method.inside and experiment.cost.cost == "squared" and {low, high} & {*experiment.cost.targets}:
        raise InputError(
            f"targets={experiment.cost.targets} are ends of the box, where outputs do not learn by "
            f"method={experiment.learning.method}: give --targets 0.2 0.8 --bias 0.26, as `eqprop compare` does"
        )
    expected, plain, values = usual(experiment).flat(), Experiment(experiment.dataset).flat(), experiment.flat()
    for name, value in values.items():
        if value in (expected[name], plain[name]):
            continue
        if name in vars(experiment.settling) and name not in experiment.method.uses:
            raise InputError(f"{name}={value} does nothing for method={experiment.learning.method}: leave it out")
        if name in experiment.idle:
            raise InputError(f"{name}={value} does nothing, as {experiment.idle[name]}: leave it out")
