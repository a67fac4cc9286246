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
from eqprop.energy.base import Binary, Blockwise, Energy, ForwardPass, Interacting
from eqprop.energy.boltzmann import BoltzmannMachine
from eqprop.energy.convolution import Convolution
from eqprop.energy.diode import Shockley
from eqprop.energy.directed import Directed
from eqprop.energy.feedforward import Feedforward
from eqprop.energy.graph import Graph
from eqprop.energy.hopfield import ARCHITECTURES, Hopfield
from eqprop.energy.memory import Memory
from eqprop.energy.oscillators import Oscillators
from eqprop.energy.pooling import POOLINGS, AveragePool, MaxPool, Pooling, SoftmaxPool
from eqprop.energy.resistive import Resistive
from eqprop.energy.resistor import Crossbar, Resistors, Wires
from eqprop.energy.separation import LogSumExp, Power, Separation
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
    "LogSumExp",
    "MaxPool",
    "Memory",
    "Oscillators",
    "Pooling",
    "Power",
    "Resistive",
    "Resistors",
    "Separation",
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
