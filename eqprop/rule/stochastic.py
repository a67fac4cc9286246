"""Equilibrium Propagation in a network with noise: the gradient of the cost that is to be expected."""

import jax
import jax.numpy as jnp

from eqprop.errors import InputError
from eqprop.nudge import Nudge, Symmetric
from eqprop.relax import Langevin
from eqprop.rule.base import Learned, Nudged
from eqprop.total import System, require_energy
from eqprop.types import Array, Data, Key, State, Theta, Weight


class StochasticEquilibriumPropagation(Nudged):
    """∂J̃/∂θ ≈ Σ_k w_k E^{β_k}[∂F/∂θ(θ, v, β_k, s)] with J̃ = E⁰[C] and s ~ e^{−F/T} (Theorem 2, Appendix C).

    `free` draws the samples of every phase. All phases start from the state given and see the same Brownian path:
    where F is convex, paths that share their noise forget where they came from and stay within O(β) of each other, so
    that the fluctuations of a difference over β stay as they are when β becomes small. With noise of its own for each
    phase they would grow as 1/β.
    """

    nudge: Nudge = Symmetric(0.5)
    free: Langevin = Langevin(temperature=0.01)

    def __check_init__(self) -> None:
        beta, _ = jax.eval_shape(lambda: self.nudge.at(0)(jax.random.key(0)))
        if jnp.issubdtype(beta.dtype, jnp.complexfloating):
            raise InputError(f"nudge={self.nudge!r}: a complex β has no distribution e^(−F/T); take Symmetric")

    def check(self, F: System) -> None:
        """Refuse an F that the nudge cannot be used with, or that has no distribution e^{−F/T}."""
        require_energy(F, type(self).__name__)
        super().check(F)

    def learn(self, F: System, theta: Theta, v: Data, s: State, key: Key, weight: Weight | None = None) -> Learned:
        """The gradient, and the mean of the free states of each example."""
        nudge_key, noise_key = jax.random.split(key)
        beta, w = self.nudge(nudge_key)
        if not self.nudge.uses_free:  # the free phase still is what the network predicts
            beta, w = (jnp.concatenate([jnp.zeros(1), a]) for a in (beta, w))
        states = jax.vmap(lambda b: self.free.draw(F, theta, v, b, s, noise_key))(beta)

        def contrast(theta: Theta) -> Array:
            per_sample = jax.vmap(F, in_axes=(None, None, None, 0))
            per_example = jax.vmap(per_sample, in_axes=(None, 0, None, 0))
            energies = jax.vmap(per_example, in_axes=(None, None, 0, 0))(theta, v, beta, states)
            return w @ jnp.average(jnp.mean(energies, axis=2), axis=1, weights=weight)

        free = self.free.info(len(jax.tree.leaves(s)[0]))
        nudged = jax.tree.map(lambda a: jnp.stack([a] * (len(beta) - 1)), free)  # all but β = 0
        mean = jax.tree.map(lambda u: jnp.mean(u[0], axis=1), states)
        return Learned(jax.grad(contrast)(theta), mean, {"free": free, "nudged": nudged}, {})
