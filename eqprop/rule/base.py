"""What all rules share: how they are called, and what they return."""

import abc
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from eqprop.boundary import entrance
from eqprop.compile import compiled
from eqprop.errors import InputError
from eqprop.nudge import Nudge
from eqprop.relax import Info, Relaxation
from eqprop.relax.base import check_batch
from eqprop.rule.reading import Reading
from eqprop.total import System, TotalEnergy, system
from eqprop.tree import summary
from eqprop.types import Array, Data, Key, State, Theta, Weight


class Learned(NamedTuple):
    """What a rule makes of a batch.

    gradient: of the objective, shaped like θ and averaged over the batch; an update that a rule has instead of a
        gradient stands here with the sign of one.
    state: the free states, which the network predicts with, and from which the particles go on.
    phases: how each phase settled, by name; nudged phases have an axis for the β_k before that of the examples.
    measured: what else the rule `measures`, by name: a number for each example.
    """

    gradient: Theta
    state: State
    phases: dict[str, Info]
    measured: dict[str, Array]

    def __repr__(self) -> str:
        more = f"; measured {', '.join(self.measured)}" if self.measured else ""
        phases = f"phases {', '.join(self.phases)}"
        return f"<Learned: gradient {summary(self.gradient)}; states {summary(self.state)}; {phases}{more}>"


class Rule(eqx.Module):
    """From a batch to a weight change: settles, and says which way θ should go.

    A subclass has a relaxation `free`, by which the network predicts, and implements `learn`. What it needs of F it
    refuses in `check` if it is missing.
    """

    if TYPE_CHECKING:  # a field here would come first in the arguments of every rule, for the type checker only

        @property
        def free(self) -> Relaxation: ...
    else:
        free: eqx.AbstractVar[Relaxation]
    measures: ClassVar[tuple[str, ...]] = ()
    """The names of what it measures beside the gradient."""

    def check(self, F: System) -> None:
        """Refuse an F that lacks what the rule, its relaxations, its nudge or its reading need."""
        for part in vars(self).values():
            if isinstance(part, Relaxation | Nudge | Reading):
                part.check(F)

    def check_at(self, F: System, theta: Theta, v: Data, s: State) -> None:
        """Refuse an F by what its first example shows; `check` and the shapes were looked at before."""

    def at(self, step: Any) -> Self:
        """The rule after `step` minibatches; schedules of its parts have their values then."""
        return self

    @abc.abstractmethod
    def learn(self, F: System, theta: Theta, v: Data, s: State, key: Key, weight: Weight | None = None) -> Learned:
        """What a batch teaches, as a part of a larger program, which may be compiled or not.

        In v and s the first axis counts examples. s is where the free phase begins, `key` decides what is random, and
        `weight` gives each example its share in the average.
        """

    @entrance
    def __call__(
        self,
        F: TotalEnergy,
        theta: Theta,
        v: Data,
        s: State,
        key: Key | None = None,
        weight: Weight | None = None,
    ) -> Learned:
        """What a batch teaches, compiled. F may be a plain function; without a key, what is random is always the same.

        In v and s the first axis counts examples. s is where the free phase begins, and `weight` gives each example its
        share in the average.
        """
        F = system(F)
        self.check(F)
        check_batch(F, v, s)
        self.check_at(F, theta, v, s)
        _check_weight(weight, len(jax.tree.leaves(s)[0]))
        return _learn(self.at(0), F, theta, v, s, jax.random.key(0) if key is None else key, weight)


def _check_weight(weight: Weight | None, examples: int) -> None:
    if weight is None:
        return
    if jnp.shape(weight) != (examples,):
        raise InputError(f"weight has the shape {jnp.shape(weight)}: give one number for each of {examples} examples")
    if isinstance(weight, Tracer):
        return
    values = np.asarray(weight)
    if not (values.min() >= 0 and 0 < values.sum() < np.inf):
        raise InputError("weight: give a finite number of 0 or more for each example, and not 0 for all")


class Nudged(Rule):
    """A rule with a nudge."""

    if TYPE_CHECKING:

        @property
        def nudge(self) -> Nudge: ...
    else:
        nudge: eqx.AbstractVar[Nudge]

    def check(self, F: System) -> None:
        """Refuse what the parts refuse, and a nudge that is lost in the precision of the states."""
        super().check(F)
        for part in vars(self).values():
            if isinstance(part, Relaxation) and part.rounding is not None:
                self.nudge.check_precision(part.rounding)

    def check_at(self, F: System, theta: Theta, v: Data, s: State) -> None:
        """Refuse what the nudge refuses."""
        self.nudge.check_at(F, theta, v, s)

    def at(self, step: Any) -> Self:
        """The rule with the β that the nudge's schedule gives after `step` minibatches."""
        return eqx.tree_at(lambda rule: rule.nudge, self, self.nudge.at(step))


@compiled
def _learn(rule: Rule, F: System, theta: Theta, v: Data, s: State, key: Key, weight: Weight | None) -> Learned:
    return rule.learn(F, theta, v, s, key, weight)
