"""What every claim of the paper is checked on, and what a check finds."""

import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np

from eqprop.energy.total import TotalEnergy
from eqprop.rule import EquilibriumPropagation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Subject:
    """What a claim is checked on: F with weights θ, examples v, the states s they start from, and how they settle.

    In v and s the first axis counts examples. `rule` has the relaxations that lead to the fixed points, and the nudge
    whose gradient is asked to be right.
    """

    name: str
    F: TotalEnergy
    theta: Any
    v: Any
    s: Any
    rule: EquilibriumPropagation

    def one(self, example: int = 0) -> tuple[Any, Any]:
        """v and s of one example."""
        return jax.tree.map(lambda a: a[example], (self.v, self.s))

    def free(self, theta: Any = None) -> tuple[Any, Any]:
        """The free fixed points s⁰, and how they settled; of other weights θ if given."""
        return self.rule.free(self.F, self.theta if theta is None else theta, self.v, 0.0, self.s)


@dataclass(frozen=True)
class Check:
    """One number that a claim predicts.

    what: of what.
    value: as measured.
    wanted: the condition on it, in words.
    passed: whether it holds.
    advice: if it does not, what may be wrong and what to do.
    """

    what: str
    value: float
    wanted: str
    passed: bool
    advice: str = ""


def at_most(what: str, value: Any, limit: float, advice: str = "") -> Check:
    """value ≤ limit; a value that is not a number fails."""
    value = float(value)
    return _check(what, value, f"≤ {limit:g}", value <= limit, advice)


def near(what: str, value: Any, target: float, by: float, advice: str = "") -> Check:
    """|value − target| ≤ by."""
    value = float(value)
    return _check(what, value, f"{target:.4g} ± {by:.2g}", abs(value - target) <= by, advice)


def _check(what: str, value: float, wanted: str, passed: bool, advice: str) -> Check:
    return Check(what, value, wanted, bool(passed), "" if passed else advice)


@dataclass(frozen=True)
class Finding:
    """What a claim turned out to be on a subject: its checks, and the curves of its picture."""

    claim: "Claim"
    subject: str
    checks: tuple[Check, ...]
    curves: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def passed(self) -> bool:
        """Whether all checks hold."""
        return all(check.passed for check in self.checks)

    @property
    def name(self) -> str:
        """The claim and the subject."""
        return f"{self.claim.name}, {self.subject}"


class Claim(abc.ABC):
    """A theorem, proposition or statement of the paper; the docstring has its formula and section."""

    name: ClassVar[str]
    section: ClassVar[str]

    def applies(self, subject: Subject) -> bool:
        """Whether it says anything about the subject."""
        return True

    @abc.abstractmethod
    def check(self, subject: Subject) -> Finding:
        """See whether it holds, in double precision."""

    def picture(self, finding: Finding) -> "Figure | None":
        """A figure of what was found, if there is something to look at."""
        return None

    def found(self, subject: Subject, checks: list[Check], **curves: Any) -> Finding:
        """The finding that these checks make."""
        return Finding(self, subject.name, tuple(checks), curves)


# In NumPy: each shape of an operation of JAX's own would be compiled, for a handful of numbers.


SMALL = 1e-3
"""What is expected to be smaller must be met as if it were so large: below it, rounding is all there is."""


def relative(found: Any, expected: Any) -> float:
    """‖found − expected‖ / ‖expected‖ over all leaves, where what is expected counts as `SMALL` at least."""
    a, b = flat(found), flat(expected)
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), SMALL))


def cosine(a: Any, b: Any) -> float:
    """Of the angle between two trees; nan if one of them is 0."""
    a, b = flat(a), flat(b)
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.vdot(a, b)) / size if size else float("nan")


def flat(tree: Any) -> np.ndarray:
    """All numbers of a tree, in a row."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def rows(tree: Any) -> np.ndarray:
    """All numbers of a tree, in a row for each of its leaves' first axis."""
    return np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in jax.tree.leaves(tree)], axis=1)


def order(x: Any, errors: Any) -> float:
    """The slope of errors over x on logarithmic axes."""
    return float(np.polyfit(np.log(x), np.log(errors), 1)[0])
