"""Plain backpropagation, on the feed-forward network: the reference for all others (section 3.5)."""

import jax
import jax.numpy as jnp

from eqprop.relax import Forward, Info
from eqprop.relax.forward import one_step
from eqprop.rule.base import Learned, Rule
from eqprop.total import System
from eqprop.types import Array, Data, Key, State, Theta, Weight


class Backpropagation(Rule):
    """∂J/∂θ with J = C(θ, v, forward(θ, x)), by automatic differentiation in reverse."""

    free: Forward = Forward()

    def learn(self, F: System, theta: Theta, v: Data, s: State, key: Key, weight: Weight | None = None) -> Learned:
        """The gradient, and the states of the forward pass; the passes count as a step each."""

        def mean(theta: Theta) -> tuple[Array, tuple[State, Info]]:
            s_free, forward = self.free.settle(F, theta, v, 0.0, s)
            costs = jax.vmap(F.cost_at, in_axes=(None, 0, 0))(theta, v, s_free)
            return jnp.average(costs, weights=weight), (s_free, forward)

        gradient, (s_free, forward) = jax.grad(mean, has_aux=True)(theta)
        return Learned(gradient, s_free, {"free": forward, "backward": one_step(len(forward.steps))}, {})
