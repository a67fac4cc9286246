"""How does the number of free iterations grow with depth, and can it be predicted? (section 5.1)

"We find experimentally that the number of iterations required in the free phase to reach the free fixed point is large
and grows fast as the number of layers increases (Table 2) … More experimental and theoretical investigation would be
needed to analyze the number of iterations required, but we leave that for future work." Here is some of it.

Of the clipped step s ← Π(s − ε ∂F/∂s) with the hard sigmoid, let A be the units that are inside the box at the fixed
point s*. F is quadratic in them, with the Hessian H = F_ss restricted to A. Once all other units rest at their ends of
the box, and those of A stay inside, the distance e = s − s* in A obeys exactly

    e ← (I − ε H) e,    so that after n steps   ∂F/∂s = H e = Σ_k v_k λ_k (1 − ε λ_k)^n v_kᵀ e_0

with λ_k and v_k the eigenvalues and eigenvectors of H. Nothing but ∂F/∂s in A is left in the residual. Two predictions
of the number of steps from the residual r to the residual τ follow:

    the slowest mode:   n = ln(r/τ) / −ln max_k |1 − ε λ_k|,   where the maximum is 1 − ε λ_min as long as ε λ_max ≤ 1
    all modes:          the n from which max_i |Σ_k v_k λ_k (1 − ε λ_k)^n v_kᵀ e_0|_i ≤ τ

The first knows the spectrum only, and takes all of the residual for the slowest mode's, which is too much. The second
knows also where the way begins, e_0 = s_0 − s*. Both are as if A were known from the start: the time until it is found
comes on top, and the spectrum at s* says nothing about it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from eqprop import data
from eqprop.compile import compiled
from eqprop.errors import InputError
from eqprop.relax import Gradient, Observer, Settling
from eqprop.store.ranges import Count, Epochs, HeldOut, Positive, Seeds, Steps, Tolerance, check_options
from eqprop.study.base import Entry, Study
from eqprop.study.experiment import Experiment
from eqprop.study.options import LearningOptions, NetworkOptions
from eqprop.study.pages import answered
from eqprop.study.paper import TABLE_2
from eqprop.total import System, TotalEnergy, system
from eqprop.train import fit
from eqprop.types import Array, Data, State, Theta

INITIAL, HALF, TRAINED = "initial, the paper's range", "initial, half the range", "trained from half the range"
GAINS = {INITIAL: 1.0, HALF: 0.5, TRAINED: 0.5}
MEASURED, SLOWEST, MODES, FOUND = (
    "measured",
    "predicted, slowest mode",
    "predicted, all modes",
    "units inside are found",
)
COUNTS = (MEASURED, MODES, SLOWEST, FOUND)
REST = 1e-9
"""The residual at which s* is taken for found."""


@dataclass(frozen=True)
class Question(Study):
    """How much is spent on the answer. A run is the kind of weights, the number of hidden layers, and the seed."""

    name: ClassVar[str] = "depth"
    caption: ClassVar[str] = "Iterations over the number of hidden layers, measured and predicted"
    short: ClassVar[dict[str, Any]] = {"depths": (1, 2, 3), "seeds": 1, "images": 20, "epochs": 1, "train": 1000}

    depths: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    width: int = 128
    seeds: Seeds = 3
    images: int = 50
    epochs: Epochs = 3
    train: Count = 5000
    valid: HeldOut = 5000
    epsilon: Positive = 0.5
    tol: Tolerance = 1e-4
    most: Steps = 20_000

    def __post_init__(self) -> None:
        check_options(self)
        if not self.depths or min(self.depths) < 1:
            raise InputError(f"depths={self.depths}: give numbers of hidden layers, 1 or more")
        if not 1 <= self.images <= self.valid:
            raise InputError(f"images={self.images}: give a number from 1 to the {self.valid} for validation")
        for run in self.runs():
            self.experiment(*run)  # checks itself

    def runs(self) -> Iterator[tuple[str, int, int]]:
        return ((weights, depth, seed) for seed, weights, depth in product(range(self.seeds), GAINS, self.depths))

    def experiment(self, weights: str, depth: int, seed: int) -> Experiment:
        """What trains the weights, by the settings of `eqprop train`, or just begins them."""
        return Experiment(
            "mnist",
            network=NetworkOptions(hidden=(self.width,) * depth, gain=GAINS[weights]),
            learning=LearningOptions(epochs=self.epochs, train=self.train, seed=seed),
        )

    def carry_out(self, run: tuple[Any, ...], examples: data.Dataset) -> Entry:
        """For each image the iterations as measured and predicted; those that do not settle are only counted."""
        setup, found = self.experiment(*run).build(examples), {}
        trainer, theta = setup.trainer, setup.state.theta
        if run[0] == TRAINED:
            theta = fit(trainer, setup.state, setup.feed, epochs=self.epochs)[0].theta
            found["error"] = 100 * trainer.measure(theta, examples.valid[: self.valid].v)["error"]
        with jax.enable_x64(True):
            theta, x = jax.tree.map(lambda a: jnp.asarray(a, float), (theta, examples.valid[: self.images].x))
            limits = {"epsilon": self.epsilon, "tol": self.tol, "most": self.most}
            return found | iterations(trainer.F, theta, (x, None), trainer.rest(len(x)), **limits)

    def figure(self, entries: list[Entry]) -> Any:
        from eqprop import plots  # matplotlib takes its time to load

        panels = {
            weights: (
                "hidden layers",
                f"iterations to a residual of {self.tol:g}",
                {count: {float(d): samples(entries, weights, d, count) for d in self.depths} for count in COUNTS},
            )
            for weights in GAINS
        }
        return plots.spread(panels, log=dict.fromkeys(panels, "y"), like=list(panels))

    def report(self, entries: list[Entry]) -> list[str]:
        rows = []
        for weights, depth in product(GAINS, self.depths):
            some = of(entries, weights, depth)
            errors = [entry["error"] for entry in some if "error" in entry]
            row = {"weights": weights, "hidden layers": str(depth)}
            row |= {count: quartiles(samples(entries, weights, depth, count)) for count in COUNTS}
            row["λ_min"] = f"{np.median(samples(entries, weights, depth, 'lowest')):.3f}"
            row["units inside"] = f"{100 * np.mean(samples(entries, weights, depth, 'inside')):.0f} %"
            rows.append(row | {"validation error": f"{np.mean(errors):.1f} %" if errors else ""})
        lost = sum(entry["unsettled"] for entry in entries)
        left_out = f"{lost} of {len(entries) * self.images:,} settlings did not end within {self.most:,} iterations"
        text = TEXT.format(
            q=self, left_out=left_out, iterations=", ".join(str(row.free_steps) for row in TABLE_2.values())
        )
        return answered("How many iterations does the free phase take, by depth?", self.sentence(entries), text, rows)

    def sentence(self, entries: list[Entry]) -> str:
        """The answer, from the numbers."""

        def median(weights: str, depth: int, count: str) -> float:
            return float(np.median(samples(entries, weights, depth, count)))

        def ratios(weights: str, count: str) -> list[float]:
            return [median(weights, depth, count) / median(weights, depth, MEASURED) for depth in self.depths]

        shallow, deep = min(self.depths), max(self.depths)
        grown, modes, found = [], [], []
        for weights in GAINS:
            first, last = (median(weights, depth, MEASURED) for depth in (shallow, deep))
            grown.append(f"from {first:.0f} to {last:.0f} ({weights})")
            for told, count in ((modes, MODES), (found, FOUND)):
                told.append(f"{min(r := ratios(weights, count)):.2f} to {max(r):.2f} ({weights})")
        apart = max(max(r, 1 / r) for weights in GAINS for r in ratios(weights, SLOWEST))
        return (
            f"**From {shallow} to {deep} hidden layers the median number of iterations goes {', '.join(grown)}; the "
            "slowest mode of the Hessian at the fixed point predicts the medians at all depths within a factor of "
            f"{apart:.1f}.** Predicting from all modes gives {', '.join(modes)} of the measured number. Finding the "
            f"units inside the box, about which the Hessian says nothing, takes {', '.join(found)} of it."
        )


def iterations(F: TotalEnergy, theta: Theta, v: Data, s: State, *, epsilon: float, tol: float, most: int) -> Entry:
    """How many steps of size ε each example takes from s to the residual `tol`, as measured and as predicted.

    Also, for each, the steps after which the units inside the box are those that are so in the end, the least
    eigenvalue of the Hessian, and the share of the units that end inside.
    """
    F, step = system(F), Gradient(most, tol, epsilon=epsilon)
    near, met = step(F, theta, v, 0.0, s)
    end, rest = Gradient(most, REST, epsilon=epsilon)(F, theta, v, 0.0, near)
    # The step that meets the residual is counted, and is not needed.
    steps = met.steps - 1
    _, found = step.advance(F, theta, v, 0.0, step.init(s), most, Finding(F, end, steps))
    first = Gradient(1, epsilon=epsilon)(F, theta, v, 0.0, s)[1].residual
    entry: Entry = {name: [] for name in (*COUNTS, "lowest", "inside")} | {"unsettled": 0}
    for i in range(len(steps)):
        if not rest.converged[i]:
            entry["unsettled"] += 1
            continue
        one, begin, last = (jax.tree.map(lambda a, i=i: a[i], tree) for tree in (v, s, end))
        here = np.asarray(ravel_pytree(F.space.inside(last))[0])
        H = np.asarray(_hessian(F, theta, one, last))[np.ix_(here, here)]
        values, vectors = np.linalg.eigh(H)
        away = np.asarray(ravel_pytree(begin)[0] - ravel_pytree(last)[0])[here]
        entry[MEASURED].append(int(steps[i]))
        entry[FOUND].append(int(found[i]))
        entry[SLOWEST].append(round(slowest_mode(values, epsilon, tol / float(first[i])), 1))
        entry[MODES].append(all_modes(values, vectors, away, epsilon, tol, most))
        entry["lowest"].append(float(values.min(initial=1.0)))
        entry["inside"].append(float(here.mean()))
    return entry


def slowest_mode(values: np.ndarray, epsilon: float, ratio: float) -> float:
    """ln(1/ratio) / −ln max_k |1 − ε λ_k|: the steps in which the slowest mode shrinks to `ratio` of what it was."""
    contraction = float(np.abs(1 - epsilon * values).max(initial=0.0))
    if ratio >= 1:
        return 0.0
    if contraction >= 1:
        return float("inf")
    return float(np.log(ratio) / np.log(contraction)) if contraction > 0 else 1.0


def all_modes(values: np.ndarray, vectors: np.ndarray, e: np.ndarray, epsilon: float, tol: float, most: int) -> int:
    """The n from which max_i |H (I − ε H)^n e|_i ≤ tol, by bisection; `most` if it is more than that."""
    parts = values * (vectors.T @ e)

    def within(n: int) -> bool:
        return float(np.abs(vectors @ (parts * (1 - epsilon * values) ** n)).max(initial=0.0)) <= tol

    low, high = -1, 1
    while not within(high) and high < most:
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if within(middle) else (middle, high)
    return high


@compiled
def _hessian(F: System, theta: Theta, v: Data, s: State) -> Array:
    """∂²F/∂s² of one example at β = 0, a matrix."""
    flat, restore = ravel_pytree(s)
    return -jax.jacfwd(lambda u: ravel_pytree(F.force(theta, v, 0.0, restore(u)))[0])(flat)


class Finding(Observer):
    """Finds, for each example, the number of its `steps` after which the same units are inside the box as in `end`."""

    F: System
    end: State
    steps: Array

    def init(self, settling: Settling) -> Array:
        return jnp.zeros_like(self.steps)

    def __call__(self, seen: Array, before: Settling, after: Settling) -> Array:
        here, there = (jax.vmap(self.F.space.inside)(s) for s in (before.s, self.end))
        differ = jax.tree.map(lambda a, b: jnp.any((a != b).reshape(len(a), -1), axis=1), here, there)
        wrong = jnp.any(jnp.stack(jax.tree.leaves(differ)), axis=0)
        return jnp.where(wrong & (before.t < self.steps), before.t + 1, seen)


def of(entries: list[Entry], weights: str, depth: int) -> list[Entry]:
    """The entries of all seeds."""
    return [entry for entry in entries if entry["run"][:2] == [weights, depth]]


def samples(entries: list[Entry], weights: str, depth: int, what: str) -> list[float]:
    """Of all seeds and images."""
    return [value for entry in of(entries, weights, depth) for value in entry[what]]


def quartiles(values: list[float]) -> str:
    """The median, and the first and third quartile in brackets."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


TEXT = """
"We find experimentally that the number of iterations required in the free phase to reach the free fixed point is large
and grows fast as the number of layers increases" (section 5.1); Table 2 has {iterations} iterations for 1, 2 and 3
hidden layers of 500 units. Here the hidden layers have {q.width} units, so that the Hessian can be taken apart. The
clipped gradient step, ε = {q.epsilon:g}, runs from s = 0 until the residual is at most {q.tol:g}, in float64, on
{q.images} validation images of MNIST in each network (networks of each depth: {q.seeds}). The weights are initial ones
in Glorot & Bengio's range, as in the paper, or in half of it, or those that {q.epochs} epochs of `eqprop train` on
{q.train:,} images make of the latter (the validation error is theirs). The table has medians, and the quartiles in
brackets; {left_out}.

Once the units inside the box (0, 1) are those that are so at the fixed point, their distance to it shrinks in each step
by exactly 1 − ε λ along each eigenvector of the Hessian ∂²F/∂s² of these units, with λ its eigenvalue. *Slowest mode*:
ln(r/τ) / −ln(1 − ε λ_min), with r the residual at s = 0 and τ = {q.tol:g}; it knows the spectrum only, and counts all
of r as the slowest mode's. *All modes*: when the residual is at most τ, if the linear law holds from s = 0 on. *Units
inside are found*: after how many iterations the units inside the box are those of the fixed point.
"""
