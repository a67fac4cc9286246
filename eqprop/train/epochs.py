"""Training over epochs: the compiled loop in pieces, with a word after each."""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.compile import compiled
from eqprop.errors import DivergedError, InputError, warn
from eqprop.total import require_traceable
from eqprop.train.dead import is_dead
from eqprop.train.feed import Feed, checked, require_feed
from eqprop.train.layout import agreed
from eqprop.train.trainer import Trainer, TrainState, advance, check_state, settling_of, starts
from eqprop.train.watch import Watch
from eqprop.tree import summary
from eqprop.types import Data, HowMany, Theta

PIECE_SECONDS = 1.0  # short enough for a progress bar, long enough that dispatch and copying the state do not show
STILL = 0.999  # of the cost before: an epoch with a larger one has taught nothing, and `is_dead` is asked


class Progress(NamedTuple):
    """Where training is: after a piece of an epoch, or, with a `record`, at the end of one.

    `averages` are the metrics of the running epoch so far; `seconds` the time spent in it.
    """

    state: TrainState
    batches: int
    averages: dict[str, float]
    seconds: float
    record: dict[str, float] | None


def fit(
    trainer: Trainer,
    state: TrainState,
    feed: Feed,
    valid: Data | None = None,
    *,
    epochs: HowMany,
    seconds: float = 0.0,
    enough: Callable[[dict[str, float]], bool] = lambda _: False,
    observe: Callable[[Progress], None] = lambda _: None,
) -> tuple[TrainState, list[dict[str, float]]]:
    """Train until `epochs` epochs are done in all, and return the last state and a record per epoch.

    `feed` gives the training examples, `valid` are the arrays of those for validation. A record has the averages over
    the epoch's training examples, each measured at its free fixed point before its minibatch was learned, and those
    over `valid` at the epoch's end. Once a record is `enough`, training ends early. `seconds` is what was already spent
    on an epoch that `state` is in the middle of. `observe` hears of every piece and may keep the state.

    Values that are no longer finite end training with a `DivergedError` that names the minibatch and the cause. So does
    an epoch in which the cost did not fall, if it leaves the network dead: no example has a gradient any more. A
    setting that keeps the network from learning, or from coming to rest, is told by one `LearningWarning`; how the free
    phases ended is in every record (`residual`, `steps`, and the share of examples `at_rest`).

        >>> import eqprop as ep, optax
        >>> net = ep.Hopfield.layered(2, 1, activation=ep.tanh)
        >>> trainer = Trainer(ep.Total(net, ep.SquaredError()), ep.EquilibriumPropagation(), optax.adam(0.1))
        >>> feed = ep.Shuffled((jnp.eye(2), jnp.array([[0.2], [0.6]])), batch_size=2)
        >>> start = trainer.init(net.init(jax.random.key(0)), feed, jax.random.key(1))
        >>> state, history = fit(trainer, start, feed, epochs=20)
        >>> [record["epoch"] for record in history[-2:]], history[-1]["train_cost"] < history[0]["train_cost"]
        ([19, 20], True)
    """
    valid = valid if valid is None else checked(valid)
    check(trainer, state, feed, valid)
    batches = feed.batches
    history, piece, before = [], 1, None
    watch = Watch(trainer, state.theta)
    if 0 < epochs <= int(state.epoch):
        done = int(state.epoch)
        words = f"fit: epochs={epochs} counts all, and the state has done {done} already: nothing to do"
        warn(f"{words}; for {epochs} more say epochs={done + epochs}")
    while int(state.epoch) < epochs:
        began = time.perf_counter()
        step = min(piece, batches - int(state.batch))
        good, state = state, jax.block_until_ready(advance(trainer, state, feed, step))
        spent = agreed(trainer.mesh, time.perf_counter() - began)  # all processes take pieces of the same length
        seconds += spent
        piece = max(1, min(2 * piece, math.ceil(piece * PIECE_SECONDS / spent)))
        averages = _averages(state.sums["metrics"], float(state.sums["count"]))
        if not _finite((state.theta, averages)):
            raise _diverged(trainer, good, feed)
        watch.pass_by(state, batches)
        record = None
        ended, cost = int(state.batch) == batches, averages["cost"]
        if ended and before is not None and cost >= STILL * before and is_dead(trainer, state, feed):
            raise DivergedError(
                f"nothing is learned any more in epoch {int(state.epoch) + 1}, at a cost of {cost:.3g}: weights up to "
                f"{_largest(state.theta):.3g} hold the units where no nudge moves them, so no example has a gradient; "
                "lower the learning rate, the initial weights and biases, or β"
            )
        before = cost if ended or before is None else before
        if ended:
            record = {"epoch": int(state.epoch) + 1} | {f"train_{k}": a for k, a in averages.items()}
            record |= _how_it_settled(state)
            record |= {f"change {k}": a for k, a in _averages(state.sums["changes"], batches).items()}
            record |= {name: float(watched(state.theta)) for name, watched in trainer.watch.items()}
            record["seconds"] = seconds
            if valid is not None and len(jax.tree.leaves(valid)[0]):
                began = time.perf_counter()
                averages_valid, state = trainer.go_on_validating(state, valid)
                record |= {f"valid_{k}": a for k, a in averages_valid.items()}
                record["valid_seconds"] = time.perf_counter() - began
            history.append(record)
            if words := watch.look(state, feed):
                warn(words)
            batch, sums = jax.tree.map(jnp.zeros_like, (state.batch, state.sums))
            state = state._replace(epoch=state.epoch + 1, batch=batch, sums=sums)
        observe(Progress(state, batches, averages, seconds, record))
        if record:
            if enough(record):
                break
            seconds = 0.0
    return state, history


def check(trainer: Trainer, state: TrainState, feed: Feed, valid: Data | None = None) -> None:
    """Refuse data that the energy cannot take or that are not finite, before anything is compiled."""
    require_feed(feed)
    require_traceable(trainer.F, "fit")
    held_out = 0 if valid is None else len(jax.tree.leaves(valid)[0])
    for what, particles, count in (
        ("training", state.particles, feed.slots),
        ("validation", state.valid_particles, 0 if feed.carry else held_out),
    ):
        kept = next(map(len, jax.tree.leaves(particles)), 0)
        if trainer.persistent and count and kept != count:
            raise InputError(
                f"the state has particles of {kept} examples for a {what} set of {count}: tell trainer.init how many"
            )
    check_state(trainer, state)
    for examples in (feed.sample(state.key), *([valid] if held_out else [])):
        _check_examples(trainer, state.theta, examples)


def _check_examples(trainer: Trainer, theta: Theta, v: Data) -> None:
    example = jax.tree.map(lambda a: a[0], v)
    start = jax.tree.map(lambda a: a[0], trainer.rest(1))
    trainer.F.check_data(v)  # first, as it knows that there are several
    try:
        jax.eval_shape(trainer.F if trainer.F.conservative else trainer.F.force, theta, example, 0.0, start)
    except InputError:
        raise
    except KeyError as error:
        raise InputError(
            f"F finds no {error} in θ ({summary(theta)}), in the state ({summary(start)}) or in an example"
        ) from error
    except (TypeError, ValueError, IndexError) as error:
        shapes = ", ".join(str(np.shape(leaf)) for leaf in jax.tree.leaves(example))
        raise InputError(f"F cannot take examples of the shapes {shapes}: {error}") from error
    allowed, own = summary(jax.eval_shape(trainer.F.project, theta)), summary(theta)
    if allowed != own:  # trees of a class of one's own need not say whether they are equal
        raise InputError(f"project gave {allowed} for θ, which is {own}: it must give such a θ")
    trainer.rule.check_at(trainer.F, theta, v, trainer.rest(1))


def _diverged(trainer: Trainer, state: TrainState, feed: Feed) -> DivergedError:
    """What made values infinite: the minibatches are taken again one by one, up to the first that does it."""
    while True:
        after = advance(trainer, state, feed, 1)
        if not _finite((after.theta, after.sums["metrics"])):
            break
        state = after
    where = f"values are no longer finite in epoch {int(state.epoch) + 1}, minibatch {int(state.batch) + 1}"
    batch = next(feed.epoch(state.key, int(state.epoch), int(state.batch)))
    learned = trainer.rule.at(state.step)(trainer.F, state.theta, batch.v, starts(trainer, state, batch), state.key)
    if not _finite((learned.state, learned.gradient)):
        return DivergedError(f"{where}, while it settles. {trainer.rule.free.restraint}; or lower β")
    if jnp.sum(settling_of(learned)["moving"] * batch.weight) > jnp.sum(batch.weight) / 2:
        words = f"{where}, by the update of θ, as most examples do not come to rest before"
        return DivergedError(f"{words}. {trainer.rule.free.remedy}; or lower the learning rate")
    return DivergedError(f"{where}, by the update of θ, whose gradient is finite: lower the learning rate")


def _how_it_settled(state: TrainState) -> dict[str, float]:
    """Averages over the epoch, as far as they are numbers: chains that sample have no residual."""
    averages = _averages(state.sums["settling"], float(state.sums["count"]))
    averages["at_rest"] = 1 - averages.pop("moving")
    return {name: value for name, value in averages.items() if math.isfinite(averages["residual"])}


def _averages(sums: dict[str, Any], count: float) -> dict[str, float]:
    return {name: float(total) / count for name, total in sums.items()}


def _largest(theta: Theta) -> float:
    return max(float(jnp.max(jnp.abs(leaf))) for leaf in jax.tree.leaves(theta))


@compiled
def _finite(tree: Any) -> Any:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))
