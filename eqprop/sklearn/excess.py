"""A squared error that minds less what goes beyond a target."""

from typing import Any

import jax.numpy as jnp

from eqprop.cost import SquaredError
from eqprop.types import Array, Number, Scalar, Theta


class Excess(SquaredError):
    """C = ½ Σ_o w_o (output_o − y_o)², where w_o = `excess` if the output is farther from 0 than y_o on the same side.

    Otherwise w_o = 1. With an `excess` of 1 it is the squared error. With 0 it is the squared hinge loss: an output
    that is more than right costs nothing.
    """

    excess: float = 1.0

    def loss(self, output: Array, y: Array) -> Scalar:
        """½ Σ w (output − y)²."""
        error = output - y
        return jnp.sum(jnp.where(error * jnp.sign(y) > 0, self.excess, 1.0) * error**2) / 2

    def curvature(self, theta: Theta, beta: Number) -> dict[str, Any]:
        """β, or β · `excess` where β is negative: the greater of the two on either side of the target."""
        return {self.layer: jnp.maximum(beta, beta * self.excess)}
