"""Equilibrium Propagation: networks that predict by settling to a minimum of an energy, and learn by being
nudged and settling again.

An energy says what the network is, a cost says what is wanted, a nudge says how hard to pull, a relaxation
lets it settle, a rule turns settled states into a weight change, and training repeats that over data.
"""

from typing import TYPE_CHECKING, Any

from eqprop import data
from eqprop.cost import Clampable, Cost, CrossEntropy, Curved, OutputCost, SquaredError
from eqprop.energy import (
    Activation,
    AveragePool,
    Blockwise,
    BoltzmannMachine,
    Convolution,
    Dense,
    Directed,
    Energy,
    Feedforward,
    Graph,
    Hopfield,
    Lateral,
    MaxPool,
    Pooling,
    SoftmaxPool,
    Synapse,
    XieSeung,
    half_sigmoid,
    hard_sigmoid,
    hard_tanh,
    identity,
    relu6,
    sigmoid,
    smooth_step,
    tanh,
)
from eqprop.errors import DivergedError, InputError
from eqprop.nudge import Asymmetric, Holomorphic, Nudge, OneSided, RandomSign, Symmetric
from eqprop.readout import SoftmaxReadout
from eqprop.relax import (
    Block,
    Flow,
    Forward,
    Gibbs,
    Gradient,
    Info,
    Langevin,
    Observer,
    Relaxation,
    Settling,
    Stepwise,
    Trace,
)
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
    Learned,
    RecurrentBackpropagation,
    Rule,
    StochasticEquilibriumPropagation,
    VectorField,
)
from eqprop.state import Space
from eqprop.store import Run
from eqprop.total import Blocks, Clamped, System, Total, TotalEnergy, cost_of, energy_of, system
from eqprop.train import (
    Arrays,
    Batch,
    Cosine,
    Feed,
    FlipAndCrop,
    Given,
    InOrder,
    Iterated,
    Lanes,
    Progress,
    Rated,
    Shuffled,
    Staircase,
    Trainer,
    TrainState,
    Window,
    balanced,
    fit,
    update,
)

if TYPE_CHECKING:
    from eqprop.verification import verify

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022  (in plain alphabetical order)
    "Activation",
    "Arrays",
    "Asymmetric",
    "AveragePool",
    "Backpropagation",
    "BackpropagationThroughTime",
    "Batch",
    "Block",
    "Blocks",
    "Blockwise",
    "BoltzmannLearning",
    "BoltzmannLikelihood",
    "BoltzmannMachine",
    "Clampable",
    "Clamped",
    "ContrastiveDivergence",
    "ContrastiveHebbian",
    "Convolution",
    "Cosine",
    "Cost",
    "CoupledLearning",
    "CrossEntropy",
    "Curved",
    "Dense",
    "Directed",
    "DivergedError",
    "Energy",
    "EquilibriumPropagation",
    "Feed",
    "Feedforward",
    "FlipAndCrop",
    "Flow",
    "Forward",
    "Gibbs",
    "Given",
    "Gradient",
    "Graph",
    "Holomorphic",
    "Hopfield",
    "ImplicitGradient",
    "InOrder",
    "Info",
    "InputError",
    "Iterated",
    "Lanes",
    "Langevin",
    "Lateral",
    "Learned",
    "MaxPool",
    "Nudge",
    "Observer",
    "OneSided",
    "OutputCost",
    "Pooling",
    "Progress",
    "RandomSign",
    "Rated",
    "RecurrentBackpropagation",
    "Relaxation",
    "Rule",
    "Run",
    "STDP",
    "Settling",
    "Shuffled",
    "SoftmaxPool",
    "SoftmaxReadout",
    "Space",
    "SquaredError",
    "Staircase",
    "Stepwise",
    "StochasticEquilibriumPropagation",
    "Symmetric",
    "Synapse",
    "System",
    "Total",
    "TotalEnergy",
    "Trace",
    "TrainState",
    "Trainer",
    "VectorField",
    "Window",
    "XieSeung",
    "balanced",
    "cost_of",
    "data",
    "energy_of",
    "fit",
    "half_sigmoid",
    "hard_sigmoid",
    "hard_tanh",
    "identity",
    "relu6",
    "sigmoid",
    "smooth_step",
    "system",
    "tanh",
    "update",
    "verify",
]


def __getattr__(name: str) -> Any:
    """`verify` with all of its claims is loaded when it is first asked for."""
    if name == "verify":
        from eqprop.verification import verify

        return verify
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
