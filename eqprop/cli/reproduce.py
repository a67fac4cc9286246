"""`eqprop reproduce`: the experiments of the paper's section 5, as written or fast, with a report beside the paper."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from eqprop import data
from eqprop.cli.campaigns import carry_out, command_line, going_on, kept_settings, print_place, print_rows
from eqprop.cli.console import out, print_json, screen
from eqprop.cli.folders import chosen_folder
from eqprop.cli.images import Images
from eqprop.errors import InputError
from eqprop.progress import CountBar
from eqprop.store.lock import locked
from eqprop.study import Study, accelerated, circuits, depth, epsilon, layers, memory, rates, sign, stream
from eqprop.study.paper import Net, Plain
from eqprop.study.reproduction import Reproduction


@dataclass(frozen=True)
class CampaignOptions:
    """What all campaigns take."""

    nets: tuple[Net, ...] | None = None
    """networks: by the number of hidden layers, or `fashion`, two hidden layers on Fashion-MNIST; None: all that the
    mode is about"""
    short: bool = False
    """a few minutes in all: fewer epochs and examples, unless given"""
    epochs: int | None = None
    """passes over the training examples; None: all that the mode asks for"""
    train: int | None = None
    """train on this many examples only, the first ones; None: all but those for validation"""
    valid: int | None = None
    """examples held out for validation; None: 10,000"""
    seed: int | None = None
    """the first seed; None: 0"""
    minutes: float | None = None
    """time for each network: training ends with the last epoch that fits in, and the first always does; None: no
    limit"""
    run_dir: Path | None = None
    """folder for the runs and the report; None: a new one in runs/"""
    resume: Path | None = None
    """go on with the runs in this folder, with their settings; only --epochs and --minutes may be changed"""
    data_dir: Path | None = None
    """folder with the data set's own files; None: the cache, filled from public sources"""
    json: bool = False
    """print the results as one JSON object, the last line of stdout"""

    def _run(self, full: Reproduction, short: dict[str, int], seeds: int | None = None) -> None:
        """Carry out the campaign `full`, or what the options make of it."""
        asked = {"nets": self.nets, "seed": self.seed, "seeds": seeds, "train": self.train, "valid": self.valid}
        asked |= {"epochs": self.epochs, "minutes": self.minutes}
        given = {name: value for name, value in asked.items() if value is not None}
        if self.nets and self.nets[0] != full.nets[0]:
            full = replace(full, seeds=1)  # several seeds of deeper networks take hours: only if asked for
        if self.resume is None:
            campaign, commands = replace(full, **((short if self.short else {}) | given)), [command_line()]
        else:
            campaign, commands = self._resumed(self.resume, full.mode, given)
            commands = [*commands, command_line()]
        words = f"reproduce {campaign.mode}"
        folder, done = carry_out(campaign, commands, words, self.run_dir, self.resume, self.data_dir)
        if self.json:
            print_json({"mode": campaign.mode, "folder": str(folder), "runs": [o.result for o in done]})
            return
        from eqprop.study import reproduction_page  # loads matplotlib, which takes its time

        for line in reproduction_page.shortened(campaign):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
        rows = [
            reproduction_page.row(net, some) | {"network": net}
            for net, some in reproduction_page.by_network(done).items()
        ]
        print_rows(rows, ["network", "epochs", "training error", "validation error", "test error", "wall clock"])
        print_place(folder)

    def _resumed(self, folder: Path, mode: str, given: dict[str, Any]) -> tuple[Reproduction, list[str]]:
        """The campaign of the folder, with the epochs and minutes that are given now."""
        before, commands = Reproduction.load(folder)
        if before.mode != mode:
            raise InputError(f"{folder} is of `eqprop reproduce {before.mode}`: go on with that")
        campaign = kept_settings(before, folder, given, self.short, free={"epochs", "minutes"})
        campaign.check(folder)
        return campaign, commands


@dataclass(frozen=True)
class AsWritten(CampaignOptions):
    """Every detail of section 5 and Table 2: the paper's iterations, rates, particles and signs.

    The full number of epochs (25, 60, 500) takes about 2 minutes, 1.5 hours and 4 days on two cores: mind --minutes.
    """

    nets: tuple[Plain, ...] | None = None
    """networks: by the number of hidden layers, or `fashion`, two hidden layers on Fashion-MNIST; None: 1, 2 and 3"""

    def run(self) -> None:
        self._run(Reproduction("as-written", ("1", "2", "3")), {"epochs": 3, "train": 1000, "valid": 500})


@dataclass(frozen=True)
class AsPublished(CampaignOptions):
    """What the authors' published code does, which differs from the paper's text in β, rates, iterations and order.

    The full number of epochs (25, 60, 500) takes about 2 minutes, 2 hours and 6 days on one core. Networks 2 and 3 are
    also there in an accelerated form, whose free phases come to the same states several times sooner.
    """

    seeds: int | None = None
    """number of seeds of the first network; None: 3 for network 1 (1 with --short), 1 for the others"""

    def run(self) -> None:
        full = Reproduction("as-published", ("1", "2", "3-accelerated"), seeds=3)
        self._run(full, {"seeds": 1, "epochs": 3, "train": 1000, "valid": 500}, self.seeds)


@dataclass(frozen=True)
class Fast(CampaignOptions):
    """The same networks, to the paper's result, with this library's settling and a recipe of its own.

    The first takes 3 minutes for each of its three seeds, the others 7, 22 and 7 minutes on one core.
    """

    nets: tuple[Plain, ...] | None = None
    """networks: by the number of hidden layers, or `fashion`, two hidden layers on Fashion-MNIST; None: all"""
    seeds: int | None = None
    """number of seeds of the first network; None: 3 for network 1 (1 with --short), 1 for the others"""

    def run(self) -> None:
        full = Reproduction("fast", ("1", "2", "3", "fashion"), seeds=3)
        self._run(full, {"seeds": 1, "epochs": 4, "train": 10_000, "valid": 2_000}, self.seeds)


@dataclass(frozen=True)
class StudyOptions:
    """What all studies take."""

    short: bool = False
    """a few minutes at the most: fewer of everything"""
    run_dir: Path | None = None
    """folder for the results and the report; None: a new one in runs/"""
    resume: Path | None = None
    """go on in this folder, with its settings"""
    data_dir: Path | None = None
    """folder with MNIST's own files; None: the cache, filled from public sources"""
    json: bool = False
    """print the results as one JSON object, the last line of stdout"""

    def _run(self, kind: type[Study], **given: Any) -> None:
        """Carry out a study, with the settings that are given and not None."""
        given = {name: value for name, value in given.items() if value is not None}
        # Wrong settings are refused before there is a folder.
        fresh = kind(**((kind.short if self.short else {}) | given)) if self.resume is None else None
        examples = data.load(kind.dataset, self.data_dir, None, screen.print)
        folder = chosen_folder(self.run_dir, self.resume, f"reproduce-{kind.name}")
        path = folder / f"{kind.name}.json"
        if fresh is not None:
            study, entries, commands = fresh, [], [command_line()]
        else:
            study, entries, commands = kind.load(path)
            study = kept_settings(study, folder, given, self.short, options={"folders": "runs"})
            commands = [*commands, command_line()]
        with going_on(f"reproduce {kind.name}", folder, self.data_dir), locked(folder), CountBar("runs") as bar:
            study.save(path, entries, commands)
            entries = study.answer(path, examples, observe=bar.update)
            study.write(entries, folder, commands)
        if self.json:
            print_json({"folder": str(folder), "runs": entries})
        else:
            print_place(folder)


@dataclass(frozen=True)
class Rates(StudyOptions):
    """Does each layer need its own learning rate when both phases come to rest? The paper's open question."""

    hidden: Literal[1, 2, 3] | None = None
    """hidden layers of the network; None: 2"""

    def run(self) -> None:
        self._run(rates.Question, hidden=self.hidden)


@dataclass(frozen=True)
class Epsilon(StudyOptions):
    """Does the step size ε matter, when the phases last as long? About 3 minutes on one core."""

    def run(self) -> None:
        self._run(epsilon.Question)


@dataclass(frozen=True)
class Sign(StudyOptions):
    """Does the random sign of β regularise? About 10 minutes on one core."""

    def run(self) -> None:
        self._run(sign.Question)


@dataclass(frozen=True)
class Layers(StudyOptions):
    """Does a chain of EP blocks learn as well as backpropagation through the same layers? A few minutes."""

    epochs: int | None = None
    """passes over the training examples; None: 8"""
    seeds: int | None = None
    """how often each is trained; None: once"""

    def run(self) -> None:
        self._run(layers.Question, epochs=self.epochs, seeds=self.seeds)


@dataclass(frozen=True)
class Circuits(StudyOptions):
    """Which imperfection of real devices hurts how much, and what helps? On the digits; about half an hour."""

    epochs: int | None = None
    """passes over the training examples; None: 10"""
    seeds: int | None = None
    """how often each is trained; None: 3"""
    effects: tuple[str, ...] | None = None
    """which imperfections, as "read noise"; None: all"""

    def run(self) -> None:
        self._run(circuits.Question, epochs=self.epochs, seeds=self.seeds, effects=self.effects)


@dataclass(frozen=True)
class Depth(StudyOptions):
    """How many iterations the free phase takes, by depth, beside what the Hessian predicts. About 5 minutes."""

    def run(self) -> None:
        self._run(depth.Question)


@dataclass(frozen=True)
class Memory(StudyOptions):
    """How many patterns associative memories recall, beside what theory predicts. About 5 minutes on one core."""

    def run(self) -> None:
        self._run(memory.Question)


@dataclass(frozen=True)
class Stream(StudyOptions):
    """A stream of digits that turn slowly: a network that learns on the fly beside one that is frozen. 5 minutes."""

    def run(self) -> None:
        self._run(stream.Question)


@dataclass(frozen=True)
class Accelerated(StudyOptions):
    """Are the accelerated networks of `as-published` trained as the others are? Both go on from one checkpoint."""

    runs: tuple[Path, ...] | None = None
    """folders of runs of networks 2 or 3, of either form, in the folder of `eqprop reproduce as-published`; to be given
    unless one resumes"""
    batches: int | None = None
    """minibatches to compare; None: 200, or 10 with --short"""

    def run(self) -> None:
        folders = None if self.runs is None else tuple(str(run.resolve()) for run in self.runs)
        self._run(accelerated.Question, folders=folders, batches=self.batches)


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the paper's experiments (section 5), and networks for images."""

    mode: (
        Annotated[Fast, tyro.conf.subcommand("fast")]
        | Annotated[AsPublished, tyro.conf.subcommand("as-published")]
        | Annotated[AsWritten, tyro.conf.subcommand("as-written")]
        | Annotated[Rates, tyro.conf.subcommand("rates")]
        | Annotated[Epsilon, tyro.conf.subcommand("epsilon")]
        | Annotated[Sign, tyro.conf.subcommand("sign")]
        | Annotated[Circuits, tyro.conf.subcommand("circuits")]
        | Annotated[Layers, tyro.conf.subcommand("layers")]
        | Annotated[Depth, tyro.conf.subcommand("depth")]
        | Annotated[Accelerated, tyro.conf.subcommand("accelerated")]
        | Annotated[Memory, tyro.conf.subcommand("memory")]
        | Annotated[Stream, tyro.conf.subcommand("stream")]
        | Annotated[Images, tyro.conf.subcommand("images")]
    )

    def run(self) -> None:
        self.mode.run()
