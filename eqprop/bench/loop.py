"""Training with a device in the loop, in plain Python, with a run folder that is good at any moment."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.bench.device import Remembers
from eqprop.bench.faults import DeviceError, RefusedError
from eqprop.bench.session import Session
from eqprop.bench.system import OnBench
from eqprop.boundary import require_whole
from eqprop.compile import compiled
from eqprop.errors import DivergedError, InputError
from eqprop.store import Run
from eqprop.store import checkpoint as files
from eqprop.store.lock import locked
from eqprop.store.pace import Pace
from eqprop.store.run import Kept, Record, check_counters, records
from eqprop.train import Batch, Feed, Progress, Trainer, TrainState
from eqprop.train.feed import checked, rows_of
from eqprop.train.trainer import apply_learned, prepared
from eqprop.types import Data, State, Theta


@dataclass(frozen=True)
class Notes:
    """What a checkpoint says beside its arrays."""

    history: list[Kept]
    seconds: float
    written: bool
    counts: dict[Literal["repeated", "skipped"], int]


class Moment(NamedTuple):
    """What training with a device consists of between two minibatches; saved and loaded as a whole."""

    state: TrainState
    reached: Theta
    written: bool
    memory: dict[str, np.ndarray]
    history: list[Record]
    counts: dict[str, int]
    seconds: float


def fit(
    trainer: Trainer,
    state: TrainState,
    feed: Feed,
    *,
    epochs: int,
    run: Run | None = None,
    valid: Data | None = None,
    again: int = 1,
    most_refused: int = 5,
    checkpoint_seconds: float | None = None,
    observe: Callable[[Progress], None] = lambda _: None,
) -> tuple[TrainState, list[Record]]:
    """Train the device of an `eqprop.bench.trainer` for `epochs` epochs in all; the last state, and a record for each.

    run: a folder to save in, and to go on from if something is saved there already; None: nothing is kept.
    valid: examples to measure after each epoch.
    again: how many times a minibatch is tried again after a refused reading; after that it is skipped, and the log says
        so.
    most_refused: how many minibatches may be skipped in a row; one more ends the run with a `DeviceError`.
    checkpoint_seconds: save no more often than this, and whenever training ends, whatever ends it; None: 10, or as much
        more as keeps saving within 2 % of the time.
    observe: hears of every minibatch.

    θ changes by a whole update or not at all, and only after all readings of a minibatch were good.
    """
    session = _session(trainer)
    require_whole(0, again=again, most_refused=most_refused)
    with locked(run.folder) if run is not None else nullcontext():
        return _fit(trainer, state, feed, session, epochs, run, valid, again, most_refused, checkpoint_seconds, observe)


def _fit(
    trainer: Trainer,
    state: TrainState,
    feed: Feed,
    session: Session,
    epochs: int,
    run: Run | None,
    valid: Data | None,
    again: int,
    most_refused: int,
    checkpoint_seconds: float | None,
    observe: Callable[[Progress], None],
) -> tuple[TrainState, list[Record]]:
    moment = _begin(trainer, state, run, session)
    pace, in_a_row = Pace(checkpoint_seconds), 0
    try:
        while (epoch := int(moment.state.epoch)) < epochs:
            for batch in feed.epoch(moment.state.key, epoch, int(moment.state.batch)):
                began, skipped = time.perf_counter(), moment.counts["skipped"]
                after, counts = _learn(trainer, session, moment, batch, again)
                in_a_row = in_a_row + 1 if counts["skipped"] > skipped else 0
                spent = moment.seconds + time.perf_counter() - began
                moment = _moment(session, after, moment.history, counts, spent)
                if in_a_row > most_refused:
                    raise DeviceError(_too_many(in_a_row, after, run))
                if run is not None and pace.due:
                    pace.save(partial(_save, run, moment, session))
                observe(Progress(after, feed.batches, _averages(after), spent, None))
            record = _record(trainer, session, moment, valid)
            moment = _next_epoch(session, moment, record)
            observe(Progress(moment.state, feed.batches, _train_part(record), record["seconds"], record))
    finally:  # whatever ends it: what was learned until then is good
        if run is not None:
            _save(run, moment, session)
    return moment.state, moment.history


def measure(trainer: Trainer, theta: Theta, v: Data, block: int = 100) -> dict[str, float]:
    """The cost and the metrics at what the device reads when it settles freely, averaged over all examples."""
    _session(trainer)
    v = checked(v)
    trainer.F.check_data(v)
    functions = {"cost": trainer.F.cost_at} | dict(trainer.metrics)
    totals, examples = dict.fromkeys(functions, 0.0), len(jax.tree.leaves(v)[0])
    for first in range(0, examples, block):
        part = rows_of(v, first, block)
        s, _ = trainer.rule.free.settle(trainer.F, theta, part, 0.0, trainer.rest(1))
        for name, total in _sums(tuple(functions.items()), theta, part, s).items():
            totals[name] += float(total)
    return {name: total / max(examples, 1) for name, total in totals.items()}


def _learn(
    trainer: Trainer, session: Session, moment: Moment, batch: Batch, again: int
) -> tuple[TrainState, dict[str, int]]:
    """The state after a minibatch, learned or skipped, and how many were repeated and skipped by then."""
    state, counts = moment.state, dict(moment.counts)
    place = {"epoch": int(state.epoch), "batch": int(state.batch)}
    for trial in range(again + 1):
        first = session.count
        try:
            rule, start, key = prepared(trainer, state, batch)
            learned = rule.learn(trainer.F, state.theta, batch.v, start, key, batch.weight)
            after = _apply(trainer, state, batch, learned)
        except RefusedError as error:
            session.note(event="minibatch refused", **place, trial=trial, reason=str(error))
            counts["repeated"] += trial < again
            continue
        if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(after.theta)):
            raise DivergedError(
                f"θ is no longer finite in epoch {place['epoch'] + 1}: lower the learning rate or raise β"
            )
        session.note(event="update", **place, step=int(after.step), between=[first, session.count])
        return after, counts
    counts["skipped"] += 1
    session.note(event="minibatch skipped", **place)
    return state._replace(batch=state.batch + 1), counts


def _record(trainer: Trainer, session: Session, moment: Moment, valid: Data | None) -> Record:
    """What there is to say of an epoch at its end."""
    state = moment.state
    record: Record = {"epoch": int(state.epoch) + 1} | {f"train_{k}": a for k, a in _averages(state).items()}
    record |= {"seconds": moment.seconds, **moment.counts}
    if valid is not None and len(jax.tree.leaves(valid)[0]):
        began = time.perf_counter()
        try:
            record |= {f"valid_{k}": a for k, a in measure(trainer, state.theta, valid).items()}
        except RefusedError as error:  # an epoch that was learned counts all the same
            session.note(event="validation refused", epoch=int(state.epoch), reason=str(error))
        record["valid_seconds"] = time.perf_counter() - began
    return record


def _next_epoch(session: Session, moment: Moment, record: Record) -> Moment:
    batch, sums = jax.tree.map(jnp.zeros_like, (moment.state.batch, moment.state.sums))
    state = moment.state._replace(epoch=moment.state.epoch + 1, batch=batch, sums=sums)
    return _moment(session, state, [*moment.history, record], dict.fromkeys(moment.counts, 0), 0.0)


def _averages(state: TrainState) -> dict[str, float]:
    """Over what of the epoch was learned so far."""
    count = max(float(state.sums["count"]), 1.0)
    return {name: float(total) / count for name, total in state.sums["metrics"].items()}


def _train_part(record: Record) -> dict[str, float]:
    return {name.removeprefix("train_"): value for name, value in record.items() if name.startswith("train_")}


def _too_many(in_a_row: int, state: TrainState, run: Run | None) -> str:
    where = "" if run is None else f" The checkpoint in {run.folder} is good: mend the device, and go on."
    return (
        f"{in_a_row} minibatches in a row had readings that cannot be used, the last in epoch {int(state.epoch) + 1}, "
        f"minibatch {int(state.batch)}; the log has the reasons.{where}"
    )


_apply = compiled(apply_learned)


@compiled
def _sums(functions: Any, theta: Theta, v: Data, s: State) -> Any:
    return {name: jnp.sum(jax.vmap(f, in_axes=(None, 0, 0))(theta, v, s)) for name, f in functions}


# ---- what is kept ----


def _begin(trainer: Trainer, state: TrainState, run: Run | None, session: Session) -> Moment:
    state = state._replace(theta=trainer.F.project(state.theta))
    fresh = _moment(session, state, [], {"repeated": 0, "skipped": 0}, 0.0)
    if run is None or not run.saved:
        return fresh
    run.clear_leftovers()
    path = run.folder / "checkpoint.safetensors"
    tree, notes = files.load(path, {"train": state, "reached": state.theta, "device": fresh.memory}, Notes)
    check_counters(path, tree["train"], len(notes.history))
    exact, _ = files.read(path)  # what a device remembers may have more digits than JAX has
    moment = Moment(
        tree["train"],
        tree["reached"],
        notes.written,
        {name: exact[f"device/{name}"] for name in fresh.memory},
        records(notes.history),
        fresh.counts | notes.counts,
        notes.seconds,
    )
    if isinstance(session.device, Remembers):
        session.device.recall(moment.memory)
        if moment.written:
            session.assume(moment.state.theta, moment.reached)
    session.note(event="resumed", epoch=int(moment.state.epoch), batch=int(moment.state.batch))
    return moment


def _moment(
    session: Session, state: TrainState, history: list[Record], counts: dict[str, int], seconds: float
) -> Moment:
    memory = session.device.memory() if isinstance(session.device, Remembers) else {}
    written = session.holds(state.theta)
    return Moment(state, session.reached if written else state.theta, written, memory, history, counts, seconds)


def _save(run: Run, moment: Moment, session: Session) -> None:
    notes: dict[str, Any] = {"history": moment.history, "seconds": moment.seconds}
    notes |= {"written": moment.written, "counts": moment.counts}
    reached = jax.tree.map(lambda g, w: np.asarray(g, np.asarray(w).dtype), moment.reached, moment.state.theta)
    tree = {"train": moment.state, "reached": reached, "device": moment.memory}
    session.sync()
    files.save(run.folder / "checkpoint.safetensors", tree, notes)
    files.save(run.folder / "weights.safetensors", moment.state.theta, {"epochs": len(moment.history)})
    run.write_history(moment.history)


def _session(trainer: Trainer) -> Session:
    if not isinstance(trainer.F, OnBench):
        raise InputError("the trainer has no device: make it with eqprop.bench.trainer(session, …), or use eqprop.fit")
    return trainer.F.session
