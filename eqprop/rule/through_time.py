"""Backpropagation through time: the gradient of what the settling has come to so far."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import TotalEnergy, cost_of
from eqprop.errors import InputError
from eqprop.relax import Block, Info, Relaxation
from eqprop.rule.backpropagation import Passes


class BackpropagationThroughTime(eqx.Module):
    """∂C(s_T)/∂θ through the T steps s_{t+1} = step(θ, s_t) of the free phase (section 4.3, footnote).

    All of `free.steps` are taken, whatever its tolerance, and each is kept in memory for the way back. Where they reach
    the fixed point and stay there for long, it is the gradient of J, and the way back is recurrent backpropagation.
    """

    free: Relaxation = Block(steps=20, omega=1.0)

    def __check_init__(self) -> None:
        if self.free.accelerate:
            raise InputError("free accelerates, by steps that are not differentiated here: set accelerate=False")

    @compiled
    def __call__(
        self, F: TotalEnergy, theta: Any, v: Any, s: Any, key: Array | None = None, weight: Array | None = None
    ) -> tuple[Any, Any, Passes]:
        """The gradient, shaped like θ and averaged over the batch; the states s_T; and as many steps back as forth."""

        def one(theta: Any, v: Any, s: Any) -> tuple[Array, tuple[Any, Array]]:
            def step(s: Any, t: Any) -> tuple[Any, Array]:
                moved, residual = self.free.step(F, theta, v, 0.0, s, t)
                return jax.tree.map(lambda new, old: new.astype(old.dtype), moved, s), residual

            s, residuals = jax.lax.scan(step, s, jnp.arange(self.free.steps))
            return cost_of(F)(theta, v, s), (s, residuals[-1])

        def mean(theta: Any) -> tuple[Array, Any]:
            costs, reached = jax.vmap(one, in_axes=(None, 0, 0))(theta, v, s)
            return jnp.average(costs, weights=weight), reached

        gradient, (s_free, residual) = jax.grad(mean, has_aux=True)(theta)
        tol = 0.0 if self.free.tol is None else self.free.tol
        steps = jnp.full(residual.shape, self.free.steps)
        forward = Info(residual, steps, residual <= tol)
        return gradient, s_free, Passes(forward, forward)
