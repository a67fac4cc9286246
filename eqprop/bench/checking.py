"""Measuring a device before it is trained: noise, offset, drift, writes, and the error of its gradients."""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.bench.certificate import Certificate, Expected
from eqprop.bench.device import KINDS, Drive, Kind, Readings
from eqprop.bench.faults import RefusedError
from eqprop.bench.session import Session
from eqprop.bench.system import OnBench, pushes_of, targets_of
from eqprop.errors import InputError
from eqprop.total import Total
from eqprop.tree import named
from eqprop.types import Data, Theta

LADDER = 6
"""How many β are tried, each half of the one before."""


CLEAR = 0.05
"""Noise of a mean gradient, as a part of it, at which it shows the bias of others."""


class Estimate(NamedTuple):
    """Gradients by repeated readings: for each parameter their mean, and the variance of a single one."""

    mean: np.ndarray
    variance: np.ndarray
    readings: int

    @property
    def uncertain(self) -> np.ndarray:
        """The variance of the mean."""
        return self.variance / self.readings


def certify(
    session: Session,
    F: Total,
    theta: Theta,
    v: Data,
    *,
    kind: Kind | None = None,
    betas: Sequence[float] | None = None,
    repeats: Sequence[int] = (1, 4, 16),
    readings: int = 8,
    wanted: float = 0.3,
    observe: Callable[[int, int], None] = lambda done, of: None,
) -> Certificate:
    """Measure what a device is like, and say by which β and how many readings it can be trained.

    F, theta, v: the formula by which it learns, the θ at which it is looked at, and a minibatch.
    kind: how outputs are pushed; None: the first of current, spring and clamp that it can do.
    betas: which β are looked at; None: the largest that it can do, and halves of it.
    repeats: of how many readings the error is told.
    readings: how often everything is read to find that out.
    wanted: the largest error of the gradient, as a part of its length, with which it is fit for training.
    observe: hears how many of the steps are done.

    The push is symmetric for a current and a spring, as of a `Symmetric` nudge; a clamp is one-sided.
    """
    if readings < 2 or not repeats or min(repeats) < 1:
        raise InputError(f"readings={readings!r}, repeats={repeats!r}: give 2 or more, and positive numbers")
    bench = OnBench(F, session)
    theta = bench.project(theta)
    chosen = _choose(session, kind)
    began, refused, asked = time.perf_counter(), session.refused, session.count
    x, y = (np.asarray(part) for part in v)
    first = [_free(session, theta, x) for _ in range(readings)]
    ladder = _ladder(bench, theta, y, first, chosen, betas)
    steps, done = len(ladder) + 3, 1
    observe(done, steps)
    measured: dict[float, tuple[Estimate, np.ndarray]] = {}
    for beta in ladder:
        with contextlib.suppress(RefusedError):  # too strong a push may leave nothing that could be read
            measured[beta] = _estimate(bench, theta, (x, y), chosen, beta, readings)
        observe(done := done + 1, steps)
    if len(measured) < 2:
        raise RefusedError(
            f"of β from {min(ladder):g} to {max(ladder):g}, fewer than two gave readings that can be used"
        )
    stale, session.stale = session.stale, False  # from here on, that readings repeat themselves is what is hoped for
    try:
        still = _without_push(bench, theta, (x, y), chosen, ladder[0], readings)
        offset = _offset(session, theta, x, chosen, readings)
        last = [_free(session, theta, x) for _ in range(readings)]
    finally:
        session.stale = stale
    observe(done := done + 1, steps)
    calls = session.count - asked
    spread, missed = _writes(session, theta)
    observe(steps, steps)
    about = session.description
    gradients = {beta: estimate for beta, (estimate, _) in measured.items()}
    table = _table(gradients, still, ladder[0], 1 if chosen == "clamp" else 2, repeats)
    return Certificate(
        device=about.name,
        kind=chosen,
        examples=len(x),
        noise={k: float(np.std([s[k] for s in first], axis=0, ddof=1).mean() / r.width) for k, r in _ranges(session)},
        offset=offset,
        drift=_drift(session, first, last, calls),
        settling_seconds=float(np.mean(session.seconds[-calls:] or [0.0])),
        call_seconds=(time.perf_counter() - began) / max(session.count - asked, 1),
        write_spread=spread,
        write_error=missed,
        linear_beta=_linear({beta: moved for beta, (_, moved) in measured.items()}),
        clipped=float(np.mean([_at_an_end(s[k], r) for s in first for k, r in _ranges(session)])),
        dead=_dead(session, {beta: moved for beta, (_, moved) in measured.items()}, chosen),
        refused=(session.refused - refused) / max(session.count - asked, 1),
        table=tuple(row for row in table if betas is None or row.beta in betas),
        wanted=wanted,
    )


def _choose(session: Session, kind: Kind | None) -> Kind:
    able = session.description.nudges
    for one in KINDS if kind is None else (kind,):
        if one in able:
            return one
    raise InputError(f"kind={kind!r}: the {session.description.name} can do {', '.join(able) or 'no push'}")


def _free(session: Session, theta: Theta, x: np.ndarray) -> Readings:
    """A free reading at θ."""
    session.write(theta)
    return session.settle(x)


def _ranges(session: Session) -> Any:
    return session.description.reading_ranges.items()


def _at_an_end(u: np.ndarray, ends: Any) -> float:
    return float(np.mean((u <= ends.low + 1e-6 * ends.width) | (u >= ends.high - 1e-6 * ends.width)))


# ---- gradients ----


def _ladder(
    bench: OnBench, theta: Theta, y: Any, first: list[Readings], kind: Kind, betas: Sequence[float] | None
) -> list[float]:
    """The β to try, largest first, down to some so weak that they show the bias of the others."""
    limit = bench.session.description.nudges[kind]
    if betas is not None:
        if not betas or not all(0 < beta <= limit.beta for beta in betas):
            raise InputError(f"betas={tuple(betas)!r}: give some above 0, and at most {limit.beta:g}")
        halves = (min(betas) / 2**k for k in range(LADDER))
        return sorted({*map(float, betas), *halves}, reverse=True)
    most = 1.0 if kind == "clamp" else limit.beta
    if kind == "current":  # its errors allow less than the largest β
        pull = max(float(np.abs(u).max()) for u in pushes_of(bench, theta, y, first[0], 1.0).values())
        most = min(most, 0.9 * min(limit.values.high, -limit.values.low) / max(pull, 1e-12))
    return [most / 2**k for k in range(LADDER + 1)]


def _phases(bench: OnBench, theta: Theta, v: Data, kind: Kind, beta: float) -> tuple[Any, list[Readings], Readings]:
    """The weights of the phases, their readings, and the free one, as a rule would ask for them."""
    session, (x, y) = bench.session, v
    free = _free(session, theta, x)
    if kind == "clamp":
        held = {layer: free[layer] + beta * (aim - free[layer]) for layer, aim in targets_of(bench, v).items()}
        return np.array([1, -1]) / beta, [session.settle(x, Drive("clamp", 1.0, held)) | held, free], free
    pulled = []
    for sign in (1, -1):
        spring = kind == "spring"
        values = targets_of(bench, v) if spring else pushes_of(bench, theta, y, free, sign * beta)
        pulled.append(session.settle(x, Drive(kind, sign * beta, values)))
    return np.array([1, -1]) / (2 * beta), pulled, free


def _estimate(
    bench: OnBench, theta: Theta, v: Data, kind: Kind, beta: float, readings: int
) -> tuple[Estimate, np.ndarray]:
    """Gradients at β; and how far each push moved the outputs, per unit of β."""
    gradients, moves = [], []
    for _ in range(readings):
        w, phases, _ = _phases(bench, theta, v, kind, beta)
        gradients.append(_gradient(bench, theta, v, w, phases))
        moves.append(sum(a * phase[_output(bench)] for a, phase in zip(w, phases, strict=True)))
    return _summary(gradients), np.stack(moves)


def _without_push(bench: OnBench, theta: Theta, v: Data, kind: Kind, beta: float, readings: int) -> Estimate:
    """The gradient that the device shows although nothing pushes it, at β; that of a good one is 0."""
    gradients = []
    for _ in range(readings):
        w = np.array([1, -1]) / (beta if kind == "clamp" else 2 * beta)
        free = _free(bench.session, theta, v[0])
        one = _pushed_by_nothing(bench.session, v[0], free, kind, _output(bench), 1)
        other = free if kind == "clamp" else _pushed_by_nothing(bench.session, v[0], free, kind, _output(bench), -1)
        gradients.append(_gradient(bench, theta, v, w, [one, other]))
    return _summary(gradients)


def _pushed_by_nothing(session: Session, x: np.ndarray, free: Readings, kind: Kind, output: str, way: int) -> Readings:
    values = np.zeros_like(free[output]) if kind == "current" else free[output]
    least = 1.0 if kind == "clamp" else 1e-3 * way * session.description.nudges[kind].beta
    return session.settle(x, Drive(kind, least, {output: values}))


def _gradient(bench: OnBench, theta: Theta, v: Data, w: np.ndarray, phases: list[Readings]) -> np.ndarray:
    states = {layer: jnp.stack([phase[layer] for phase in phases]) for layer in bench.space.shapes}
    gradient = bench.contrast(theta, v, jnp.zeros(len(w)), jnp.asarray(w, jnp.float32), states)
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)]).astype(float)


def _summary(gradients: list[np.ndarray]) -> Estimate:
    return Estimate(np.mean(gradients, axis=0), np.var(gradients, axis=0, ddof=1), len(gradients))


def _table(
    measured: dict[float, Estimate], still: Estimate, at: float, order: int, repeats: Sequence[int]
) -> tuple[Expected, ...]:
    """The expected errors at each β.

    Without offset and noise, the gradient at β is g + c β^p, p = 2 for a symmetric push and 1 for a one-sided one. So
    its distance from that at a β which is as small as noise allows, extrapolated to 0, is the bias. What noise adds to
    squared lengths is known, and taken off. Where ideal diodes switch, a gradient has jumps in β, and the bias is known
    within a factor of about two.
    """
    clean = {beta: e._replace(mean=e.mean - at / beta * still.mean) for beta, e in measured.items()}
    known = {beta: e.uncertain + (at / beta) ** 2 * still.uncertain for beta, e in measured.items()}
    base = _clearest(clean, known)
    squared = float(np.sum(clean[base].mean ** 2))
    length = float(np.sqrt(max(squared - known[base].sum(), 1e-6 * squared, 1e-300)))

    def bias(beta: float) -> float:
        """The base and what is weaker have the bias that the next stronger one shows of the base."""
        beta = beta if beta > base else min((b for b in measured if b > base), default=base)
        unsure = measured[beta].uncertain + measured[base].uncertain + (at / base - at / beta) ** 2 * still.uncertain
        return _surely(clean[beta].mean - clean[base].mean, unsure) / length

    rows = []
    for beta, estimate in measured.items():
        times = max(beta, base) / base
        left = 1 / (1 - times**-order) if times > 1 else 1 / (2**order - 1)
        offset = at / beta * _surely(still.mean, still.uncertain) / length
        noise = float(np.sqrt(estimate.variance.sum())) / length
        rows += [Expected(beta, n, left * bias(beta), offset, noise / n**0.5) for n in repeats]
    return tuple(rows)


def _surely(difference: np.ndarray, unsure: np.ndarray) -> float:
    """The length of a difference without what noise adds to it; 0 if it may be noise altogether."""
    squared = float(np.sum(difference**2) - np.sum(unsure))
    return squared**0.5 if squared > 2 * float(np.sqrt(2 * np.sum(unsure**2))) else 0.0


def _clearest(clean: dict[float, Estimate], known: dict[float, np.ndarray]) -> float:
    """The smallest β at which noise is a small part of the mean gradient; the largest of all if there is none."""

    def clear(beta: float) -> bool:
        noise, squared = float(known[beta].sum()), float(np.sum(clean[beta].mean ** 2))
        return noise <= CLEAR**2 * (squared - noise)

    return min(filter(clear, clean), default=max(clean))


# ---- the rest ----


def _offset(session: Session, theta: Theta, x: np.ndarray, kind: Kind, readings: int) -> dict[str, float]:
    """How far each layer moves when it is pushed by nothing: the root mean square over its nodes, beyond noise."""
    output = _output_of(session)
    found: dict[str, list[float]] = {layer: [] for layer in session.description.readings}
    for way in (1,) if kind == "clamp" else (1, -1):
        apart: dict[str, list[np.ndarray]] = {layer: [] for layer in found}
        for _ in range(readings):
            free = _free(session, theta, x)
            pushed = _pushed_by_nothing(session, x, free, kind, output, way)
            for layer in found:
                apart[layer].append(np.mean(pushed[layer] - free[layer], axis=0))
        for layer, each in apart.items():
            found[layer].append(_beyond_noise(np.stack(each)))
    return {k: float(np.sqrt(np.mean(np.square(found[k])))) / r.width for k, r in _ranges(session)}


def _beyond_noise(samples: np.ndarray) -> float:
    """The root mean square over nodes of their means over samples, without what noise adds to it."""
    squared = np.mean(samples.mean(axis=0) ** 2) - np.mean(samples.var(axis=0, ddof=1)) / len(samples)
    return float(np.sqrt(max(squared, 0.0)))


def _drift(session: Session, first: list[Readings], last: list[Readings], calls: int) -> float:
    moved = [
        _beyond_noise(np.stack([b[k] - a[k] for a, b in zip(first, last, strict=True)])) / r.width
        for k, r in _ranges(session)
    ]
    return max(moved) / max(calls, 1)


def _writes(session: Session, theta: Theta, times: int = 4) -> tuple[float, float]:
    """How far repeated writes scatter, and how far they miss; other values are written in between."""
    ends = session.description.theta_range
    other = jax.tree.map(lambda w: ends.low + ends.high - np.asarray(w), theta)
    reached = []
    for _ in range(times):
        session.write(other)
        reached.append(named(session.write(theta)))
    wish = {name: np.asarray(leaf) for name, leaf in named(theta).items() if np.size(leaf)}
    spread = [np.var([np.asarray(r[name]) for r in reached], axis=0, ddof=1).ravel() for name in wish]
    missed = [np.square(np.mean([np.asarray(r[n]) for r in reached], axis=0) - w).ravel() for n, w in wish.items()]
    rms = [float(np.sqrt(np.mean(np.concatenate(parts)))) / ends.width for parts in (spread, missed)]
    return rms[0], rms[1]


def _linear(moved: dict[float, np.ndarray]) -> float | None:
    """The largest β at which the outputs move as far per β as at the smallest that is clear of noise."""

    def unclear(samples: np.ndarray) -> float:
        noise = np.mean(samples.var(axis=0, ddof=1)) / len(samples)
        return float(np.sqrt(noise / max(np.mean(samples.mean(axis=0) ** 2), 1e-300)))

    clear = [beta for beta, samples in moved.items() if unclear(samples) < 0.1]
    if not clear:
        return None
    reference = moved[min(clear)]
    size = np.sqrt(np.mean(reference.mean(axis=0) ** 2))
    return max(b for b in clear if _beyond_noise(moved[b] - reference.mean(axis=0)) <= 0.1 * size)


def _dead(session: Session, moved: dict[float, np.ndarray], kind: Kind) -> tuple[str, ...]:
    """The outputs that even the strongest push does not move beyond noise, in any example."""
    if kind == "clamp":
        return ()
    samples = moved[max(moved)]
    sure = 4 * np.sqrt(samples.var(axis=0, ddof=1) / len(samples))
    moves = np.any(np.abs(samples.mean(axis=0)) > np.maximum(sure, 1e-12), axis=0)
    output = _output_of(session)
    return tuple(f"{output} {tuple(map(int, node))}" for node in np.argwhere(~moves))


def _output(bench: OnBench) -> str:
    return _output_of(bench.session)


def _output_of(session: Session) -> str:
    return session.description.output
