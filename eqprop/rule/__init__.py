"""Rules: from settled states to a weight change. One algorithm a file."""

from eqprop.rule.asymmetric import AsymmetricEquilibriumPropagation
from eqprop.rule.backpropagation import Backpropagation
from eqprop.rule.base import Learned, Rule
from eqprop.rule.boltzmann import BoltzmannLearning, BoltzmannLikelihood, ContrastiveDivergence
from eqprop.rule.chain import ChainPropagation
from eqprop.rule.continual import ContinualEquilibriumPropagation
from eqprop.rule.contrastive import ContrastiveHebbian, CoupledLearning
from eqprop.rule.dyadic import DyadicEquilibriumPropagation
from eqprop.rule.equilibrium import EquilibriumPropagation
from eqprop.rule.implicit import ImplicitGradient
from eqprop.rule.recurrent import RecurrentBackpropagation
from eqprop.rule.stdp import STDP
from eqprop.rule.stochastic import StochasticEquilibriumPropagation
from eqprop.rule.through_time import BackpropagationThroughTime
from eqprop.rule.vector_field import VectorField

__all__ = [
    "STDP",
    "AsymmetricEquilibriumPropagation",
    "Backpropagation",
    "BackpropagationThroughTime",
    "BoltzmannLearning",
    "BoltzmannLikelihood",
    "ChainPropagation",
    "ContinualEquilibriumPropagation",
    "ContrastiveDivergence",
    "ContrastiveHebbian",
    "CoupledLearning",
    "DyadicEquilibriumPropagation",
    "EquilibriumPropagation",
    "ImplicitGradient",
    "Learned",
    "RecurrentBackpropagation",
    "Rule",
    "StochasticEquilibriumPropagation",
    "VectorField",
]
