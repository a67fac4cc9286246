"""The trainer: what is trained, how, and what is measured; and the compiled loop over minibatches."""

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from eqprop.boundary import CHECKED, entrance, require_arguments
from eqprop.compile import compiled, is_known
from eqprop.device import Behind
from eqprop.errors import InputError
from eqprop.rule import Learned, Rule
from eqprop.total import System, require_traceable, system
from eqprop.train.feed import Batch, Feed, Window, checked, pad_rows, require_feed, rows_of
from eqprop.train.layout import EXAMPLES, by_rows, check_mesh, everywhere, lay, shardings
from eqprop.train.parallel import NOWHERE, fill_up, spread
from eqprop.train.rates import Rated
from eqprop.tree import named, summary
from eqprop.types import Array, Count, Data, HowMany, Key, Metric, State, Theta, Weight

MOVING = 0.25  # of the largest unit of a state: with a residual above that, the state is still on its way


FROM_FEED = (
    "take those of eqprop.Shuffled((x, y), 20).epoch(key), or of (x, y) from a loader of your own, those of "
    "eqprop.Iterated(make, batches, batch_size).epoch(key)"
)


class TrainState(NamedTuple):
    """All that training consists of: from equal states follow equal weights, bit for bit.

    `particles` are the last free fixed points of every training example, if they persist, and `valid_particles`
    those of every validation example; `step` counts all minibatches that were learned, `epoch` and `batch` the epochs
    and the minibatches of the running one; `sums` adds up, over the running epoch, the weights of the examples, the
    metrics of each example, how its free phase ended, and the relative change ‖Δθ_k‖/‖θ_k‖ of each part of θ in each
    minibatch.
    """

    theta: Theta
    optimizer: Any
    particles: State
    valid_particles: State
    key: Key
    step: Array
    epoch: Array
    batch: Array
    sums: dict[str, Any]

    def __repr__(self) -> str:
        """Where it is and how large, without its numbers; of a program that is being compiled, only the latter."""
        where = ", ".join(f"{name} {eqx.tree_pformat(getattr(self, name))}" for name in ("epoch", "batch", "step"))
        if is_known((self.step, self.epoch, self.batch)):
            where = f"epoch {self.epoch}, minibatch {self.batch}, {self.step} minibatches learned"
        return f"<TrainState: {where}; θ {summary(self.theta)}>"


class Trainer(eqx.Module):
    """θ ← project(θ + optimizer(∂J/∂θ)), one minibatch after the other.

    F: the total energy, a `System` or a plain function.
    rule: from a batch to the gradient, e.g. `EquilibriumPropagation()`.
    optimizer: any Optax optimizer, with its learning rate and its schedule; in a `Rated` one, rates are data.
    persistent: start each free phase where that of the same example last ended (section 5.2), in validation too; or
        where that of the same row ended, if the feed carries states over, and validation begins at rest.
    metrics: (θ, v, s) → a number for one example, by name: averaged over the free fixed points, beside the cost and
        what the rule itself measures.
    watch: θ → a number, by name: told at the end of each epoch.
    changes: add up ‖Δθ_k‖/‖θ_k‖ as well, by which the paper chose its rates α_k.
    mesh: devices that share each minibatch, and may share θ, as `eqprop.mesh()`; None: one device.
    """

    F: System = eqx.field(converter=system)
    rule: Rule
    optimizer: optax.GradientTransformation | Rated | Behind
    persistent: bool = eqx.field(default=False, static=True, kw_only=True)
    metrics: Mapping[str, Metric] = eqx.field(default_factory=dict, kw_only=True)
    watch: Mapping[str, Callable[[Theta], Array]] = eqx.field(default_factory=dict, kw_only=True)
    changes: bool = eqx.field(default=False, static=True, kw_only=True)
    mesh: Mesh | None = eqx.field(default=None, static=True, kw_only=True)

    def __check_init__(self) -> None:
        if not isinstance(self.rule, Rule):
            raise InputError(f"rule={self.rule!r} is no rule: give one of eqprop.rule, as EquilibriumPropagation()")
        if taken := sorted({"cost", *self.rule.measures} & self.metrics.keys()):
            raise InputError(f"metrics={sorted(self.metrics)}: {taken[0]!r} is measured already, choose another name")
        for name, metric in self.metrics.items():
            require_arguments(metric, f"metrics[{name!r}]", "theta", "v", "s")
        self.rule.check(self.F)
        if self.mesh is not None:
            check_mesh(self.mesh)
            if not self.F.traceable:
                raise InputError(f"mesh with F={self.F!r}, which is measured and not computed: leave the mesh out")

    @entrance
    def rest(self, examples: HowMany) -> State:
        """The state from which `examples` of them begin to settle."""
        return self.F.space.rest(examples)

    @entrance
    def init(self, theta: Theta, feed: Annotated[Feed, CHECKED], key: Key, valid: HowMany = 0) -> TrainState:
        """The state before the first minibatch; `valid` is the number of validation examples."""
        require_feed(feed)
        if self.persistent and not feed.slots:
            raise InputError(f"persistent=True, but {type(feed).__name__} has no slots for particles: leave it out")
        # Copies, as the caller may change its arrays; in the types that training returns, so that it compiles once.
        theta = jax.tree.map(lambda w: jnp.array(w, jnp.asarray(w).dtype), theta)
        if self.mesh is not None:
            theta = lay(theta, shardings(theta, self.mesh))
        state = TrainState(
            theta=theta,
            particles=self.rest(feed.slots) if self.persistent else None,
            valid_particles=self.rest(valid) if self.persistent and valid and not feed.carry else None,
            key=key,
            **_fresh(self, theta),
        )
        return state if self.mesh is None else self._lay(state, self.mesh)

    def _lay(self, state: TrainState, mesh: Mesh) -> TrainState:
        """The state on the devices: θ and what the optimizer has for it as it lies, particles with their rows."""
        particles = lay(state.particles, by_rows(mesh, state.particles))
        return lay(state._replace(particles=particles), everywhere(mesh))

    @entrance
    def advance(self, state: TrainState, feed: Feed, batches: int) -> TrainState:
        """Train on the next `batches` minibatches, which must lie within the running epoch."""
        return advance(self, state, feed, batches)

    @entrance
    def measure(self, theta: Theta | TrainState, v: Data, block: Count = 1000) -> dict[str, float]:
        """The cost and the metrics at the free fixed points, averaged over all examples."""
        return self._settle_all(weights_of(theta), self._checked(v), None, block)[0]

    @entrance
    def settle(self, theta: Theta | TrainState, v: Data, block: Count = 1000) -> State:
        """The free fixed points of all examples, at which `measure` measures; targets may be None."""
        theta, v = weights_of(theta), self._checked(v)
        examples, settled = len(jax.tree.leaves(v)[0]), []
        for first in range(0, examples, block):
            part = pad_rows(rows_of(v, first, block), block)
            settled.append(rows_of(_free(self, theta, part, self.rest(block)), 0, min(block, examples - first)))
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *settled)

    @entrance
    def predict(self, theta: Theta | TrainState, v: Data, block: Count = 1000) -> Array:
        """The outputs at the free fixed points of all examples."""
        theta, v = weights_of(theta), self._checked(v)
        return jax.vmap(self.F.predict, in_axes=(None, 0, 0))(theta, v, self.settle(theta, v, block))

    @entrance
    def validate(self, state: TrainState, v: Data) -> tuple[dict[str, float], TrainState]:
        """`measure`, from the particles of the validation examples v, and the state with those moved on."""
        return self.go_on_validating(state, self._checked(v))

    def go_on_validating(self, state: TrainState, v: Data) -> tuple[dict[str, float], TrainState]:
        """`validate`, of examples that were checked before."""
        averages, particles = self._settle_all(state.theta, v, state.valid_particles)
        return averages, state._replace(valid_particles=particles)

    def _checked(self, v: Data) -> Data:
        require_traceable(self.F, "a Trainer that measures or predicts")
        v = checked(v)
        if not len(jax.tree.leaves(v)[0]):
            raise InputError("v has no examples: give at least one")
        if is_known(v):
            self.F.check_data(v)
        return v

    def _settle_all(
        self, theta: Theta, v: Data, particles: State | None, block: Count = 1000
    ) -> tuple[dict[str, float], State]:
        examples = len(jax.tree.leaves(v)[0])
        totals, settled = dict.fromkeys(("cost", *self.metrics), 0.0), []
        for first in range(0, examples, block):
            count = min(block, examples - first)
            part, start = (pad_rows(rows_of(tree, first, block), block) for tree in (v, particles))
            sums, s = _measure(self, theta, part, start if particles is not None else self.rest(block), count)
            totals = {name: totals[name] + float(sums[name]) for name in totals}
            if particles is not None:
                settled.append(jax.tree.map(lambda a, n=count: a[:n], s))
        if particles is not None:
            particles = jax.tree.map(lambda *parts: jnp.concatenate(parts), *settled)
        return {name: total / examples for name, total in totals.items()}, particles


@runtime_checkable
class HasWeights(Protocol):
    """What has weights θ and was trained with them for some epochs; θ of one's own may have a part of that name."""

    @property
    def theta(self) -> Theta: ...

    @property
    def epoch(self) -> Array: ...


def weights_of(theta: Theta | TrainState) -> Theta:
    """θ itself, or that of the state of a training."""
    return theta.theta if isinstance(theta, HasWeights) else theta


def advance(trainer: Trainer, state: TrainState, feed: Feed, batches: int) -> TrainState:
    """`Trainer.advance`, for what was checked before."""
    first, left = int(state.batch), feed.batches - int(state.batch)
    if not 0 <= batches <= left:
        raise InputError(f"batches={batches}: the epoch has {left} more minibatches")
    end = first + batches
    if trainer.mesh is not None:
        feed = feed.on(trainer.mesh)
    while first < end:
        window, stop = feed.window(state.key, int(state.epoch), first, end - first)
        first = min(stop, end)
        try:
            state = _advance(trainer, state, window, first)
        except (TypeError, ValueError):
            check_state(trainer, state)
            raise
    return state


def _fresh(trainer: Trainer, theta: Theta) -> dict[str, Any]:
    """What a state begins with that follows from the trainer and θ alone."""
    metrics = ("cost", *trainer.metrics, *trainer.rule.measures)
    return {
        "optimizer": trainer.optimizer.init(theta),
        **{name: jnp.zeros((), int) for name in ("step", "epoch", "batch")},
        "sums": {
            "count": jnp.zeros(()),
            "metrics": {name: jnp.zeros(()) for name in metrics},
            "settling": {name: jnp.zeros(()) for name in ("steps", "residual", "moving")},
            "changes": {name: jnp.zeros(()) for name in named(theta)} if trainer.changes else {},
        },
    }


def check_state(trainer: Trainer, state: TrainState) -> None:
    """Refuse a state that another trainer made, or that was made in another precision."""
    fresh = jax.eval_shape(partial(_fresh, trainer), state.theta)
    wanted, found = (
        {name: f"{getattr(leaf, 'dtype', type(leaf))}{[*jnp.shape(leaf)]}" for name, leaf in named(tree).items()}
        for tree in (fresh, {name: getattr(state, name) for name in fresh})
    )
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise InputError(
                f"the state is of another trainer, or of another precision: its {name} is {found.get(name)}, and the "
                f"trainer's {wanted.get(name)}; make one by trainer.init(state.theta, feed, key)"
            )


def update(trainer: Trainer, state: TrainState, batch: Annotated[Batch, FROM_FEED]) -> TrainState:
    """One minibatch: settle, learn, change θ; for loops of your own. It is compiled if F can be.

    >>> import eqprop as ep
    >>> net = ep.Hopfield.layered(2, 1)
    >>> trainer = Trainer(ep.Total(net, ep.SquaredError()), ep.EquilibriumPropagation(), optax.sgd(0.1))
    >>> feed = ep.Shuffled((jnp.eye(2), jnp.array([[0.2], [0.6]])), batch_size=2)
    >>> state = trainer.init(net.init(jax.random.key(0)), feed, jax.random.key(1))
    >>> for batch in feed.epoch(state.key):
    ...     state = update(trainer, state, batch)
    >>> int(state.step)
    1
    """
    try:
        return (_update if trainer.F.traceable else _learn_alone)(trainer, state, batch)
    except (TypeError, ValueError):
        check_state(trainer, state)
        raise


def _learn_from(trainer: Trainer, batches: Callable[[Array], Batch], i: Array, state: TrainState) -> TrainState:
    """The state after minibatch number i, as a part of a larger program."""
    batch = batches(i)
    if trainer.mesh is not None and trainer.mesh.shape[EXAMPLES] > 1:
        return _learn_together(trainer, trainer.mesh, state, batch)
    rule, start, key = prepared(trainer, state, batch)
    learned = rule.learn(trainer.F, state.theta, batch.v, start, key, batch.weight)
    return apply_learned(trainer, state, batch, learned)


def prepared(trainer: Trainer, state: TrainState, batch: Batch) -> tuple[Rule, State, Key]:
    """What a minibatch is learned by: the rule as it is by then, where the free phases begin, and a key."""
    return trainer.rule.at(state.step), starts(trainer, state, batch), _key(state)


def starts(trainer: Trainer, state: TrainState, batch: Batch) -> State:
    """Where the free phases of a minibatch begin: at its particles, if they persist, or at rest."""
    if not trainer.persistent:
        return trainer.rest(len(batch.weight))
    return jax.tree.map(lambda p: p.at[batch.slot].get(mode="clip"), state.particles)


def apply_learned(trainer: Trainer, state: TrainState, batch: Batch, learned: Learned) -> TrainState:
    """The state after a minibatch, given what the rule learned from it; no device is asked."""
    sums = _tally(trainer, state.theta, batch, learned)
    return _change(trainer, state, batch.slot, learned.gradient, learned.state, sums)


def _key(state: TrainState) -> Key:
    """The key of the next minibatch: the rule's key of `epoch_keys`, folded with the number of the minibatch.

    The second key that JAX's `split` gives is the key folded with 1. So all three keys are foldings, and one loop makes
    them: the program has one hash to compile in place of three.
    """
    numbers = jnp.stack([state.epoch, jnp.ones_like(state.epoch), state.batch])
    return jax.lax.scan(lambda key, number: (jax.random.fold_in(key, number), None), state.key, numbers)[0]


def _learn_alone(trainer: Trainer, state: TrainState, batch: Batch) -> TrainState:
    """The state after a minibatch that belongs to no window."""
    return _learn_from(trainer, lambda _: batch, state.batch, state)


def _learn_together(trainer: Trainer, mesh: Mesh, state: TrainState, batch: Batch) -> TrainState:
    """`update` on a mesh: each device learns from its rows, and one sum over the devices makes the gradient of all."""
    batch = fill_up(batch, mesh)._replace(slot=fill_up(batch.slot, mesh, NOWHERE))
    rule, start, key = prepared(trainer, state, batch)

    def one(rows: tuple[Batch, State], key: Key) -> tuple[Any, State]:
        batch, start = rows
        weight = jnp.sum(batch.weight)
        used = jnp.where(weight > 0, batch.weight, 1)  # an average over rows that weigh nothing would be NaN
        learned = rule.learn(trainer.F, state.theta, batch.v, start, key, used)
        gradient = jax.tree.map(lambda g: (weight * g).astype(g.dtype), learned.gradient)
        return (gradient, _tally(trainer, state.theta, batch, learned)), learned.state

    (gradient, sums), settled = spread(mesh, one, (batch, start), key)
    gradient = jax.tree.map(lambda g: (g / sums["count"]).astype(g.dtype), gradient)
    return _change(trainer, state, batch.slot, gradient, settled, sums)


def _tally(trainer: Trainer, theta: Theta, batch: Batch, learned: Learned) -> dict[str, Any]:
    """What is added up over the examples of an epoch: their weights, and what was measured of each."""
    v, weight, _ = batch
    measured = {name: learned.measured[name] for name in trainer.rule.measures}
    values = {"metrics": _metrics(trainer, theta, v, learned.state) | measured, "settling": settling_of(learned)}
    return {"count": jnp.sum(weight)} | _total(values, weight)


def _change(
    trainer: Trainer, state: TrainState, slot: Array, gradient: Theta, settled: State, sums: dict[str, Any]
) -> TrainState:
    """The state after a minibatch with this gradient, whose free states have settled here."""
    updates, optimizer = trainer.optimizer.update(gradient, state.optimizer, state.theta)
    particles = state.particles
    if trainer.persistent:  # the slot of a padding row lies beyond the last, where nothing is written
        particles = jax.tree.map(lambda p, u: p.at[slot].set(u, mode="drop"), particles, settled)
    sums = sums | {"changes": _changes(updates, state.theta) if trainer.changes else {}}
    return state._replace(
        theta=trainer.F.project(optax.apply_updates(state.theta, updates)),
        optimizer=optimizer,
        particles=particles,
        step=state.step + 1,
        batch=state.batch + 1,
        sums=jax.tree.map(jnp.add, state.sums, sums),
    )


@compiled
def _update(trainer: Trainer, state: TrainState, batch: Batch) -> TrainState:
    return _learn_alone(trainer, state, batch)


@compiled
def _advance(trainer: Trainer, state: TrainState, window: Window, stop: Array | int) -> TrainState:
    return jax.lax.fori_loop(state.batch, stop, partial(_learn_from, trainer, window.batch), state)


@compiled
def _free(trainer: Trainer, theta: Theta, v: Data, start: State) -> State:
    return _settle(trainer, theta, (v, start), lambda v, s: {})[1]


@compiled
def _measure(
    trainer: Trainer, theta: Theta, v: Data, start: State, count: Array | int
) -> tuple[dict[str, Array], State]:
    weight = (jnp.arange(len(jax.tree.leaves(v)[0])) < count).astype(float)
    return _settle(
        trainer, theta, (v, start, weight), lambda v, s, weight: _total(_metrics(trainer, theta, v, s), weight)
    )


def _settle(
    trainer: Trainer, theta: Theta, rows: tuple[Any, ...], measure: Callable[..., dict[str, Array]]
) -> tuple[dict[str, Array], State]:
    """The free states of rows (v, where they begin, …), and the sums of measure(v, s, …) over them."""

    def one(rows: tuple[Any, ...], key: Key | None) -> tuple[dict[str, Array], State]:
        v, start, *more = rows
        s, _ = trainer.rule.free.settle(trainer.F, theta, v, 0.0, start, key)
        return measure(v, s, *more), s

    if trainer.mesh is None:
        return one(rows, None)
    count = len(jax.tree.leaves(rows)[0])
    sums, s = spread(trainer.mesh, one, fill_up(rows, trainer.mesh), jax.random.key(0))  # the key that None stands for
    return sums, jax.lax.with_sharding_constraint(rows_of(s, 0, count), everywhere(trainer.mesh))


def _metrics(trainer: Trainer, theta: Theta, v: Data, s: State) -> dict[str, Array]:
    """The cost and the metrics of each example."""
    functions = {"cost": trainer.F.cost_at} | dict(trainer.metrics)
    values = {name: jax.vmap(function, in_axes=(None, 0, 0))(theta, v, s) for name, function in functions.items()}
    for name, value in values.items():
        if value.ndim != 1:
            shape = value.shape[1:]
            raise InputError(f"metric {name!r} gave an array of shape {shape} for one example: it must give one number")
    return values


def _total(values: dict[str, Any], weight: Weight) -> dict[str, Any]:
    """The weighted sums of all values over the examples; a padding row is left out, as its values may be NaN.

    One reduction makes all sums, as XLA compiles each reduction on its own. XLA asks for one type in it.
    """
    rows, shape = jax.tree.flatten(jax.tree.map(lambda value: jnp.where(weight > 0, weight * value, 0), values))
    rows = [row.astype(jnp.result_type(*rows)) for row in rows]
    start = [jnp.zeros((), row.dtype) for row in rows]
    return jax.tree.unflatten(shape, jax.lax.reduce(rows, start, lambda a, b: [*map(jnp.add, a, b)], (0,)))


def settling_of(learned: Learned) -> dict[str, Array]:
    """How the free phase of each example ended.

    An example moves if its residual is not small beside the largest of its units.
    """
    free = learned.phases["free"]
    largest = reduce(jnp.maximum, (jnp.max(jnp.abs(u.reshape(len(u), -1)), 1) for u in jax.tree.leaves(learned.state)))
    return {"steps": free.steps, "residual": free.residual, "moving": free.residual > MOVING * largest}


def _changes(updates: Theta, theta: Theta) -> dict[str, Array]:
    """‖Δθ_k‖/‖θ_k‖ of each part; 0 for a part that is 0 itself, as biases are at first."""
    sizes, norms = named(jax.tree.map(jnp.linalg.norm, theta)), named(jax.tree.map(jnp.linalg.norm, updates))
    return {name: jnp.where(size > 0, norms[name] / size, 0) for name, size in sizes.items()}
