"""Rules: from settled states to a weight change. One algorithm a file."""

from eqprop.rule.equilibrium import EquilibriumPropagation, Phases

__all__ = ["EquilibriumPropagation", "Phases"]
