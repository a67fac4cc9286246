"""Energies: what the network is."""

from eqprop.energy.activation import (
    ACTIVATIONS,
    Activation,
    half_sigmoid,
    hard_sigmoid,
    hard_tanh,
    identity,
    relu6,
    sigmoid,
    smooth_step,
    tanh,
)
from eqprop.energy.base import Binary, Blockwise, Energy, ForwardPass, Interacting, Linked, Predictive
from eqprop.energy.boltzmann import BoltzmannMachine
from eqprop.energy.chain import Chain, Link
from eqprop.energy.convolution import Convolution
from eqprop.energy.diode import Shockley
from eqprop.energy.directed import Directed
from eqprop.energy.feedforward import Feedforward
from eqprop.energy.graph import Graph
from eqprop.energy.hopfield import ARCHITECTURES, Hopfield
from eqprop.energy.pooling import POOLINGS, AveragePool, MaxPool, Pooling, SoftmaxPool
from eqprop.energy.resistive import Resistive
from eqprop.energy.resistor import Crossbar, Resistors, Wires
from eqprop.energy.synapse import Dense, Lateral, Synapse
from eqprop.energy.xie_seung import XieSeung

__all__ = [
    "ACTIVATIONS",
    "ARCHITECTURES",
    "POOLINGS",
    "Activation",
    "AveragePool",
    "Binary",
    "Blockwise",
    "BoltzmannMachine",
    "Chain",
    "Convolution",
    "Crossbar",
    "Dense",
    "Directed",
    "Energy",
    "Feedforward",
    "ForwardPass",
    "Graph",
    "Hopfield",
    "Interacting",
    "Lateral",
    "Link",
    "Linked",
    "MaxPool",
    "Pooling",
    "Predictive",
    "Resistive",
    "Resistors",
    "Shockley",
    "SoftmaxPool",
    "Synapse",
    "Wires",
    "XieSeung",
    "half_sigmoid",
    "hard_sigmoid",
    "hard_tanh",
    "identity",
    "relu6",
    "sigmoid",
    "smooth_step",
    "tanh",
]
