"""Energies: what the network is."""

from eqprop.energy.activation import ACTIVATIONS, Activation, hard_sigmoid, hard_tanh, sigmoid, tanh
from eqprop.energy.base import Binary, Blockwise, Energy, ForwardPass, Interacting
from eqprop.energy.boltzmann import BoltzmannMachine
from eqprop.energy.directed import Directed
from eqprop.energy.feedforward import Feedforward
from eqprop.energy.graph import Graph
from eqprop.energy.hopfield import ARCHITECTURES, Hopfield
from eqprop.energy.synapse import Dense, Lateral, Synapse
from eqprop.energy.xie_seung import XieSeung

__all__ = [
    "ACTIVATIONS",
    "ARCHITECTURES",
    "Activation",
    "Binary",
    "Blockwise",
    "BoltzmannMachine",
    "Dense",
    "Directed",
    "Energy",
    "Feedforward",
    "ForwardPass",
    "Graph",
    "Hopfield",
    "Interacting",
    "Lateral",
    "Synapse",
    "XieSeung",
    "hard_sigmoid",
    "hard_tanh",
    "sigmoid",
    "tanh",
]
