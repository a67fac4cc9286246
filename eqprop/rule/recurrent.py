"""Recurrent backpropagation (Almeida 1987, Pineda 1987): a second phase that is linear (section 4.3)."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from optax.tree_utils import tree_vdot

from eqprop.compile import compiled
from eqprop.energy.total import TotalEnergy, cost_of, slope
from eqprop.relax import Block, Gradient, Info, Relaxation
from eqprop.relax.box import inside
from eqprop.rule.lagrangian import by_theta


class TwoPhases(NamedTuple):
    """How the free phase and the linear one settled."""

    free: Info
    backward: Info


class RecurrentBackpropagation(eqx.Module):
    """∂J/∂θ = ∂C/∂θ + λ*·∂²F/∂θ∂s, with λ* the fixed point of the network linearised around s⁰ (Appendix B).

    `free` finds s⁰; `backward` lets λ settle from 0, along −(∂C/∂s + ∂²F/∂s² λ). The transposed derivative is taken,
    so it is right for vector fields too. `ImplicitGradient` has the same λ* from a linear solve by Lineax.
    """

    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    backward: Relaxation = Gradient(steps=100, tol=1e-4, accelerate=True)

    @compiled
    def __call__(
        self, F: TotalEnergy, theta: Any, v: Any, s: Any, key: Array | None = None, weight: Array | None = None
    ) -> tuple[Any, Any, TwoPhases]:
        """The gradient, shaped like θ and averaged over the batch; the free fixed points; and how the phases went."""
        s, free = self.free(F, theta, v, 0.0, s)
        start = jax.tree.map(jnp.zeros_like, s)
        costate, backward = self.backward(Linearised(F), theta, (v, s), 0.0, start)
        return by_theta(F, theta, v, s, costate, weight), s, TwoPhases(free, backward)


class Linearised(eqx.Module):
    """The dynamics of λ at the free fixed point s of v: −dλ/dt = ∂C/∂s + (∂²F/∂s²)ᵀ λ; its state is λ, and v is (v, s).

    In units that rest at an end of the box, λ stays 0.
    """

    F: TotalEnergy

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        return self.F.blocks  # pyright: ignore[reportAttributeAccessIssue]

    def curvature(self, theta: Any, v: Any, beta: Any, costate: Any, block: tuple[str, ...]) -> Any:
        """That of F, at s."""
        v, s = v
        return self.F.curvature(theta, v, 0.0, s, block)  # pyright: ignore[reportAttributeAccessIssue]

    def __call__(self, theta: Any, v: Any, beta: Any, costate: Any) -> Array:
        """½ λ·∂²F/∂s² λ + λ·∂C/∂s, what λ descends where F is an energy."""
        pull, back = self._terms(theta, v, costate)
        return jnp.asarray(tree_vdot(costate, pull)) + jnp.asarray(tree_vdot(costate, back)) / 2

    def slope(self, theta: Any, v: Any, beta: Any, costate: Any) -> Any:
        here = inside(self.F, v[1])
        return jax.tree.map(lambda p, b, free: jnp.where(free, p + b, 0), *self._terms(theta, v, costate), here)

    def _terms(self, theta: Any, v: Any, costate: Any) -> tuple[Any, Any]:
        v, s = v
        _, transpose = jax.vjp(lambda s: slope(self.F, theta, v, 0.0, s), s)
        return jax.grad(cost_of(self.F), argnums=2)(theta, v, s), transpose(costate)[0]
