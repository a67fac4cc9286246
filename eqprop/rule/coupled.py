"""Coupled learning: outputs clamped a part of the way, as analog networks do (Stern et al. 2021)."""

from typing import Any, ClassVar

import equinox as eqx
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import Total, TotalEnergy
from eqprop.errors import InputError
from eqprop.relax import Block, Relaxation
from eqprop.rule.contrastive import Contrast, contrast, require_outputs


class CoupledLearning(eqx.Module):
    """(∂E/∂θ(u^η) − ∂E/∂θ(u⁰))/η with outputs clamped at y⁰ + η (y − y⁰), averaged over the batch.

    With η = 1 it is contrastive Hebbian learning. A small η keeps both phases in the same mode, and needs no force
    that acts like a cost: only outputs that can be set.
    """

    eta: float = 0.1
    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    clamped: Relaxation = Block(steps=100, tol=1e-4, accelerate=True, backward=True)
    measures: ClassVar[tuple[str, ...]] = ("objective", "other_mode")

    def __check_init__(self) -> None:
        if not 0 < self.eta <= 1:
            raise InputError(f"eta={self.eta!r}: outputs are clamped a part of the way, above 0 and at most 1")

    def check(self, F: TotalEnergy) -> None:
        """Refuse a cost without outputs that can be clamped."""
        require_outputs(F, type(self).__name__)

    @compiled
    def __call__(
        self, F: Total, theta: Any, v: Any, s: Any, key: Array | None = None, weight: Array | None = None
    ) -> tuple[Any, Any, Contrast]:
        """The update, shaped like θ; the free fixed points; and how the phases went."""
        self.check(F)
        return contrast(F, theta, v, s, weight, self.free, self.clamped, self.eta)
