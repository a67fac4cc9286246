"""One example settling freely and then under its nudges, frame by frame."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from eqprop.compile import compiled
from eqprop.errors import InputError
from eqprop.page.held import INPUT
from eqprop.relax import Relaxation, Stepwise, Trace
from eqprop.relax.base import Recorder
from eqprop.rule.equilibrium import as_complex
from eqprop.total import System
from eqprop.types import Array, Data, Key, Layers, Theta

REST = 1e-4
"""The residual at which a settling counts as at rest, and ends."""


class Phase(NamedTuple):
    """The frames of one phase, from `first` to `last`; frame `first` is the state in which it begins."""

    name: str
    beta: complex
    first: int
    last: int


class Course(NamedTuple):
    """The phases in a row, with the state of each frame and what can be said of it; the first axis counts frames."""

    phases: list[Phase]
    state: dict[str, np.ndarray]
    energy: np.ndarray
    cost: np.ndarray
    residual: np.ndarray
    prediction: np.ndarray | None

    def at(self, frame: int) -> dict[str, Any]:
        """The state of one frame, as a batch of one."""
        if not 0 <= frame < len(self.energy):
            raise InputError(f"frame={frame}: there are frames 0 to {len(self.energy) - 1}")
        return {layer: path[frame : frame + 1] for layer, path in self.state.items() if layer != INPUT}


def settle(
    F: System,
    theta: Theta,
    v: Data,
    s: Layers,
    free: Relaxation,
    nudged: Relaxation,
    betas: Sequence[complex],
    key: Key,
    *,
    predicts: bool,
) -> Course:
    """Settle one example from s, and from where that ends at each β; v and s are a batch of one."""
    path = until_rest(free, F, theta, v, 0.0, s, key)
    end = {layer: states[:, -1] for layer, states in path.state.items()}
    parts: list[tuple[complex, Trace]] = [(0.0, path)]
    for beta in betas:
        start = as_complex(end) if isinstance(beta, complex) else end
        parts.append((beta, until_rest(nudged, F, theta, v, beta, start, key)))
    return _joined(F, theta, v, parts, predicts)


def until_rest(relaxation: Relaxation, F: System, theta: Theta, v: Data, beta: complex, s: Layers, key: Key) -> Trace:
    """The way as far as the first state that rests. Where steps are taken one by one, none is taken beyond."""
    if isinstance(relaxation, Stepwise) and relaxation.precision is None:
        resting = replace(relaxation, tol=REST)
        recorder = Recorder(F, theta, v, beta, relaxation.steps)
        settling, seen = resting.advance(F, theta, v, beta, resting.init(s), relaxation.steps, recorder)
        last = int(settling.t[0])
        return jax.tree.map(lambda path: np.moveaxis(np.asarray(path)[: last + 1], 0, 1), seen)
    trace = jax.tree.map(np.asarray, relaxation.trace(F, theta, v, beta, s, key))
    resting = np.flatnonzero(trace.residual[0, 1:] <= REST)
    last = resting[0] + 1 if len(resting) else trace.residual.shape[1] - 1
    return jax.tree.map(lambda path: path[:, : last + 1], trace)


def _joined(F: System, theta: Theta, v: Data, parts: list[tuple[complex, Trace]], predicts: bool) -> Course:
    phases, first = [], 0
    for beta, trace in parts:
        last = first + trace.energy.shape[1] - 1
        phases.append(Phase("nudged" if phases else "free", beta, first, last))
        first = last + 1
    joined = jax.tree.map(lambda *paths: np.concatenate([np.real(path[0]) for path in paths]), *(t for _, t in parts))
    cost = _in_blocks(_costs, joined.state, F, theta, v)
    prediction = _in_blocks(_predictions, joined.state, F, theta, v) if predicts else None
    return Course(phases, joined.state, joined.energy, cost, joined.residual, prediction)


def _in_blocks(read: Callable[..., Array], states: dict[str, np.ndarray], *given: Any, block: int = 64) -> np.ndarray:
    """What is read of every frame; in blocks of one size, so that any number of frames is the same program."""
    frames, found = len(next(iter(states.values()))), []
    for first in range(0, frames, block):
        part = {layer: path[first : first + block] for layer, path in states.items()}
        some = min(block, frames - first)
        full = {layer: np.pad(u, [(0, block - some)] + [(0, 0)] * (u.ndim - 1)) for layer, u in part.items()}
        found.append(np.asarray(read(*given, full))[:some])
    return np.concatenate(found)


@compiled
def _costs(F: System, theta: Theta, v: Data, states: Layers) -> Array:
    return jax.vmap(F.cost_at, in_axes=(None, None, 0))(theta, jax.tree.map(lambda part: part[0], v), states)


@compiled
def _predictions(F: System, theta: Theta, v: Data, states: Layers) -> Array:
    return jax.vmap(F.predict, in_axes=(None, None, 0))(theta, jax.tree.map(lambda part: part[0], v), states)
