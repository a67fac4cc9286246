"""Learning in the second phase only, by a rule like spike-timing dependent plasticity (section 2.4)."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.hopfield import Hopfield, State, Theta
from eqprop.energy.total import Total, TotalEnergy
from eqprop.errors import InputError
from eqprop.nudge import Nudge, OneSided
from eqprop.relax import Block, Gradient, Info, Relaxation
from eqprop.rule.equilibrium import Phases


class STDP(eqx.Module):
    """ΔW_ij = 1/β ∫ (ρ(u_i) dρ(u_j)/dt + ρ(u_j) dρ(u_i)/dt) dt,  Δb_i = 1/β ∫ dρ(u_i)/dt dt, from u⁰ to u^β.

    The synapses change while the units move, and rest while they do (section 2.4, "second view"): no state need be
    remembered from the free phase. The path is that of the clipped gradient steps `nudged`, and the integral the
    causal sum Σ_t ρ_i(t) (ρ_j(t+1) − ρ_j(t)) + ρ_j(t) (ρ_i(t+1) − ρ_i(t)), which lacks Σ_t Δρ_i Δρ_j of the exact
    change, O(βε): take small steps. `of="u"` is the plainer rule dW_ij/dt = ρ(u_i) du_j/dt in both directions, which
    lacks the factor ρ'(u_j). A nudge of several β_k has a path to each, weighed by w_k. The gradient is −Δθ; a cost
    that depends on θ adds its ∂C/∂θ at the nudged states.
    """

    nudge: Nudge = OneSided(0.5)
    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    nudged: Gradient = Gradient(steps=100, epsilon=0.1)
    of: Literal["rho", "u"] = eqx.field(default="rho", static=True)

    def __check_init__(self) -> None:
        if self.of not in ("rho", "u"):
            raise InputError(f"of={self.of!r}: choose 'rho' for ρ(u_i) dρ(u_j)/dt or 'u' for ρ(u_i) du_j/dt")
        if self.nudged.accelerate or self.nudged.tol is not None:
            raise InputError("the nudged phase is a path of small steps: give Gradient without `accelerate` and `tol`")

    def check(self, F: TotalEnergy) -> None:
        """Refuse an F without synapses between units, or that the nudge cannot be used with."""
        if not (isinstance(F, Total) and isinstance(F.energy, Hopfield)):
            raise InputError(
                f"STDP changes the synapses W_ij between units, and F={F!r} does not say which they are: "
                "give Total(Hopfield(…), cost), or take EquilibriumPropagation, which suits every F"
            )
        self.nudge.check(F)

    @compiled
    def __call__(
        self, F: Total, theta: Theta, v: tuple[Any, Any], s: State, key: Array, weight: Array | None = None
    ) -> tuple[Theta, State, Phases]:
        """The gradient, shaped like θ; the free fixed points; and how the phases went.

        In v and s the first axis counts examples; `weight` gives each its share in the average.
        """
        self.check(F)
        s_free, free = self.free(F, theta, v, 0.0, s)
        beta, w = self.nudge(key)
        if self.nudge.uses_free:  # at β₀ = 0 nothing moves
            beta, w = beta[1:], w[1:]

        def mean(values: Array) -> Array:
            """Σ_k w_k of the average over the examples, the axes of `values` being k and the examples."""
            return jnp.real(w @ jnp.average(values, axis=1, weights=weight))

        def step(carry: tuple[State, Theta], t: Array) -> tuple[tuple[State, Theta], Array]:
            s, learned = carry
            new, residual = jax.vmap(lambda b, s: self._step(F, theta, v, b, s, t))(beta, s)
            rho, change = jax.vmap(lambda s, new: self.activity(F.energy, v[0], s, new))(s, new)
            gain = jax.vmap(
                jax.vmap(lambda theta, *pair: self.plasticity(F.energy, theta, *pair), (None, 0, 0)), (None, 0, 0)
            )
            more = jax.grad(lambda theta: mean(gain(theta, rho, change)))(theta)
            return (new, jax.tree.map(jnp.add, learned, more)), residual

        def penalty(theta: Theta) -> Array:
            costs = jax.vmap(jax.vmap(F.cost, (None, 0, 0)), (None, None, 0))(theta, v[1], s_nudged)
            return mean(beta[:, None] * costs)

        begin = jax.tree.map(lambda u: jnp.stack([u.astype(jnp.result_type(u, beta))] * len(beta)), s_free)
        still = jax.tree.map(jnp.zeros_like, theta)
        (s_nudged, learned), residuals = jax.lax.scan(step, (begin, still), jnp.arange(self.nudged.steps))
        gradient = jax.tree.map(jnp.subtract, jax.grad(penalty)(theta), learned)
        residual = residuals[-1]
        nudged = Info(residual, jnp.full(residual.shape, self.nudged.steps), residual <= 0)
        return gradient, s_free, Phases(free, nudged)

    def activity(self, net: Hopfield, x: Array, s: State, new: State) -> tuple[State, State]:
        """ρ(u) of all layers before a step, and what changes: ρ(u) or u itself."""
        rho = net.rates(x, s)
        if self.of == "rho":
            return rho, jax.tree.map(jnp.subtract, net.rates(x, new), rho)
        return rho, jax.tree.map(jnp.zeros_like, rho) | jax.tree.map(jnp.subtract, new, s)

    def plasticity(self, net: Hopfield, theta: Theta, rho: State, change: State) -> Array:
        """What Φ gains by the change: its derivative by W_ij is ρ_i Δ_j + ρ_j Δ_i, by b_i it is Δ_i."""
        return jax.jvp(lambda rho: net.phi(theta, rho), (rho,), (change,))[1]

    def _step(self, F: Total, theta: Theta, v: Any, beta: Array, s: State, t: Array) -> tuple[State, Array]:
        """A step of every example, in the state's own precision."""
        step = jax.vmap(lambda v, s: self.nudged.step(F, theta, v, beta, s, t))
        new, residual = step(v, s)
        return jax.tree.map(lambda n, u: n.astype(u.dtype), new, s), residual
