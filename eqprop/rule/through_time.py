"""Backpropagation through time: the gradient of what the settling has come to so far."""

import jax
import jax.numpy as jnp

from eqprop.errors import InputError
from eqprop.relax import Block, Info, Stepwise
from eqprop.rule.base import Learned, Rule
from eqprop.total import System
from eqprop.types import Array, Data, Key, State, Theta, Weight


class BackpropagationThroughTime(Rule):
    """∂C(s_T)/∂θ through the T steps s_{t+1} = step(θ, s_t) of the free phase (section 4.3, footnote).

    All of `free.steps` are taken, whatever its tolerance, and each is kept in memory for the way back. Where they reach
    the fixed point and stay there for long, it is the gradient of J, and the way back is recurrent backpropagation.
    """

    free: Stepwise = Block(steps=20, omega=1.0)

    def __check_init__(self) -> None:
        if self.free.accelerate:
            raise InputError("free accelerates, by steps that are not differentiated here: set accelerate=False")

    def learn(self, F: System, theta: Theta, v: Data, s: State, key: Key, weight: Weight | None = None) -> Learned:
        """The gradient, and the states s_T; there are as many steps back as forth."""

        def mean(theta: Theta) -> tuple[Array, tuple[State, Info]]:
            s_T, info = self.free.all_steps().settle(F, theta, v, 0.0, s)
            costs = jax.vmap(F.cost_at, in_axes=(None, 0, 0))(theta, v, s_T)
            return jnp.average(costs, weights=weight), (s_T, info)

        gradient, (s_T, info) = jax.grad(mean, has_aux=True)(theta)
        forward = info._replace(converged=info.residual <= (0.0 if self.free.tol is None else self.free.tol))
        return Learned(gradient, s_T, {"free": forward, "backward": forward}, {})
