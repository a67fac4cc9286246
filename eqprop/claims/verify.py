"""Check the paper's claims on any F: one's own, or those of the zoo."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from os import cpu_count
from textwrap import shorten
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.claims.another_view import AnotherView
from eqprop.claims.backward import BackpropagationThroughTime, ErrorsTravelBackwards
from eqprop.claims.base import Check, Claim, Finding, Subject
from eqprop.claims.clamping import ContrastiveHebbianLearning, FullClamping
from eqprop.claims.divergence import GradientOfNothing
from eqprop.claims.dynamics import Dynamics
from eqprop.claims.health import words
from eqprop.claims.lemma import Envelope, Lemma
from eqprop.claims.multiplier import Multiplier
from eqprop.claims.order import Order
from eqprop.claims.partition import StochasticLemma
from eqprop.claims.proposition1 import Proposition1
from eqprop.claims.report import Report
from eqprop.claims.sides import Sides
from eqprop.claims.stdp import PathIntegral, TimingCurve
from eqprop.claims.stochastic import ExpectedGradient, NudgedCost, Stationary
from eqprop.claims.theorem1 import SecondForm, Theorem1
from eqprop.claims.weak_feedback import WeakFeedback
from eqprop.claims.zoo import SUBJECTS, precise
from eqprop.energy.total import Total, TotalEnergy
from eqprop.errors import InputError
from eqprop.nudge import Symmetric
from eqprop.relax.base import require_floats
from eqprop.rule import EquilibriumPropagation

CLAIMS: tuple[Claim, ...] = (
    Dynamics(),
    Theorem1(),
    SecondForm(),
    Sides(),
    Order(),
    Envelope(),
    Lemma(),
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
    Stationary(),
    StochasticLemma(),
    ExpectedGradient(),
    NudgedCost(),
)


def verify(
    F: TotalEnergy,
    theta: Any,
    v: Any,
    s: Any = None,
    *,
    rule: EquilibriumPropagation | None = None,
    claims: Sequence[Claim] = CLAIMS,
    examples: int = 3,
    name: str = "your energy",
) -> Report:
    """See which of the paper's claims hold for F(θ, v, β, s) at these weights and examples, in double precision.

    `Total(E, C)` is the F of an energy and a cost. In v and s the first axis counts examples, of which the first few
    are used; s is where they start, F's own `rest` if None. `rule` has the relaxations to use and the kind of nudge;
    without one, they settle until nothing moves. What fails comes with words on what may be wrong.

        >>> def F(theta, v, beta, s):
        ...     x, y = v
        ...     return (s - theta * x) ** 2 / 2 + s**4 / 4 + beta * (s - y) ** 2
        >>> claims = [claim for claim in CLAIMS if claim.name == "proposition 1"]
        >>> print(verify(F, jnp.array(0.5), (jnp.ones(2), jnp.ones(2)), jnp.zeros(2), claims=claims))
        pass  proposition 1, your energy  2 of 2
    """
    if not callable(F):
        raise InputError(f"F={F!r} cannot be called: give a function F(theta, v, beta, s), or eqprop.Total(E, C)")
    sizes = {len(leaf) if jnp.ndim(leaf) else 0 for leaf in jax.tree.leaves(v)}
    if len(sizes) != 1 or 0 in sizes:
        raise InputError(f"v has arrays of {sorted(sizes)} examples: the first axis of each counts the same examples")
    count = min(examples, *sizes)
    if s is None:
        if not hasattr(F, "rest"):
            raise InputError("F does not say what state to start from: give s, whose first axis counts examples")
        s = F.rest(count)  # pyright: ignore[reportAttributeAccessIssue]  (looked for just now)
    if rule is None:
        owners = (F.energy, F.cost) if isinstance(F, Total) else (F,)
        relaxation = precise(hasattr(F, "blocks") and all(hasattr(part, "curvature") for part in owners))
        rule = EquilibriumPropagation(Symmetric(), relaxation, relaxation)
    with jax.enable_x64(True):
        theta, v, s = (jax.tree.map(_double, part) for part in (theta, v, s))
        v, s = jax.tree.map(lambda a: a[:count], (v, s))
        _check(F, theta, v, s)
    return Report(tuple(examine(Subject(name, F, theta, v, s, rule), claims)))


def _double(a: Any) -> Any:
    """In double precision; whole numbers, which may be labels, as they are."""
    a = jnp.asarray(a)
    return a.astype(float) if jnp.issubdtype(a.dtype, jnp.inexact) else a


def _check(F: TotalEnergy, theta: Any, v: Any, s: Any) -> None:
    """Refuse what F cannot be asked about."""
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
    subject: Subject, claims: Iterable[Claim], observe: Callable[[Claim], None] = lambda _: None
) -> list[Finding]:
    """All claims that apply to a subject. If it is not what the theory asks for, no more than what shows that."""
    found = []
    with jax.enable_x64(True), np.errstate(all="ignore"):  # a value that is no number fails its check
        try:
            ailing = bool(words(subject))
        except Exception:  # of F itself, most likely: Dynamics, which asks the same, tells
            ailing = True
        if ailing and not any(isinstance(claim, Dynamics) for claim in claims):
            found += _checked(Dynamics(), subject)
        for claim in claims:
            if not ailing or isinstance(claim, Dynamics | Theorem1):
                found += _checked(claim, subject)
            observe(claim)
    return found


def _checked(claim: Claim, subject: Subject) -> list[Finding]:
    """What became of a claim, if it applies. An exception fails this claim on this subject, and the others go on."""
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
    """Every claim on every subject that it applies to; several subjects at a time, as most of the work is compiling."""
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
    """Programs that run for milliseconds are not worth XLA's efforts, which take a third longer."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
