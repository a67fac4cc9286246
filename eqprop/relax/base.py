"""What all relaxations share: how they are called, what they return, and a settling in progress as a value."""

import abc
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Literal, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from eqprop.boundary import entrance, require_whole, short
from eqprop.compile import compiled, is_known
from eqprop.errors import InputError
from eqprop.relax.anderson import Memory, extrapolate
from eqprop.relax.loop import Observer, Settling, loop, run
from eqprop.total import System, TotalEnergy, require_finite, system
from eqprop.tree import summary
from eqprop.types import Array, Bool, Data, Float, HowMany, Int, Key, Number, PyTree, Scalar, State, Theta


class Info(NamedTuple):
    """How the settling went, per example.

    `residual` is the largest |s_i − Π(s_i − ∂F/∂s_i)|, with Π the projection on the bounds, that the last step
    met: the state returned has moved once more since. `converged` says whether that was within the
    tolerance (0 where none was given).
    """

    residual: Float[Array, "*batch"]
    steps: Int[Array, "*batch"]
    converged: Bool[Array, "*batch"]

    def __repr__(self) -> str:
        count = "×".join(map(str, getattr(self.residual, "shape", ()))) or "1"
        went = ""
        if all(map(_has_values, self)):
            went = f", up to {jnp.max(self.steps, initial=0)} steps, {jnp.sum(self.converged)} converged"
            went += f", residual up to {jnp.max(self.residual, initial=0):.1e}"
        return f"<Info: {count} settlings{went}>"


def _has_values(part: object) -> bool:
    """Whether it is an array with numbers: not while a program is compiled, nor of `jax.eval_shape`."""
    return isinstance(part, np.ndarray | jax.Array) and not isinstance(part, Tracer)


def restless(examples: int, steps: int) -> Info:
    """The `Info` of chains that sample and never rest: their residual is NaN, and they have not converged."""
    return Info(jnp.full(examples, jnp.nan), jnp.full(examples, steps), jnp.zeros(examples, bool))


class Trace(NamedTuple):
    """The path of a settling: entry 0 is the start, entry t what step t led to; examples come first.

    `energy` is F and `residual` what step t met.
    """

    state: State
    energy: Float[Array, "batch time"]
    residual: Float[Array, "batch time"]

    def __repr__(self) -> str:
        *examples, times = jnp.shape(self.energy) or (1,)
        ends = ""
        if all(map(_has_values, (self.energy, self.residual))):
            energy, residual = map(jnp.atleast_1d, (self.energy, self.residual))  # of all examples, or of one
            first, last = (float(jnp.mean(energy[..., t])) for t in (0, -1))
            ends = f", energy {first:.4g} → {last:.4g} on average, last residual up to {residual[..., -1].max():.1e}"
        return f"<Trace: {prod(examples)} examples, {times - 1} steps{ends}; states {summary(self.state)}>"


class Relaxation(eqx.Module):
    """Lets s settle to a minimum of F(θ, v, β, ·), for a batch of examples at once.

    A subclass implements `settle`; one that takes steps subclasses `Stepwise` instead.
    """

    @property
    def rounding(self) -> str | None:
        """The precision that states are rounded to on the way, if it is another than their own."""
        return None

    @property
    def remedy(self) -> str:
        """What to do where states do not come to rest, as a sentence."""
        return f"Let {type(self).__name__} settle for longer"

    @property
    def restraint(self) -> str:
        """What to do where states run away to infinity, as a sentence; to settle for longer does not help there."""
        return "F may have no minimum: see that it is bounded from below"

    def check(self, F: System) -> None:
        """Refuse an F that lacks what this relaxation needs."""

    def with_key(self, key: Key) -> Self:
        """The relaxation with this key for what it draws; most draw nothing."""
        return self

    @abc.abstractmethod
    def settle(
        self, F: System, theta: Theta, v: Data, beta: Number, s: State, key: Key | None = None
    ) -> tuple[State, Info]:
        """Settle from s, as a part of a larger program: the states, and how it went.

        In v and s the first axis counts examples; β is one number, or one per example. `key` is for those that draw.
        """

    def settle_each(self, F: System, theta: Theta, v: Data, betas: Array, s: State) -> tuple[State, Info]:
        """A settling from s at each β of a vector; their axis comes first in what is returned."""
        return jax.vmap(lambda beta: self.settle(F, theta, v, beta, s))(betas)

    def all_steps(self) -> Self:
        """The relaxation without its tolerance, if it has one: every example takes all steps."""
        return self

    @entrance
    def trace(self, F: TotalEnergy, theta: Theta, v: Data, beta: Number, s: State, key: Key | None = None) -> "Trace":
        """The way from s, for which all steps are taken; here only its two ends, as nothing is known between them."""
        F = checked(self, F, v, beta, s)
        return _ends(self, F, theta, v, beta, s, key)

    @entrance
    def __call__(
        self, F: TotalEnergy, theta: Theta, v: Data, beta: Number, s: State, key: Key | None = None
    ) -> tuple[State, Info]:
        """Settle from s: the states, and how it went.

        In v and s the first axis counts examples; β is one number, or one per example. F may be a plain function.
        """
        F = checked(self, F, v, beta, s)
        return _settle(self, F, theta, v, beta, s, key)


@compiled
def _settle(
    relaxation: Relaxation, F: System, theta: Theta, v: Data, beta: Number, s: State, key: Key | None
) -> tuple[State, Info]:
    return relaxation.settle(F, theta, v, beta, s, key)


@compiled
def _ends(relaxation: Relaxation, F: System, theta: Theta, v: Data, beta: Number, s: State, key: Key | None) -> Trace:
    end, info = relaxation.settle(F, theta, v, beta, s, key)
    path = jax.tree.map(lambda first, last: jnp.stack([first, last], axis=1), s, end)
    residual = jnp.stack([jnp.full_like(info.residual, jnp.inf), info.residual], axis=1)
    return Trace(path, energies(F, theta, v, beta, path), residual)


def energies(F: System, theta: Theta, v: Data, beta: Number, path: State) -> Array:
    """F at every state of the paths of a batch, whose axes are examples and time."""
    of_one = jax.vmap(F, in_axes=(None, None, None, 0))
    return jax.vmap(of_one, in_axes=(None, 0, 0 if jnp.ndim(beta) else None, 0))(theta, v, beta, path)


def checked(relaxation: Relaxation, F: TotalEnergy, v: Data, beta: Number, s: State) -> System:
    """F as a system, once neither the relaxation nor F itself refuses anything."""
    F = system(F)
    relaxation.check(F)
    check_batch(F, v, s)
    if jnp.shape(beta) not in ((), (examples := len(jax.tree.leaves(s)[0]),)):
        raise InputError(
            f"beta has the shape {jnp.shape(beta)}: give one number, or one for each of {examples} examples"
        )
    if jnp.iscomplexobj(beta) and not all(map(jnp.iscomplexobj, jax.tree.leaves(s))):
        raise InputError(
            "beta is complex, and the state is not: give one of complex numbers, as the holomorphic nudge does"
        )
    return F


def check_batch(F: System, v: Data, s: State) -> None:
    """Refuse a batch that F cannot mean, or states that are not as many or cannot move, before anything compiles."""
    require_floats(s)
    require_rows("v", v)
    require_rows("the state", s)
    data = jax.tree.leaves(v)
    given, states = ([len(leaf) for leaf in jax.tree.leaves(tree)] for tree in (v, s))
    if len({*given, *states}) > 1:
        raise InputError(
            f"the parts of v have {', '.join(map(str, given))} examples, and the state has {states[0]}: "
            "give as many of each, the first axis counts them"
        )
    F.space.check(s)
    if is_known(data):
        require_finite(v)
        F.check_data(v)


def require_rows(name: str, tree: PyTree) -> None:
    """Refuse what is no array of examples, and single numbers, as those that a list is made of."""
    for leaf in jax.tree.leaves(tree):
        if not isinstance(leaf, np.ndarray | jax.Array) and not np.isscalar(leaf):
            raise InputError(f"{name} has {short(leaf)}: give arrays of numbers, of a data.Split its `v`")
        if not np.ndim(leaf):
            raise InputError(f"{name} has the single number {short(leaf)}: give arrays, the first axis counts examples")


def require_floats(s: State) -> None:
    """Refuse a state that cannot move by little."""
    leaves = jax.tree.leaves(s)
    if not leaves or not all(jnp.issubdtype(jnp.result_type(u), jnp.inexact) for u in leaves):
        raise InputError(f"a state of {[str(jnp.result_type(u)) for u in leaves]} cannot settle: give floating numbers")
    if len({*map(jnp.iscomplexobj, leaves)}) > 1:
        raise InputError(
            f"a state of {[str(jnp.result_type(u)) for u in leaves]} is complex in parts: "
            "give real numbers, or complex ones for all of it"
        )


class Stepwise(Relaxation):
    """A relaxation that takes one step after another; a subclass implements `move`, for one example.

    At most `steps` steps are taken; with a tolerance `tol`, an example rests as soon as its residual is at or
    below it, whatever the others of its batch do. `accelerate` extrapolates from each step and the one before
    (see `anderson.py`), each example on its own.

    `precision="bfloat16"` takes the steps in that precision: θ, v and the state are rounded to it before the first, and
    the state that is returned is as it was given. So weights, contrasts and costs keep theirs.

    A settling in progress is a value, a `Settling`: `init` begins it, `step` and `advance` take it further, and it can
    be kept and continued at any time.
    """

    steps: int = eqx.field(default=100, static=True)
    tol: float | None = None
    accelerate: bool = eqx.field(default=False, static=True, kw_only=True)
    precision: Literal["bfloat16"] | None = eqx.field(default=None, static=True, kw_only=True)

    def __check_init__(self) -> None:
        if self.precision not in (None, "bfloat16"):
            raise InputError(f"precision={self.precision!r}: choose 'bfloat16', or None for that of the state")
        if self.precision is not None and self.tol is not None and self.tol < spacing(self.precision):
            raise InputError(
                f"tol={self.tol!r} with precision={self.precision!r}, whose numbers near 1 are "
                f"{spacing(self.precision):.1g} apart: give a tolerance of that or more, or none"
            )
        require_whole(1, steps=self.steps)
        if self.tol is not None and not 0 <= self.tol < float("inf"):
            raise InputError(f"tol={self.tol!r}: give a residual of 0 or more, or None for a fixed number of steps")

    @property
    def rounding(self) -> str | None:
        return self.precision

    @abc.abstractmethod
    def move(self, F: System, theta: Theta, v: Data, beta: Number, s: State, t: Int[Array, ""]) -> tuple[State, Scalar]:
        """One step of one example, after t others: the new state, and the residual met on the way."""

    def init(self, s: State) -> Settling:
        """A settling that begins at s; any axes that count examples come first, as in s."""
        axes = jax.tree.leaves(s)[0].shape[:1]
        real = jnp.finfo(jnp.result_type(*jax.tree.leaves(s))).dtype
        s = self._rounded(s)
        memory = Memory(s, jax.tree.map(jnp.zeros_like, s)) if self.accelerate else None
        return Settling(s, jnp.full(axes, jnp.inf, real), jnp.zeros(axes, int), memory)

    def step(self, F: System, theta: Theta, v: Data, beta: Number, settling: Settling) -> Settling:
        """All examples one step on, in the precision of their states, whatever that of θ and β."""
        theta, v = self._rounded((theta, v))
        return jax.vmap(partial(_step, self, F, theta), in_axes=(0, 0 if jnp.ndim(beta) else None, 0))(
            v, beta, settling
        )

    def stepper(
        self, F: System, theta: Theta, v: Data, beta: Number, *, each: bool = False
    ) -> Callable[[Settling], Settling]:
        """`step` as a function of the settling, for a loop; JAX traces it once, however many places call it.

        With `each`, there is a settling for each β of a vector, and their axis comes first.
        """
        theta, v = self._rounded((theta, v))
        step = jax.vmap(
            jax.jit(partial(_step, self, F, theta)), in_axes=(0, 0 if jnp.ndim(beta) and not each else None, 0)
        )
        if each:
            step = jax.vmap(step, in_axes=(None, 0, 0))
        return partial(step, v, beta)

    @entrance
    def advance(
        self,
        F: TotalEnergy,
        theta: Theta,
        v: Data,
        beta: Number,
        settling: Settling,
        steps: HowMany,
        observer: Observer | None = None,
    ) -> tuple[Settling, State]:
        """`steps` more steps, or fewer where the tolerance is met: the settling, and what the observer has seen.

        Any number of them is the same program, so that 3 steps and 3 more are 6, to the last bit.
        """
        return _advance(self, checked(self, F, v, beta, settling.s), theta, v, beta, settling, steps, observer)

    def settle(
        self, F: System, theta: Theta, v: Data, beta: Number, s: State, key: Key | None = None
    ) -> tuple[State, Info]:
        """Settle from s until all examples rest, or for all steps."""
        return self._told(loop(self, self.stepper(F, theta, v, beta), self.init(s)), s)

    def settle_each(self, F: System, theta: Theta, v: Data, betas: Array, s: State) -> tuple[State, Info]:
        """All phases in one loop."""
        begin = jax.tree.map(lambda a: jnp.broadcast_to(a, (len(betas), *a.shape)), self.init(s))
        return self._told(loop(self, self.stepper(F, theta, v, betas, each=True), begin), s)

    @entrance
    def trace(self, F: TotalEnergy, theta: Theta, v: Data, beta: Number, s: State, key: Key | None = None) -> Trace:
        """Take all `steps` steps, whatever the tolerance, and keep the way."""
        return _trace(self.all_steps(), checked(self, F, v, beta, s), theta, v, beta, s)

    def all_steps(self) -> Self:
        # `replace` would check numbers again, which have no values while a program is compiled.
        return self if self.tol is None else eqx.tree_at(lambda relaxation: relaxation.tol, self, None)

    def _rounded(self, tree: PyTree) -> PyTree:
        """The floating numbers of a tree in the precision of the steps."""
        if self.precision is None:
            return tree
        if any(jnp.iscomplexobj(leaf) for leaf in jax.tree.leaves(tree)):
            raise InputError(f"precision={self.precision!r} with complex states, which it has none of: leave it out")
        return jax.tree.map(
            lambda a: jnp.asarray(a, self.precision) if jnp.issubdtype(jnp.result_type(a), jnp.floating) else a, tree
        )

    def _told(self, settling: Settling, s: State) -> tuple[State, Info]:
        tol = 0.0 if self.tol is None else self.tol
        return _like(s, settling.s), Info(settling.residual, settling.t, settling.residual <= tol)


def _step(relaxation: Stepwise, F: System, theta: Theta, v: Data, beta: Number, settling: Settling) -> Settling:
    s, _, t, memory = settling
    moved, residual = relaxation.move(F, theta, v, beta, s, t)
    moved = _like(s, moved)
    if memory is not None:
        moved, memory = extrapolate(F.space, s, moved, memory)
        moved = _like(s, moved)
    return Settling(moved, residual.astype(settling.residual.dtype), t + 1, memory)


def spacing(precision: str) -> float:
    """How far apart the numbers near 1 are."""
    return float(jnp.finfo(precision).eps)


def _like(s: State, moved: State) -> State:
    """The same numbers, each array in the precision of s."""
    return jax.tree.map(lambda new, old: new.astype(old.dtype), moved, s)


@compiled
def _advance(
    relaxation: Stepwise,
    F: System,
    theta: Theta,
    v: Data,
    beta: Number,
    settling: Settling,
    steps: Array | int,
    observer: Observer | None,
) -> tuple[Settling, State]:
    return run(relaxation, relaxation.stepper(F, theta, v, beta), settling, steps, observer)


class Recorder(Observer):
    """Keeps every state on the way, with F and the residual that led to it; time comes first."""

    F: System
    theta: Theta
    v: Data
    beta: Number
    steps: int = eqx.field(static=True)

    def init(self, settling: Settling) -> Trace:
        """Room for all steps, with the start as its first entry."""
        room = jax.tree.map(lambda a: jnp.zeros((self.steps + 1, *a.shape), a.dtype), self._entry(settling))
        return self._keep(room, 0, settling)

    def __call__(self, seen: Trace, before: Settling, after: Settling) -> Trace:
        return self._keep(seen, after.t.max(), after)

    def _keep(self, room: Trace, t: Number, settling: Settling) -> Trace:
        return jax.tree.map(lambda kept, a: kept.at[t].set(a), room, self._entry(settling))

    def _entry(self, settling: Settling) -> Trace:
        axes = (None, 0, 0 if jnp.ndim(self.beta) else None, 0)
        energy = jax.vmap(self.F, in_axes=axes)(self.theta, self.v, self.beta, settling.s)
        return Trace(settling.s, energy, settling.residual)


@compiled
def _trace(relaxation: Stepwise, F: System, theta: Theta, v: Data, beta: Number, s: State) -> Trace:
    recorder = Recorder(F, theta, v, beta, relaxation.steps)
    step = relaxation.stepper(F, theta, v, beta)
    _, path = run(relaxation, step, relaxation.init(s), relaxation.steps, recorder)
    return jax.tree.map(lambda a: jnp.moveaxis(a, 0, 1), path)
