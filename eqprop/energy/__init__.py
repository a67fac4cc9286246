"""Energies: what the network is."""

from eqprop.energy.activation import ACTIVATIONS, Activation, hard_sigmoid, sigmoid, tanh
from eqprop.energy.hopfield import Hopfield
from eqprop.energy.total import Total, TotalEnergy, cost_of, energy_of

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Hopfield",
    "Total",
    "TotalEnergy",
    "cost_of",
    "energy_of",
    "hard_sigmoid",
    "sigmoid",
    "tanh",
]
