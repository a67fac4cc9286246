"""The paper's relaxation: all units take a small step downhill at once."""

import jax

from eqprop.errors import InputError
from eqprop.relax.base import Stepwise
from eqprop.total import System
from eqprop.types import Array, Data, Int, Number, Scalar, State, Theta


class Gradient(Stepwise):
    """s ← Π(s − ε ∂F/∂s), Π clipping to the bounds (section 5.1): works for every F."""

    epsilon: float = 0.5

    def __check_init__(self) -> None:
        if not 0 < self.epsilon < float("inf"):
            raise InputError(f"epsilon={self.epsilon!r}: give a positive step size (the paper's is 0.5)")

    @property
    def remedy(self) -> str:
        more = f"take more than {self.steps} steps; a kink of F inside of the bounds never comes to rest"
        return f"{self._shorter}, or {more}"

    @property
    def restraint(self) -> str:
        return f"{self._shorter}. {super().restraint}"

    @property
    def _shorter(self) -> str:
        return f"Lower the step size epsilon={float(self.epsilon):g}, which must be below 2 / (largest curvature of F)"

    def move(self, F: System, theta: Theta, v: Data, beta: Number, s: State, t: Int[Array, ""]) -> tuple[State, Scalar]:
        """One step of one example: the new state, and the residual that it met."""
        force = F.force(theta, v, beta, s)
        moved = jax.tree.map(lambda u, f: u + self.epsilon * f, s, force)
        return F.space.project(moved), F.space.residual(s, force)
