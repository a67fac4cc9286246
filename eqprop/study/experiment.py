"""An experiment: all that decides what a training run computes, and nothing else."""

from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache, cached_property
from math import ceil, inf
from typing import Any, Literal, NamedTuple

import jax
import optax

from eqprop.cost import CrossEntropy, OutputCost, SquaredError
from eqprop.data import NAMES, Dataset, Split
from eqprop.energy import ACTIVATIONS, ARCHITECTURES, Directed, Hopfield
from eqprop.errors import InputError
from eqprop.nudge import Asymmetric, Holomorphic, Nudge, OneSided, RandomSign, Symmetric
from eqprop.relax import Block, Gradient, Langevin, Relaxation
from eqprop.rule import Rule
from eqprop.study.methods import METHODS, Method, Network, Phases, hopfield
from eqprop.study.options import CostOptions, LearningOptions, NetworkOptions, SettlingOptions
from eqprop.study.parsing import from_dict
from eqprop.total import Total
from eqprop.train import Arrays, InOrder, Rated, Shuffled, Staircase, Trainer, TrainState, balanced

NUDGES: dict[str, type[Nudge]] = {
    "one-sided": OneSided,
    "random-sign": RandomSign,
    "symmetric": Symmetric,
    "holomorphic": Holomorphic,
}


class Setup(NamedTuple):
    """What an experiment makes of a data set: everything that training needs.

    experiment, data: what it was made of.
    train: those training examples of the data that the experiment uses.
    net: the energy.
    trainer: trains it.
    feed: the minibatches of `train`.
    state: where training begins; the seed decides it.
    """

    experiment: "Experiment"
    data: Dataset
    train: Split
    net: Network
    trainer: Trainer
    feed: Arrays
    state: TrainState

    @property
    def name(self) -> str:
        """The network in short, as 784-500-10."""
        return self.experiment.network_name(*self.data.widths)


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
        self._check_ranges()
        if len(rates := self.learning.learning_rate) not in (0, 1, self.depth):
            raise InputError(f"learning_rate={rates}: give one rate, or one for each of the {self.depth} layers")
        if self.learning.balance and len(rates) > 1:
            raise InputError(f"learning_rate={rates} with balance, which finds the layers' rates itself: give one rate")
        if self.learning.balance and self.method.network is Directed:
            raise InputError(
                f"balance with method={self.learning.method!r}: it knows no feedback weights; leave it out"
            )
        if self.settling.growth != 1 and "growth" not in self.method.uses:
            raise InputError(
                f"growth={self.settling.growth}: method={self.learning.method!r} has no nudge to grow; leave it at 1"
            )
        _ = self.parts  # which check themselves
        if self.network.architecture == "fully-connected" and self.method.network is not hopfield:
            self._energy(self.layers(2, 2))  # which most other energies refuse

    def _check_ranges(self) -> None:
        values = self.flat()
        counts = ("free_steps", "nudged_steps", "epochs", "batch_size", "train")
        for name, low in [(name, 1) for name in counts] + [("valid", 0), ("seed", 0)]:
            if values[name] is not None and values[name] < low:
                raise InputError(f"{name}={values[name]}: give a whole number of {low} or more")
        if self.learning.seed >= 2**32:
            raise InputError(f"seed={self.learning.seed}: give a number from 0 to 4294967295")
        if not 0 <= self.learning.momentum < 1:
            raise InputError(f"momentum={self.learning.momentum}: give a number from 0 to just below 1")
        if not 0 < self.network.gain < inf:
            raise InputError(f"gain={self.network.gain}: give a positive number")
        if not abs(self.network.bias) < inf:
            raise InputError(f"bias={self.network.bias}: give a finite number")
        for name in ("decay", "growth"):
            if not 0 < values[name] < inf:
                raise InputError(f"{name}={values[name]}: give a positive factor, 1 for no change")
        if not all(0 <= rate < inf for rate in self.learning.learning_rate):
            raise InputError(f"learning_rate={self.learning.learning_rate}: learning rates are 0 or more")
        if self.network.architecture == "fully-connected" and len(self.network.hidden) != 1:
            raise InputError(
                f"hidden={self.network.hidden} with architecture='fully-connected', where all units are joined and "
                "hidden ones are one layer: give one number of units"
            )

    @classmethod
    def from_dict(cls, values: Any, where: str = "the settings") -> "Experiment":
        """The inverse of `to_dict`; a setting that is missing has its default, an unknown one is refused."""
        return from_dict(cls, values, where)

    def to_dict(self) -> dict[str, Any]:
        """The settings in their groups, for JSON."""
        return asdict(self)

    def flat(self) -> dict[str, Any]:
        """The settings by name, whatever group they are in."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        groups = (vars(value) if is_dataclass(value) else {name: value} for name, value in values.items())
        return {name: value for group in groups for name, value in group.items()}

    @property
    def depth(self) -> int:
        """N, the number of layers that settle, hidden and output."""
        return len(self.network.hidden) + 1

    def sizes(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """Units of each layer, from input to output."""
        return (inputs, *self.network.hidden, outputs)

    def network_name(self, inputs: int, outputs: int) -> str:
        """The network in short: 784-500-10, or 784-500-10-skip."""
        kind = self.network.architecture
        return "-".join(map(str, self.sizes(inputs, outputs))) + (f"-{kind}" if kind != "layered" else "")

    @property
    def method(self) -> Method:
        """The row of `METHODS`."""
        return METHODS[self.learning.method]

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rate, or one for each layer; the default ones where none are chosen."""
        usual = (0.002 if self.learning.optimizer == "adam" else 0.2) / self.depth
        return tuple(self.method.rate * rate for rate in self.learning.learning_rate or (usual,))

    @cached_property
    def parts(self) -> tuple[OutputCost, Phases]:
        """The cost, the relaxations and the nudge, which refuse settings that they cannot take."""
        return _cost(self.cost), self._phases()

    @property
    def phases(self) -> Phases:
        """How the network settles, and how it is nudged in the first epoch."""
        return self.parts[1]

    def build(self, data: Dataset) -> Setup:
        """All that training needs, for a data set; done once for each training, as it takes a moment."""
        train = self.training_part(data)
        feed = (Shuffled if self.learning.shuffle else InOrder)(train.v, self.learning.batch_size)
        net, trainer = self.assemble(*data.widths, feed.batches)
        init_key, train_key = jax.random.split(jax.random.key(self.learning.seed))
        theta = net.init(init_key, self.network.gain)
        theta["b"][self.parts[0].layer] += self.network.bias
        state = trainer.init(theta, feed, train_key, valid=len(data.valid))
        return Setup(self, data, train, net, trainer, feed, state)

    def training_part(self, data: Dataset) -> Split:
        """The training examples that the experiment uses; refused if there are not enough."""
        wanted, available = self.learning.train, len(data.train)
        if wanted is not None and wanted > available:
            raise InputError(f"train={wanted}: there are {available} training examples besides the held-out ones")
        return data.train[:wanted]

    def assemble(self, inputs: int, outputs: int, batches: int = 1) -> tuple[Network, Trainer]:
        """The energy and its trainer, for examples with these numbers of inputs and outputs.

        `batches`: minibatches in an epoch, after which rates decay and the nudge grows.
        """
        layers, cost, chosen = self.layers(inputs, outputs), self.parts[0], self.learning
        net = self._energy(layers)
        plain = _optimizer(chosen.optimizer, chosen.momentum, layers if chosen.balance else None, self.method.shrink)
        rates = self.rates
        each = rates[0] if len(rates) == 1 else net.per_layer(dict(zip(net.free, rates, strict=True)))
        trainer = Trainer(
            Total(net, cost),
            self._rule(batches),
            Rated(plain, each, Staircase(1.0, batches, chosen.decay)),
            persistent=self.settling.persistent or self.method.persistent,
            metrics={"error": cost.misclassified},
            watch={"angle": net.angle} if isinstance(net, Directed) else {},
            changes=chosen.changes,
        )
        return net, trainer

    def layers(self, inputs: int, outputs: int) -> Hopfield:
        """The layers and synapses, on which the method may put another energy."""
        activation = ACTIVATIONS[self.network.activation]
        return ARCHITECTURES[self.network.architecture](*self.sizes(inputs, outputs), activation=activation)

    def _energy(self, layers: Hopfield) -> Network:
        """The energy that the method puts on the layers."""
        try:
            return self.method.network(layers)
        except InputError as error:
            raise InputError(
                f"architecture={self.network.architecture!r} with method={self.learning.method!r}: {error}"
            ) from error

    def _rule(self, batches: int) -> Rule:
        phases, growth = self.phases, self.settling.growth
        if growth != 1:
            grows = Staircase(phases.nudge.beta, batches, growth)
            phases = phases._replace(nudge=replace(phases.nudge, beta=grows))
        return self.method.rule(phases)

    def _phases(self) -> Phases:
        chosen = self.settling
        if self.method.noise:
            return Phases(noisy := self._langevin(), noisy, self._nudge())
        kind = "gradient" if self.method.path else chosen.nudged_relaxation
        shared = {"tol": chosen.tol, "accelerate": chosen.accelerate}
        free = self._relaxation(chosen.relaxation, chosen.free_steps, (2, 7), shared)
        nudged = self._relaxation(
            kind or chosen.relaxation, chosen.nudged_steps, (1, 1), {} if kind else shared, order="backward"
        )
        return Phases(free, nudged, self._nudge())

    def _langevin(self) -> Langevin:
        chosen = self.settling
        steps = chosen.free_steps or _iterations(7 * self.depth, chosen.epsilon)
        return Langevin(chosen.temperature, chosen.epsilon, burn_in=steps // 2, samples=steps - steps // 2, thin=1)

    def _nudge(self) -> Nudge:
        usual = 1 / self.depth
        beta = usual if self.settling.beta is None else self.settling.beta
        if self.settling.nudge == "asymmetric":
            return Asymmetric(beta, push=usual)
        return NUDGES[self.settling.nudge](beta)

    def _relaxation(
        self,
        kind: str,
        steps: int | None,
        usual: tuple[int, int],
        shared: dict[str, Any],
        *,
        order: Literal["forward", "backward", "both"] = "forward",
    ) -> Relaxation:
        """`usual`: sweeps for each of the N layers by block descent, and the time nε for each by gradient steps."""
        sweeps, time = (self.depth * each for each in usual)
        if kind == "block":
            return Block(steps or sweeps, **shared, omega=self.settling.omega, order=order)
        return Gradient(steps or _iterations(time, self.settling.epsilon), **shared, epsilon=self.settling.epsilon)


def _iterations(time: float, epsilon: float) -> int:
    """n = Δt/ε, rounded up: the number of steps of size ε that take the time Δt (section 5.1)."""
    if not 0 < epsilon < inf:
        return 1  # the relaxation refuses such an ε, in words
    return ceil(round(time / epsilon, 6))


def _cost(chosen: CostOptions) -> OutputCost:
    if chosen.cost == "squared":
        return SquaredError(l1=chosen.l1, l2=chosen.l2, low=chosen.targets[0], high=chosen.targets[1])
    return CrossEntropy(l1=chosen.l1, l2=chosen.l2, scale=chosen.scale)


# Functions are part of a compiled program and equal only to themselves. They are kept, so that the same settings give
# the same functions, and building an experiment again does not compile it again.


@cache
def _optimizer(
    name: str, momentum: float, balanced_net: Hopfield | None, shrink: float
) -> optax.GradientTransformation:
    """The optimizer of learning rate 1; with `balanced_net`, the rates of its layers are scaled."""
    parts = [optax.adam(1.0) if name == "adam" else optax.sgd(1.0, momentum or None)]
    parts += [balanced(balanced_net)] if balanced_net is not None else []
    # With the sign of a descent, as the optimizer has negated the gradient already.
    parts += [optax.add_decayed_weights(-shrink)] if shrink else []
    return optax.chain(*parts) if len(parts) > 1 else parts[0]
