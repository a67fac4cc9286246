"""Plain backpropagation, on the feed-forward network: the reference for all others (section 3.5)."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import TotalEnergy, cost_of
from eqprop.errors import InputError
from eqprop.relax import Forward, Info
from eqprop.relax.forward import one_step


class Passes(NamedTuple):
    """The forward and the backward pass, each a step."""

    forward: Info
    backward: Info


class Backpropagation(eqx.Module):
    """∂J/∂θ with J = C(θ, v, forward(θ, x)), by automatic differentiation in reverse."""

    free: Forward = Forward()

    def check(self, F: TotalEnergy) -> None:
        """Refuse an F without a forward pass."""
        if not hasattr(getattr(F, "energy", None), "forward"):
            raise InputError(f"F={F!r} has no forward pass: take Total(Feedforward(net), cost), or another rule")

    @compiled
    def __call__(
        self, F: TotalEnergy, theta: Any, v: Any, s: Any, key: Array | None = None, weight: Array | None = None
    ) -> tuple[Any, Any, Passes]:
        """The gradient, shaped like θ and averaged over the batch; the states of the forward pass; the two passes."""
        self.check(F)

        def mean(theta: Any) -> tuple[Array, tuple[Any, Info]]:
            s_free, forward = self.free(F, theta, v, 0.0, s)
            costs = jax.vmap(cost_of(F), in_axes=(None, 0, 0))(theta, v, s_free)
            return jnp.average(costs, weights=weight), (s_free, forward)

        gradient, (s_free, forward) = jax.grad(mean, has_aux=True)(theta)
        return gradient, s_free, Passes(forward, one_step(len(forward.steps)))
