"""Equilibrium Propagation for vector fields: the exact gradient without an energy (Scurria et al. 2026)."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.rule.recurrent import BlocksAt
from eqprop.rule.vector_field import VectorField
from eqprop.state import Space
from eqprop.total import Blocks, Reversal, System
from eqprop.total.base import Ability
from eqprop.types import Data, Number, Scalar, State, Theta


class AsymmetricEquilibriumPropagation(VectorField):
    """∂J/∂θ ≈ −(∂μ/∂θ)ᵀ Σ_k w_k s^{β_k}, with nudged phases ds/dt = μ(s) − β ∂C/∂s − (J − Jᵀ)(s − s⁰), J = ∂μ/∂s(s⁰).

    For vector fields μ that are the gradient of nothing, as those of networks whose feedback has weights of its own. In
    the free phase nothing changes. Derived in three lines, with λ = ds^β/dβ at β = 0:

        0 = μ(s⁰), so that ds⁰/dθ = −J⁻¹ ∂μ/∂θ, and ∂J/∂θ = ∂C/∂s · ds⁰/dθ = −(J⁻ᵀ ∂C/∂s)ᵀ ∂μ/∂θ,
        0 = J λ − ∂C/∂s − (J − Jᵀ) λ, the derivative of the nudged fixed point, so that λ = J⁻ᵀ ∂C/∂s,
        hence ∂J/∂θ = −(∂μ/∂θ)ᵀ λ, and λ is what Σ_k w_k s^{β_k} tends to: by O(β²) with a symmetric nudge.

    Without the added force λ would be J⁻¹ ∂C/∂s, which is `VectorField`. With it the nudged phase has the Jacobian Jᵀ,
    with the eigenvalues of J: it is as stable as the free one. Any phase that rests at s⁰ and has the Jacobian Jᵀ there
    will do. A system that knows one offers it as a `Reversal`: `Directed` exchanges its weights. For any other, μ(s) is
    expanded about s⁰ to first order, μ(s⁰) + J (s − s⁰), so that J cancels and a step multiplies by Jᵀ alone, by
    automatic differentiation:

        ds/dt = μ(s⁰) + Jᵀ (s − s⁰) − β ∂C/∂s.

    What is left out is of second order in s − s⁰. Either way a step costs about as much as one by `VectorField`.

    The price is locality: each connection has to know the one in the other direction.
    """

    def second(self, F: System, theta: Theta, v: Data, s: State) -> tuple[System, Data]:
        """The system of the nudged phases, and its data: those that are given and what holds it at s⁰."""
        if F.conservative:  # J = Jᵀ
            return F, v
        reversal = _reversal(F)
        return reversal.reversed, jax.vmap(reversal.held_at, in_axes=(None, 0, 0))(theta, v, s)

    def check(self, F: System) -> None:
        """Refuse what the parts refuse; the nudged phases have a system of their own."""
        super().check(F)
        if not F.conservative:
            self.nudged.check(_reversal(F).reversed)


def _reversal(F: System) -> Reversal:
    return F.offer(Reversal) or Transposed(F)


class Transposed(eqx.Module, Reversal):
    """The reversal of any vector field, by the transpose of its Jacobian at s⁰."""

    F: System

    @property
    def reversed(self) -> System:
        return Linearised(self.F)

    def held_at(self, theta: Theta, v: Data, s: State) -> tuple[Data, State, State]:
        """The data, s⁰ and μ(s⁰), which is not 0 where a bound holds a unit or s⁰ has not quite settled."""
        return v, s, self.F.force(theta, v, 0.0, s)


class Linearised(System):
    """ds/dt = μ(s⁰) + Jᵀ (s − s⁰) − β ∂C/∂s with v = (v, s⁰, μ(s⁰)): it rests at s⁰ at β = 0, with the Jacobian Jᵀ."""

    F: System
    conservative: ClassVar[bool] = False

    def __call__(self, theta: Theta, v: tuple[Data, State, State], beta: Number, s: State) -> Scalar:
        """F, which this system does not descend."""
        return self.F(theta, v[0], beta, s)

    @property
    def space(self) -> Space:
        """That of F."""
        return self.F.space

    def field(self, theta: Theta, v: tuple[Data, State, State], beta: Number, s: State) -> State:
        """ds/dt."""
        v, s0, force = v
        s0 = jax.tree.map(lambda u, now: u.astype(now.dtype), s0, s)  # s may be complex
        _, transpose = jax.vjp(lambda s: self.F.force(theta, v, 0.0, s), s0)
        back = transpose(jax.tree.map(jnp.subtract, s, s0))[0]
        beta = jnp.asarray(beta)
        _, pull = jax.jvp(lambda beta: self.F.force(theta, v, beta, s), (jnp.zeros_like(beta),), (beta,))
        return jax.tree.map(lambda f, b, p: f + b + p, force, back, pull)

    def offer(self, ability: type[Ability]) -> Ability | None:
        """The blocks of F, if it has them; J and Jᵀ agree within a block that they couple symmetrically."""
        if ability is Blocks and (blocks := self.F.offer(Blocks)) is not None:
            return BlocksAt(blocks)  # pyright: ignore[reportReturnType]
        return super().offer(ability)
