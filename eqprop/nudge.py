"""Nudges: how hard to pull in the second phase, as data.

A nudge is K values β_k and K weights w_k with Σ w_k = 0 and Σ w_k β_k = 1, so that

    Σ_k w_k ∂F/∂θ(θ, v, β_k, s^{β_k})  =  ∂J/∂θ + O(β^p)                      (Theorem 1)

and every estimator of the gradient is one code path.
"""

import abc
from typing import Annotated, Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from eqprop.compile import compiled, is_known
from eqprop.errors import InputError
from eqprop.total import System
from eqprop.types import Array, Data, Key, State, Strength, Theta

LEAST = 8  # spacings of the numbers near 1; below, β is lost: at 0.05 in bfloat16 the gradient's cosine was 0.61
ROUNDING = 1e-3  # of a derivative: one that is off by more is not off by rounding


class Nudge(eqx.Module):
    """β_k and w_k; with `uses_free`, β_0 = 0 and its state is the free fixed point itself.

    `beta` is a number, or an Optax schedule: a function of the number of minibatches that were learned.
    """

    beta: Annotated[Any, Strength()] = 0.5
    uses_free: ClassVar[bool]

    def __check_init__(self) -> None:
        if not callable(self.beta) and not 0 < abs(self.beta) < float("inf"):
            raise InputError(f"beta={self.beta!r}: a nudge needs a finite β other than 0 (try 0.5)")

    def at(self, step: Any) -> Self:
        """The nudge after `step` minibatches, with the β that its schedule gives."""
        return eqx.tree_at(lambda nudge: nudge.beta, self, self.beta(step)) if callable(self.beta) else self

    def check(self, F: System) -> None:
        """Refuse an F that the nudge cannot be used with."""

    def check_at(self, F: System, theta: Theta, v: Data, s: State) -> None:
        """Refuse an F of which a first example shows that the nudge cannot be used with it."""

    @property
    def strengths(self) -> dict[str, Any]:
        """What pulls at the states, by the name of the argument."""
        return {"beta": self.at(0).beta}

    def check_precision(self, precision: str) -> None:
        """Refuse a nudge that states of so few digits do not feel."""
        least = LEAST * float(jnp.finfo(precision).eps)
        for name, strength in self.strengths.items():
            if abs(strength) < least:
                raise InputError(
                    f"{name}={float(strength):g} with precision={precision!r}: states hardly move by so weak a nudge, "
                    f"and are rounded back; give {least:g} or more (try 0.5), or settle in float32"
                )

    @abc.abstractmethod
    def __call__(self, key: Key) -> tuple[Array, Array]:
        """(β_k), (w_k)."""


class OneSided(Nudge):
    """β = (0, β), w = (−1/β, 1/β): the paper's formula; error O(β)."""

    uses_free: ClassVar[bool] = True

    def __call__(self, key: Key) -> tuple[Array, Array]:
        return jnp.array([0, self.beta]), jnp.array([-1 / self.beta, 1 / self.beta])


class RandomSign(Nudge):
    """One-sided with the sign of β drawn anew each time, as in the paper's experiments (section 5.2).

    The error is O(β) each time and O(β²) on average.
    """

    uses_free: ClassVar[bool] = True

    def __call__(self, key: Key) -> tuple[Array, Array]:
        beta = self.beta * jax.random.rademacher(key, (), dtype=jnp.result_type(float))
        return jnp.array([0, beta]), jnp.array([-1 / beta, 1 / beta])


class Symmetric(Nudge):
    """β = (β, −β), w = (1/2β, −1/2β): error O(β²).

    Both phases start from the same state, so an error of the free phase, if it was cut short, cancels.

        >>> beta, w = Symmetric(0.25)(jax.random.key(0))
        >>> beta.tolist(), w.tolist()
        ([0.25, -0.25], [2.0, -2.0])
    """

    uses_free: ClassVar[bool] = False

    def __call__(self, key: Key) -> tuple[Array, Array]:
        return jnp.array([self.beta, -self.beta]), jnp.array([0.5 / self.beta, -0.5 / self.beta])


class Asymmetric(Nudge):
    """β = (β, −β'), w = (1, −1)/(β + β'): a strong pull beside a weak push; error O(β − β').

    An output of the hard sigmoid that its input holds below −β at 0, or above 1 + β at 1, does not feel the nudge and
    so does not learn: for the last of the training examples the pull must be strong. The push must not be, for the
    squared cost leaves no minimum beyond β' = 1. Both phases start from the same state, so an error of the free phase,
    if it was cut short, cancels, which it does not in a one-sided nudge. Where not all examples can be learned, let
    the pull begin no stronger than the push, and grow: give a schedule as β.
    """

    push: float = 0.5
    uses_free: ClassVar[bool] = False

    def __check_init__(self) -> None:
        if not 0 < self.push < float("inf") or not (callable(self.beta) or self.beta > 0):
            raise InputError(f"beta={self.beta!r}, push={self.push!r}: give two positive numbers (try 2 and 0.5)")

    @property
    def strengths(self) -> dict[str, Any]:
        return super().strengths | {"push": self.push}

    def __call__(self, key: Key) -> tuple[Array, Array]:
        apart = self.beta + self.push
        return jnp.array([self.beta, -self.push]), jnp.array([1 / apart, -1 / apart])


class Holomorphic(Nudge):
    """β_k = |β| e^{2πik/N}, w_k = e^{−2πik/N}/(N|β|): N points on a circle in the complex plane; error O(β^N).

    By Cauchy's integral formula, for an F that is analytic in s and β: smooth, and without |·|, conjugates or real
    parts in it, for the states become complex (Laborieux & Zenke 2022). With N = 2 it is the symmetric nudge. A point
    of the lower half circle settles to the conjugate of what its mirror image settles to; as the rule takes real parts,
    weights of the upper half are doubled instead.
    """

    points: int = eqx.field(default=6, static=True)
    uses_free: ClassVar[bool] = False

    def __check_init__(self) -> None:
        if not isinstance(self.points, int) or self.points < 2:
            raise InputError(f"points={self.points!r}: give a whole number of 2 or more points on the circle")

    def check(self, F: System) -> None:
        """Refuse an F that clips states, for that is not smooth."""
        if F.space.bounded:
            bounds = (F.space.low, F.space.high)
            raise InputError(
                f"the holomorphic nudge needs a smooth energy, and this one clips states to {bounds}: "
                "take smooth_step, the sigmoid or tanh as activation, or the symmetric nudge"
            )
        if not F.smooth:
            raise InputError(
                f"the holomorphic nudge needs a smooth energy, and F={F!r} takes the largest of several fields: "
                "take SoftmaxPool or AveragePool, or the symmetric nudge"
            )

    def check_at(self, F: System, theta: Theta, v: Data, s: State) -> None:
        """Refuse an F that is smooth for real states only, as ‖s‖² by |s|² or s·s̄ is."""
        if not F.traceable or not is_known((F, theta, v, s)):
            return
        if float(_unlike_complex(F, theta, v, s)) > ROUNDING:
            raise InputError(
                "the holomorphic nudge needs an analytic F, and this one is not: write it without abs, conj, vdot and "
                "norm, as jnp.sum(e**2) for jnp.vdot(e, e), or take the symmetric nudge"
            )

    def check_precision(self, precision: str) -> None:
        """Refuse any but the usual: there are no complex numbers of another."""
        raise InputError(
            f"precision={precision!r} with the holomorphic nudge, whose states are complex: settle in float32, or "
            "take the symmetric nudge"
        )

    def __call__(self, key: Key) -> tuple[Array, Array]:
        turn = jnp.exp(2j * jnp.pi * jnp.arange(self.points // 2 + 1) / self.points)
        count = jnp.where(jnp.abs(turn.imag) > 1e-6, 2, 1)  # with its mirror image
        radius = jnp.abs(self.beta)
        return radius * turn, count * turn.conj() / (self.points * radius)


@compiled
def _unlike_complex(F: System, theta: Theta, v: Data, s: State) -> Array:
    """How far the derivative of F by β and s is from complex (Cauchy–Riemann), as a part of it; near one real state.

    That of a weight i is to be i times that of a weight 1. Of a vector field it is that of the field.
    """
    v, s = jax.tree.map(lambda a: a[0], (v, s))
    keys = iter(jax.random.split(jax.random.key(0), len(jax.tree.leaves(s))))
    beside = jax.tree.map(lambda u: u + 0.3j * jax.random.normal(next(keys), u.shape, u.real.dtype), s)

    def values(beta: Array, s: State) -> list[Array]:
        found = F(theta, v, beta, s) if F.conservative else F.field(theta, v, beta, s)
        return [value + 0j for value in jax.tree.leaves(found)]

    found, back = jax.vjp(values, jnp.asarray(1 + 0.5j), beside)
    once, turned = (ravel_pytree(back([jnp.full_like(value, ct) for value in found]))[0] for ct in (1, 1j))
    return jnp.linalg.norm(turned - 1j * once) / jnp.linalg.norm(once)
