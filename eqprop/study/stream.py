"""Inputs that vary in time: does a network follow them, and learn on the fly? (section 6, "Discussion")

Images of MNIST turn slowly, all of them alike, until they are upside down. A network learns from a stream of them; it
sees each image for a few times only, and its state is never reset.
"""

import resource
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from eqprop import data
from eqprop.cost import SquaredError
from eqprop.energy import Hopfield
from eqprop.errors import InputError
from eqprop.nudge import Symmetric
from eqprop.relax import Block
from eqprop.rule import EquilibriumPropagation
from eqprop.store.ranges import Count, Seeds, check_options
from eqprop.study.base import Entry, Study
from eqprop.study.pages import answered, mean_and_deviation
from eqprop.total import Total
from eqprop.train import Stream, Trainer, fit
from eqprop.types import Array, Data

WATCHED, TIMES = 100, 16
"""Lanes of images that are not learned, and for how many times they are watched at the end of each piece."""
LEARNS, RESET, FROZEN = "learns on the fly", "learns, state reset each time", "frozen when the drift begins"


class Turning(eqx.Module):
    """Images that turn by `speed` degrees each time, from time `onset` on."""

    onset: int
    speed: float
    side: int = eqx.field(static=True)

    def __call__(self, t: Array, v: Data) -> Data:
        x, y = v
        return turned(x.reshape(self.side, self.side), jnp.maximum(t - self.onset, 0) * self.speed).ravel(), y


def turned(image: Array, degrees: Array | float) -> Array:
    """An image turned clockwise about its middle, interpolated; dark beyond its edges."""
    angle, middle = jnp.deg2rad(degrees), (jnp.array(image.shape) - 1) / 2
    rows, columns = (axis - at for axis, at in zip(jnp.mgrid[: image.shape[0], : image.shape[1]], middle, strict=True))
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    places = [cos * rows - sin * columns + middle[0], sin * rows + cos * columns + middle[1]]
    return jax.scipy.ndimage.map_coordinates(image, places, order=1)


@dataclass(frozen=True)
class Question(Study):
    """How much is spent on the answer. A run is the way of learning, and the seed."""

    name: ClassVar[str] = "stream"
    caption: ClassVar[str] = "Error over time, while all images turn until they are upside down"
    short: ClassVar[dict[str, Any]] = {"still": 800, "drift": 800, "seeds": 1, "hidden": 64}

    still: int = 2000
    drift: int = 4000
    degrees: float = 180.0
    piece: Count = 200
    lanes: Count = 20
    dwell: Count = 4
    hidden: Count = 128
    seeds: Seeds = 2

    def __post_init__(self) -> None:
        check_options(self)
        if min(self.still, self.drift) < 4 * self.piece or self.still % self.piece or self.drift % self.piece:
            raise InputError(
                f"still={self.still}, drift={self.drift}: give multiples of piece={self.piece}, from the fourth on"
            )
        if self.piece < TIMES:
            raise InputError(f"piece={self.piece}: give {TIMES} times or more")

    def runs(self) -> Iterator[tuple[str, int]]:
        return ((way, seed) for seed in range(self.seeds) for way in (LEARNS, RESET, FROZEN))

    def trainer(self, pixels: int, classes: int, persistent: bool) -> Trainer:
        """Two sweeps a time, and one with each nudge: the state is where the last image, or the last time, left it."""
        F = Total(Hopfield.layered(pixels, self.hidden, classes), SquaredError())
        rule = EquilibriumPropagation(Symmetric(0.5), Block(2), Block(1, order="backward"))
        return Trainer(F, rule, optax.adam(1e-3), persistent=persistent, metrics={"error": F.cost.misclassified})

    def carry_out(self, run: tuple[Any, ...], examples: data.Dataset) -> Entry:
        way, seed = run
        move = Turning(self.still, self.degrees / self.drift, examples.shape[0])
        feed, watched = (
            Stream(split.v, lanes, self.dwell, move, batches=self.piece)
            for split, lanes in ((examples.train, self.lanes), (examples.valid, WATCHED))
        )
        pixels, classes = (array.shape[1] for array in examples.train.v)
        trainer = self.trainer(pixels, classes, way != RESET)
        only_follows = replace(trainer, optimizer=optax.set_to_zero())
        theta = trainer.F.energy.init(jax.random.key(seed))  # pyright: ignore[reportAttributeAccessIssue]
        state = trainer.init(theta, feed, jax.random.key(seed + 100))
        seen = only_follows.init(theta, watched, jax.random.key(seed + 200))
        errors, held = [], []
        for piece in range((self.still + self.drift) // self.piece):
            if way != FROZEN or piece < self.still // self.piece:
                state, _ = fit(trainer, state, feed, epochs=piece + 1)
            # The end of the piece, as images see it that are never learned.
            begin = only_follows.init(state.theta, watched, seen.key)._replace(particles=seen.particles)
            begin = begin._replace(epoch=jnp.array(piece), batch=jnp.array(self.piece - TIMES))
            seen = only_follows.advance(begin, watched, TIMES)
            errors.append(round(100 * float(seen.sums["metrics"]["error"] / seen.sums["count"]), 3))
            held.append(in_memory())
        return {"error": errors, "first": held[self.still // self.piece], "last": held[-1]}

    def of(self, entries: list[Entry], way: str) -> list[list[float]]:
        """The errors over time of each seed."""
        return [entry["error"] for entry in entries if entry["run"][0] == way]

    def figure(self, entries: list[Entry]) -> Any:
        from eqprop import plots  # matplotlib takes its time to load

        times = [self.piece * (k + 1) for k in range((self.still + self.drift) // self.piece)]
        curves = {way: self.of(entries, way) for way in (LEARNS, RESET, FROZEN)}
        return plots.tracking(times, curves, onset=self.still)

    def report(self, entries: list[Entry]) -> list[str]:
        onset, quarter = self.still // self.piece, self.drift // self.piece // 4
        spans = {"before the drift": slice(onset - quarter, onset)}
        for k in range(4):
            turned = f"{self.degrees * k / 4:g}° to {self.degrees * (k + 1) / 4:g}°"
            spans[turned] = slice(onset + k * quarter, onset + (k + 1) * quarter)
        rows = []
        for way in (LEARNS, RESET, FROZEN):
            means = {name: [mean(errors[span]) for errors in self.of(entries, way)] for name, span in spans.items()}
            held = [entry for entry in entries if entry["run"][0] == way]
            grown = [max(entry["last"][k] - entry["first"][k] for entry in held) for k in (0, 1)]
            told = {name: mean_and_deviation(values, "{:.1f} %") for name, values in means.items()}
            rows.append({"": way, **told, "arrays added": f"{grown[0]:.1f} MB", "process added": f"{grown[1]:.0f} MB"})
        end = {way: mean(mean(errors[-quarter:]) for errors in self.of(entries, way)) for way in (LEARNS, FROZEN)}
        sentence = (
            f"**It does: in the last quarter of the drift it mistakes {end[LEARNS]:.1f} % of new images, "
            f"and the network that was frozen {end[FROZEN]:.1f} %.**"
        )
        if end[LEARNS] >= end[FROZEN]:
            sentence = f"**It does not: {end[LEARNS]:.1f} % wrong, and {end[FROZEN]:.1f} % if frozen.**"
        title = "Does a network follow inputs that vary in time, and learn on the fly?"
        return answered(title, sentence, TEXT.format(q=self, watched=WATCHED, times=TIMES), rows)


def in_memory() -> tuple[float, float]:
    """Megabytes of all arrays that JAX holds, and the most that the process has ever had."""
    arrays = sum(array.nbytes for array in jax.live_arrays())
    return round(arrays / 2**20, 2), round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


TEXT = """
"Another question is that of time-varying input" (section 6). Here {q.lanes} lanes show images of MNIST's training set,
each for {q.dwell} times in a row; then another image takes its place. All images turn about their middle: not at all
for {q.still:,} times, in which a 784-{q.hidden}-10 network learns them from scratch; then by {q.degrees:g}° over
{q.drift:,} times.

At each time the state takes two sweeps of block descent with the images as they are now, from where it was before: it
is never reset, and does not come to rest. Then one sweep with each nudge, β = ±0.5, teaches (Adam, rate 0.001). *State
reset each time* does the same from s = 0, without the past. *Frozen* learns as long as nothing turns, and only follows
from then on.

Errors are of validation images, which are never learned: after each {q.piece} times {watched} lanes show them as they
are turned by then, for {times} times, and the answer is read after the two sweeps of each time.

The stream is made as it goes (`Stream`), and nothing of the past is kept but the weights, the optimizer's state and one
state for each lane. *Arrays added* are what JAX holds after the drift and did not hold after its first {q.piece} times,
*process added* is by how much the largest size of the process grew in between: both should be about 0. Means ± standard
deviations over the seeds ({q.seeds}); thin lines in the figure are single seeds.
"""
