"""Claims of the paper, the subjects that they are checked on, and their findings."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np

from eqprop.relax import Info
from eqprop.rule import EquilibriumPropagation
from eqprop.total import System
from eqprop.types import Data, Number, PyTree, State, Theta

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Subject:
    """A claim is checked on a subject: F with weights θ, examples v, the states s they start from, and how they settle.

    In v and s the first axis counts examples. `rule` has the relaxations that lead to the fixed points, and the nudge
    whose gradient is asked to be right.
    """

    name: str
    F: System
    theta: Theta
    v: Data
    s: State
    rule: EquilibriumPropagation

    def one(self, example: int = 0) -> tuple[Data, State]:
        """v and s of one example."""
        return jax.tree.map(lambda a: a[example], (self.v, self.s))

    @cached_property
    def free(self) -> tuple[State, Info]:
        """The free fixed points s⁰, and how they settled; found once."""
        with jax.ensure_compile_time_eval():  # numbers are kept, even if a program being compiled asks first
            return self.settled(self.theta)

    @cached_property
    def at_rest(self) -> "Subject":
        """The subject with its examples at their free fixed points."""
        return replace(self, s=self.free[0])

    def settled(self, theta: Theta) -> tuple[State, Info]:
        """The free fixed points for other weights θ, and how they settled."""
        return self.rule.free(self.F, theta, self.v, 0.0, self.s)

    def nudged(self, beta: Number) -> State:
        """The nudged fixed points s^β."""
        return self.rule.nudged(self.F, self.theta, self.v, beta, self.free[0])[0]


@dataclass(frozen=True)
class Check:
    """One number that a claim predicts.

    what: the name of the number.
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
    """How a claim fared on a subject: its checks, and the numbers of its figure by name.

    A claim that could not be checked, for want of something that is not part of the library, says why: in `skipped`.
    """

    claim: "Claim"
    subject: str
    checks: tuple[Check, ...]
    curves: dict[str, Any] = field(default_factory=dict, repr=False)
    skipped: str = ""

    @property
    def passed(self) -> bool:
        """Whether all checks hold; a finding that was skipped has none that could fail."""
        return all(check.passed for check in self.checks)

    @property
    def name(self) -> str:
        """The claim and the subject."""
        return f"{self.claim.name}, {self.subject}"


class Claim(abc.ABC):
    """A theorem, proposition or statement of the paper; the docstring has its formula and section."""

    name: ClassVar[str]
    section: ClassVar[str]

    @property
    def place(self) -> str:
        """Where the paper has it: "section 3.3", or "Appendix C"."""
        return self.section if self.section.startswith("Appendix") else f"section {self.section}"

    def applies(self, subject: Subject) -> bool:
        """Whether it says anything about the subject."""
        return True

    @abc.abstractmethod
    def check(self, subject: Subject) -> Finding:
        """See whether it holds, in double precision."""

    def picture(self, finding: Finding) -> "Figure | None":
        """The figure of `eqprop.plots` that shows the finding's numbers, if there is one."""
        return None

    def found(self, subject: Subject, checks: Sequence[Check], **curves: Any) -> Finding:
        """The finding that these checks make."""
        return Finding(self, subject.name, tuple(checks), curves)


# The rest is in NumPy: JAX would compile each operation for each shape, for a handful of numbers.


SMALL = 1e-3
"""The least size that errors are relative to: an expected value below it may consist of rounding alone."""


def relative(found: PyTree, expected: PyTree) -> float:
    """‖found − expected‖ / ‖expected‖ over all leaves; an expected norm below `SMALL` counts as `SMALL`."""
    a, b = flat(found), flat(expected)
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), SMALL))


def flat(tree: PyTree) -> np.ndarray:
    """All numbers of a tree, in a row."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def rows(tree: PyTree) -> np.ndarray:
    """All numbers of a tree, with a row for each entry of the first axis, which all leaves share."""
    return np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in jax.tree.leaves(tree)], axis=1)


def cosine(a: PyTree, b: PyTree) -> float:
    """The cosine of the angle between two trees of the same shape; 0 if either is 0."""
    a, b = flat(a), flat(b)
    return float(a @ b / ((np.linalg.norm(a) * np.linalg.norm(b)) or 1))


def order(x: Any, errors: Any) -> float:
    """The slope of errors over x on logarithmic axes."""
    return float(np.polyfit(np.log(x), np.log(errors), 1)[0])
