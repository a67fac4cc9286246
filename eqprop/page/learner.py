"""The weights of one page: what is done to them, and that it can be done once more."""

import time
from dataclasses import replace
from math import isfinite

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.errors import DivergedError, InputError
from eqprop.page.scene import Scene
from eqprop.rule import Rule
from eqprop.train import Trainer, TrainState
from eqprop.types import Data, Theta

A_TURN = 0.03
"""Seconds of training, about, before others have their turn."""
TESTED = 1000
"""So many examples are looked at for the test error and for what is wrong."""


class Learner:
    """Weights that learn: one example at a time, or the data in minibatches."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.trainer: Trainer | None = None
        """What trains at the moment."""
        self.state: TrainState | None = None
        self.count = 1
        self.tested = 0.0
        self.set("opened")

    def set(self, to: str, seed: int = 0) -> None:
        """The weights that the page opened with, or random ones."""
        if to == "random" and self.scene.fresh is None:
            raise InputError("how random weights are drawn is not known here: go back to those of the start")
        self.state, self.updates = None, 0 if to == "random" else self.scene.updates
        self.theta: Theta = self.scene.fresh(seed) if to == "random" and self.scene.fresh else self.scene.theta

    def learned(self, rule: Rule, v: Data, rate: float) -> Theta:
        """θ − rate · gradient of one example, within what is allowed."""
        F = self.scene.F
        gradient = rule(F, self.theta, v, F.space.rest(1), jax.random.key(0)).gradient
        theta = F.project(jax.tree.map(lambda w, g: w - jnp.asarray(rate * g, w.dtype), self.theta, gradient))
        if not all(bool(jnp.isfinite(w).all()) for w in jax.tree.leaves(theta)):
            raise DivergedError("the weights would not be finite any more, and are left as they were: lower the rate")
        return theta

    def learn(self, rule: Rule, v: Data, rate: float, times: int) -> None:
        """Learn one example `times` times."""
        for _ in range(times):
            self.theta = self.learned(rule, v, rate)
            self.updates += 1

    def begin(self, rule: Rule) -> None:
        """Train on the data by this rule from now on; the optimizer remembers earlier training."""
        if self.scene.trainer is None:
            raise InputError("there is nothing to train on: give targets, and a system that says what it predicts")
        rule.check(self.scene.F)
        self.trainer = replace(self.scene.trainer, rule=rule)

    def stop(self) -> None:
        """Train no more."""
        self.trainer = None

    def turn(self) -> list[list[float]]:
        """Train for a moment: [updates, cost, error] of every few minibatches."""
        begun, history = time.perf_counter(), []
        while (took := time.perf_counter() - begun) < A_TURN:
            history.append(self.train(self.count))
            # As many minibatches at once as take a quarter of a turn, whatever the network.
            quick = time.perf_counter() - begun - took < A_TURN / 4
            self.count = min(2 * self.count, 16) if quick else max(self.count // 2, 1)
        return history

    def train(self, count: int) -> list[float]:
        """Learn `count` minibatches, or up to the end of the epoch: the updates so far, and the mean cost and error."""
        feed, trainer = self.scene.feed, self.trainer
        assert feed is not None and trainer is not None
        state = (self.state or self.scene.state(self.theta))._replace(theta=self.theta)
        if int(state.batch) >= feed.batches:
            state = state._replace(epoch=state.epoch + 1, batch=jnp.zeros_like(state.batch))
        count = min(count, feed.batches - int(state.batch))
        state = state._replace(sums=jax.tree.map(jnp.zeros_like, state.sums))
        state = trainer.advance(state, feed, count)
        sums, examples = state.sums["metrics"], float(state.sums["count"])
        cost = float(sums["cost"]) / examples
        if not isfinite(cost):
            self.stop()
            raise DivergedError(
                "training came to numbers that are not finite, and has ended; the weights are as before"
            )
        self.state, self.theta, self.updates = state, state.theta, self.updates + count
        return [self.updates, cost, float(sums["error"]) / examples if "error" in sums else cost]

    def train_to(self, updates: int) -> None:
        """Train until this number of updates is done."""
        while self.updates < updates:
            self.train(min(16, updates - self.updates))

    def test_error(self) -> float | None:
        """The error on some of the examples; None if it was measured less than two seconds ago."""
        if time.monotonic() - self.tested < 2:
            return None
        self.tested = time.monotonic()
        outputs, _ = self.outputs()
        return float(np.mean(outputs != self.scene.targets[:TESTED].argmax(axis=1)))

    def outputs(self) -> tuple[np.ndarray, np.ndarray]:
        """The class that each of some examples is taken for, and what it costs."""
        scene = self.scene
        if scene.trainer is None:
            raise InputError(
                "there are no examples with a class: give targets, and a system that says what it predicts"
            )
        v = (np.stack([scene.encode(image) for image in scene.pixels[:TESTED]]), scene.targets[:TESTED])
        s = scene.trainer.settle(self.theta, v)
        outputs = jax.vmap(scene.F.predict, (None, 0, 0))(self.theta, v, s)
        cost = jax.vmap(scene.F.cost_at, (None, 0, 0))(self.theta, v, s)
        return np.asarray(outputs).argmax(axis=1), np.asarray(cost)
