"""Does each layer need a learning rate of its own when both phases come to rest? (section 5.2 leaves it open)

"Although the theory presented in this paper requires a unique learning rate for all synaptic weights, in our
experiments we need to choose different learning rates for the weight matrices of different layers to make the
algorithm work. We do not have a clear explanation for this fact yet, but we believe that this is due to the finite
precision with which we approach the fixed points." So let that precision vary, from a residual of 1e-1 to 1e-6.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import isnan, nan
from typing import Any, ClassVar

import jax

from eqprop import data
from eqprop.energy import Hopfield
from eqprop.errors import DivergedError, InputError
from eqprop.study.base import Entry, Study
from eqprop.study.diagnosis import measure
from eqprop.study.experiment import Experiment
from eqprop.study.options import LearningOptions, NetworkOptions, SettlingOptions
from eqprop.study.pages import table
from eqprop.study.paper import TABLE_2
from eqprop.train import fit

NUDGES: dict[str, dict[str, Any]] = {
    "β = ±1, sign at random": {"nudge": "random-sign", "beta": 1.0},
    "β = ±0.1, both signs": {"nudge": "symmetric", "beta": 0.1},
}
SCALES = {"one rate": (0.025, 0.05, 0.1, 0.2, 0.4), "the paper's rates": (0.25, 0.5, 1.0, 2.0, 4.0)}
ALIGNED = 200


@dataclass(frozen=True)
class Question(Study):
    """How much is spent on the answer.

    In float64, so that rounding is out of the question. Each entry has the validation error in percent (None if
    training diverged), and the gradient of the trained network beside the exact one, layer by layer.
    """

    name: ClassVar[str] = "rates"
    caption: ClassVar[str] = "Errors and alignment over the residual"
    short: ClassVar[dict[str, Any]] = {"epochs": 1, "train": 1000, "valid": 1000, "residuals": (1e-1, 1e-3, 1e-5)}

    hidden: int = 2
    epochs: int = 4
    train: int = 5000
    valid: int = 5000
    residuals: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)

    def __post_init__(self) -> None:
        if self.hidden not in TABLE_2:
            raise InputError(f"hidden={self.hidden}: the paper's networks have 1, 2 or 3 hidden layers")
        if self.valid < 1 or not self.residuals:
            raise InputError(f"valid={self.valid}, residuals={self.residuals}: give at least one of each")
        for run in self.runs():
            self.experiment(*run)  # checks itself

    def runs(self) -> Iterator[tuple[str, float, str, float]]:
        """(nudge, residual, family of rates, scale)."""
        for nudge, residual in product(NUDGES, self.residuals):
            for family, scales in SCALES.items():
                for scale in scales:
                    yield nudge, residual, family, scale

    def experiment(self, nudge: str, residual: float, family: str, scale: float) -> Experiment:
        row = TABLE_2[self.hidden]
        rates = [scale] * len(row.rates) if family == "one rate" else [scale * rate for rate in row.rates]
        return Experiment(
            "mnist",
            network=NetworkOptions(hidden=row.hidden),
            settling=SettlingOptions(
                **NUDGES[nudge], free_steps=1000, nudged_steps=1000, tol=residual, accelerate=True
            ),
            learning=LearningOptions(
                epochs=self.epochs, optimizer="sgd", learning_rate=tuple(rates), decay=1.0, train=self.train
            ),
        )

    def carry_out(self, run: tuple[Any, ...], examples: data.Dataset) -> Entry:
        with jax.enable_x64(True):
            return learn(self.experiment(*run), examples, self.valid)

    def chosen(self, entries: list[Entry], nudge: str) -> dict[str, list[Entry | None]]:
        """For each family of rates the best entry at each residual."""
        return {family: [best(entries, nudge, residual, family) for residual in self.residuals] for family in SCALES}

    @property
    def layers(self) -> list[str]:
        """From the first hidden one to the output."""
        return list(self.experiment(*next(self.runs())).layers(1, 1).free)

    def figure(self, entries: list[Entry]) -> Any:
        from eqprop import plots  # matplotlib takes its time to load

        panels: dict[str, Any] = {}
        for nudge in NUDGES:
            chosen = self.chosen(entries, nudge)
            panels[nudge] = {
                "errors": {family: [e["error"] if e else nan for e in some] for family, some in chosen.items()},
                "cosine": _by_layer(chosen["one rate"], "cosine", self.layers),
                "norm": _by_layer(chosen["one rate"], "norm", self.layers),
            }
        return plots.against_residual(self.residuals, panels)

    def report(self, entries: list[Entry]) -> list[str]:
        rows = []
        for nudge in NUDGES:
            for residual, one, many in zip(self.residuals, *self.chosen(entries, nudge).values(), strict=True):
                aligned = [_words(_values(one, key, self.layers)) for key in ("cosine", "norm")]
                cells = [nudge, f"{residual:.0e}", _best(one), _best(many), *aligned]
                rows.append(dict(zip(HEAD, cells, strict=True)))
        sizes = "-".join(map(str, (784, *TABLE_2[self.hidden].hidden, 10)))
        text = TEXT.format(sizes=sizes, q=self, rates=TABLE_2[self.hidden].rates, scales=SCALES)
        return [text.strip(), "", *table(rows)]


def learn(experiment: Experiment, examples: data.Dataset, valid: int) -> Entry:
    """One training: the error on the first `valid` validation examples, and how the gradient is aligned at its end."""

    def double(split: data.Split) -> data.Split:
        return data.Split(split.x.astype(float), split.y.astype(float))

    doubled = replace(
        examples,
        train=double(examples.train[: experiment.learning.train].in_memory()),
        valid=double(examples.valid[:valid]),
    )
    setup = experiment.build(doubled)
    assert isinstance(setup.net, Hopfield)
    try:
        state, _ = fit(setup.trainer, setup.state, setup.feed, epochs=experiment.learning.epochs)
    except DivergedError:
        return {"error": None}
    some = setup.train[:ALIGNED]
    found = measure(setup.net, setup.trainer, state.theta, some.v, setup.net.rest(len(some)))
    return {"error": 100 * setup.trainer.measure(state.theta, doubled.valid.v)["error"], **found}


def best(entries: list[Entry], nudge: str, residual: float, family: str) -> Entry | None:
    """The entry of the least validation error; None if all diverged."""
    mine = [entry for entry in entries if entry["run"][:3] == [nudge, residual, family] and entry["error"] is not None]
    return min(mine, key=lambda entry: entry["error"], default=None)


HEAD = (
    "nudge",
    "residual",
    "one rate: validation error",
    "the paper's rates",
    "cosine by layer",
    "norm by layer",
)
TEXT = """
# Does each layer need a learning rate of its own?

The paper had to give each layer its own learning rate, against the theory, and supposed that the cause is "the finite
precision with which we approach the fixed points" (section 5.2). Here that precision is varied: {sizes}, the first
{q.train:,} training images of MNIST, {q.epochs} epochs of plain gradient descent in minibatches of 50, from half of
Glorot's range, both phases run by block descent until the residual of every image is at most the one named, or for
1,000 sweeps (in float64). *One rate* for all layers is the best of {scales[one rate]}. *The paper's rates* are {rates}
from the input's weights to the output's, times the best of {scales[the paper's rates]}. The best is the one of the
least error on {q.valid:,} validation images, so compare the columns with each other; \\* marks a best at the edge of
what was tried. *Cosine* and *norm*: the gradient of the network trained at one rate, on 200 training images, beside the
exact one, for each layer's weights from the input's to the output's.
"""


def _values(entry: Entry | None, key: str, layers: list[str]) -> list[float]:
    """By layer, from the first hidden one to the output; nan where there is none."""
    found = entry[key] if entry else {}
    return [nan if (value := found.get(layer)) is None else value for layer in layers]


def _by_layer(some: list[Entry | None], key: str, layers: list[str]) -> dict[str, list[float]]:
    columns = zip(*(_values(entry, key, layers) for entry in some), strict=True)
    return {f"W_{k + 1}": list(column) for k, column in enumerate(columns)}


def _best(entry: Entry | None) -> str:
    if entry is None:
        return "diverged"
    _, _, family, scale = entry["run"]
    edge = "\\*" if scale in (min(SCALES[family]), max(SCALES[family])) else ""
    return f"{entry['error']:.2f} % at {scale:g}{' ×' if family != 'one rate' else ''}{edge}"


def _words(values: list[float]) -> str:
    return ", ".join("–" if isnan(value) else f"{value:.2f}" for value in values)
