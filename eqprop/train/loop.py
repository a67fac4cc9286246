"""The training loop: minibatches gathered, settled, contrasted and applied inside one compiled loop."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import TotalEnergy, cost_of
from eqprop.errors import InputError
from eqprop.train.naming import named

Metric = Callable[[Any, Any], Array]
"""(v, s) → a number for one example, s being its free fixed point."""


class TrainState(NamedTuple):
    """All that training consists of: from equal states follow equal weights, bit for bit.

    `particles` are the last free fixed points of every training example, if they persist, and `valid_particles`
    those of every validation example; `epoch` and `batch` count what is done; `sums` adds up, over the running epoch,
    the metrics of each example and the relative change ‖Δθ_k‖/‖θ_k‖ of each part of θ in each minibatch.
    """

    theta: Any
    optimizer: Any
    particles: Any
    valid_particles: Any
    key: Array
    epoch: Array
    batch: Array
    sums: dict[str, dict[str, Array]]


class Trainer(eqx.Module):
    """θ ← θ − rate · optimizer(∂J/∂θ), one minibatch after the other.

    F: the total energy.
    rule: how the gradient is had, e.g. `EquilibriumPropagation()`.
    optimizer: any Optax optimizer.
    rates: multiply the optimizer's updates; one number, or a tree like θ or the top of one.
    decay: the rates are multiplied by it after each epoch.
    growth: the β of the rule's nudge is multiplied by it after each epoch.
    persistent: start each free phase where that of the same example last ended (section 5.2), in validation too.
    shuffle: visit the examples in a new order in each epoch; otherwise in the order of the data.
    metrics: measured at the free fixed points, beside the cost; what the rule itself `measures` comes with them.
    watch: θ → a number, by name: told at the end of each epoch.
    changes: add up ‖Δθ_k‖/‖θ_k‖ as well, by which the paper chose its rates α_k.
    start: n → the state from which n examples begin to settle; None: F's own `rest`.
    """

    F: TotalEnergy
    rule: Any
    optimizer: optax.GradientTransformation
    batch_size: int = eqx.field(default=20, static=True)
    rates: Any = 1.0
    decay: float = 1.0
    growth: float = 1.0
    persistent: bool = eqx.field(default=False, static=True)
    shuffle: bool = eqx.field(default=True, static=True)
    metrics: Mapping[str, Metric] = eqx.field(default_factory=dict)
    watch: Mapping[str, Callable[[Any], Array]] = eqx.field(default_factory=dict)
    changes: bool = eqx.field(default=False, static=True)
    start: Callable[[int], Any] | None = None

    def __check_init__(self) -> None:
        if not isinstance(self.batch_size, int) or self.batch_size < 1:
            raise InputError(f"batch_size={self.batch_size!r}: give a positive whole number of examples")
        for name in ("decay", "growth"):
            if not 0 < (value := getattr(self, name)) < float("inf"):
                raise InputError(f"{name}={value!r}: give a positive factor, 1 for no change")
        if self.growth != 1 and not hasattr(self.rule, "nudge"):
            raise InputError(f"growth={self.growth!r}: {type(self.rule).__name__} has no nudge to grow; leave it at 1")
        if not all(np.all(np.isfinite(rate)) and np.all(np.asarray(rate) >= 0) for rate in jax.tree.leaves(self.rates)):
            raise InputError(f"rates={self.rates!r}: learning rates are 0 or more")
        if hasattr(self.rule, "check"):
            self.rule.check(self.F)

    @property
    def measures(self) -> tuple[str, ...]:
        """Those fields of the rule's info that are numbers per example, worth averaging."""
        return getattr(self.rule, "measures", ())

    def rest(self, examples: int) -> Any:
        """The state from which so many examples begin to settle."""
        begin = self.start or getattr(self.F, "rest", None)
        if begin is None:
            raise InputError(f"F={self.F!r} does not say what state to start from: give Trainer(start=…)")
        return begin(examples)

    def init(self, theta: Any, examples: int, key: Array, valid: int = 0) -> TrainState:
        """The state before the first minibatch of a training set of `examples`, beside `valid` for validation."""
        if examples < 1:
            raise InputError("the training set is empty: give at least one example")
        # In the types that training returns, so that it compiles once.
        theta = jax.tree.map(lambda w: jnp.asarray(w, jnp.asarray(w).dtype), theta)
        try:
            jax.tree.broadcast(self.rates, theta)
        except ValueError as error:
            raise InputError(f"rates={self.rates!r} do not fit theta: {error}") from error
        return TrainState(
            theta=theta,
            optimizer=self.optimizer.init(theta),
            particles=self.rest(examples) if self.persistent else None,
            valid_particles=self.rest(valid) if self.persistent and valid else None,
            key=key,
            epoch=jnp.zeros((), int),
            batch=jnp.zeros((), int),
            sums={
                "metrics": {name: jnp.zeros(()) for name in ("cost", *self.metrics, *self.measures)},
                "changes": {name: jnp.zeros(()) for name in named(theta)} if self.changes else {},
            },
        )

    def batches(self, examples: int) -> int:
        """Minibatches in an epoch; the last may be smaller."""
        return -(-examples // self.batch_size)

    def advance(self, state: TrainState, v: Any, batches: int, order: Any = None) -> TrainState:
        """Train on the next `batches` minibatches, which must lie within the running epoch.

        `order` has a row for each minibatch of the epoch, the numbers of its examples, with any number beyond the last
        example for nobody; None: all examples, shuffled if the trainer does so.
        """
        if order is None:
            order = _order(self.shuffle, state.key, state.epoch, len(jax.tree.leaves(v)[0]), self.batch_size)
        if np.ndim(order) != 2 or np.shape(order)[1] != self.batch_size:
            raise InputError(f"order of shape {np.shape(order)}: give rows of batch_size={self.batch_size} examples")
        left = len(order) - int(state.batch)
        if not 0 <= batches <= left:
            raise InputError(f"batches={batches}: the epoch has {left} more minibatches")
        return _advance(self, state, v, order, state.batch + batches)

    def measure(self, theta: Any, v: Any, block: int = 1000) -> dict[str, float]:
        """The cost and the metrics at the free fixed points, averaged over all examples."""
        return self._settle_all(theta, v, None, block)[0]

    def settle(self, theta: Any, v: Any, block: int = 1000) -> Any:
        """The free fixed points of all examples, as `measure` looks at."""
        return self._settle_all(theta, v, self.rest(len(jax.tree.leaves(v)[0])), block)[1]

    def validate(self, state: TrainState, v: Any) -> tuple[dict[str, float], TrainState]:
        """`measure`, from the particles of the validation examples v, and the state with those moved on."""
        averages, particles = self._settle_all(state.theta, v, state.valid_particles)
        return averages, state._replace(valid_particles=particles)

    def _settle_all(self, theta: Any, v: Any, particles: Any, block: int = 1000) -> tuple[dict[str, float], Any]:
        examples = len(jax.tree.leaves(v)[0])
        totals, settled = dict.fromkeys(("cost", *self.metrics), 0.0), []
        for first in range(0, examples, block):
            count = min(block, examples - first)
            part, start = (_block(tree, first, block) for tree in (v, particles))
            sums, s = _measure(self, theta, part, start if particles is not None else self.rest(block), count)
            totals = {name: totals[name] + float(sums[name]) for name in totals}
            if particles is not None:
                settled.append(jax.tree.map(lambda a, n=count: a[:n], s))
        if particles is not None:
            particles = jax.tree.map(lambda *parts: jnp.concatenate(parts), *settled)
        return {name: total / max(examples, 1) for name, total in totals.items()}, particles


def _block(tree: Any, first: int, size: int) -> Any:
    """Examples from `first` on, filled up with zeros to `size` of them."""
    part = jax.tree.map(lambda a: a[first : first + size], tree)
    return jax.tree.map(lambda a: np.pad(a, [(0, size - len(a))] + [(0, 0)] * (a.ndim - 1)), part)


def _keys(key: Array, epoch: Array) -> Array:
    """Of an epoch: for the order of its examples, and for the rule."""
    return jax.random.split(jax.random.fold_in(key, epoch))


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def _order(shuffle: bool, key: Array, epoch: Array, examples: int, size: int) -> Array:
    """The minibatches of an epoch; an example that does not exist fills up the last, so that all have one shape."""
    order = jax.random.permutation(_keys(key, epoch)[0], examples) if shuffle else jnp.arange(examples)
    return jnp.pad(order, (0, -examples % size), constant_values=examples).reshape(-1, size)


def rule_at(trainer: Trainer, epoch: Array) -> Any:
    """The trainer's rule, with the β that has grown until this epoch."""
    if not hasattr(trainer.rule, "nudge"):
        return trainer.rule
    grown = trainer.rule.nudge.beta * trainer.growth**epoch
    return eqx.tree_at(lambda rule: rule.nudge.beta, trainer.rule, grown)


@compiled
def _advance(trainer: Trainer, state: TrainState, v: Any, order: Array, stop: Any) -> TrainState:
    examples, size = len(jax.tree.leaves(v)[0]), trainer.batch_size
    rule_key = _keys(state.key, state.epoch)[1]
    rates = jax.tree.broadcast(trainer.rates, state.theta)
    rates = jax.tree.map(lambda rate: rate * trainer.decay**state.epoch, rates)
    rule = rule_at(trainer, state.epoch)

    def minibatch(i: Array, state: TrainState) -> TrainState:
        index = order[i]
        real = index < examples  # an example that does not exist reads some other, weighs nothing, is not written back

        def take(a: Array) -> Array:
            return a.at[index].get(mode="clip")

        start = jax.tree.map(take, state.particles) if trainer.persistent else trainer.rest(size)
        v_i = jax.tree.map(take, v)
        key, weight = jax.random.fold_in(rule_key, i), real.astype(jnp.float32)
        gradient, s, info = rule(trainer.F, state.theta, v_i, start, key, weight)
        particles = state.particles
        if trainer.persistent:
            particles = jax.tree.map(lambda p, u: p.at[index].set(u, mode="drop"), particles, s)
        updates, optimizer = trainer.optimizer.update(gradient, state.optimizer, state.theta)
        updates = jax.tree.map(jnp.multiply, updates, rates)
        measured = {name: getattr(info, name) for name in trainer.measures}
        sums = {
            "metrics": _sums(trainer, state.theta, v_i, s, real) | _total(measured, real),
            "changes": _changes(updates, state.theta) if trainer.changes else {},
        }
        return state._replace(
            theta=optax.apply_updates(state.theta, updates),
            optimizer=optimizer,
            particles=particles,
            sums=jax.tree.map(jnp.add, state.sums, sums),
        )

    state = jax.lax.fori_loop(state.batch, stop, minibatch, state)
    return state._replace(batch=jnp.asarray(stop))


@compiled
def _measure(trainer: Trainer, theta: Any, v: Any, start: Any, count: Any) -> tuple[dict[str, Array], Any]:
    s, _ = trainer.rule.free(trainer.F, theta, v, 0.0, start)
    return _sums(trainer, theta, v, s, jnp.arange(len(jax.tree.leaves(v)[0])) < count), s


def _sums(trainer: Trainer, theta: Any, v: Any, s: Any, real: Array) -> dict[str, Array]:
    values = {"cost": jax.vmap(cost_of(trainer.F), in_axes=(None, 0, 0))(theta, v, s)}
    values |= {name: jax.vmap(metric)(v, s) for name, metric in trainer.metrics.items()}
    return _total(values, real)


def _total(values: dict[str, Array], real: Array) -> dict[str, Array]:
    return {name: jnp.sum(jnp.where(real, value, 0)) for name, value in values.items()}


def _changes(updates: Any, theta: Any) -> dict[str, Array]:
    """‖Δθ_k‖/‖θ_k‖ of each part; 0 for a part that is 0 itself, as biases are at first."""
    sizes, norms = named(jax.tree.map(jnp.linalg.norm, theta)), named(jax.tree.map(jnp.linalg.norm, updates))
    return {name: jnp.where(size > 0, norms[name] / size, 0) for name, size in sizes.items()}
