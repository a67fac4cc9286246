"""Recurrent backpropagation (Almeida 1987, Pineda 1987): a second phase that is linear (section 4.3)."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from optax.tree_utils import tree_vdot

from eqprop.relax import Block, Gradient, Relaxation
from eqprop.rule.base import Learned, Rule
from eqprop.rule.lagrangian import by_theta
from eqprop.total import Blocks, System
from eqprop.total.base import Ability
from eqprop.types import Array, Data, Key, Layers, Number, Scalar, State, Theta, Weight


class RecurrentBackpropagation(Rule):
    """∂J/∂θ = ∂C/∂θ + λ*·∂²F/∂θ∂s, with λ* the fixed point of the network linearised around s⁰ (Appendix B).

    `free` finds s⁰; `backward` lets λ settle from 0, along −(∂C/∂s + ∂²F/∂s² λ). The transposed derivative is taken,
    so it is right for vector fields too. `ImplicitGradient` has the same λ* from a linear solve by Lineax.
    """

    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    backward: Relaxation = Gradient(steps=100, tol=1e-4, accelerate=True)

    def check(self, F: System) -> None:
        """Refuse an F that the relaxations cannot settle; that of λ is the linearised network."""
        self.free.check(F)
        self.backward.check(Costate(F))

    def learn(self, F: System, theta: Theta, v: Data, s: State, key: Key, weight: Weight | None = None) -> Learned:
        """The gradient, and the free fixed points."""
        s, free = self.free.settle(F, theta, v, 0.0, s)
        start = jax.tree.map(jnp.zeros_like, s)
        costate, backward = self.backward.settle(Costate(F), theta, (v, s), 0.0, start)
        return Learned(by_theta(F, theta, v, s, costate, weight), s, {"free": free, "backward": backward}, {})


class Costate(System):
    """The dynamics of λ at the free fixed point s of v: −dλ/dt = ∂C/∂s + (∂²F/∂s²)ᵀ λ; its state is λ, and v is (v, s).

    In units that rest at a bound, λ stays 0.
    """

    F: System
    conservative: ClassVar[bool] = False

    def __call__(self, theta: Theta, v: tuple[Data, State], beta: Number, costate: State) -> Scalar:
        """½ λ·∂²F/∂s² λ + λ·∂C/∂s, what λ descends where F is an energy."""
        pull, back = self._terms(theta, v, costate)
        return jnp.asarray(tree_vdot(costate, pull)) + jnp.asarray(tree_vdot(costate, back)) / 2

    def field(self, theta: Theta, v: tuple[Data, State], beta: Number, costate: State) -> State:
        """dλ/dt."""
        here = self.F.space.inside(v[1])
        return jax.tree.map(lambda p, b, free: jnp.where(free, -p - b, 0), *self._terms(theta, v, costate), here)

    def offer(self, ability: type[Ability]) -> Ability | None:
        """The blocks of F, if it has them."""
        if ability is Blocks and (blocks := self.F.offer(Blocks)) is not None:
            return BlocksAt(blocks)  # pyright: ignore[reportReturnType]
        return super().offer(ability)

    def _terms(self, theta: Theta, v: tuple[Data, State], costate: State) -> tuple[State, State]:
        v, s = v
        _, transpose = jax.vjp(lambda s: self.F.force(theta, v, 0.0, s), s)
        back = jax.tree.map(jnp.negative, transpose(costate)[0])
        return jax.grad(self.F.cost_at, argnums=2)(theta, v, s), back


class BlocksAt(eqx.Module, Blocks):
    """Those of F, for dynamics that are linear about a state, where the curvature is taken; v is (v, that state, …)."""

    of_F: Blocks

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        return self.of_F.blocks

    def curvature(
        self, theta: Theta, v: tuple[Any, ...], beta: Number, s: Layers, block: tuple[str, ...]
    ) -> dict[str, Array | float]:
        v, about, *_ = v
        return self.of_F.curvature(theta, v, beta, about, block)
