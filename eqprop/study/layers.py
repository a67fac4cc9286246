"""Does a chain of EP blocks learn as well as backpropagation? (Nest & Ernoult 2024)

The same layers are trained twice: as blocks that settle, EP within them and backpropagation between, and as a
feed-forward network by backpropagation alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from eqprop import data
from eqprop.errors import InputError
from eqprop.store.ranges import Count, Seeds, check_options
from eqprop.study.base import Entry, Study, learn, over_epochs
from eqprop.study.experiment import Experiment
from eqprop.study.methods import METHODS, PER_BLOCK
from eqprop.study.options import LearningOptions, SettlingOptions
from eqprop.study.pages import answered, mean_and_deviation
from eqprop.study.presets import preset

COMPARED = ("chain", "backpropagation")


@dataclass(frozen=True)
class Question(Study):
    """How much is spent on the answer. A run is the method, its learning rate, and the seed of the initial weights."""

    name: ClassVar[str] = "layers"
    caption: ClassVar[str] = "Validation error over epochs, at the learning rates that were chosen"
    short: ClassVar[dict[str, Any]] = {"epochs": 3, "train": 5000, "width": 64, "rates": (0.002,)}

    blocks: Count = 3
    width: int = 128
    beta: float = 0.1
    epochs: int = 8
    train: int | None = None
    rates: tuple[float, ...] = (0.001, 0.002)
    seeds: Seeds = 1

    def __post_init__(self) -> None:
        check_options(self)
        if not self.rates:
            raise InputError("rates=(): give one learning rate or more")
        for run in self.runs():
            self.experiment(*run)  # checks itself

    def runs(self) -> Iterator[tuple[str, float, int]]:
        return ((method, rate, seed) for seed, rate, method in product(range(self.seeds), self.rates, COMPARED))

    def experiment(self, method: Any, rate: float, seed: int) -> Experiment:
        settling = (
            SettlingOptions(beta=self.beta, nudged_steps=2 * PER_BLOCK) if method == "chain" else SettlingOptions()
        )
        return Experiment(
            self.dataset,
            preset(self.dataset, "chain", hidden=(self.width,) * (PER_BLOCK * self.blocks - 1)).network,
            settling=settling,
            learning=LearningOptions(
                method=method,
                learning_rate=(rate,),
                epochs=self.epochs,
                batch_size=100,
                train=self.train,
                seed=seed,
            ),
        )

    def carry_out(self, run: tuple[Any, ...], examples: data.Dataset) -> Entry:
        return learn(self.experiment(*run), examples, settled=True)

    def figure(self, entries: list[Entry]) -> Any:
        from eqprop import plots  # matplotlib takes its time to load

        panels: dict[str, Any] = {}
        for part, called in (("train", "training"), ("valid", "validation")):
            chosen = {METHODS[m].title: over_epochs([e[part] for e in self.chosen(entries, m)]) for m in COMPARED}
            panels[f"{called} error"] = ("epoch", f"{called} error (%)", chosen)
        return plots.spread(panels)

    def chosen(self, entries: list[Entry], method: str) -> list[Entry]:
        """The runs of a method at the learning rate with the least validation error at the end, on average."""

        def of(rate: float) -> list[Entry]:
            return [entry for entry in entries if entry["run"][:2] == [method, rate]]

        return of(min(self.rates, key=lambda rate: sum(entry["end"]["valid"] for entry in of(rate))))

    def report(self, entries: list[Entry]) -> list[str]:
        rows = []
        for method in COMPARED:
            chosen = self.chosen(entries, method)
            shown = {part: mean_and_deviation([e["end"][part] for e in chosen]) for part in ("train", "valid", "test")}
            rows.append(
                {
                    "": METHODS[method].title,
                    "learning rate": f"{chosen[0]['run'][1]:g}",
                    "training error": shown["train"],
                    "validation error": shown["valid"],
                    "test error": shown["test"],
                }
            )
        text = TEXT.format(q=self, layers=PER_BLOCK * self.blocks, sweeps=2 * PER_BLOCK)
        return answered(
            "Does a chain of EP blocks learn as well as backpropagation?", self.sentence(entries), text, rows
        )

    def sentence(self, entries: list[Entry]) -> str:
        """The answer, from the numbers."""
        ours, theirs = (
            sum(e["end"]["test"] for e in some) / len(some) for some in (self.chosen(entries, m) for m in COMPARED)
        )
        return (
            f"**A chain of {self.blocks} EP blocks ends at {ours:.2f} % test error, backpropagation through the same "
            f"layers at {theirs:.2f} %: a difference of {ours - theirs:+.2f} points.**"
        )


TEXT = """
Both have the same {layers} layers, {q.width} hidden units each, the same initial weights, minibatches and {q.epochs}
epochs of MNIST. In the chain, two layers at a time are a block that settles to a minimum of its Hopfield energy and
hands its state on; nothing comes back from block to block but the cotangent. It learns by nudged phases of ±{q.beta}
within each block, of {sweeps} sweeps, and by the chain rule between blocks. Backpropagation trains the feed-forward
network of these layers, whose outputs are linear. Initial weights are small within blocks and larger between them: of
what was tried on a part of MNIST, they served the chain best.

The learning rate of each is the one of {q.rates} with the least validation error (10,000 images held out); test errors
are those of the rates chosen. Seeds: {q.seeds}.
"""
