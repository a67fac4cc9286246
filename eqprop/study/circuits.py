"""Which imperfection of real devices hurts how much, and what helps?

A resistive network learns the digits on devices that have one imperfection at a time, by Equilibrium Propagation with
the one-sided and the symmetric nudge, and by coupled learning.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
import optax

from eqprop import data
from eqprop.cost import SquaredError
from eqprop.device import Exact, Reading, Readings, Writing, diode_spread
from eqprop.energy import Resistive, Shockley
from eqprop.nudge import OneSided, Symmetric
from eqprop.relax import Block
from eqprop.rule import CoupledLearning, EquilibriumPropagation, Rule
from eqprop.store.ranges import Epochs, Seeds, check_options
from eqprop.study.base import Entry, Study
from eqprop.study.campaign import require_names
from eqprop.study.pages import answered, mean_and_deviation
from eqprop.total import Total
from eqprop.train import Cosine, Rated, Shuffled, Trainer, fit

SIZES, BATCH, BETA, ETA, RATE = (64, 100, 10), 20, 4.0, 0.2, 0.01
ADAM = optax.adam(1.0)
WAYS = ("one-sided", "symmetric", "coupled")
REMEDY = "symmetric, with the remedy"


@dataclass(frozen=True)
class Bench:
    """A circuit and what is imperfect about it: by default nothing but a range of conductances of 20 to 1.

    writing, reading, circuit: options of `Writing`, `Readings` and `Resistive.layered`, as pairs.
    spread: the deviation of the logarithm of the diodes' saturation currents.
    """

    ratio: float = 20.0
    writing: tuple[tuple[str, Any], ...] = ()
    reading: tuple[tuple[str, Any], ...] = ()
    circuit: tuple[tuple[str, Any], ...] = ()
    spread: float = 0.0
    sweeps: int = 6
    rate: float = RATE

    @property
    def devices(self) -> Writing:
        """How conductances are written."""
        return Writing(w_max=1.0, ratio=self.ratio, parts=("W",), **dict(self.writing))

    @property
    def net(self) -> Resistive:
        """The circuit; behind the hidden layer an amplifier of 4, through which currents come back as they are."""
        options: dict[str, Any] = {"gain": 30.0, "amplification": 4.0, "back": 1.0} | dict(self.circuit)
        options |= {"least": 1.0 / self.ratio, "most": 1.0}
        if self.spread:
            options |= {"spread": diode_spread({"hidden": SIZES[1]}, self.spread)}
        return Resistive.layered(*SIZES, **options)

    @property
    def readings(self) -> Reading:
        """How states are read: hidden nodes on their side of 0 up to 2.5 V, outputs from −0.5 to 1.5 V."""
        if not self.reading:
            return Exact()
        above = np.array(dict(self.net.diodes)["hidden"]) == 1
        low = {"hidden": np.where(above, -0.05, -2.5).astype(np.float32), "output": -0.5}
        high = {"hidden": np.where(above, 2.5, 0.05).astype(np.float32), "output": 1.5}
        return Readings(low=low, high=high, **dict(self.reading))


class Effect(NamedTuple):
    """An imperfection: what its strength is, which ones are tried, what each makes of the bench, and what helps."""

    strength: str
    values: tuple[float, ...]
    bench: Any
    remedy: str = ""
    remedied: Any = None


def _real(bench: Bench, **options: Any) -> Bench:
    return replace(bench, circuit=(*bench.circuit, ("diode", Shockley(1e-4, 1.0))), **options)


EFFECTS: dict[str, Effect] = {
    "conductance ratio": Effect("largest / smallest", (100, 20, 10, 3), lambda a: Bench(ratio=a)),
    "states": Effect(
        "number of states",
        (64, 16, 8),
        lambda a: Bench(writing=(("states", int(a)), ("rounding", "nearest"))),
        "writes rounded up or down by chance",
        lambda a: Bench(writing=(("states", int(a)), ("rounding", "stochastic"))),
    ),
    "write noise": Effect("share of the range", (0.01, 0.03, 0.1), lambda a: Bench(writing=(("noise", a),))),
    "up/down asymmetry": Effect(
        "up_down",
        (0.2, 0.5, 0.8),
        lambda a: Bench(writing=(("up_down", a), ("dw_min_std", 0.3))),
        "steps of a quarter",
        lambda a: Bench(writing=(("up_down", a), ("dw_min_std", 0.3)), rate=RATE / 4),
    ),
    "soft bounds": Effect("1: they are", (0, 1), lambda a: Bench(writing=(("soft_bounds", bool(a)),) if a else ())),
    "stuck devices": Effect("share", (0.01, 0.05, 0.2), lambda a: Bench(writing=(("stuck", a),))),
    "drift": Effect("ν", (0.001, 0.003, 0.01), lambda a: Bench(writing=(("nu", a),))),
    "read noise": Effect(
        "share of full scale",
        (0.001, 0.003, 0.01, 0.03),
        lambda a: Bench(reading=(("noise", a),)),
        "16 reads",
        lambda a: Bench(reading=(("noise", a), ("repeats", 16))),
    ),
    "converter": Effect(
        "bits",
        (12, 10, 8, 6),
        lambda a: Bench(reading=(("bits", int(a)),)),
        "16 reads with noise of one level",
        lambda a: Bench(reading=(("bits", int(a)), ("noise", 2.0**-a), ("repeats", 16))),
    ),
    "offset between phases": Effect(
        "share of full scale", (0.0003, 0.001, 0.003, 0.01), lambda a: Bench(reading=(("offset_spread", a),))
    ),
    "diode spread": Effect("deviation of log I", (0.0, 2.0), lambda a: _real(Bench(), spread=a)),
    "source resistance": Effect("ohms", (0.0001, 0.01), lambda a: Bench(circuit=(("source_resistance", a),))),
    "unfinished settling": Effect("sweeps", (6, 2, 1), lambda a: Bench(sweeps=int(a))),
}


def rule(way: str, bench: Bench) -> Rule:
    """The rule of a way."""
    free, nudged = Block(bench.sweeps, omega=1.0), Block(bench.sweeps, omega=1.0, order="backward")
    if way == "coupled":
        return CoupledLearning(ETA, free, nudged, reading=bench.readings)
    return EquilibriumPropagation((OneSided if way == "one-sided" else Symmetric)(BETA), free, nudged, bench.readings)


def trainer(way: str, bench: Bench, updates: int) -> Trainer:
    """What trains the bench in a way."""
    F = Total(bench.net, SquaredError())
    optimizer = bench.devices.behind(Rated(ADAM, bench.rate, Cosine(1.0, updates)))
    return Trainer(F, rule(way, bench), optimizer, metrics={"error": F.cost.misclassified})


@dataclass(frozen=True)
class Question(Study):
    """How much is spent on the answer. A run is the imperfection, its strength, the way to learn, and the seed."""

    name: ClassVar[str] = "circuits"
    caption: ClassVar[str] = "Test error against the strength of each imperfection, by way to learn"
    short: ClassVar[dict[str, Any]] = {"epochs": 3, "seeds": 1, "effects": ("states", "read noise")}
    dataset: ClassVar[str] = "digits"

    epochs: Epochs = 10
    seeds: Seeds = 3
    effects: tuple[str, ...] = field(default_factory=lambda: tuple(EFFECTS))

    def __post_init__(self) -> None:
        check_options(self)
        require_names("effects", self.effects, EFFECTS)

    def runs(self) -> Iterator[tuple[Any, ...]]:
        for effect in self.effects:
            ways = (*WAYS, *([REMEDY] if EFFECTS[effect].remedy else []))
            yield from (
                (effect, float(value), way, seed)
                for value in EFFECTS[effect].values
                for way in ways
                for seed in range(self.seeds)
            )

    def carry_out(self, run: tuple[Any, ...], examples: data.Dataset) -> Entry:
        effect, value, way, seed = run
        remedied = way == REMEDY
        make = EFFECTS[effect].remedied if remedied else EFFECTS[effect].bench
        bench, feed = make(value), Shuffled(examples.train.v, BATCH)
        ready = trainer("symmetric" if remedied else way, bench, self.epochs * feed.batches)
        first, second = jax.random.split(jax.random.key(seed))
        theta = bench.devices.start(bench.net.init(first), first)
        state, history = fit(ready, ready.init(theta, feed, second), feed, examples.valid.v, epochs=self.epochs)
        test = ready.measure(state.theta, examples.test.v)["error"]
        return {"valid": round(100 * history[-1]["valid_error"], 4), "test": round(100 * test, 4)}

    def figure(self, entries: list[Entry]) -> Any:
        from eqprop import plots  # matplotlib takes its time to load

        panels: dict[str, Any] = {}
        log: dict[str, str] = {}
        for effect in self.effects:
            about = EFFECTS[effect]
            ways = dict.fromkeys(entry["run"][2] for entry in entries if entry["run"][0] == effect)
            curves = {way: {a: errors(entries, effect, a, way) for a in map(float, about.values)} for way in ways}
            panels[effect] = (about.strength, "test error (%)", curves)
            log[effect] = "y" if min(about.values) <= 0 else "xy"
        return plots.spread(panels, log=log, columns=4)

    def report(self, entries: list[Entry]) -> list[str]:
        rows = []
        for effect in self.effects:
            about = EFFECTS[effect]
            for value in map(float, about.values):
                cells = {way: mean_and_deviation(errors(entries, effect, value, way)) for way in WAYS}
                helped = errors(entries, effect, value, REMEDY) if about.remedy else []
                remedy = f"{mean_and_deviation(helped)} ({about.remedy})" if helped else "–"
                rows.append({"imperfection": f"{effect}, {about.strength} {value:g}", **cells, "remedy": remedy})
        text = TEXT.format(q=self, net="-".join(map(str, SIZES)), batch=BATCH, beta=BETA, eta=ETA)
        return answered("Which imperfection hurts how much?", self.sentence(entries), text, rows)

    def sentence(self, entries: list[Entry]) -> str:
        """The answer, from the numbers."""
        worst = {
            effect: max(mean(errors(entries, effect, float(a), "symmetric")) for a in EFFECTS[effect].values)
            for effect in self.effects
        }
        order = sorted(worst, key=lambda effect: -worst[effect])
        told = ", ".join(f"{effect} ({worst[effect]:.1f} %)" for effect in order)
        return f"**By the largest test error over the strengths tried, with the symmetric nudge: {told}.**"


def errors(entries: list[Entry], effect: str, value: float, way: str) -> list[float]:
    """The test errors of all seeds, in percent."""
    return [entry["test"] for entry in entries if entry["run"][:3] == [effect, value, way]]


TEXT = """
A resistive network {net} with ideal diodes, conductances in a range of 20 to 1 and an amplifier of 4 behind the hidden
layer learns the digits in minibatches of {batch}, for {q.epochs} epochs, by Adam with a rate that falls along a cosine;
then one imperfection is added at a time. *One-sided* and *symmetric* are Equilibrium Propagation with β = {beta:g},
*coupled* is coupled learning with η = {eta:g}; all have six sweeps of block descent in each phase. Test errors, means ±
standard deviations over {q.seeds} seeds, each at the end of training; nothing was chosen by them. In the figure, dots
are medians, and bars reach from the first to the third quartile of the seeds.
"""
