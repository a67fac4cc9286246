"""Learning in the second phase only, by a rule like spike-timing dependent plasticity (section 2.4)."""

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.energy.base import Interacting
from eqprop.errors import InputError
from eqprop.nudge import Nudge, OneSided
from eqprop.relax import Block, Gradient, Info, Observer, Relaxation, Settling
from eqprop.relax.loop import run
from eqprop.rule.base import Learned, Nudged
from eqprop.rule.equilibrium import as_complex
from eqprop.total import System, need
from eqprop.types import Array, Data, Key, Layers, Theta, Weight


class Plasticity(Observer):
    """Adds up Δθ while the units move: what Φ gains by each step, differentiated by θ."""

    units: Interacting
    theta: Theta
    v: tuple[Any, Any]
    w: Array
    weight: Weight | None
    of: Literal["rho", "u"] = eqx.field(static=True)

    def init(self, settling: Settling) -> Theta:
        """Nothing is learned yet."""
        return jax.tree.map(lambda w: jnp.zeros(w.shape, w.dtype), self.theta)  # wherever θ lies

    def __call__(self, seen: Theta, before: Settling, after: Settling) -> Theta:
        rho, change = jax.vmap(lambda s, new: self.activity(s, new))(before.s, after.s)
        gain = jax.vmap(jax.vmap(self.gain, (None, 0, 0)), (None, 0, 0))
        more = jax.grad(lambda theta: self.mean(gain(theta, rho, change)))(self.theta)
        return jax.tree.map(jnp.add, seen, more)

    def mean(self, values: Array) -> Array:
        """Σ_k w_k of the average over the examples, the axes of `values` being k and the examples."""
        return jnp.real(self.w @ jnp.average(values, axis=1, weights=self.weight))

    def activity(self, s: Layers, new: Layers) -> tuple[Layers, Layers]:
        """ρ(u) of all layers before a step, and what changes: ρ(u) or u itself."""
        rho = self.units.rates(self.v[0], s)
        if self.of == "rho":
            return rho, jax.tree.map(jnp.subtract, self.units.rates(self.v[0], new), rho)
        return rho, jax.tree.map(jnp.zeros_like, rho) | jax.tree.map(jnp.subtract, new, s)

    def gain(self, theta: Theta, rho: Layers, change: Layers) -> Array:
        """What Φ gains by the change: its derivative by W_ij is ρ_i Δ_j + ρ_j Δ_i, by b_i it is Δ_i."""
        return jax.jvp(lambda rho: self.units.phi(theta, rho), (rho,), (change,))[1]


class STDP(Nudged):
    """ΔW_ij = 1/β ∫ (ρ(u_i) dρ(u_j)/dt + ρ(u_j) dρ(u_i)/dt) dt,  Δb_i = 1/β ∫ dρ(u_i)/dt dt, from u⁰ to u^β.

    Weights change only while the units move (section 2.4, "second view"): no state need be remembered from the free
    phase. The path is that of the clipped gradient steps `nudged`, and the integral the
    causal sum Σ_t ρ_i(t) (ρ_j(t+1) − ρ_j(t)) + ρ_j(t) (ρ_i(t+1) − ρ_i(t)), which lacks Σ_t Δρ_i Δρ_j of the exact
    change, O(βε): take small steps. `of="u"` is the plainer rule dW_ij/dt = ρ(u_i) du_j/dt in both directions, which
    lacks the factor ρ'(u_j). A nudge of several β_k has a path to each, weighed by w_k. The gradient is −Δθ; a cost
    that depends on θ adds its ∂C/∂θ at the nudged states.
    """

    nudge: Nudge = OneSided(0.5)
    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    nudged: Gradient = Gradient(steps=100, epsilon=0.1)
    of: Literal["rho", "u"] = eqx.field(default="rho", static=True)
    plasticity: ClassVar[type[Plasticity]] = Plasticity
    """What happens at the synapses in a step; a subclass may have another."""

    def __check_init__(self) -> None:
        if self.of not in ("rho", "u"):
            raise InputError(f"of={self.of!r}: choose 'rho' for ρ(u_i) dρ(u_j)/dt or 'u' for ρ(u_i) du_j/dt")
        if self.nudged.accelerate or self.nudged.tol is not None:
            raise InputError("the nudged phase is a path of small steps: give Gradient without `accelerate` and `tol`")

    def check(self, F: System) -> None:
        """Refuse an F without synapses between units, or that the nudge cannot be used with."""
        _units(F)
        super().check(F)

    def learn(self, F: System, theta: Theta, v: Data, s: Layers, key: Key, weight: Weight | None = None) -> Learned:
        """−Δθ, and the free fixed points."""
        s_free, free = self.free.settle(F, theta, v, 0.0, s)
        beta, w = self.nudge(key)
        if self.nudge.uses_free:  # at β₀ = 0 nothing moves
            beta, w = beta[1:], w[1:]
        start = as_complex(s_free) if jnp.iscomplexobj(beta) else s_free
        begin = jax.tree.map(lambda u: jnp.stack([u] * len(beta)), start)
        settling = jax.vmap(self.nudged.init)(begin)
        plasticity = self.plasticity(_units(F), theta, v, w, weight, self.of)
        settling, learned = run(
            self.nudged,
            self.nudged.stepper(F, theta, v, beta, each=True),
            settling,
            self.nudged.steps,
            plasticity,
        )

        def cost(theta: Theta) -> Array:
            costs = jax.vmap(jax.vmap(F.cost_at, (None, 0, 0)), (None, None, 0))(theta, v, settling.s)
            return plasticity.mean(beta[:, None] * costs)

        gradient = jax.tree.map(jnp.subtract, jax.grad(cost)(theta), learned)
        nudged = Info(settling.residual, settling.t, settling.residual <= 0)
        return Learned(gradient, s_free, {"free": free, "nudged": nudged}, {})


def _units(F: System) -> Interacting:
    remedy = "give Total(Hopfield(…), cost), or take EquilibriumPropagation, which suits every F"
    return need(F, Interacting, "STDP changes the synapses W_ij between units", remedy)
