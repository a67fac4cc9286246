"""Contrastive Hebbian learning: outputs fully clamped in the second phase, β = ∞ (section 4.1)."""

import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.clamped import Clamped
from eqprop.energy.total import Total, TotalEnergy, require_energy
from eqprop.errors import InputError
from eqprop.relax import Block, Info, Relaxation


class Contrast(NamedTuple):
    """How both phases settled, and what came of it, per example.

    `objective` is J_CHL = E(u^∞) − E(u⁰), or (E(u^η) − E(u⁰))/η for outputs clamped a part η of the way. If both phases
    end in the same mode of E it is not negative, for then u⁰ is the lowest point of all that the mode offers, and u^∞
    the lowest with those outputs. `other_mode` is 1 where it is negative, by more than an unfinished free phase
    explains: then learning usually deteriorates (Movellan 1990).
    """

    free: Info
    clamped: Info
    objective: Array
    other_mode: Array


class ContrastiveHebbian(eqx.Module):
    """∂E/∂θ(u^∞) − ∂E/∂θ(u⁰), averaged over the batch: the gradient of J_CHL = E(u^∞) − E(u⁰).

    `free` settles as in Equilibrium Propagation; then the outputs are held where C is least, and `clamped` lets the
    others settle from u⁰. The cost has no other part in it: the objective is the energy's own.
    """

    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    clamped: Relaxation = Block(steps=100, tol=1e-4, accelerate=True, backward=True)
    measures: ClassVar[tuple[str, ...]] = ("objective", "other_mode")

    def check(self, F: TotalEnergy) -> None:
        """Refuse a cost without outputs that can be clamped."""
        require_outputs(F, type(self).__name__)

    @compiled
    def __call__(
        self, F: Total, theta: Any, v: Any, s: Any, key: Array | None = None, weight: Array | None = None
    ) -> tuple[Any, Any, Contrast]:
        """The gradient, shaped like θ; the free fixed points; and how the phases went."""
        self.check(F)
        return contrast(F, theta, v, s, weight, self.free, self.clamped, 1.0)


def contrast(
    F: Total, theta: Any, v: Any, s: Any, weight: Array | None, free: Relaxation, clamped: Relaxation, eta: Any
) -> tuple[Any, Any, Contrast]:
    """(∂E/∂θ(u^η) − ∂E/∂θ(u⁰))/η, with outputs clamped the part η of the way from u⁰ to the target."""
    x, y = v
    s_free, info = free(F, theta, v, 0.0, s)
    target = jax.vmap(F.cost.clamp)(y)
    held = {layer: s_free[layer] + eta * (aim - s_free[layer]) for layer, aim in target.items()}
    others = {layer: u for layer, u in s_free.items() if layer not in held}
    settled, info_clamped = others, info._replace(steps=jnp.zeros_like(info.steps))
    if others:  # a network without hidden layers has nothing left to settle
        settled, info_clamped = clamped(Clamped(F.energy, tuple(held)), theta, (x, held), 0.0, others)
    s_clamped = settled | held

    def gap(theta: Any) -> Array:
        energy = jax.vmap(F.energy, in_axes=(None, 0, 0))
        return (energy(theta, x, s_clamped) - energy(theta, x, s_free)) / eta

    gradient = jax.grad(lambda theta: jnp.average(gap(theta), weights=weight))(theta)
    objective = gap(theta)
    units = sum(math.prod(u.shape[1:]) for u in s_free.values())
    unfinished = units * info.residual**2 / 2
    other_mode = (objective * eta < -unfinished - 1e-5).astype(objective.dtype)
    return gradient, s_free, Contrast(info, info_clamped, objective, other_mode)


def require_outputs(F: Any, rule: str) -> None:
    """Refuse an F whose outputs cannot be clamped, or whose cost asks for more than outputs."""
    cost = getattr(F, "cost", None)
    if not (hasattr(F, "energy") and hasattr(cost, "clamp")):
        raise InputError(
            f"{rule} holds the outputs where the cost is least, and {cost or F!r} does not say where that is: "
            "take Total(energy, SquaredError()), or give the cost a method clamp(y)"
        )
    require_energy(F, rule)
    for penalty in ("l1", "l2"):
        if value := getattr(cost, penalty, 0.0):
            raise InputError(f"{rule} does not see the cost, so {penalty}={value!r} would do nothing: leave it at 0")
