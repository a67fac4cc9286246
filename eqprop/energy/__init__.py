"""Energies: what the network is."""

from eqprop.energy.activation import ACTIVATIONS, Activation, hard_sigmoid, hard_tanh, sigmoid, tanh
from eqprop.energy.boltzmann import BoltzmannMachine
from eqprop.energy.clamped import Clamped
from eqprop.energy.directed import Directed
from eqprop.energy.feedforward import Feedforward
from eqprop.energy.hopfield import ARCHITECTURES, Hopfield
from eqprop.energy.total import Total, TotalEnergy, cost_of, energy_of
from eqprop.energy.xie_seung import XieSeung

__all__ = [
    "ACTIVATIONS",
    "ARCHITECTURES",
    "Activation",
    "BoltzmannMachine",
    "Clamped",
    "Directed",
    "Feedforward",
    "Hopfield",
    "Total",
    "TotalEnergy",
    "XieSeung",
    "cost_of",
    "energy_of",
    "hard_sigmoid",
    "hard_tanh",
    "sigmoid",
    "tanh",
]
