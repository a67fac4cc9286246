"""How many patterns can a memory recall? Measured beside the capacities that theory predicts.

Random patterns of ±1 are stored. Each is cued by itself, or by half of it, which is held while the other half settles.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import cosh, exp, log, prod
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from eqprop import data
from eqprop.cost import SquaredError
from eqprop.energy import LogSumExp, Memory, Power
from eqprop.errors import InputError
from eqprop.relax import Flip, Gradient
from eqprop.study.base import Entry, Study
from eqprop.study.pages import answered
from eqprop.total import Hold, Total

POWERS = {"classical, n = 2": 2, "dense, n = 3": 3, "dense, n = 4": 4}
ATTENTION = "attention"
CUES = ("itself", "half of it")
CLASSICAL = 0.138
"""Patterns per unit that the classical network recalls with few errors (Amit, Gutfreund & Sompolinsky 1985)."""
SHARPNESS = 1.0
"""b of the attention."""
FEW = 0.01
"""A load counts as recalled if at most this share of the units is wrong in the end."""


def capacity(kind: str, units: int) -> float:
    """How many random patterns theory says are recalled.

    The noise of K others in the field of a unit has the variance (2n − 3)!! K / N^{n−1} (Krotov & Hopfield 2016); all
    powers are taken at the ratio at which the classical network fails. With attention, the e^{b N} of the pattern
    itself is to outweigh the sum of all others, whose mean is K cosh(b)^N.
    """
    if kind == ATTENTION:
        return exp(units * (SHARPNESS - log(cosh(SHARPNESS))))
    n = POWERS[kind]
    return CLASSICAL * units ** (n - 1) / prod(range(1, 2 * n - 2, 2))


@dataclass(frozen=True)
class Question(Study):
    """How much is spent on the answer. A run is the kind, the units N, the load K / capacity, and the cue."""

    name: ClassVar[str] = "memory"
    caption: ClassVar[str] = "Share of wrong units over the load, and patterns recalled over the number of units"
    dataset: ClassVar[str] = "digits"
    short: ClassVar[dict[str, Any]] = {
        "loads": (0.5, 1.0, 2.0), "attention_loads": (0.05, 0.2), "draws": 1,
        "classical": (50, 100), "cubic": (20, 40), "quartic": (12, 24), "attention": (8, 10),
    }  # fmt: skip

    loads: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
    attention_loads: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    classical: tuple[int, ...] = (50, 100, 200, 400)
    cubic: tuple[int, ...] = (20, 40, 80)
    quartic: tuple[int, ...] = (12, 24, 48)
    attention: tuple[int, ...] = (8, 10, 12, 14, 16)
    draws: int = 3
    cues: int = 20

    def __post_init__(self) -> None:
        if (
            min(self.draws, self.cues) < 1
            or min(min(loads, default=0) for loads in (self.loads, self.attention_loads)) <= 0
            or not all(self.sizes.values())
        ):
            raise InputError(f"{self}: give at least one of each, and loads above 0")

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The numbers of units, by kind."""
        return dict(zip((*POWERS, ATTENTION), (self.classical, self.cubic, self.quartic, self.attention), strict=True))

    def runs(self) -> Iterator[tuple[str, int, float, str]]:
        for kind, sizes in self.sizes.items():
            loads = self.attention_loads if kind == ATTENTION else self.loads
            yield from ((kind, *rest) for rest in product(sizes, loads, CUES))

    def patterns(self, kind: str, units: int, load: float) -> int:
        """K, at least 2."""
        return max(round(load * capacity(kind, units)), 2)

    def carry_out(self, run: tuple[Any, ...], examples: data.Dataset) -> Entry:
        kind, units, load, cue = run
        count = self.patterns(kind, units, load)
        # Powers of empty patterns are 0: filled up with them, all loads of a size are one program.
        room = 0 if kind == ATTENTION else self.patterns(kind, units, max(self.loads)) - count
        wrong = [
            recall(kind, units, count, room, self.cues, cue, np.random.default_rng((units, count, draw)))
            for draw in range(self.draws)
        ]
        return {"patterns": count, "wrong": wrong}

    def recalled(self, entries: list[Entry], kind: str, units: int, cue: str) -> float | None:
        """The number of patterns at which `FEW` units are wrong, between two loads; None if no load is that high."""
        chosen = [entry for entry in entries if entry["run"][:2] == [kind, units] and entry["run"][3] == cue]
        before: tuple[float, float] | None = None
        for entry in sorted(chosen, key=lambda entry: entry["run"][2]):
            count, wrong = entry["patterns"], float(np.mean(entry["wrong"]))
            if wrong > FEW:
                if before is None:
                    return None
                return before[0] + (count - before[0]) * (FEW - before[1]) / (wrong - before[1])
            before = (count, wrong)
        return None

    def figure(self, entries: list[Entry]) -> Any:
        from eqprop import plots  # matplotlib takes its time to load

        return plots.capacity(*self.curves(entries, list(self.sizes)))

    def curves(self, entries: list[Entry], kinds: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What `plots.capacity` draws: wrong units at the largest size of each kind, and patterns recalled."""
        largest = {kind: max(self.sizes[kind]) for kind in kinds}
        wrong = {
            cue: {
                f"{kind}, N = {units}": {
                    entry["run"][2]: entry["wrong"]
                    for entry in entries
                    if entry["run"][:2] == [kind, units] and entry["run"][3] == cue
                }
                for kind, units in largest.items()
            }
            for cue in CUES
        }
        recalled = {}
        for kind in kinds:
            counts = {float(n): self.recalled(entries, kind, n, CUES[0]) for n in self.sizes[kind]}
            known = {n: count for n, count in counts.items() if count is not None}
            recalled[kind] = (known, {n: capacity(kind, int(n)) for n in counts})
        return wrong, recalled

    def report(self, entries: list[Entry]) -> list[str]:
        rows = []
        for kind, sizes in self.sizes.items():
            for units in sizes:
                counts = [self.recalled(entries, kind, units, cue) for cue in CUES]
                told = ["–" if count is None else f"{count:,.0f}" for count in counts]
                row = {"memory": kind, "units N": str(units), "predicted": f"{capacity(kind, units):,.0f}"}
                rows.append(row | dict(zip((f"recalled, cued by {cue}" for cue in CUES), told, strict=True)))
        text = TEXT.format(q=self, few=100 * FEW, b=SHARPNESS, grow=exp(SHARPNESS - log(cosh(SHARPNESS))))
        return answered("How many patterns can a memory recall?", self.sentence(entries), text, rows)

    def sentence(self, entries: list[Entry]) -> str:
        """The answer, from the numbers: how the patterns recalled grow with N, beside what theory says."""
        told = []
        for kind, sizes in self.sizes.items():
            counts = {n: self.recalled(entries, kind, n, CUES[0]) for n in sizes}
            points = [(n, count) for n, count in counts.items() if count is not None]
            if len(points) < 2:
                continue
            n, count = (np.array(column, float) for column in zip(*points, strict=True))
            if kind == ATTENTION:
                grown, law = np.exp(np.polyfit(n, np.log(count), 1)[0]), capacity(kind, 1)
                told.append(f"with attention as {grown:.2f}^N (theory: {law:.2f}^N)")
            else:
                slope = np.polyfit(np.log(n), np.log(count), 1)[0]
                told.append(f"with n = {POWERS[kind]} as N^{slope:.2f} (theory: N^{POWERS[kind] - 1})")
        return f"**The number of patterns that are recalled grows {', '.join(told)}.**" if told else "Too few loads."


def recall(kind: str, units: int, count: int, room: int, cues: int, cue: str, rng: np.random.Generator) -> float:
    """The share of wrong units after `count` random patterns were stored and some of them cued."""
    patterns = rng.choice([-1.0, 1.0], (count, units)).astype(np.float32)
    memory = Memory({"units": units}, LogSumExp(SHARPNESS) if kind == ATTENTION else Power(POWERS[kind]))
    theta = memory.store({"units": np.pad(patterns, ((0, room), (0, 0)))})
    truth = patterns[np.arange(cues) % count]
    which = np.broadcast_to(np.arange(units) < units // 2, truth.shape) & (cue != CUES[0])
    guess = rng.choice([-1.0, 1.0], truth.shape).astype(np.float32)
    start = truth if cue == CUES[0] else np.where(which, truth, guess)
    F = Hold(Total(memory, SquaredError("units")))
    settle = Gradient(100, 1e-4, epsilon=1.0) if kind == ATTENTION else Flip(50, 0.0)
    v = ((None, None), {"units": (truth, which)})
    settled, _ = settle(F, theta, v, 0.0, {"units": jnp.asarray(start)})
    free = ~which
    return float(np.mean(np.sign(settled["units"])[free] != truth[free]))


TEXT = """
Random patterns of ±1 are stored in a memory of N units, E = ½ ‖s‖² − Q(Ξ s). With Q = N/n Σ |z/N|^n and units of ±1,
each of which goes to the value of lower energy (`Flip`), it is the classical Hopfield network for n = 2, and a dense
associative memory for n > 2 (Krotov & Hopfield 2016). With Q = 1/b log Σ exp(b z) and units of any value it is the
modern Hopfield network, whose step is softmax attention (Ramsauer et al. 2020); its signs are read.

Each memory is cued by {q.cues} of its patterns, in {q.draws} draws of the patterns: by the pattern itself, which is
recalled if it stays; and by half of its units, which are held (`Hold`) while the others settle from a random start. The
tables tell at how many patterns {few:g} % of the units that are free end up wrong, between the loads tried; – where
there is no such load.

Predicted is: for n = 2, 0.138 N (Amit, Gutfreund & Sompolinsky 1985). For other n, the number of patterns at which the
noise of all others in the field of a unit is as strong, 0.138 N^(n−1)/(2n − 3)!!. For attention with b = {b:g}, the
number at which all other patterns together have the weight of the one that is cued, e^(bN)/cosh(b)^N = {grow:.2f}^N.
All of it is for large N; the last is an upper limit, as a pattern with half of the weight would not stay. A cue of half
a pattern has half the signal, and its capacity is not predicted here: of 2^(N/2) halves, those of as many patterns as
attention can hold are not even different.
"""
