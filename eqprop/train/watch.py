"""Whether training gets anywhere: what `fit` says, once, when it does not, and with which setting that has to do."""

import math
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from eqprop.compile import compiled
from eqprop.errors import InputError
from eqprop.train.feed import Feed
from eqprop.train.trainer import Trainer, TrainState
from eqprop.types import Array, Data, State, Theta

CHANCE = 0.9  # of the error of a guess: an epoch with a larger error has taught next to nothing
MANY = 500  # examples: a shorter epoch cannot tell
STILL = 0.95  # of the cost before: a larger one does not fall
RISEN = 1.05  # times the cost of the epoch before
ENOUGH = 20  # minibatches in an epoch: fewer need not lower the cost as much
NOTHING = 1e-7  # as a part of θ: a smaller change is lost in single precision
GROWN = 3.0  # times the initial weights: larger ones have left the region in which they began
EXPLODED = 1e6  # times the initial weights: nothing that is learned asks for such
LEAST = 1e-3  # the length of initial weights, from which on that is told
AT_ENDS = 0.9  # of the units that have bounds: if more are at one, a nudge can hardly move any


@dataclass
class Watch:
    """Looks at every epoch, and has at most one thing to say in all.

    trainer: what is trained.
    theta: θ when the epoch began.
    half: the numbers of examples and the sums of their costs and errors in the first half of the epoch.
    before: those in the epoch before, for one that takes no longer than a piece.
    told: whether it has spoken.
    """

    trainer: Trainer
    theta: Theta
    half: dict[str, float] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)
    told: bool = False

    def pass_by(self, state: TrainState, batches: int) -> None:
        """Remember the sums at about the middle of the epoch."""
        if not self.told and 2 * int(state.batch) <= batches:
            self.half = _sums(state)

    def look(self, state: TrainState, feed: Feed) -> str | None:
        """What is wrong with the epoch that just ended, if anything is, and has not been said before."""
        words = None if self.told else self._problem(state, feed)
        self.theta, self.half, self.before = state.theta, {}, _sums(state)
        self.told = self.told or words is not None
        return words

    def _problem(self, state: TrainState, feed: Feed) -> str | None:
        whole = _sums(state)
        count = whole["count"]
        if whole.get("moving", 0.0) > count / 2 and self._is_trouble(whole, state, feed):
            return (
                f"{whole['moving'] / count:.0%} of the examples do not come to rest: after "
                f"{whole['steps'] / count:.3g} steps the mean residual is {whole['residual'] / count:.2g}. "
                f"{self.trainer.rule.free.remedy}"
            )
        first = int(state.epoch) == 0  # later, all may have been learned
        if first and not _largest_change(self.theta, state.theta) > NOTHING:
            return (
                "no weight has changed in the first epoch: the learning rate is 0, or β so small or "
                "so large that the nudge is lost; change one of them"
            )
        if first and (grown := self._growth(state)) > EXPLODED:
            return f"the weights have grown {grown:.3g} times in the first epoch: lower the learning rate"
        if not (self._flat(whole, feed) and self._guesses(whole, feed, state)):
            return None
        error = f"at an error of {whole['error'] / count:.0%}, that of a guess, the cost no longer falls"
        if (grown := self._growth(state)) > GROWN:
            return f"{error}: the weights have grown {grown:.3g} times in an epoch; lower the learning rate"
        v = feed.sample(state.key)
        ends = float(_at_ends(self.trainer, state.theta, v, self.trainer.rest(len(jax.tree.leaves(v)[0]))))
        if ends > AT_ENDS:
            return (
                f"{error}: {ends:.0%} of the units rest at an end of their box, where no small nudge moves them; lower "
                "the initial weights and biases or the learning rate, and keep targets inside of the box"
            )
        return f"{error}: try another learning rate, a stronger nudge β, or other initial weights"

    def _growth(self, state: TrainState) -> float:
        """How many times as long the weights are as when the epoch began."""
        return _norm(state.theta) / max(_norm(self.theta), LEAST)

    def _guesses(self, whole: dict[str, float], feed: Feed, state: TrainState) -> bool:
        """Whether the second half of the epoch had the error of a guess."""
        late, error = (whole.get(name, 0.0) - self.half.get(name, 0.0) for name in ("count", "error"))
        if late < MANY or error < CHANCE * late / 2:  # less than by a guess at two classes
            return False
        classes = self._classes(feed, state)
        return classes > 0 and error >= CHANCE * (1 - 1 / classes) * late

    def _flat(self, whole: dict[str, float], feed: Feed) -> bool:
        """Whether costs in the second half of the epoch were as in the first, or as in the epoch before."""
        early = self.half or self.before
        if not early.get("count"):
            return False
        late, cost = (whole[name] - self.half.get(name, 0.0) for name in ("count", "cost"))
        fall = (1 - STILL) * min(1.0, feed.batches / ENOUGH)
        return cost / late >= (1 - fall) * early["cost"] / early["count"]

    def _is_trouble(self, whole: dict[str, float], state: TrainState, feed: Feed) -> bool:
        """Whether it matters that most examples still move: phases that are cut short on purpose teach all the same."""
        if int(state.epoch) == 0:
            return self._flat(whole, feed) or self._never_rests(state, feed)
        before = self.before  # empty if training went on from a checkpoint
        return bool(before) and whole["cost"] / whole["count"] > RISEN * before["cost"] / before["count"]

    def _never_rests(self, state: TrainState, feed: Feed) -> bool:
        """Whether residuals stay as large in a free phase of twice the steps; those of one cut short fall on."""
        v = feed.sample(state.key)
        once, twice = _residuals(self.trainer, state.theta, v, self.trainer.rest(len(jax.tree.leaves(v)[0])))
        return float(twice) >= STILL * float(once)

    def _classes(self, feed: Feed, state: TrainState) -> int:
        """How many outputs there are to choose from; 0 if F does not say what it predicts."""
        v = jax.tree.map(lambda a: a[0], feed.sample(state.key))
        s = jax.tree.map(lambda a: a[0], self.trainer.rest(1))
        try:
            outputs = jax.eval_shape(self.trainer.F.predict, state.theta, v, s)
        except InputError:
            return 0
        return outputs.size if outputs.size > 1 else 0


def _sums(state: TrainState) -> dict[str, float]:
    """What was summed over the epoch so far, as far as it is a number: chains that sample have no residual."""
    sums = state.sums["metrics"] | state.sums["settling"] | {"count": state.sums["count"]}
    return {name: value for name, value in ((k, float(a)) for k, a in sums.items()) if math.isfinite(value)}


def _norm(theta: Theta) -> float:
    """‖θ‖, of numbers too large to be squared in single precision as well: each part is divided by its largest."""

    def norm(leaf: Array) -> float:
        scale = max(float(jnp.max(jnp.abs(leaf), initial=0.0)), float(jnp.finfo(leaf.dtype).tiny))
        return scale * float(jnp.linalg.norm(leaf / scale))

    return math.hypot(*map(norm, jax.tree.leaves(theta)))


def _largest_change(before: Theta, after: Theta) -> float:
    """max_k ‖Δθ_k‖/‖θ_k‖ over the parts of θ; a part that began at 0 counts by its own size."""

    def change(old: Array, new: Array) -> float:
        return _norm(new - old) / (_norm(new) or 1.0)

    return max(map(change, jax.tree.leaves(before), jax.tree.leaves(after)), default=0.0)


@compiled
def _residuals(trainer: Trainer, theta: Theta, v: Data, s: State) -> tuple[Array, Array]:
    """The mean residuals after a free phase, and after another that goes on from there."""
    free, F = trainer.rule.free, trainer.F
    s, once = free.settle(F, theta, v, 0.0, s)
    return jnp.mean(once.residual), jnp.mean(free.settle(F, theta, v, 0.0, s)[1].residual)


@compiled
def _at_ends(trainer: Trainer, theta: Theta, v: Data, start: State) -> Array:
    """The share of units at an end of their box."""
    s, _ = trainer.rule.free.settle(trainer.F, theta, v, 0.0, start)
    return 1 - jnp.mean(jnp.concatenate([jnp.ravel(free) for free in jax.tree.leaves(trainer.F.space.inside(s))]))
