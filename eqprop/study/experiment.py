"""An experiment: all that decides what a training run computes, and nothing else."""

from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache, cached_property
from math import ceil, inf, isfinite
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from eqprop.cost import CrossEntropy, OutputCost, SquaredError
from eqprop.data import NAMES, Dataset, FiledSplit, Split
from eqprop.data.loading import is_folder
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
from eqprop.nudge import Asymmetric, Holomorphic, Nudge, OneSided, RandomSign, Symmetric
from eqprop.readout import SoftmaxReadout
from eqprop.relax import Block, Gradient, Langevin, Relaxation, Spiking
from eqprop.rule import Rule
from eqprop.rule.contrastive import Clamping
from eqprop.rule.equilibrium import TwoPhase
from eqprop.rule.tuning import tune_nudge
from eqprop.store.ranges import MOST_STEPS, check_options
from eqprop.store.schema import from_dict
from eqprop.study.devices import reading, writing
from eqprop.study.methods import METHODS, Method, Network, Phases, own
from eqprop.study.options import (
    CircuitOptions,
    CostOptions,
    DeviceOptions,
    ImageOptions,
    LearningOptions,
    NetworkOptions,
    SettlingOptions,
)
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

NUDGES: dict[str, type[Nudge]] = {
    "one-sided": OneSided,
    "random-sign": RandomSign,
    "symmetric": Symmetric,
    "holomorphic": Holomorphic,
}
IMAGE_ARCHITECTURES = ("conv", "residual")
MOST_LAYERS = 256
LEAST_BETA = 1e-6
MEASURED = 1000  # examples that are measured at a time
# Unless the method uses them, these reach no rule; others do, or shape the training state, whatever the method.
IDLE_BY_METHOD = ("nudge", "beta", "order", "omega", "epsilon", "free_steps", "nudged_steps", "temperature")
VERSION = 2  # of the settings as they are written: 1 had no version, and could have NaN where a setting did nothing


class Told(eqx.Module):
    """A number to be watched that does not change; it is data, so that another one compiles nothing."""

    value: float

    def __call__(self, theta: Theta) -> Array:
        return jnp.asarray(self.value)


class Setup(NamedTuple):
    """What an experiment makes of a data set: everything that training needs.

    experiment: what it was made of.
    data: the data set, as the network takes it.
    train: those training examples of the data that the experiment uses.
    net: the energy.
    trainer: trains it.
    feed: the minibatches of `train`.
    state: where training begins; the seed decides it.
    """

    experiment: "Experiment"
    data: Dataset
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
        if self.dataset not in NAMES and not is_folder(self.dataset):
            raise InputError(
                f"dataset={self.dataset!r}: choose one of {', '.join(NAMES)}; or a folder, as ./{self.dataset}"
            )
        self._check_ranges()
        layers = self.depth + self.reads_out
        if len(rates := self.learning.learning_rate) not in (0, 1, layers):
            raise InputError(f"learning_rate={rates}: give one rate, or one for each of the {layers} layers")
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
        for name in ("surrogate", "tune"):
            if getattr(self.settling, name) and name not in self.method.uses:
                raise InputError(f"{name}: method={self.learning.method!r} cannot do that; choose equilibrium")
        if self.settling.tune and self.settling.growth != 1:
            raise InputError(f"tune and growth={self.settling.growth} exclude each other: leave one out")
        if self.settling.carry and (self.settling.persistent or self.method.persistent):
            raise InputError(
                "carry and persistent exclude each other: states belong to rows or to examples; leave one out"
            )
        self._check_moving()
        self._check_spiking()
        self._check_images()
        self._check_circuit()
        self._check_gains()
        _ = self.phases, self._cost()  # which check themselves
        self._check_together()

    def _check_ranges(self) -> None:
        groups = (self.network, self.cost, self.settling, self.learning, self.images, self.circuit, self.devices)
        for group in groups:
            check_options(group)
        if len(self.network.hidden) > MOST_LAYERS:
            raise InputError(f"hidden has {len(self.network.hidden)} layers: give {MOST_LAYERS} at the most")
        self._check_sense()
        if any(self.learning.learning_rate) != bool(self.learning.learning_rate):
            raise InputError(f"learning_rate={self.learning.learning_rate}: at a rate of 0 nothing is learned")
        self._check_idle()
        if self.network.architecture == "fully-connected" and len(self.network.hidden) != 1:
            raise InputError(
                f"hidden={self.network.hidden} with architecture='fully-connected', where all units are joined and "
                "hidden ones are one layer: give one number of units"
            )

    def _check_sense(self) -> None:
        """Refuse numbers that are in range, and with which nothing can be learned."""
        beta, epsilon, targets = self.settling.beta, self.settling.epsilon, self.cost.targets
        if beta is not None and 0 < abs(beta) < LEAST_BETA:
            raise InputError(
                f"beta={beta:g}: phases would differ by less than single precision has; give {LEAST_BETA:g} or more"
            )
        if epsilon >= 2 and not self.resists and "epsilon" not in self.idle:
            raise InputError(f"epsilon={epsilon:g}: steps of 2 or more never come to rest; give 1 or less")
        rho = ACTIVATIONS[self.network.activation]
        boxed = not (self.resists or self.convolves) and self.cost.cost == "squared"
        if boxed and not rho.low <= min(targets) <= max(targets) <= rho.high:
            raise InputError(
                f"targets={targets}: outputs of {rho.name} are from {rho.low:g} to {rho.high:g}; give such numbers"
            )
        if targets[0] == targets[1] and "targets" not in self.idle:
            raise InputError(f"targets={targets}: an output's own class and the others need different ones")

    def _check_idle(self) -> None:
        """Refuse settings that would do nothing beside the others."""
        reads_out = "the cost is a readout"
        idle = (
            (self.reads_out and self.network.bias != 0, "bias", reads_out),
            (self.reads_out and self.cost.targets != CostOptions().targets, "targets", reads_out),
            (not self.images.normalise and self.images.deviations != 1, "deviations", "images are not normalised"),
            (self.reads_out and self.cost.scale != CostOptions().scale, "scale", reads_out),
        )
        for does_nothing, name, why in idle:
            if does_nothing:
                raise InputError(f"{name}={self.flat()[name]} does nothing, as {why}: leave it out")

    def _check_together(self) -> None:
        """Refuse layers, a cost and a method of which one cannot take another, on a network of any size."""
        if self.network.architecture in ("layered", "skip") and self.cost.cost == "squared":
            return  # which suit every method
        layers = self._sketch()
        F = Total(self._energy(layers), self._cost(layers))
        if "nudge" in self.method.uses:
            self.phases.nudge.check(F)
        try:
            self.method.rule(self.phases).check(F)
        except InputError as error:
            raise InputError(f"cost={self.cost.cost!r} with method={self.learning.method!r}: {error}") from error

    def _check_moving(self) -> None:
        """Refuse what would make another step of the weights than the one that they took."""
        chosen = self.learning
        others = {"momentum": chosen.momentum, "weight_decay": chosen.weight_decay, "balance": chosen.balance}
        if self.method.moving and (chosen.optimizer != "sgd" or any(others.values())):
            name, value = next(((k, v) for k, v in others.items() if v), ("optimizer", chosen.optimizer))
            raise InputError(
                f"{name}={value} with method={chosen.method!r}, whose weights move by gradient descent while the "
                "network settles: give --optimizer sgd, without momentum, weight decay and balance"
            )

    def _check_spiking(self) -> None:
        """Refuse spikes without rates, or with a rule that draws no new ones, and settings that do nothing for them."""
        chosen = self.settling
        if chosen.relaxation != "spiking":
            return
        if not isinstance(self.method.rule(self._phases()), TwoPhase):
            raise InputError(
                f"relaxation='spiking' with method={self.learning.method!r}, which contrasts no two phases of spikes: "
                "choose equilibrium, vector-field, …"
            )
        if self.network.activation != "hard_sigmoid" or self.convolves or self.resists:
            raise InputError(
                f"relaxation='spiking' with activation={self.network.activation!r}, "
                f"architecture={self.network.architecture!r}: spikes need rates from 0 to 1, those of hard sigmoids"
            )
        usual = SettlingOptions()
        for name in ("nudged_relaxation", "omega", "tol", "accelerate", "precision", "order"):
            if getattr(chosen, name) != getattr(usual, name):
                raise InputError(f"{name}={getattr(chosen, name)} does nothing for spikes: leave it out")

    def _check_gains(self) -> None:
        gains = self.network.gains
        if gains and len(gains) != (count := len(self._synapse_names()) + self.reads_out):
            raise InputError(f"gains={gains}: give one for each of the {count} synapses, the readout last, or none")

    def _check_images(self) -> None:
        """Refuse settings for images where there are none, and others where they do not apply."""
        net, usual = self.network, NetworkOptions()
        if not self.convolves:
            given = {"kernel": net.kernel, "padding": net.padding, "pool": net.pool} | vars(self.images)
            plain = vars(usual) | vars(ImageOptions())
            for name, value in given.items():
                if value != plain[name]:
                    raise InputError(f"{name}={value!r} is for convolutions: choose --net conv, or leave it out")
            if self.reads_out:
                raise InputError("cost='readout' is for networks that see images: choose --net conv, or cross-entropy")
            return
        if not net.hidden:
            raise InputError(f"hidden=() with architecture={net.architecture!r}: give the channels of each layer")
        own = (net.kernel, net.padding, net.pool) != (usual.kernel, usual.padding, usual.pool)
        if net.architecture == "residual" and own:
            raise InputError(
                "residual blocks have kernels of 3 × 3 and no pooling: leave --kernel, --padding, --pool out"
            )
        if net.padding and len(net.padding) != len(net.hidden):
            raise InputError(f"padding={net.padding}: give one number for each of the {len(net.hidden)} convolutions")
        if any(pixels < 0 for pixels in net.padding):
            raise InputError(f"padding={net.padding}: give whole numbers of pixels, 0 or more")
        if net.kernel % 2 == 0 or net.kernel < 1:
            raise InputError(f"kernel={net.kernel}: give an odd number of pixels")
        if self.images.crop < 0:
            raise InputError(f"crop={self.images.crop}: give a whole number of pixels, 0 or more")
        if self.learning.balance:
            raise InputError("balance is for networks of vectors: give a learning rate for each layer instead")

    def _check_circuit(self) -> None:
        """Refuse settings of circuits where there is none, and others where they mean nothing to one."""
        net, usual = self.network, NetworkOptions()
        if not self.resists:
            plain = vars(CircuitOptions()) | vars(DeviceOptions())
            for name, value in (vars(self.circuit) | vars(self.devices)).items():
                if value != plain[name]:
                    raise InputError(f"{name}={value!r} is for circuits: choose --net resistive, or leave it out")
            return
        if net.weights != usual.weights:
            raise InputError(f"weights={net.weights!r}: conductances have no sign; leave it out")
        if net.activation != usual.activation or net.bias != usual.bias:
            raise InputError("a circuit has diodes and rails: leave --activation and --bias out")
        if self.circuit.diode == "ideal" and (self.circuit.saturation, self.circuit.ideality) != (1e-7, 1.0):
            raise InputError("saturation and ideality are those of real diodes: give --diode shockley")
        if self.learning.balance:
            raise InputError("balance is for networks of neurons: give a learning rate for each layer instead")
        if self.method.network is not own:
            raise InputError(
                f"method={self.learning.method!r} puts an energy of its own on the layers, and a circuit has one: "
                "choose equilibrium, coupled, …"
            )
        reading, rule = self._reading(), self.method.rule(self.phases)
        if not isinstance(reading, Exact) and not isinstance(rule, TwoPhase | Clamping):
            raise InputError(
                f"method={self.learning.method!r} compares no readings of two phases: leave --volts, --bits, "
                "--read-noise, --offset and --reads out, or choose equilibrium"
            )
        if not isinstance(reading, Exact) and self.settling.nudge == "holomorphic":
            raise InputError("nudge='holomorphic': complex states cannot be read by a device; choose symmetric")
        _ = self._writing()  # which checks itself

    def _writing(self) -> Writing:
        return writing(self.devices, self.circuit, self.learning.seed)

    def _reading(self) -> Reading:
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
        if version == 1:  # where a number that is not finite did nothing, or it would have been refused
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
        return self._phases()

    def build(self, data: Dataset, mesh: Mesh | None = None) -> Setup:
        """All that training needs, for a data set; done once for each training, as it takes a moment.

        `mesh`: devices to train on together.
        """
        data = self.prepare(data)
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
        return Setup(self, data, train, net, trainer, feed, state)

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
            trainer, rule=replace(rule, nudge=tuned.nudge), watch={**trainer.watch, "beta": Told(tuned.beta)}
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
            each, last = dict(zip(self._synapse_names(), gains, strict=False)), gains[-1]
        theta = net.init(key, each) | cost.init(jax.random.fold_in(key, 1), last)
        if self.network.bias:  # all classes alike mean nothing to a softmax
            theta["b"][cost.layer] += self.network.bias
        return trainer.F.project(theta)

    def _synapse_names(self) -> list[str]:
        """The synapses in order, whatever the sizes of the data."""
        return [synapse.name for synapse in self._sketch().synapses]

    def _sketch(self) -> Hopfield | Resistive:
        """The layers for data of a size that fits: of images with sides that can be halved, and are not too small."""
        if self.resists:
            return self._circuit(2, 2)
        plain = replace(self.network, padding=())  # which fits the sides of the data only
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
        net, cost = self._energy(layers), self._cost(layers, outputs)
        balanced_net = layers if chosen.balance else None
        sgd = (chosen.momentum, chosen.nesterov)
        plain = _optimizer(chosen.optimizer, sgd, chosen.weight_decay, balanced_net, self.method.shrink)
        optimizer = Rated(plain, self._rates(net), self._schedule(batches))
        trainer = Trainer(
            Total(net, cost),
            self._rule(net, batches),
            self._writing().behind(optimizer) if self.resists else optimizer,
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

    def _cost(self, layers: Hopfield | Resistive | None = None, outputs: int = 2) -> OutputCost:
        """The cost; without layers, to see whether its settings will do."""
        chosen = self.cost
        penalties: dict[str, Any] = {"l1": chosen.l1, "l2": chosen.l2}
        if chosen.cost == "readout":
            return SoftmaxReadout.of(layers, outputs, **penalties) if layers else SoftmaxReadout(**penalties)
        if chosen.cost == "squared":
            return SquaredError(low=chosen.targets[0], high=chosen.targets[1], **penalties)
        return CrossEntropy(scale=chosen.scale, **penalties)

    def _energy(self, layers: Hopfield | Resistive) -> Network:
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
        if not self.resists or isinstance(reading := self._reading(), Exact):
            return rule
        return replace(rule, reading=reading)  # pyright: ignore[reportCallIssue]  (a rule that reads)

    def _phases(self) -> Phases:
        chosen = self.settling
        if chosen.relaxation == "spiking":
            free = self._spiking(chosen.free_steps)
            return Phases(free, self._spiking(chosen.nudged_steps or free.steps), self._nudge())
        if self.method.noise:
            return Phases(noisy := self._langevin(), noisy, self._nudge())
        kind = "gradient" if self.method.path else chosen.nudged_relaxation
        if self.method.moving:  # in each of all steps
            kind = kind or chosen.relaxation
        shared = {"tol": chosen.tol, "accelerate": chosen.accelerate}
        free = self._relaxation(chosen.relaxation, chosen.free_steps, (2, 7), shared, order=chosen.order)
        nudged = self._relaxation(
            kind or chosen.relaxation, chosen.nudged_steps, (1, 1), {} if kind else shared, order="backward"
        )
        return Phases(free, nudged, self._nudge())

    def _langevin(self) -> Langevin:
        chosen = self.settling
        steps = chosen.free_steps or _iterations(7 * self.depth, chosen.epsilon)
        return Langevin(chosen.temperature, chosen.epsilon, burn_in=steps // 2, samples=steps - steps // 2, thin=1)

    def _spiking(self, steps: int | None) -> Spiking:
        steps = steps or _iterations(7 * self.depth, self.settling.epsilon)
        return Spiking(self.settling.epsilon, burn_in=steps // 2, samples=steps - steps // 2)

    def _nudge(self) -> Nudge:
        usual = 1 / self.depth
        beta = (self.method.beta or usual) if self.settling.beta is None else self.settling.beta
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
        shared = shared | {"precision": None if self.settling.precision == "float32" else self.settling.precision}
        if kind == "block":
            return Block(steps or sweeps, **shared, omega=self.settling.omega, order=order)
        return Gradient(steps or _iterations(time, self.settling.epsilon), **shared, epsilon=self.settling.epsilon)


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


def _iterations(time: float, epsilon: float) -> int:
    """n = Δt/ε, rounded up: the number of steps of size ε that take the time Δt (section 5.1)."""
    if not 0 < epsilon < inf:
        return 1  # the relaxation refuses such an ε, in words
    if time / epsilon > MOST_STEPS:
        raise InputError(
            f"epsilon={epsilon:g}: a phase would take {time / epsilon:.3g} steps; give a larger one, or --free-steps "
            f"and --nudged-steps up to {MOST_STEPS:,}"
        )
    return ceil(round(time / epsilon, 6))


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
