"""F(θ, v, β, s), the total energy: the one object that all of Equilibrium Propagation is formulated in (section 3)."""

from eqprop.total.base import (
    Blocks,
    Outputs,
    Reversal,
    System,
    TotalEnergy,
    by_layer,
    cost_of,
    energy_of,
    examples,
    need,
    require_energy,
    require_finite,
    require_traceable,
    system,
)
from eqprop.total.hold import Hold
from eqprop.total.path import Moving, Path
from eqprop.total.sum import Clamped, Total

__all__ = [
    "Blocks",
    "Clamped",
    "Hold",
    "Moving",
    "Outputs",
    "Path",
    "Reversal",
    "System",
    "Total",
    "TotalEnergy",
    "by_layer",
    "cost_of",
    "energy_of",
    "examples",
    "need",
    "require_energy",
    "require_finite",
    "require_traceable",
    "system",
]
