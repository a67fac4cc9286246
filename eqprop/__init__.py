"""Equilibrium Propagation: networks that predict by settling to a minimum of an energy, and learn by being
nudged and settling again.

An energy says what the network is, a cost says what is wanted, a nudge says how hard to pull, a relaxation
lets it settle, a rule turns settled states into a weight change, and training repeats that over data.
"""

from eqprop import data
from eqprop.claims import verify
from eqprop.cost import Cost, CrossEntropy, SquaredError
from eqprop.energy import (
    Activation,
    BoltzmannMachine,
    Clamped,
    Directed,
    Feedforward,
    Hopfield,
    Total,
    TotalEnergy,
    XieSeung,
    cost_of,
    energy_of,
    hard_sigmoid,
    hard_tanh,
    sigmoid,
    tanh,
)
from eqprop.errors import DivergedError, InputError
from eqprop.nudge import Asymmetric, Holomorphic, Nudge, OneSided, RandomSign, Symmetric
from eqprop.relax import Block, Flow, Forward, Gibbs, Gradient, Info, Langevin, Relaxation, Trace
from eqprop.rule import (
    STDP,
    Backpropagation,
    BackpropagationThroughTime,
    BoltzmannLearning,
    BoltzmannLikelihood,
    ContrastiveDivergence,
    ContrastiveHebbian,
    CoupledLearning,
    EquilibriumPropagation,
    ImplicitGradient,
    Phases,
    RecurrentBackpropagation,
    StochasticEquilibriumPropagation,
    VectorField,
)
from eqprop.train import Progress, Run, Trainer, TrainState, balanced, fit

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022  (in plain alphabetical order)
    "Activation",
    "Asymmetric",
    "Backpropagation",
    "BackpropagationThroughTime",
    "Block",
    "BoltzmannLearning",
    "BoltzmannLikelihood",
    "BoltzmannMachine",
    "Clamped",
    "ContrastiveDivergence",
    "ContrastiveHebbian",
    "Cost",
    "CoupledLearning",
    "CrossEntropy",
    "Directed",
    "DivergedError",
    "EquilibriumPropagation",
    "Feedforward",
    "Flow",
    "Forward",
    "Gibbs",
    "Gradient",
    "Holomorphic",
    "Hopfield",
    "ImplicitGradient",
    "Info",
    "InputError",
    "Langevin",
    "Nudge",
    "OneSided",
    "Phases",
    "Progress",
    "RandomSign",
    "RecurrentBackpropagation",
    "Relaxation",
    "Run",
    "STDP",
    "SquaredError",
    "StochasticEquilibriumPropagation",
    "Symmetric",
    "Total",
    "TotalEnergy",
    "Trace",
    "TrainState",
    "Trainer",
    "VectorField",
    "XieSeung",
    "balanced",
    "cost_of",
    "data",
    "energy_of",
    "fit",
    "hard_sigmoid",
    "hard_tanh",
    "sigmoid",
    "tanh",
    "verify",
]
