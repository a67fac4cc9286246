"""Contrastive Hebbian learning: outputs fully clamped in the second phase, β = ∞ (section 4.1)."""

import math
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.errors import InputError
from eqprop.relax import Block, Relaxation
from eqprop.rule.base import Learned, Rule
from eqprop.rule.reading import Exact, Reading
from eqprop.total import Outputs, System, need, require_energy
from eqprop.types import Array, Data, Key, Layers, Number, Theta, Weight


class Clamping(Rule):
    """Rules of a free phase and one with the outputs clamped, the part η of the way from u⁰ to the target:

        (∂E/∂θ(u^η) − ∂E/∂θ(u⁰))/η,  the gradient of (E(u^η) − E(u⁰))/η.

    `free` settles as in Equilibrium Propagation; then the outputs are held, and `clamped` lets the others settle
    from u⁰. The cost has no other part in it: the objective is the energy's own. It is measured as `objective`, per
    example. If both phases end in the same mode of E it is not negative, for then u⁰ is the lowest point of all that
    the mode offers, and u^η the lowest with those outputs. `other_mode` is 1 where it is negative, by more than an
    unfinished free phase explains: then learning usually deteriorates (Movellan 1990).
    """

    if TYPE_CHECKING:  # not the first argument, as a field would be for the type checker

        @property
        def clamped(self) -> Relaxation: ...
    else:
        clamped: eqx.AbstractVar[Relaxation]
    reading: Reading = eqx.field(default=Exact(), kw_only=True)
    """How the settled states are measured before they are compared; by default they are known exactly."""
    measures: ClassVar[tuple[str, ...]] = ("objective", "other_mode")

    @property
    def part(self) -> Number:
        """η."""
        return 1.0

    def check(self, F: System) -> None:
        """Refuse an F whose outputs cannot be clamped, or whose cost asks for more than outputs."""
        outputs = self._outputs(F)
        require_energy(F, type(self).__name__)
        outputs.require_no_penalty(type(self).__name__)
        self.free.check(F)
        self.clamped.check(outputs.clamped(()))
        self.reading.check(F)

    def learn(self, F: System, theta: Theta, v: Data, s: Layers, key: Key, weight: Weight | None = None) -> Learned:
        """The gradient, and the free fixed points."""
        outputs, eta = self._outputs(F), self.part
        s_free, info = self.free.settle(F, theta, v, 0.0, s)
        target = jax.vmap(outputs.clamp)(v)
        held = {layer: s_free[layer] + eta * (aim - s_free[layer]) for layer, aim in target.items()}
        others = {layer: u for layer, u in s_free.items() if layer not in held}
        settled, info_clamped = others, info._replace(steps=jnp.zeros_like(info.steps))
        if others:  # a network without hidden layers has nothing left to settle
            rest = outputs.clamped(tuple(held))
            settled, info_clamped = self.clamped.settle(rest, theta, (v, held), 0.0, others)
        read_free, read_clamped = self.reading.each([s_free, settled | held], key)

        # The two states of an example side by side, so that sums over a batch stay small: the sum of each phase, only
        # then subtracted, would leave several times the rounding.
        pair = jax.tree.map(lambda clamped, free: jnp.stack([clamped, free], 1), read_clamped, read_free)

        def gap(theta: Theta) -> Array:
            energy = jax.vmap(jax.vmap(outputs.energy_at, in_axes=(None, None, 0)), in_axes=(None, 0, 0))
            clamped, free = energy(theta, v, pair).T
            return (clamped - free) / eta

        gradient = jax.grad(lambda theta: jnp.average(gap(theta), weights=weight))(theta)
        objective = gap(theta)
        units = sum(math.prod(u.shape[1:]) for u in s_free.values())
        unfinished = units * info.residual**2 / 2
        other_mode = (objective * eta < -unfinished - 1e-5).astype(objective.dtype)
        phases = {"free": info, "clamped": info_clamped}
        return Learned(gradient, s_free, phases, {"objective": objective, "other_mode": other_mode})

    def _outputs(self, F: System) -> Outputs:
        return need(
            F,
            Outputs,
            f"{type(self).__name__} holds the outputs where the cost is least",
            "a readout is no part of the state, and a softmax is least nowhere; "
            "take SquaredError(), or let the cost be an eqprop.Clampable, with clamp(y)",
        )


class ContrastiveHebbian(Clamping):
    """∂E/∂θ(u^∞) − ∂E/∂θ(u⁰), averaged over the batch: the gradient of J_CHL = E(u^∞) − E(u⁰).

    `free` settles as in Equilibrium Propagation; then the outputs are held where C is least, and `clamped` lets the
    others settle from u⁰. The cost has no other part in it: the objective is the energy's own.
    """

    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    clamped: Relaxation = Block(steps=100, tol=1e-4, accelerate=True, order="backward")


class CoupledLearning(Clamping):
    """(∂E/∂θ(u^η) − ∂E/∂θ(u⁰))/η with outputs clamped at y⁰ + η (y − y⁰), averaged over the batch.

    With η = 1 it is contrastive Hebbian learning. A small η keeps both phases in the same mode, and needs no force
    that acts like a cost: only outputs that can be set, as analog networks have (Stern et al. 2021).
    """

    eta: float = 0.1
    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    clamped: Relaxation = Block(steps=100, tol=1e-4, accelerate=True, order="backward")

    def __check_init__(self) -> None:
        if not 0 < self.eta <= 1:
            raise InputError(f"eta={self.eta!r}: outputs are clamped a part of the way, above 0 and at most 1")

    @property
    def part(self) -> Number:
        return self.eta
