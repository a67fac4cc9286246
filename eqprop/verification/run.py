"""Check the paper's claims on any F: one's own, or those of the zoo."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import inf
from os import cpu_count
from textwrap import shorten
from time import monotonic
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.boundary import CHECKED, entrance
from eqprop.errors import InputError
from eqprop.nudge import Symmetric
from eqprop.relax.base import require_floats
from eqprop.rule import EquilibriumPropagation
from eqprop.total import Blocks, System, TotalEnergy, require_energy, require_traceable, system
from eqprop.types import Array, Count, Data, Limit, State, Theta
from eqprop.verification.another_view import AnotherView
from eqprop.verification.backward import BackpropagationThroughTime, ErrorsTravelBackwards
from eqprop.verification.base import Check, Claim, Finding, Subject
from eqprop.verification.circuit import Circuit
from eqprop.verification.clamping import ContrastiveHebbianLearning, FullClamping
from eqprop.verification.divergence import GradientOfNothing
from eqprop.verification.dynamics import Dynamics
from eqprop.verification.health import words
from eqprop.verification.lemma import Envelope, Lemma
from eqprop.verification.multiplier import Multiplier
from eqprop.verification.order import Order
from eqprop.verification.partition import StochasticLemma
from eqprop.verification.proposition1 import Proposition1
from eqprop.verification.report import Report
from eqprop.verification.sides import Sides
from eqprop.verification.stdp import PathIntegral, TimingCurve
from eqprop.verification.stochastic import ExpectedGradient, NudgedCost, Stationary
from eqprop.verification.surrogate import Surrogate
from eqprop.verification.theorem1 import SecondForm, Theorem1
from eqprop.verification.weak_feedback import WeakFeedback
from eqprop.verification.zoo import SUBJECTS, precise

CLAIMS: tuple[Claim, ...] = (
    Dynamics(),
    Theorem1(),
    SecondForm(),
    Sides(),
    Order(),
    Envelope(),
    Lemma(),
    Surrogate(),
    AnotherView(),
    Proposition1(),
    Multiplier(),
    PathIntegral(),
    TimingCurve(),
    ErrorsTravelBackwards(),
    BackpropagationThroughTime(),
    FullClamping(),
    ContrastiveHebbianLearning(),
    GradientOfNothing(),
    WeakFeedback(),
    Circuit(),
    Stationary(),
    StochasticLemma(),
    ExpectedGradient(),
    NudgedCost(),
)


@entrance
def verify(
    F: Annotated[TotalEnergy, CHECKED],
    theta: Theta,
    v: Data,
    s: State | None = None,
    *,
    rule: EquilibriumPropagation | None = None,
    claims: Sequence[Claim | str] = CLAIMS,
    examples: Count = 3,
    name: str = "your energy",
    observe: Callable[[int, int], None] = lambda *_: None,
    seconds: Limit = inf,
) -> Report:
    """See which of the paper's claims hold for F(θ, v, β, s) at these weights and examples, in double precision.

    `Total(E, C)` is the F of an energy and a cost. In v and s the first axis counts examples, of which the first few
    are used; s is where they start, None for where F's space says. `rule` has the relaxations to use and the kind of
    nudge; without one, the examples settle until nothing moves. `claims` are some of `CLAIMS`, or their names. A check
    that fails comes with advice.

    A state of thousands of units may take minutes. After each claim, `observe` is told how many are done and how many
    there are, as for a bar: `with eqprop.progress.CountBar("claim") as bar: verify(…, observe=bar.update)`. After that
    many `seconds` no other claim is begun, and the report says which were left out.

        >>> def F(theta, v, beta, s):
        ...     x, y = v
        ...     return (s - theta * x) ** 2 / 2 + s**4 / 4 + beta * (s - y) ** 2
        >>> print(verify(F, jnp.array(0.5), (jnp.ones(2), jnp.ones(2)), jnp.zeros(2), claims=["proposition 1"]))
        pass  proposition 1, your energy  2 of 2
    """
    F = system(F)
    require_traceable(F, "verify")
    require_energy(F, "verify", "see how near its gradient by VectorField is to the exact RecurrentBackpropagation")
    names = [claim for claim in claims if isinstance(claim, str)]
    known = named("claims", names, {claim.name: claim for claim in CLAIMS}) if names else {}
    chosen = [*known.values(), *(claim for claim in claims if not isinstance(claim, str))]
    if not chosen:
        raise InputError("claims=[]: no claim is chosen; give some, or leave `claims` out for all")
    sizes = {len(leaf) if jnp.ndim(leaf) else 0 for leaf in jax.tree.leaves(v)}
    if len(sizes) != 1 or 0 in sizes:
        raise InputError(f"v has arrays of {sorted(sizes)} examples: the first axis of each counts the same examples")
    count = min(examples, *sizes)
    if s is None:
        if F.space.layers is None:
            raise InputError("F does not say what state to start from: give s, whose first axis counts examples")
        s = F.space.rest(count)
    if rule is None:
        relaxation = precise(F.offer(Blocks) is not None)
        rule = EquilibriumPropagation(Symmetric(), relaxation, relaxation)
    with jax.enable_x64(True):
        theta, v, s = (jax.tree.map(_double, part) for part in (theta, v, s))
        v, s = jax.tree.map(lambda a: a[:count], (v, s))
        _check(F, theta, v, s)
    subject, end = Subject(name, F, theta, v, s, rule), monotonic() + seconds
    done = iter(range(1, len(chosen) + 1))
    return Report(tuple(examine(subject, chosen, lambda _: observe(next(done), len(chosen)), end)))


def named(what: str, asked: Sequence[str], there: Mapping[str, Any]) -> dict[str, Any]:
    """The entries whose names are asked for, or begin with a name asked for, large letters or small."""
    found = set()
    for name in asked:
        full = [full for full in there if full.lower().startswith(name.lower())]
        if not full:
            raise InputError(f"{what} {name!r}: there is none that begins so; see `eqprop verify --list`")
        found |= {one for one in full if one.lower() == name.lower()} or {*full}
    return {name: one for name, one in there.items() if name in found}


def _double(a: Any) -> Array:
    """In double precision; whole numbers, which may be labels, stay as they are."""
    a = jnp.asarray(a)
    return a.astype(float) if jnp.issubdtype(a.dtype, jnp.inexact) else a


def _check(F: System, theta: Theta, v: Data, s: State) -> None:
    """Refuse θ, v and s that F cannot be checked with."""
    require_floats(s)
    for name, part in (("theta", theta), ("v", v), ("s", s)):
        leaves = jax.tree.leaves(part)
        if not leaves:
            raise InputError(f"{name} holds no arrays: there is nothing to check")
        if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in leaves):
            raise InputError(f"{name} holds a value that is not finite: remove it")
    counts = {len(leaf) for leaf in jax.tree.leaves((v, s))}
    if len(counts) > 1:
        raise InputError(f"v and s have {sorted(counts)} examples: give each example its state")
    v, s = jax.tree.map(lambda a: a[0], (v, s))
    found = jax.eval_shape(F, theta, v, 0.0, s)
    if getattr(found, "shape", None) != () or not jnp.issubdtype(found.dtype, jnp.floating):
        raise InputError(f"F gives {found} for one example: it must give one real number")


def examine(
    subject: Subject, claims: Iterable[Claim], observe: Callable[[Claim], None] = lambda _: None, end: float = inf
) -> list[Finding]:
    """All claims that apply to a subject; only `Dynamics` and `Theorem1` if it is not what the theory asks for.

    No claim is begun after the time `end` of the monotonic clock.
    """
    found = []
    with jax.enable_x64(True), np.errstate(all="ignore"):  # a value that is not a number fails its check
        try:
            ailing = bool(words(subject))
        except Exception:  # most likely F's own: Dynamics meets it again, and reports it
            ailing = True
        if ailing and not any(isinstance(claim, Dynamics) for claim in claims):
            found += _checked(Dynamics(), subject)
        for claim in claims:
            if not ailing or isinstance(claim, Dynamics | Theorem1):
                late = Finding(claim, subject.name, (), skipped="the time was over: give more `seconds`")
                found += _checked(claim, subject) if monotonic() < end else [late]
            observe(claim)
    return found


def _checked(claim: Claim, subject: Subject) -> list[Finding]:
    """The finding of a claim, if it applies. An exception fails this claim on this subject, and the others go on."""
    try:
        return [claim.check(subject)] if claim.applies(subject) else []
    except Exception as error:
        said = shorten(f"{type(error).__name__}: {error}", 500)
        check = Check("exceptions", 1.0, "none", False, f"The claim could not be checked to its end. {said}")
        return [Finding(claim, subject.name, (check,))]


def verify_zoo(
    subjects: dict[str, Callable[[], Subject]] = SUBJECTS,
    claims: Sequence[Claim] = CLAIMS,
    observe: Callable[[int, int], None] = lambda *_: None,
) -> Report:
    """Every claim on every subject that it applies to, several subjects at once: most of the time is compilation."""
    done, of = 0, len(subjects) * len(claims)

    def count(_: Claim) -> None:
        nonlocal done
        done += 1
        observe(done, of)

    def one(make: Callable[[], Subject]) -> list[Finding]:
        with jax.enable_x64(True):
            subject = make()
        return examine(subject, claims, count)

    with _quick_compilation(), ThreadPoolExecutor(cpu_count()) as pool:
        return Report(tuple(finding for found in pool.map(one, subjects.values()) for finding in found))


@contextmanager
def _quick_compilation() -> Iterator[None]:
    """Compile without most of XLA's optimizations: that saves a third of the time of such short programs."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
