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
from eqprop.energy.base import Binary, Blockwise, Energy, ForwardPass, Interacting, Linked, Predictive, Reversible
from eqprop.energy.boltzmann import BoltzmannMachine
from eqprop.energy.chain import Chain, Link
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
from eqprop.energy.two_valued import Binarised, binarised
from eqprop.energy.xie_seung import XieSeung

__all__ = [
    "ACTIVATIONS",
    "ARCHITECTURES",
    "POOLINGS",
    "Activation",
    "AveragePool",
    "Binarised",
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
    "LogSumExp",
    "MaxPool",
    "Memory",
    "Oscillators",
    "Pooling",
    "Power",
    "Predictive",
    "Resistive",
    "Resistors",
    "Reversible",
    "Separation",
    "Shockley",
    "SoftmaxPool",
    "Synapse",
    "Wires",
    "XieSeung",
    "binarised",
    "half_sigmoid",
    "hard_sigmoid",
    "hard_tanh",
    "identity",
    "relu6",
    "sigmoid",
    "smooth_step",
    "tanh",
]
