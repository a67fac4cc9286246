"""The settling of predictive coding: descent in the errors of prediction, in place of the states."""

import jax
import jax.numpy as jnp

from eqprop.energy.base import Predictive
from eqprop.errors import InputError
from eqprop.relax.base import Stepwise
from eqprop.total import System, need
from eqprop.types import Array, Data, Int, Layers, Number, Scalar, Theta


class ErrorDescent(Stepwise):
    """e ← e − ε ∂F/∂e, with F = ½ Σ_k ‖e_k‖² + β C(s(e)): for energies that are `Predictive`, as `Feedforward` is.

    States and errors determine each other, so the fixed points are those of F. But as a function of e, F has the
    curvature 1 + β ∂²C/∂e²: near 1 for a weak nudge, however deep the network is and whatever its weights. As a
    function of s it has that of the weights, and a nudge fades from layer to layer. From a forward pass, where e = 0,
    the first step of ε = 1 is −β times what backpropagation finds at each layer (Goemaere et al. 2025).

    Steps shrink if ε (1 + κ) < 2 for the largest eigenvalue κ of β ∂²C/∂e², and there is a minimum if all κ > −1. With
    the squared cost of linear outputs, and while no unit changes its slope, κ goes up to β ‖J‖² with J =
    ∂(outputs)/∂e, whose norm is at least 1. The residual is that of the errors, max |∂F/∂e|.
    """

    epsilon: float = 1.0

    def __check_init__(self) -> None:
        if not 0 < self.epsilon < 2:
            raise InputError(f"epsilon={self.epsilon!r}: give a step size from 0 to 2 (1 is exact where β is small)")

    def check(self, F: System) -> None:
        """Refuse an F without errors of prediction."""
        _predictive(F)

    def move(
        self, F: System, theta: Theta, v: Data, beta: Number, s: Layers, t: Int[Array, ""]
    ) -> tuple[Layers, Scalar]:
        """One step of one example: a pass forward, one back, and one with the new errors."""
        energy, (x, _) = _predictive(F), v
        errors = energy.errors(theta, x, s)
        smooth = any(jnp.iscomplexobj(u) for u in jax.tree.leaves(s))
        slope = jax.grad(lambda e: F(theta, v, beta, energy.erring(theta, x, e)), holomorphic=smooth)(errors)
        moved = jax.tree.map(lambda e, d: e - self.epsilon * d, errors, slope)
        residual = jnp.max(jnp.stack([jnp.max(jnp.abs(d)) for d in slope.values()]))
        return energy.erring(theta, x, moved), residual


def _predictive(F: System) -> Predictive:
    remedy = "take Total(Feedforward(net), cost), or eqprop.Gradient, which works for every F"
    return need(F, Predictive, "Descent in the errors of prediction is asked for", remedy)
