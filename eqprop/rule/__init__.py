"""Rules: from settled states to a weight change. One algorithm a file."""

from eqprop.rule.equilibrium import EquilibriumPropagation, Phases
from eqprop.rule.implicit import ImplicitGradient
from eqprop.rule.stdp import STDP
from eqprop.rule.stochastic import StochasticEquilibriumPropagation

__all__ = ["STDP", "EquilibriumPropagation", "ImplicitGradient", "Phases", "StochasticEquilibriumPropagation"]
