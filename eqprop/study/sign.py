"""Does the random sign of β regularise? (section 5.2)

"We find that it helps regularize the network if we choose the sign of β at random in the second phase." So train the
same networks with a random sign and with β > 0, until hardly a training example is wrong.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt
from statistics import mean, stdev
from typing import Any, ClassVar

from eqprop import data
from eqprop.errors import InputError
from eqprop.store.ranges import Count, Epochs, Seeds, check_options
from eqprop.study.base import Entry, Study, learn, over_epochs
from eqprop.study.experiment import Experiment
from eqprop.study.pages import answered, mean_and_deviation
from eqprop.study.paper import as_published

SIGNS: dict[str, Any] = {"random sign": "random-sign", "β > 0 always": "one-sided"}
FINAL: dict[str, Callable[[Entry], float]] = {
    "training error": lambda entry: entry["train"][-1],
    "validation error": lambda entry: entry["valid"][-1],
    "training error, fixed points": lambda entry: entry["end"]["train"],
    "validation error, fixed points": lambda entry: entry["end"]["valid"],
    "test error, fixed points": lambda entry: entry["end"]["test"],
}
"""What is compared in the end, in percent."""


@dataclass(frozen=True)
class Question(Study):
    """How much is spent on the answer. A run is the sign and the seed, which decides the initial weights."""

    name: ClassVar[str] = "sign"
    caption: ClassVar[str] = "Training and validation error over epochs, and the difference between the signs"
    short: ClassVar[dict[str, Any]] = {"epochs": 4, "train": 1000, "valid": 1000, "seeds": 2}

    epochs: Epochs = 30
    train: Count = 10_000
    valid: Count = 5000
    seeds: Seeds = 6

    def __post_init__(self) -> None:
        check_options(self)
        if self.seeds < 2:
            raise InputError(f"seeds={self.seeds}: give two seeds or more, to see how much they differ")
        for run in self.runs():
            self.experiment(*run)  # checks itself

    def runs(self) -> Iterator[tuple[str, int]]:
        return ((sign, seed) for seed, sign in product(range(self.seeds), SIGNS))

    def experiment(self, sign: str, seed: int) -> Experiment:
        whole = as_published("1", seed).experiment
        settling = replace(whole.settling, nudge=SIGNS[sign])
        learning = replace(whole.learning, epochs=self.epochs, train=self.train, changes=False)
        return replace(whole, settling=settling, learning=learning)

    def carry_out(self, run: tuple[Any, ...], examples: data.Dataset) -> Entry:
        return learn(self.experiment(*run), replace(examples, valid=examples.valid[: self.valid]), settled=True)

    def figure(self, entries: list[Entry]) -> Any:
        from eqprop import plots  # matplotlib takes its time to load

        panels: dict[str, Any] = {}
        for part, called in (("train", "training"), ("valid", "validation")):
            curves = {sign: over_epochs([entry[part] for entry in of(entries, sign)]) for sign in SIGNS}
            panels[f"{called} error"] = ("epoch", f"{called} error (%)", curves)
        pairs = zip(*(of(entries, sign) for sign in SIGNS), strict=True)
        gaps = [[b - a for a, b in zip(one["valid"], other["valid"], strict=True)] for one, other in pairs]
        label = "points by which β > 0 is worse"
        panels["difference in validation, by seed"] = ("epoch", label, {"": over_epochs(gaps)})
        return plots.spread(panels)

    def report(self, entries: list[Entry]) -> list[str]:
        rows = []
        for called, final in FINAL.items():
            shown = {sign: mean_and_deviation([final(entry) for entry in of(entries, sign)]) for sign in SIGNS}
            gap, error = difference(entries, called)
            rows.append({"": called, **shown, "β > 0 minus random": f"{round(gap, 2) + 0:+.2f} ± {error:.2f} points"})
        text = TEXT.format(q=self, beta=self.experiment(*next(self.runs())).settling.beta)
        return answered("Does the random sign of β regularise?", self.sentence(entries), text, rows)

    def sentence(self, entries: list[Entry]) -> str:
        """The answer, from the numbers: a difference counts from twice its standard error."""
        gap, error = difference(entries, "validation error")
        seen = "It does" if gap > 0 else "It does the opposite"
        answer = seen if abs(gap) > 2 * error else "No difference is seen"
        random, fixed = (of(entries, sign) for sign in SIGNS)
        better = sum(one["valid"][-1] < other["valid"][-1] for one, other in zip(random, fixed, strict=True))
        rested = [mean(map(FINAL["training error, fixed points"], some)) for some in (random, fixed)]
        trained, valid = ([mean(e[part][-1] for e in some) for some in (random, fixed)] for part in ("train", "valid"))
        return (
            f"**{answer}: with the random sign the validation error ends at {valid[0]:.2f} %, with β > 0 always at "
            f"{valid[1]:.2f} %, a paired difference of {gap:+.2f} ± {error:.2f} points (mean and standard error of "
            f"{self.seeds} seeds; the random sign is better in {better} of them), at training errors of "
            f"{trained[0]:.2f} and {trained[1]:.2f} %, and of {rested[0]:.2f} and {rested[1]:.2f} % at the fixed "
            "points.**"
        )


def of(entries: list[Entry], sign: str) -> list[Entry]:
    """The entries with this sign, in the order of the seeds."""
    return sorted((entry for entry in entries if entry["run"][0] == sign), key=lambda entry: entry["run"][1])


def difference(entries: list[Entry], called: str) -> tuple[float, float]:
    """The mean over the seeds of `FINAL` with β > 0 less that with a random sign, and its standard error."""
    pairs = zip(*(of(entries, sign) for sign in SIGNS), strict=True)
    gaps = [FINAL[called](fixed) - FINAL[called](random) for random, fixed in pairs]
    return mean(gaps), stdev(gaps) / sqrt(len(gaps))


TEXT = """
"We find that it helps regularize the network if we choose the sign of β at random in the second phase" (section 5.2).
Here each network is trained twice from the same initial weights: with β = ±{beta:g}, the sign drawn for each minibatch,
and with β = {beta:g} always. All else is as in the authors' published code: 784-500-10, 20 and 4 clipped gradient steps
of ε = 0.5 from persistent particles, minibatches of 20 in a fixed order, rates 0.2 and 0.1; but on the first
{q.train:,} training images of MNIST, for {q.epochs} epochs. The first rows of the table have the errors of the last
epoch, as the paper counts them: at the particles, the training error before each minibatch is learned, the validation
error (of {q.valid:,} images) at the epoch's end. The rows *fixed points* have those of the final weights, once the
network has settled from s = 0 to a residual of 1e-4. Means ± standard deviations over {q.seeds} seeds, and the mean
paired difference ± its standard error. In the figure, lines are medians, and bands reach from the first to the third
quartile of the seeds.
"""
