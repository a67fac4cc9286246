"""Does the step size matter, when the duration of the phases stays the same? (section 5.1)

"We find experimentally that the choice of ε has little influence as long as 0 < ε < 1. What matters more is the total
duration of the relaxation Δt = n_iter × ε." So let ε vary at fixed Δt, and Δt at fixed ε.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any, ClassVar

from eqprop import data
from eqprop.errors import InputError
from eqprop.store.ranges import Count, Epochs, Positive, Seeds, check_options
from eqprop.study.base import Entry, Study, learn, over_epochs
from eqprop.study.experiment import Experiment
from eqprop.study.options import SettlingOptions
from eqprop.study.pages import answered, mean_and_deviation
from eqprop.study.paper import as_published


@dataclass(frozen=True)
class Question(Study):
    """How much is spent on the answer.

    A run is ε, the duration of both phases as a multiple of the paper's (10 and 2), and the seed.
    """

    name: ClassVar[str] = "epsilon"
    caption: ClassVar[str] = "Validation error over epochs, over the step size and over the duration"
    short: ClassVar[dict[str, Any]] = {"epochs": 3, "train": 1000, "valid": 1000, "seeds": 2}

    epochs: Epochs = 8
    train: Count = 5000
    valid: Count = 2000
    seeds: Seeds = 3
    steps: tuple[Positive, ...] = (1.0, 0.5, 0.25, 0.125)
    durations: tuple[Positive, ...] = (0.25, 0.5, 1.0, 2.0)

    def __post_init__(self) -> None:
        check_options(self)
        if 0.5 not in self.steps or 1.0 not in self.durations:
            raise InputError(f"steps={self.steps}, durations={self.durations}: the paper's 0.5 and 1 belong to them")
        for run in self.runs():
            self.experiment(*run)  # checks itself

    def runs(self) -> Iterator[tuple[float, float, int]]:
        settings = [(epsilon, 1.0) for epsilon in self.steps] + [(0.5, d) for d in self.durations if d != 1]
        return ((*setting, seed) for seed in range(self.seeds) for setting in settings)

    def experiment(self, epsilon: float, duration: float, seed: int) -> Experiment:
        whole = as_published("1", seed).experiment
        learning = replace(whole.learning, epochs=self.epochs, train=self.train, changes=False)
        return replace(whole, settling=at(whole.settling, epsilon, duration), learning=learning)

    def carry_out(self, run: tuple[Any, ...], examples: data.Dataset) -> Entry:
        return learn(self.experiment(*run), replace(examples, valid=examples.valid[: self.valid]))

    def figure(self, entries: list[Entry]) -> Any:
        from eqprop import plots  # matplotlib takes its time to load

        curves = {
            f"ε = {e:g}": over_epochs([entry["valid"] for entry in of(entries, e, 1.0)])
            for e in sorted(self.steps, reverse=True)
        }
        ends = "validation error, last epoch (%)"
        free = self.experiment(0.5, 1.0, 0).settling
        panels = {
            "the same duration": ("epoch", "validation error (%)", curves),
            "over the step size": ("step size ε", ends, {"": {e: last(entries, e, 1.0) for e in self.steps}}),
            "over the duration, ε = 0.5": (
                "duration of the free phase, Δt = n ε",
                ends,
                {"": {d * 0.5 * (free.free_steps or 0): last(entries, 0.5, d) for d in self.durations}},
            ),
        }
        return plots.spread(panels, log=dict.fromkeys(list(panels)[1:], "x"), like=list(panels)[1:])

    def report(self, entries: list[Entry]) -> list[str]:
        rows = []
        for epsilon, duration in dict.fromkeys((e, d) for e, d, _ in self.runs()):
            settling = self.experiment(epsilon, duration, 0).settling
            free, nudged = settling.free_steps or 0, settling.nudged_steps or 0
            some = of(entries, epsilon, duration)
            rows.append(
                {
                    "ε": f"{epsilon:g}",
                    "free phase: iterations, Δt": f"{free}, {free * epsilon:g}",
                    "nudged phase": f"{nudged}, {nudged * epsilon:g}",
                    "training error": mean_and_deviation([entry["train"][-1] for entry in some]),
                    "validation error": mean_and_deviation(last(entries, epsilon, duration)),
                }
            )
        text = TEXT.format(q=self, beta=self.experiment(*next(self.runs())).settling.beta)
        return answered("Does the step size matter?", self.sentence(entries), text, rows)

    def sentence(self, entries: list[Entry]) -> str:
        """The answer, from the numbers."""
        by_step = {e: mean(last(entries, e, 1.0)) for e in self.steps if e < 1}
        by_duration = {d: mean(last(entries, 0.5, d)) for d in self.durations}
        apart = [max(values.values()) - min(values.values()) for values in (by_step, by_duration)]
        which = "the duration matters more than ε" if apart[1] > apart[0] else "the duration matters no more than ε"
        judged = "as the paper says" if apart[1] > apart[0] else "against what the paper says"
        seeds = [stdev(last(entries, e, 1.0)) for e in by_step] if self.seeds > 1 else []
        aside = f" Between seeds it varies by up to {max(seeds):.2f} points at a fixed duration." if seeds else ""
        outside = "".join(
            f" At ε = {e:g}, outside the range that the paper speaks of, it is {mean(last(entries, e, 1.0)):.2f} %."
            for e in self.steps
            if e >= 1
        )
        return (
            f"**At a fixed duration, ε from {min(by_step):g} to {max(by_step):g} moves the mean validation error by "
            f"{apart[0]:.2f} points, from {min(by_step.values()):.2f} to {max(by_step.values()):.2f} %; at ε = 0.5, a "
            f"duration from {min(by_duration):g} to {max(by_duration):g} times the paper's moves it by {apart[1]:.2f} "
            f"points, from {min(by_duration.values()):.2f} to {max(by_duration.values()):.2f} %: {which}, {judged}.**"
            f"{aside}{outside}"
        )


def at(settling: SettlingOptions, epsilon: float, duration: float = 1.0) -> SettlingOptions:
    """With steps of size ε, and as many as make n ε the given multiple of what it was, in both phases."""
    factor = duration * settling.epsilon / epsilon
    free, nudged = (max(1, round((n or 0) * factor)) for n in (settling.free_steps, settling.nudged_steps))
    return replace(settling, epsilon=epsilon, free_steps=free, nudged_steps=nudged)


def of(entries: list[Entry], epsilon: float, duration: float) -> list[Entry]:
    """The entries of all seeds."""
    return [entry for entry in entries if entry["run"][:2] == [epsilon, duration]]


def last(entries: list[Entry], epsilon: float, duration: float) -> list[float]:
    """The validation error of each seed after the last epoch, in percent."""
    return [entry["valid"][-1] for entry in of(entries, epsilon, duration)]


TEXT = """
"We find experimentally that the choice of ε has little influence as long as 0 < ε < 1. What matters more is the total
duration of the relaxation Δt = n_iter × ε" (section 5.1). Here ε varies while the numbers of iterations follow it, and
then the durations of both phases vary at ε = 0.5. All else is as in the authors' published code: 784-500-10, clipped
gradient steps from persistent particles, β = ±{beta:g} with a random sign, minibatches of 20 in a fixed order, rates
0.2 and 0.1; but on the first {q.train:,} training images of MNIST, for {q.epochs} epochs. Means ± standard deviations
over {q.seeds} seeds. *Training* and *validation error* (of {q.valid:,} images) are those of the last epoch, at the end
of the free phase that the column names. In the figure, lines are medians, and bars reach from the first to the third
quartile of the seeds.
"""
