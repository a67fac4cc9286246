"""Equilibrium Propagation with two states instead of two phases, for vector fields (after Scurria et al. 2026)."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from optax.tree_utils import tree_vdot

from eqprop.errors import InputError
from eqprop.relax import Block, Relaxation
from eqprop.rule.base import Learned, Rule
from eqprop.rule.lagrangian import by_theta
from eqprop.state import Space
from eqprop.total import Blocks, System
from eqprop.total.base import Ability
from eqprop.types import Array, Data, Key, Layers, Number, Scalar, Theta, Weight


class DyadicEquilibriumPropagation(Rule):
    """∂J/∂θ = −1/β (∂μ/∂θ)ᵀ (z − z'), where a pair of states (z, z') settles at once, with the mean m = ½ (z + z'):

        dz/dt  = μ(m) + ½ (Jᵀ (z − z') − β ∂C/∂s),    dz'/dt = μ(m) − ½ (Jᵀ (z − z') − β ∂C/∂s),    J and ∂C/∂s at m.

    It is the two-state form that a variational principle asks for: z descends and z' ascends
    𝔉 = −(z − z')·μ(m) + β C(m), an energy of the pair that exists for any vector field μ. The mean follows the free
    dynamics, dm/dt = μ(m), and rests at s⁰. The difference d = z − z' follows dd/dt = Jᵀ d − β ∂C/∂s and rests at
    β J⁻ᵀ ∂C/∂s. Both are exact at any β, and so is the gradient (see `AsymmetricEquilibriumPropagation` for the last
    step): there is no limit β → 0. In bounds that holds as long as z and z' stay within them where m does. Where
    μ = M s + b, each state hears itself through the symmetric part of M, and the other through the antisymmetric one:
    dz/dt = ½ (M + Mᵀ) z + ½ (M − Mᵀ) z' + b − ½ β ∂C/∂s.

    `free` finds s⁰, and `pair` settles both states from there. F has a state of named layers.
    """

    beta: float = 0.1
    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    pair: Relaxation = Block(steps=100, tol=1e-4, order="backward")

    def __check_init__(self) -> None:
        if not 0 < abs(self.beta) < float("inf"):
            raise InputError(f"beta={self.beta!r}: a nudge needs a finite β other than 0 (try 0.1)")

    def check(self, F: System) -> None:
        """Refuse an F that the relaxations cannot settle, or whose state has no named layers."""
        self.free.check(F)
        _ = F.space.shapes
        self.pair.check(Dyad(F))

    def learn(self, F: System, theta: Theta, v: Data, s: Layers, key: Key, weight: Weight | None = None) -> Learned:
        """The gradient, and the free fixed points."""
        s_free, free = self.free.settle(F, theta, v, 0.0, s)
        settled, pair = self.pair.settle(Dyad(F), theta, v, self.beta, joined(s_free, s_free))
        mean, apart = mean_and_difference(settled)
        costate = jax.tree.map(lambda d: d / self.beta, apart)
        return Learned(by_theta(F, theta, v, mean, costate, weight), s_free, {"free": free, "pair": pair}, {})


def joined(z: Layers, other: Layers) -> Layers:
    """The state of a pair: the layers of z by their names, those of z' with a prime."""
    return z | {_primed(layer): u for layer, u in other.items()}


def mean_and_difference(pair: Layers) -> tuple[Layers, Layers]:
    """½ (z + z') and z − z', by layer."""
    both = {layer: (u, pair[_primed(layer)]) for layer, u in pair.items() if _primed(layer) in pair}
    return {k: (a + b) / 2 for k, (a, b) in both.items()}, {k: a - b for k, (a, b) in both.items()}


class Dyad(System):
    """Two states of F: z descends 𝔉 = −(z − z')·μ(m) + β C(m), and z' ascends it."""

    F: System
    conservative: ClassVar[bool] = False

    def __call__(self, theta: Theta, v: Data, beta: Number, s: Layers) -> Scalar:
        """𝔉."""
        m, d = mean_and_difference(s)
        lagged = jnp.asarray(tree_vdot(d, self.F.force(theta, v, 0.0, m)))
        return beta * self.F.cost_at(theta, v, m) - lagged

    @property
    def space(self) -> Space:
        """The layers of F twice, with the same bounds."""
        space = self.F.space

        def twice(given: Any) -> Any:
            return joined(given, given) if isinstance(given, dict) else given

        return Space(twice(space.shapes), twice(space.low), twice(space.high))

    def field(self, theta: Theta, v: Data, beta: Number, s: Layers) -> Layers:
        """dz/dt and dz'/dt."""
        m, d = mean_and_difference(s)
        force, transpose = jax.vjp(lambda m: self.F.force(theta, v, 0.0, m), m)
        pull = jax.grad(self.F.cost_at, argnums=2)(theta, v, m)
        turn = jax.tree.map(lambda back, p: (back - beta * p) / 2, transpose(d)[0], pull)
        return joined(jax.tree.map(jnp.add, force, turn), jax.tree.map(jnp.subtract, force, turn))

    def offer(self, ability: type[Ability]) -> Ability | None:
        """The blocks of F twice, if it has them."""
        if ability is Blocks and (blocks := self.F.offer(Blocks)) is not None:
            return DyadBlocks(blocks)  # pyright: ignore[reportReturnType]
        return super().offer(ability)


class DyadBlocks(eqx.Module, Blocks):
    """Both states of a layer move at once; the curvature is that at their mean."""

    of_F: Blocks

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        return tuple((*block, *map(_primed, block)) for block in self.of_F.blocks)

    def curvature(
        self, theta: Theta, v: Data, beta: Number, s: Layers, block: tuple[str, ...]
    ) -> dict[str, Array | float]:
        half = block[: len(block) // 2]
        bounds = self.of_F.curvature(theta, v, 0.0, mean_and_difference(s)[0], half)
        return bounds | {_primed(layer): bound for layer, bound in bounds.items()}


def _primed(layer: str) -> str:
    return f"{layer}'"
