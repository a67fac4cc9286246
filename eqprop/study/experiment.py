"""An experiment: all that decides what a training run computes, and nothing else."""

from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache, cached_property
from math import inf, isfinite
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from eqprop.cost import CrossEntropy, OutputCost, SquaredError
from eqprop.data import Dataset, FiledSplit, Split
from eqprop.device import Exact, Reading, Writing
from eqprop.energy import (
    ACTIVATIONS,
    ARCHITECTURES,
    POOLINGS,
    Directed,
    Feedforward,
    Graph,
    Hopfield,
    Resistive,
    Shockley,
    binarised,
)
from eqprop.errors import InputError
from eqprop.memory import check_memory, size
from eqprop.readout import SoftmaxReadout
from eqprop.rule import Rule
from eqprop.rule.tuning import tune_nudge
from eqprop.store.schema import from_dict
from eqprop.study.checks import check
from eqprop.study.devices import reading, writing
from eqprop.study.methods import METHODS, Method, Network, Phases
from eqprop.study.options import (
    CircuitOptions,
    CostOptions,
    DeviceOptions,
    ImageOptions,
    LearningOptions,
    NetworkOptions,
    SettlingOptions,
)
from eqprop.study.phases import phases
from eqprop.total import Total
from eqprop.train import (
    Cosine,
    Feed,
    FlipAndCrop,
    Rated,
    Staircase,
    Trainer,
    TrainState,
    balanced,
)
from eqprop.types import Array, Key, Shape, Theta

IMAGE_ARCHITECTURES = ("conv", "residual")
MEASURED = 1000  # examples that are measured at a time
# Unless the method uses them, these reach no rule; others do, or shape the training state, whatever the method.
IDLE_BY_METHOD = ("nudge", "beta", "order", "omega", "epsilon", "free_steps", "nudged_steps", "temperature")
VERSION = 2  # of the settings as they are written: 1 had no version, and could have NaN where a setting did nothing


class Unchanging(eqx.Module):
    """A number to be watched that does not change; it is data, so that another one compiles nothing."""

    value: float

    def __call__(self, theta: Theta) -> Array:
        return jnp.asarray(self.value)


class Setup(NamedTuple):
    """What an experiment makes of a data set: everything that training needs.

    experiment: what it was made of.
    data: the data set, as the network takes it.
    marks: what tells the data from others, by part.
    train: those training examples of the data that the experiment uses.
    net: the energy.
    trainer: trains it.
    feed: the minibatches of `train`.
    state: where training begins; the seed decides it.
    """

    experiment: "Experiment"
    data: Dataset
    marks: dict[str, str]
    train: Split | FiledSplit
    net: Network
    trainer: Trainer
    feed: Feed
    state: TrainState

    @property
    def name(self) -> str:
        """The network in short, as 784-500-10."""
        return self.experiment.network_name(*self.experiment.widths(self.data))


@dataclass(frozen=True)
class Experiment:
    """A network, trained by equilibrium propagation or a relative on a data set."""

    dataset: str
    network: NetworkOptions = field(default_factory=NetworkOptions)
    cost: CostOptions = field(default_factory=CostOptions)
    settling: SettlingOptions = field(default_factory=SettlingOptions)
    learning: LearningOptions = field(default_factory=LearningOptions)
    images: ImageOptions = field(default_factory=ImageOptions)
    circuit: CircuitOptions = field(default_factory=CircuitOptions)
    devices: DeviceOptions = field(default_factory=DeviceOptions)

    def __post_init__(self) -> None:
        check(self)

    def writing(self) -> Writing:
        """How the devices of a circuit take a new weight."""
        return writing(self.devices, self.circuit, self.learning.seed)

    def reading(self) -> Reading:
        """How the states of a circuit are read."""
        return reading(self.devices, self._circuit(2, 2), self.learning.seed)

    @property
    def resists(self) -> bool:
        """Whether the network is a circuit."""
        return self.network.architecture == "resistive"

    @property
    def reads_out(self) -> bool:
        """Whether the outputs are a readout, outside of the state."""
        return self.cost.cost == "readout"

    @property
    def convolves(self) -> bool:
        """Whether the network sees images and not vectors."""
        return self.network.architecture in IMAGE_ARCHITECTURES

    @classmethod
    def from_dict(cls, values: Any, where: str = "the settings") -> "Experiment":
        """The inverse of `to_dict`; a setting that is missing has its default, an unknown one is refused.

        What earlier versions wrote is read as it was meant.
        """
        version = values.get("version", 1) if isinstance(values, dict) else VERSION
        if type(version) is not int or not 1 <= version <= VERSION:
            raise InputError(
                f"{where} have the version {version!r}, and this program knows those up to {VERSION}: "
                "use a newer version of eqprop"
            )
        if isinstance(values, dict):
            values = {name: value for name, value in values.items() if name != "version"}
        if version == 1:  # there a number that is not finite did nothing, or was refused
            values = {name: _finite(value) for name, value in values.items()}
        return from_dict(cls, values, where)

    def to_dict(self) -> dict[str, Any]:
        """The settings in their groups, for JSON; those that do nothing have their defaults."""
        return {"version": VERSION} | asdict(self.without_idle())

    def without_idle(self) -> "Experiment":
        """The same, with the defaults of settings that do nothing beside the others."""
        groups = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "dataset"}
        usual = {
            name: replace(group, **{k: getattr(type(group)(), k) for k in vars(group).keys() & self.idle.keys()})
            for name, group in groups.items()
        }
        return self if usual == groups else replace(self, **usual)

    @cached_property
    def idle(self) -> dict[str, str]:
        """The settings that do nothing beside the others, and why."""
        chosen, learning, uses = self.settling, self.learning, self.method.uses
        by_method = f"method={learning.method} does not use it"
        idle = {name: by_method for name in IDLE_BY_METHOD if name not in uses}
        kinds = {chosen.relaxation, chosen.nudged_relaxation or chosen.relaxation} if "relaxation" in uses else set()
        if "epsilon" in uses and kinds == {"block"} and not (self.method.noise or self.method.path):
            idle["epsilon"] = "block descent takes no steps of size ε"
        if "block" not in kinds:
            idle |= {name: idle.get(name, "no phase settles by block descent") for name in ("omega", "order")}
        if self.cost.cost != "squared":
            idle["targets"] = f"cost={self.cost.cost} has none"
        if self.cost.cost != "cross-entropy":
            idle["scale"] = f"cost={self.cost.cost} has none"
        if learning.optimizer == "adam":
            idle |= dict.fromkeys(("momentum", "nesterov"), "optimizer=adam has its own")
        if self.network.gains:
            idle["gain"] = f"gains={self.network.gains} has one for each synapse"
        if learning.schedule == "cosine":
            idle["decay"] = "schedule=cosine lets the rates fall"
        return idle

    def flat(self) -> dict[str, Any]:
        """The settings by name, whatever group they are in."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        groups = (vars(value) if is_dataclass(value) else {name: value} for name, value in values.items())
        return {name: value for group in groups for name, value in group.items()}

    @property
    def depth(self) -> int:
        """N, the number of layers that settle, hidden and output."""
        each = 2 if self.network.architecture == "residual" else 1
        return each * len(self.network.hidden) + (not self.reads_out)

    def widths(self, data: Dataset) -> tuple[int | Shape, int]:
        """The number of inputs, or their shape if the network sees images, and the number of classes."""
        inputs, outputs = data.widths
        return (data.image if self.convolves else inputs), outputs

    def network_name(self, inputs: int | Shape, outputs: int) -> str:
        """The network in short: 784-500-10, or 28x28x1-32-64-10-conv."""
        kind = self.network.architecture
        first = "x".join(map(str, inputs)) if isinstance(inputs, tuple) else inputs
        sizes = "-".join(map(str, (first, *self.network.hidden, outputs)))
        return sizes + (f"-{kind}" if kind != "layered" else "")

    @property
    def method(self) -> Method:
        """The row of `METHODS`."""
        return METHODS[self.learning.method]

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rate, or one for each layer; the default ones where none are chosen."""
        usual = (0.002 if self.learning.optimizer == "adam" else 0.2) / (self.method.block or self.depth)
        return tuple(self.method.rate * rate for rate in self.learning.learning_rate or (usual,))

    @cached_property
    def phases(self) -> Phases:
        """How the network settles, and how it is nudged in the first epoch; refuses what it cannot take."""
        return phases(self.settling, self.method, self.depth)

    def build(self, data: Dataset, mesh: Mesh | None = None) -> Setup:
        """All that training needs, for a data set; done once for each training, as it takes a moment.

        `mesh`: devices to train on together.
        """
        marks, data = data.marks, self.prepare(data)
        train = self.training_part(data)
        batch, shuffle = self.learning.batch_size, self.learning.shuffle
        feed = train.feed(batch, self._augment(), shuffle=shuffle, carry=self.settling.carry)
        net, trainer = self.assemble(*self.widths(data), feed.batches)
        self._check_memory(net, len(train) + len(data.valid))
        init_key, train_key = jax.random.split(jax.random.key(self.learning.seed))
        theta = self._theta(net, trainer, init_key)
        if self.settling.tune:
            trainer = self._tuned(trainer, theta, feed, train_key)
        trainer = trainer if mesh is None else replace(trainer, mesh=mesh)
        state = trainer.init(theta, feed, train_key, valid=len(data.valid))
        return Setup(self, data, marks, train, net, trainer, feed, state)

    def _check_memory(self, net: Network, examples: int) -> None:
        """Refuse what this machine's memory cannot hold: weights and what the optimizer keeps of them, and states."""
        chosen = self.learning
        kept = 2 if chosen.optimizer == "adam" else int(chosen.momentum > 0)
        steps = self.phases.free.steps if chosen.method == "through-time" else 1  # pyright: ignore[reportAttributeAccessIssue]
        persistent = self.settling.persistent or self.method.persistent
        rows = max(MEASURED, 3 * steps * chosen.batch_size) + persistent * examples
        weights, states = 4 * (2 + kept) * net.parameters, 4 * sum(net.free.values()) * rows
        check_memory(
            weights + states,
            f"this training ({size(weights)} for {net.parameters:,} weights, {size(states)} for states)",
            "lower --hidden or --batch-size",
        )

    def _tuned(self, trainer: Trainer, theta: Theta, feed: Feed, key: Key) -> Trainer:
        """The trainer with the β that errs least on the first minibatch, which the records of epochs show."""
        v, weight, _ = next(feed.epoch(key))
        v = jax.tree.map(lambda a: a[weight > 0], v)
        rule: Any = trainer.rule
        tuned = tune_nudge(rule, trainer.F, theta, v, trainer.rest(int((weight > 0).sum())), key)
        return replace(
            trainer, rule=replace(rule, nudge=tuned.nudge), watch={**trainer.watch, "beta": Unchanging(tuned.beta)}
        )

    def prepare(self, data: Dataset) -> Dataset:
        """The data set as the network takes it: for convolutions, images, which may be normalised."""
        if not self.convolves:
            return data
        mean, unit = None, 1.0
        if self.images.normalise:
            mean, deviation = self.training_part(data).colours(data.image)
            unit = deviation * self.images.deviations
        parts = {"train": data.train, "valid": data.valid, "test": data.test}
        images: Any = {part: split.as_images(data.image, mean, unit) for part, split in parts.items()}
        return replace(data, **images)

    def _augment(self) -> FlipAndCrop | None:
        chosen = self.images
        return FlipAndCrop(chosen.flip, chosen.crop) if chosen.flip or chosen.crop else None

    def _theta(self, net: Network, trainer: Trainer, key: Key) -> Theta:
        """The weights that training begins with."""
        cost, gains = trainer.F.cost, self.network.gains  # pyright: ignore[reportAttributeAccessIssue]  (a Total)
        each, last = self.network.gain, self.network.gain
        if gains:
            each, last = dict(zip(self.synapse_names(), gains, strict=False)), gains[-1]
        theta = net.init(key, each) | cost.init(jax.random.fold_in(key, 1), last)
        if self.network.bias:  # all classes alike mean nothing to a softmax
            theta["b"][cost.layer] += self.network.bias
        return trainer.F.project(theta)

    def synapse_names(self) -> list[str]:
        """The synapses in order, whatever the sizes of the data."""
        return [synapse.name for synapse in self.sketch().synapses]

    def sketch(self) -> Hopfield | Resistive:
        """The layers for data of a size that fits: of images with sides that can be halved, and are not too small."""
        if self.resists:
            return self._circuit(2, 2)
        plain = replace(self.network, padding=())  # the padding fits the sides of the data only
        side = max(plain.kernel, 8) * 2 ** len(plain.hidden)
        return _layers(plain, (side, side, 1) if self.convolves else 2, None if self.reads_out else 2)

    def training_part(self, data: Dataset) -> Split | FiledSplit:
        """The training examples that the experiment uses; refused if there are not enough."""
        wanted, available = self.learning.train, len(data.train)
        if wanted is not None and wanted > available:
            raise InputError(f"train={wanted}: there are {available} training examples besides the held-out ones")
        return data.train[:wanted]

    def assemble(self, inputs: int | Shape, outputs: int, batches: int = 1) -> tuple[Network, Trainer]:
        """The energy and its trainer, for examples with these numbers of inputs (or images of a shape) and outputs.

        `batches`: minibatches in an epoch, after which rates decay and the nudge grows.
        """
        if isinstance(inputs, tuple) and self.images.crop >= min(inputs[:2]):
            raise InputError(f"crop={self.images.crop}: images of {inputs[0]} × {inputs[1]} pixels are shifted by less")
        layers, chosen = self.layers(inputs, outputs), self.learning
        net, cost = self.energy(layers), self.make_cost(layers, outputs)
        balanced_net = layers if chosen.balance else None
        sgd = (chosen.momentum, chosen.nesterov)
        plain = _optimizer(chosen.optimizer, sgd, chosen.weight_decay, balanced_net, self.method.shrink)
        optimizer = Rated(plain, self._rates(net), self._schedule(batches))
        trainer = Trainer(
            Total(net, cost),
            self._rule(net, batches),
            self.writing().behind(optimizer) if self.resists else optimizer,
            persistent=self.settling.persistent or self.settling.carry or self.method.persistent,
            metrics={"error": cost.misclassified},
            watch={"angle": net.angle} if isinstance(net, Directed) else {},
            changes=chosen.changes,
        )
        return net, trainer

    def _rates(self, net: Network) -> Any:
        """One learning rate, or a tree like θ with those of the layers."""
        rates = self.rates
        if len(rates) == 1:
            return rates[0]
        layers = list(net.free)[-self.depth :]  # nothing learns at the nodes behind the sources of a circuit
        tree = net.per_layer(dict(zip(layers, rates, strict=False)))
        return tree | ({"readout": rates[-1]} if self.reads_out else {})

    def _schedule(self, batches: int) -> Staircase | Cosine:
        chosen = self.learning
        if chosen.schedule == "cosine":
            return Cosine(1.0, batches * chosen.epochs)
        return Staircase(1.0, batches, chosen.decay)

    def layers(self, inputs: int | Shape, outputs: int) -> Hopfield | Resistive:
        """The layers and synapses, on which the method may put another energy."""
        if self.resists and isinstance(inputs, int):
            return self._circuit(inputs, outputs)
        return _layers(self.network, inputs, None if self.reads_out else outputs)

    def _circuit(self, inputs: int, outputs: int) -> Resistive:
        chosen = self.circuit
        return Resistive.layered(
            inputs,
            *self.network.hidden,
            outputs,
            gain=chosen.input_gain,
            diode=Shockley(chosen.saturation, chosen.ideality) if chosen.diode == "shockley" else None,
            amplification=chosen.amplification,
            source_resistance=chosen.source_resistance,
            least=chosen.least,
            most=inf if chosen.most is None else chosen.most,
        )

    def make_cost(self, layers: Hopfield | Resistive | None = None, outputs: int = 2) -> OutputCost:
        """The cost; without layers, to see whether its settings will do."""
        chosen = self.cost
        penalties: dict[str, Any] = {"l1": chosen.l1, "l2": chosen.l2}
        if chosen.cost == "readout":
            return SoftmaxReadout.of(layers, outputs, **penalties) if layers else SoftmaxReadout(**penalties)
        if chosen.cost == "squared":
            return SquaredError(low=chosen.targets[0], high=chosen.targets[1], **penalties)
        return CrossEntropy(scale=chosen.scale, **penalties)

    def energy(self, layers: Hopfield | Resistive) -> Network:
        """The energy that the method puts on the layers."""
        try:
            energy = self.method.network(layers)
            if isinstance(energy, Feedforward):
                return replace(energy, linear=not self.reads_out)
            return energy
        except InputError as error:
            raise InputError(
                f"architecture={self.network.architecture!r} with method={self.learning.method!r}: {error}"
            ) from error

    def _rule(self, net: Network, batches: int) -> Rule:
        phases, growth = self.phases, self.settling.growth
        if self.method.moving:
            phases = phases._replace(rates=self._rates(net), schedule=self._schedule(batches))
        if growth != 1:
            grows = Staircase(phases.nudge.beta, batches, growth)
            phases = phases._replace(nudge=replace(phases.nudge, beta=grows))
        rule = self.method.rule(phases)
        if self.settling.surrogate:
            rule = replace(rule, surrogate=True)  # pyright: ignore[reportCallIssue]  (Equilibrium Propagation)
        if not self.resists or isinstance(reading := self.reading(), Exact):
            return rule
        return replace(rule, reading=reading)  # pyright: ignore[reportCallIssue]  (a rule that reads)


def _layers(chosen: NetworkOptions, inputs: int | Shape, outputs: int | None) -> Hopfield:
    """The layers and synapses; `outputs` is None where a readout takes their place."""
    net = _real_layers(chosen, inputs, outputs)
    return binarised(net) if chosen.weights == "binary" else net


def _real_layers(chosen: NetworkOptions, inputs: int | Shape, outputs: int | None) -> Hopfield:
    activation = ACTIVATIONS[chosen.activation]
    if not isinstance(inputs, tuple):
        return ARCHITECTURES[chosen.architecture](inputs, *chosen.hidden, outputs, activation=activation)
    if chosen.architecture == "residual":
        return Hopfield.residual(inputs, chosen.hidden, outputs, activation=activation)
    pool = None if chosen.pool == "none" else POOLINGS[chosen.pool](2)
    return Hopfield.convolutional(
        inputs,
        chosen.hidden,
        outputs,
        kernel=chosen.kernel,
        padding=chosen.padding or None,
        stride=2 if pool is None else 1,
        pool=pool,
        activation=activation,
    )


def _finite(value: Any) -> Any:
    """A table without its numbers that are not finite; what is no table is left to others."""
    if not isinstance(value, dict):
        return value
    numbers = {name: part if isinstance(part, list) else [part] for name, part in value.items()}
    return {k: v for k, v in value.items() if all(not isinstance(n, float) or isfinite(n) for n in numbers[k])}


# Functions are part of a compiled program and equal only to themselves. They are kept, so that the same settings give
# the same functions, and building an experiment again does not compile it again.


@cache
def _optimizer(
    name: str, sgd: tuple[float, bool], weight_decay: float, balanced_net: Graph | None, shrink: float
) -> optax.GradientTransformation:
    """The optimizer of learning rate 1; with `balanced_net`, the rates of its layers are scaled."""
    momentum, nesterov = sgd
    if name == "adam":
        parts = [optax.adamw(1.0, weight_decay=weight_decay) if weight_decay else optax.adam(1.0)]
    else:
        parts = [optax.add_decayed_weights(weight_decay)] if weight_decay else []
        parts += [optax.sgd(1.0, momentum or None, nesterov)]
    parts += [balanced(balanced_net)] if balanced_net is not None else []
    # With the sign of a descent, as the optimizer has negated the gradient already.
    parts += [optax.add_decayed_weights(-shrink)] if shrink else []
    return optax.chain(*parts) if len(parts) > 1 else parts[0]
