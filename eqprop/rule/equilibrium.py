"""Equilibrium Propagation: the gradient of what the settled network does, from settling twice."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import TotalEnergy
from eqprop.nudge import Nudge, Symmetric
from eqprop.relax import Block, Info, Relaxation


class Phases(NamedTuple):
    """How the free phase and the K nudged phases (first axis) settled."""

    free: Info
    nudged: Info


class EquilibriumPropagation(eqx.Module):
    """∂J/∂θ ≈ Σ_k w_k ∂F/∂θ(θ, v, β_k, s^{β_k}), averaged over the batch (Theorem 1, section 3.3).

    `free` settles at β = 0 from the state given, `nudged` settles at each β_k from the free fixed point.
    Written with ∂F/∂θ rather than ∂E/∂θ, it includes the ∂C/∂θ of costs that depend on θ.

        >>> import eqprop as ep
        >>> net = ep.Hopfield.layered(3, 4, 2)
        >>> F, theta = ep.Total(net, ep.SquaredError()), net.init(jax.random.key(0))
        >>> v = (jnp.ones((5, 3)), jnp.full((5, 2), 0.5))
        >>> gradient, state, phases = EquilibriumPropagation()(F, theta, v, net.rest(5), jax.random.key(1))
        >>> gradient["W"]["hidden-output"].shape, state["output"].shape, bool(phases.free.converged.all())
        ((4, 2), (5, 2), True)
    """

    nudge: Nudge = Symmetric(0.5)
    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    nudged: Relaxation = Block(steps=100, tol=1e-4, accelerate=True, backward=True)

    def check(self, F: TotalEnergy) -> None:
        """Refuse an F that the nudge cannot be used with."""
        self.nudge.check(F)

    @compiled
    def __call__(
        self, F: TotalEnergy, theta: Any, v: Any, s: Any, key: Array, weight: Array | None = None
    ) -> tuple[Any, Any, Phases]:
        """The gradient, shaped like θ; the free fixed points; and how the phases went.

        In v and s the first axis counts examples; `weight` gives each its share in the average.
        """
        self.check(F)
        s_free, beta, w, states, phases = settle(self, F, theta, v, s, key)

        def contrast(theta: Any) -> Array:
            per_example = jax.vmap(F, in_axes=(None, 0, None, 0))
            energies = jax.vmap(per_example, in_axes=(None, None, 0, 0))(theta, v, beta, states)
            return jnp.real(w @ jnp.average(energies, axis=1, weights=weight))

        return jax.grad(contrast)(theta), s_free, phases


def settle(rule: Any, F: TotalEnergy, theta: Any, v: Any, s: Any, key: Array) -> tuple[Any, Array, Array, Any, Phases]:
    """The free states, the β_k with their weights w_k, the states s^{β_k} (first axis k), and how the phases went."""
    s_free, free = rule.free(F, theta, v, 0.0, s)
    beta, w = rule.nudge(key)
    pulled = beta[1:] if rule.nudge.uses_free else beta
    start = jax.tree.map(lambda u: u.astype(jnp.result_type(u, beta)), s_free)
    states, nudged = jax.vmap(lambda b: rule.nudged(F, theta, v, b, start))(pulled)
    if rule.nudge.uses_free:
        states = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), s_free, states)
    return s_free, beta, w, states, Phases(free, nudged)
