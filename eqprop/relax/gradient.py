"""The paper's relaxation: all units take a small step downhill at once."""

from typing import Any

import jax
from jax import Array

from eqprop.energy.total import TotalEnergy, slope
from eqprop.errors import InputError
from eqprop.relax.base import Relaxation
from eqprop.relax.box import project, residual


class Gradient(Relaxation):
    """s ← Π(s − ε ∂F/∂s), Π clipping to the box (section 5.1): works for every F."""

    epsilon: float = 0.5

    def __check_init__(self) -> None:
        if not 0 < self.epsilon < float("inf"):
            raise InputError(f"epsilon={self.epsilon!r}: give a positive step size (the paper's is 0.5)")

    def step(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any, t: Any) -> tuple[Any, Array]:
        """One step of one example: the new state, and the residual that it met."""
        force = jax.tree.map(lambda g: -g, slope(F, theta, v, beta, s))
        moved = jax.tree.map(lambda u, f: u + self.epsilon * f, s, force)
        return project(F, moved), residual(F, s, force)
