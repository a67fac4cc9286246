"""An experiment as data: every setting that decides what a training run computes, and nothing else."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cache
from math import ceil
from typing import Any, Literal

import optax

from eqprop.cost import Cost, CrossEntropy, SquaredError
from eqprop.data import NAMES
from eqprop.energy import ACTIVATIONS, ARCHITECTURES, Directed, Hopfield, Total
from eqprop.errors import InputError
from eqprop.experiment.methods import METHODS, Method, Phases
from eqprop.experiment.parsing import from_dict
from eqprop.nudge import Asymmetric, Holomorphic, Nudge, OneSided, RandomSign, Symmetric
from eqprop.relax import Block, Gradient, Langevin, Relaxation
from eqprop.train import Metric, Trainer, balanced

NUDGES: dict[str, type[Nudge]] = {
    "one-sided": OneSided,
    "random-sign": RandomSign,
    "symmetric": Symmetric,
    "holomorphic": Holomorphic,
}

MethodName = Literal[*METHODS]  # pyright: ignore[reportInvalidTypeForm]


@dataclass(frozen=True)
class NetworkOptions:
    """what the network is"""

    hidden: tuple[int, ...] = (500,)
    """units of each hidden layer; none for a network without"""
    architecture: Literal["layered", "skip", "fully-connected"] = "layered"
    """each layer joined to the next; the output joined to all layers besides; or every unit to every other, which has
    one hidden layer"""
    activation: Literal["hard_sigmoid", "hard_tanh", "sigmoid", "tanh"] = "hard_sigmoid"
    """ρ; the paper's is the hard sigmoid; with noise the default is tanh, for noise leaves any box"""
    gain: float = 0.5
    """initial weights: this times Glorot & Bengio's range; the paper's is 1, deep networks start better at 0.5"""
    bias: float = 0.0
    """initial biases of the outputs; those of hidden layers are 0"""


@dataclass(frozen=True)
class CostOptions:
    """what is wanted"""

    cost: Literal["squared", "cross-entropy"] = "squared"
    """squared error (the paper's) or softmax cross-entropy"""
    targets: tuple[float, float] = (0.0, 1.0)
    """squared error: what an output ought to be for other classes, and for its own; 0.2 0.8 keep off the ends of the
    box, where an output feels no small nudge"""
    scale: float = 1.0
    """cross-entropy: outputs are multiplied by it before the softmax"""
    l1: float = 0.0
    """penalty on the absolute value of all weights and biases"""
    l2: float = 0.0
    """penalty on half the square of all weights and biases"""


@dataclass(frozen=True)
class SettlingOptions:
    """how the network is nudged, and how it settles"""

    nudge: Literal["one-sided", "random-sign", "symmetric", "asymmetric", "holomorphic"] = "symmetric"
    """which values of β are compared: 0 and β, 0 and ±β by chance, β and −β, β and −1 / N, or six points on a
    circle of radius β in the complex plane (smooth activations only)"""
    beta: float | None = None
    """strength of the nudge, β; None: 1 / N with N hidden and output layers"""
    growth: float = 1.0
    """β is multiplied by it after each epoch"""
    relaxation: Literal["block", "gradient"] = "block"
    """block descent, or the paper's clipped gradient step; for fully connected networks the default is the latter, as
    synapses within a layer make the steps of block descent short"""
    omega: float | None = None
    """over-relaxation of block descent, ω; None: 1.2, rising to 1.5 for what still moves after 6 steps"""
    nudged_relaxation: Literal["block", "gradient"] | None = None
    """relaxation of the nudged phases, which then take all their steps: tol and accelerate are for the free phase
    only; None: as in the free phase"""
    epsilon: float = 0.5
    """step size of the gradient step, ε; with noise, the step of time"""
    free_steps: int | None = None
    """steps of the free phase; None: 2 N, short of the fixed points on purpose, or 7 N / ε if by gradient; with noise,
    of every phase, the second half of which is averaged"""
    nudged_steps: int | None = None
    """steps of each nudged phase; None: N, or N / ε if by gradient, the time a nudge takes to cross N layers"""
    tol: float | None = None
    """let an example rest once its residual is at most this; None: always take all steps"""
    accelerate: bool = False
    """extrapolate from each step and the one before (Anderson's method): pays where phases are long"""
    persistent: bool = False
    """start each free phase where that of the same example ended in the epoch before"""
    temperature: float = 0.001
    """strength of the noise, T: states follow e^(−F/T)"""


@dataclass(frozen=True)
class LearningOptions:
    """how the weights change"""

    method: MethodName = "equilibrium"  # pyright: ignore[reportInvalidTypeForm]
    """equilibrium propagation, or one of its relatives"""
    epochs: int = 10
    """passes over the training examples"""
    batch_size: int = 50
    """examples in a minibatch"""
    optimizer: Literal["sgd", "adam"] = "adam"
    """any optimizer will do in Python"""
    learning_rate: tuple[float, ...] = ()
    """one for all, or one for each of the N layers in order; none: 0.002 / N for adam, 0.2 / N for sgd"""
    momentum: float = 0.0
    """of sgd"""
    balance: bool = False
    """scale the rate of each layer so that ‖ΔW_k‖/‖W_k‖ is the same for all, as the paper chose its rates"""
    changes: bool = False
    """keep ‖ΔW_k‖/‖W_k‖, averaged over each epoch, in the history; takes a little time"""
    decay: float = 0.65
    """the learning rates are multiplied by it after each epoch"""
    shuffle: bool = True
    """visit the examples in a new order in each epoch; otherwise in the order of the data, in the same minibatches"""
    seed: int = 0
    """decides the initial weights, the order of the examples and the signs of random nudges"""
    valid: int | None = None
    """examples held out for validation; None: as is usual for the data set"""
    train: int | None = None
    """train on the first so many examples only; None: all"""


@dataclass(frozen=True)
class Experiment:
    """A network, trained by equilibrium propagation or a relative on a data set."""

    dataset: str
    network: NetworkOptions = field(default_factory=NetworkOptions)
    cost: CostOptions = field(default_factory=CostOptions)
    settling: SettlingOptions = field(default_factory=SettlingOptions)
    learning: LearningOptions = field(default_factory=LearningOptions)

    def __post_init__(self) -> None:
        if self.dataset not in NAMES:
            raise InputError(f"dataset={self.dataset!r}: choose one of {', '.join(NAMES)}")
        positive = ("free_steps", "nudged_steps", "epochs", "batch_size", "train")
        for name, low in [(name, 1) for name in positive] + [("valid", 0), ("seed", 0)]:
            value = self.flat()[name]
            if value is not None and value < low:
                raise InputError(f"{name}={value}: give a whole number of {low} or more")
        if self.learning.seed >= 2**32:
            raise InputError(f"seed={self.learning.seed}: give a number from 0 to 4294967295")
        if not 0 <= self.learning.momentum < 1:
            raise InputError(f"momentum={self.learning.momentum}: give a number from 0 to just below 1")
        if not 0 < self.network.gain < float("inf"):
            raise InputError(f"gain={self.network.gain}: give a positive number")
        if not abs(self.network.bias) < float("inf"):
            raise InputError(f"bias={self.network.bias}: give a finite number")
        if len(rates := self.learning.learning_rate) not in (0, 1, self.depth):
            raise InputError(f"learning_rate={rates}: give one rate, or one for each of the {self.depth} layers")
        if self.learning.balance and len(rates) > 1:
            raise InputError(f"learning_rate={rates} with balance, which finds the layers' rates itself: give one rate")
        if self.learning.balance and self.method.network is Directed:
            raise InputError(
                f"balance with method={self.learning.method!r}: it knows no feedback weights; leave it out"
            )
        self.build(2, 2)  # every part checks its own settings

    @classmethod
    def from_dict(cls, values: Any) -> "Experiment":
        """The inverse of `to_dict`; says what is wrong with values that are none."""
        return from_dict(cls, values, "the settings")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def flat(self) -> dict[str, Any]:
        """The settings by name, whatever group they are in."""
        groups = (vars(value) if is_dataclass(value) else {name: value} for name, value in vars(self).items())
        return {name: value for group in groups for name, value in group.items()}

    @property
    def depth(self) -> int:
        """N, the number of layers that settle, hidden and output."""
        return len(self.network.hidden) + 1

    def sizes(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """Units of each layer, from input to output."""
        return (inputs, *self.network.hidden, outputs)

    def name(self, inputs: int, outputs: int) -> str:
        """The network in short: 784-500-10, or 784-500-10-skip."""
        kind = self.network.architecture
        return "-".join(map(str, self.sizes(inputs, outputs))) + (f"-{kind}" if kind != "layered" else "")

    @property
    def method(self) -> Method:
        return METHODS[self.learning.method]

    def build(self, inputs: int, outputs: int) -> tuple[Any, Trainer]:
        """The network and its trainer, for examples with so many inputs and outputs."""
        layers, cost = self._layers(inputs, outputs), _cost(self.cost)
        try:
            net = self.method.network(layers)
        except InputError as error:
            raise InputError(
                f"architecture={self.network.architecture!r} with method={self.learning.method!r}: {error}"
            ) from error
        trainer = Trainer(
            Total(net, cost),
            self.method.rule(self._phases()),
            self._optimizer(layers),
            batch_size=self.learning.batch_size,
            rates=self._rates(net),
            decay=self.learning.decay,
            growth=self.settling.growth,
            persistent=self.settling.persistent or self.method.persistent,
            shuffle=self.learning.shuffle,
            metrics={"error": _misclassified(cost)},
            watch=_watch(net),
            changes=self.learning.changes,
        )
        return net, trainer

    def _layers(self, inputs: int, outputs: int) -> Hopfield:
        sizes, activation = self.sizes(inputs, outputs), ACTIVATIONS[self.network.activation]
        if self.network.architecture == "fully-connected" and len(sizes) != 3:
            raise InputError(
                f"hidden={self.network.hidden} with architecture='fully-connected', where all units are joined and "
                "hidden ones are one layer: give one number of units"
            )
        return ARCHITECTURES[self.network.architecture](*sizes, activation=activation)

    def _phases(self) -> Phases:
        chosen = self.settling
        if self.method.noise:
            return Phases(noisy := self._langevin(), noisy, self._nudge())
        kind = "gradient" if self.method.path else chosen.nudged_relaxation
        shared = {"tol": chosen.tol, "accelerate": chosen.accelerate}
        free = self._relaxation(chosen.relaxation, chosen.free_steps, (2, 7), shared)
        nudged = self._relaxation(
            kind or chosen.relaxation, chosen.nudged_steps, (1, 1), {} if kind else shared, backward=True
        )
        return Phases(free, nudged, self._nudge())

    def _langevin(self) -> Langevin:
        chosen = self.settling
        steps = chosen.free_steps or _iterations(7 * self.depth, chosen.epsilon)
        return Langevin(chosen.temperature, chosen.epsilon, burn_in=steps // 2, samples=steps - steps // 2, thin=1)

    def _optimizer(self, layers: Hopfield) -> optax.GradientTransformation:
        chosen = self.learning
        return _optimizer(chosen.optimizer, chosen.momentum, layers if chosen.balance else None, self.method.shrink)

    def _nudge(self) -> Nudge:
        usual = 1 / self.depth
        beta = usual if self.settling.beta is None else self.settling.beta
        if self.settling.nudge == "asymmetric":
            return Asymmetric(beta, push=usual)
        return NUDGES[self.settling.nudge](beta)

    def _relaxation(
        self, kind: str, steps: int | None, usual: tuple[int, int], shared: dict[str, Any], *, backward: bool = False
    ) -> Relaxation:
        """`usual`: sweeps for each of the N layers by block descent, and the time nε for each by gradient steps."""
        sweeps, time = (self.depth * each for each in usual)
        if kind == "block":
            return Block(steps or sweeps, **shared, omega=self.settling.omega, backward=backward)
        return Gradient(steps or _iterations(time, self.settling.epsilon), **shared, epsilon=self.settling.epsilon)

    def _rates(self, net: Any) -> Any:
        usual = (0.002 if self.learning.optimizer == "adam" else 0.2) / self.depth
        rates = [self.method.rate * rate for rate in self.learning.learning_rate or (usual,)]
        if len(rates) == 1:
            return rates[0]
        return net.per_layer(dict(zip(net.free, rates, strict=True)))


def _iterations(time: float, epsilon: float) -> int:
    """n = Δt/ε, rounded up: steps of size ε that take as long as that (section 5.1)."""
    if not 0 < epsilon < float("inf"):
        return 1  # whoever takes the steps will refuse it, in words
    return ceil(round(time / epsilon, 6))


def _cost(chosen: CostOptions) -> Cost:
    if chosen.cost == "squared":
        return SquaredError(l1=chosen.l1, l2=chosen.l2, low=chosen.targets[0], high=chosen.targets[1])
    return CrossEntropy(l1=chosen.l1, l2=chosen.l2, scale=chosen.scale)


# Functions are part of a compiled program and equal only to themselves: kept, so that building an experiment
# again does not compile it again.


@cache
def _misclassified(cost: Cost) -> Metric:
    return cost.misclassified


@cache
def _watch(net: Any) -> dict[str, Callable[[Any], Any]]:
    """The angle between forward and feedback weights, where these differ."""
    return {"angle": net.angle} if hasattr(net, "angle") else {}


@cache
def _optimizer(
    name: str, momentum: float, balanced_net: Hopfield | None, shrink: float
) -> optax.GradientTransformation:
    # The rates are the trainer's: there they are data, and changing them compiles nothing.
    parts = [optax.adam(1.0) if name == "adam" else optax.sgd(1.0, momentum or None)]
    parts += [balanced(balanced_net)] if balanced_net is not None else []
    # With the sign of a descent, for the optimizer has turned the gradient round already.
    parts += [optax.add_decayed_weights(-shrink)] if shrink else []
    return optax.chain(*parts) if len(parts) > 1 else parts[0]
