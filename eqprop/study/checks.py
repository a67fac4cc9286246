"""Which settings of an experiment go together: one place for the command line, files of settings, and Python."""

from typing import TYPE_CHECKING

from eqprop.data import NAMES
from eqprop.data.loading import is_folder
from eqprop.device import Exact
from eqprop.energy import ACTIVATIONS, Directed
from eqprop.errors import InputError
from eqprop.rule.contrastive import Clamping
from eqprop.rule.equilibrium import TwoPhase
from eqprop.store.ranges import check_options
from eqprop.study.methods import own
from eqprop.study.options import (
    CircuitOptions,
    CostOptions,
    DeviceOptions,
    ImageOptions,
    NetworkOptions,
    SettlingOptions,
)
from eqprop.total import Total

if TYPE_CHECKING:
    from eqprop.study.experiment import Experiment

MOST_LAYERS = 256
LEAST_BETA = 1e-6


def check(of: "Experiment") -> None:
    """Refuse settings that are out of range, mean nothing beside the others, or cannot go together."""
    if of.dataset not in NAMES and not is_folder(of.dataset):
        raise InputError(f"dataset={of.dataset!r}: choose one of {', '.join(NAMES)}; or a folder, as ./{of.dataset}")
    _check_ranges(of)
    layers = of.depth + of.reads_out
    if len(rates := of.learning.learning_rate) not in (0, 1, layers):
        raise InputError(f"learning_rate={rates}: give one rate, or one for each of the {layers} layers")
    if of.learning.balance and len(rates) > 1:
        raise InputError(f"learning_rate={rates} with balance, which finds the layers' rates itself: give one rate")
    if of.learning.balance and of.method.network is Directed:
        raise InputError(f"balance with method={of.learning.method!r}: it knows no feedback weights; leave it out")
    if of.settling.growth != 1 and "growth" not in of.method.uses:
        raise InputError(
            f"growth={of.settling.growth}: method={of.learning.method!r} has no nudge to grow; leave it at 1"
        )
    for name in ("surrogate", "tune"):
        if getattr(of.settling, name) and name not in of.method.uses:
            raise InputError(f"{name}: method={of.learning.method!r} cannot do that; choose equilibrium")
    if of.settling.tune and of.settling.growth != 1:
        raise InputError(f"tune and growth={of.settling.growth} exclude each other: leave one out")
    if of.settling.carry and (of.settling.persistent or of.method.persistent):
        raise InputError("carry and persistent exclude each other: states belong to rows or to examples; leave one out")
    _check_moving(of)
    _check_spiking(of)
    _check_images(of)
    _check_circuit(of)
    _check_gains(of)
    _ = of.phases, of.make_cost()  # both check themselves
    _check_together(of)


def _check_ranges(of: "Experiment") -> None:
    groups = (
        of.network,
        of.cost,
        of.settling,
        of.learning,
        of.images,
        of.circuit,
        of.devices,
    )
    for group in groups:
        check_options(group)
    if len(of.network.hidden) > MOST_LAYERS:
        raise InputError(f"hidden has {len(of.network.hidden)} layers: give {MOST_LAYERS} at the most")
    _check_sense(of)
    if any(of.learning.learning_rate) != bool(of.learning.learning_rate):
        raise InputError(f"learning_rate={of.learning.learning_rate}: at a rate of 0 nothing is learned")
    _check_idle(of)
    if of.network.architecture == "fully-connected" and len(of.network.hidden) != 1:
        raise InputError(
            f"hidden={of.network.hidden} with architecture='fully-connected', where all units are joined and "
            "hidden ones are one layer: give one number of units"
        )


def _check_sense(of: "Experiment") -> None:
    """Refuse numbers that are in range, and with which nothing can be learned."""
    beta, epsilon, targets = of.settling.beta, of.settling.epsilon, of.cost.targets
    if beta is not None and 0 < abs(beta) < LEAST_BETA:
        raise InputError(
            f"beta={beta:g}: phases would differ by less than single precision has; give {LEAST_BETA:g} or more"
        )
    if epsilon >= 2 and not of.resists and "epsilon" not in of.idle:
        raise InputError(f"epsilon={epsilon:g}: steps of 2 or more never come to rest; give 1 or less")
    rho = ACTIVATIONS[of.network.activation]
    boxed = not (of.resists or of.convolves) and of.cost.cost == "squared"
    if boxed and not rho.low <= min(targets) <= max(targets) <= rho.high:
        raise InputError(
            f"targets={targets}: outputs of {rho.name} are from {rho.low:g} to {rho.high:g}; give such numbers"
        )
    if targets[0] == targets[1] and "targets" not in of.idle:
        raise InputError(f"targets={targets}: an output's own class and the others need different ones")


def _check_idle(of: "Experiment") -> None:
    """Refuse settings that would do nothing beside the others."""
    reads_out = "the cost is a readout"
    idle = (
        (of.reads_out and of.network.bias != 0, "bias", reads_out),
        (of.reads_out and of.cost.targets != CostOptions().targets, "targets", reads_out),
        (
            not of.images.normalise and of.images.deviations != 1,
            "deviations",
            "images are not normalised",
        ),
        (of.reads_out and of.cost.scale != CostOptions().scale, "scale", reads_out),
    )
    for does_nothing, name, why in idle:
        if does_nothing:
            raise InputError(f"{name}={of.flat()[name]} does nothing, as {why}: leave it out")


def _check_together(of: "Experiment") -> None:
    """Refuse layers, a cost and a method of which one cannot take another, on a network of any size."""
    if of.network.architecture in ("layered", "skip") and of.cost.cost == "squared":
        return  # these suit every method
    layers = of.sketch()
    F = Total(of.energy(layers), of.make_cost(layers))
    if "nudge" in of.method.uses:
        of.phases.nudge.check(F)
    try:
        of.method.rule(of.phases).check(F)
    except InputError as error:
        raise InputError(f"cost={of.cost.cost!r} with method={of.learning.method!r}: {error}") from error


def _check_moving(of: "Experiment") -> None:
    """Refuse what would make another step of the weights than the one that they took."""
    chosen = of.learning
    others = {"momentum": chosen.momentum, "weight_decay": chosen.weight_decay, "balance": chosen.balance}
    if of.method.moving and (chosen.optimizer != "sgd" or any(others.values())):
        name, value = next(((k, v) for k, v in others.items() if v), ("optimizer", chosen.optimizer))
        raise InputError(
            f"{name}={value} with method={chosen.method!r}, whose weights move by gradient descent while the "
            "network settles: give --optimizer sgd, without momentum, weight decay and balance"
        )


def _check_spiking(of: "Experiment") -> None:
    """Refuse spikes without rates, or with a rule that draws no new ones, and settings that do nothing for them."""
    chosen = of.settling
    if chosen.relaxation != "spiking":
        return
    if not isinstance(of.method.rule(of.phases), TwoPhase):
        raise InputError(
            f"relaxation='spiking' with method={of.learning.method!r}, which contrasts no two phases of spikes: "
            "choose equilibrium, vector-field, …"
        )
    if of.network.activation != "hard_sigmoid" or of.convolves or of.resists:
        raise InputError(
            f"relaxation='spiking' with activation={of.network.activation!r}, "
            f"architecture={of.network.architecture!r}: spikes need rates from 0 to 1, those of hard sigmoids"
        )
    usual = SettlingOptions()
    for name in ("nudged_relaxation", "omega", "tol", "accelerate", "precision", "order"):
        if getattr(chosen, name) != getattr(usual, name):
            raise InputError(f"{name}={getattr(chosen, name)} does nothing for spikes: leave it out")


def _check_gains(of: "Experiment") -> None:
    gains = of.network.gains
    if gains and len(gains) != (count := len(of.synapse_names()) + of.reads_out):
        raise InputError(f"gains={gains}: give one for each of the {count} synapses, the readout last, or none")


def _check_images(of: "Experiment") -> None:
    """Refuse settings for images where there are none, and others where they do not apply."""
    net, usual = of.network, NetworkOptions()
    if not of.convolves:
        given = {"kernel": net.kernel, "padding": net.padding, "pool": net.pool} | vars(of.images)
        plain = vars(usual) | vars(ImageOptions())
        for name, value in given.items():
            if value != plain[name]:
                raise InputError(f"{name}={value!r} is for convolutions: choose --net conv, or leave it out")
        if of.reads_out:
            raise InputError("cost='readout' is for networks that see images: choose --net conv, or cross-entropy")
        return
    if not net.hidden:
        raise InputError(f"hidden=() with architecture={net.architecture!r}: give the channels of each layer")
    own = (net.kernel, net.padding, net.pool) != (usual.kernel, usual.padding, usual.pool)
    if net.architecture == "residual" and own:
        raise InputError("residual blocks have kernels of 3 × 3 and no pooling: leave --kernel, --padding, --pool out")
    if net.padding and len(net.padding) != len(net.hidden):
        raise InputError(f"padding={net.padding}: give one number for each of the {len(net.hidden)} convolutions")
    if any(pixels < 0 for pixels in net.padding):
        raise InputError(f"padding={net.padding}: give whole numbers of pixels, 0 or more")
    if net.kernel % 2 == 0 or net.kernel < 1:
        raise InputError(f"kernel={net.kernel}: give an odd number of pixels")
    if of.images.crop < 0:
        raise InputError(f"crop={of.images.crop}: give a whole number of pixels, 0 or more")
    if of.learning.balance:
        raise InputError("balance is for networks of vectors: give a learning rate for each layer instead")


def _check_circuit(of: "Experiment") -> None:
    """Refuse settings of circuits where there is none, and others where they mean nothing to one."""
    net, usual = of.network, NetworkOptions()
    if not of.resists:
        plain = vars(CircuitOptions()) | vars(DeviceOptions())
        for name, value in (vars(of.circuit) | vars(of.devices)).items():
            if value != plain[name]:
                raise InputError(f"{name}={value!r} is for circuits: choose --net resistive, or leave it out")
        return
    if net.weights != usual.weights:
        raise InputError(f"weights={net.weights!r}: conductances have no sign; leave it out")
    if net.activation != usual.activation or net.bias != usual.bias:
        raise InputError("a circuit has diodes and rails: leave --activation and --bias out")
    if of.circuit.diode == "ideal" and (of.circuit.saturation, of.circuit.ideality) != (
        1e-7,
        1.0,
    ):
        raise InputError("saturation and ideality are those of real diodes: give --diode shockley")
    if of.learning.balance:
        raise InputError("balance is for networks of neurons: give a learning rate for each layer instead")
    if of.method.network is not own:
        raise InputError(
            f"method={of.learning.method!r} puts an energy of its own on the layers, and a circuit has one: "
            "choose equilibrium, coupled, …"
        )
    reading, rule = of.reading(), of.method.rule(of.phases)
    if not isinstance(reading, Exact) and not isinstance(rule, TwoPhase | Clamping):
        raise InputError(
            f"method={of.learning.method!r} compares no readings of two phases: leave --volts, --bits, "
            "--read-noise, --offset and --reads out, or choose equilibrium"
        )
    if not isinstance(reading, Exact) and of.settling.nudge == "holomorphic":
        raise InputError("nudge='holomorphic': complex states cannot be read by a device; choose symmetric")
    _ = of.writing()  # it checks itself
