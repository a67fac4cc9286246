"""Small total energies of every kind, on which the same properties are checked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from eqprop.cost import Cost, CrossEntropy, PhaseError, SquaredError
from eqprop.energy import (
    Activation,
    AveragePool,
    Hopfield,
    LogSumExp,
    MaxPool,
    Memory,
    Oscillators,
    Pooling,
    Power,
    Resistive,
    Separation,
    Shockley,
    SoftmaxPool,
    half_sigmoid,
    hard_sigmoid,
    sigmoid,
    smooth_step,
    tanh,
)
from eqprop.nudge import Holomorphic, Symmetric
from eqprop.readout import SoftmaxReadout
from eqprop.relax import Block, Gradient
from eqprop.rule import EquilibriumPropagation
from eqprop.state import Space
from eqprop.total import Blocks, Total, system
from eqprop.types import Array, Data, Key, Layers, Number, Scalar, Shape, State, Theta
from eqprop.verification.base import Subject

EXAMPLES, INPUTS, OUTPUTS = 3, 4, 3


@dataclass(frozen=True)
class Problem:
    """F, with θ, v and a start that fit it, drawn from a seed; in a `dark` one the first input is always 0.

    F is a `System`, whose energy tests look at.
    """

    F: Any
    theta: Callable[[Key], Theta]
    rest: Callable[[int], State]
    outputs: int = OUTPUTS
    dark: bool = False
    inputs: Shape = (INPUTS,)

    @property
    def block(self) -> bool:
        """Whether block descent applies."""
        return self.F.offer(Blocks) is not None

    def subject(self, name: str, seed: int = 3) -> Subject:
        """The problem as a subject of claims, which settles until nothing moves."""
        relaxation = precise(self.block)
        nudge = Symmetric() if self.F.space.bounded else Holomorphic()
        rule = EquilibriumPropagation(nudge, relaxation, relaxation)
        return Subject(name, self.F, *self.draw(seed), rule)

    def draw(self, seed: int) -> tuple[Theta, Data, State]:
        """θ, v and the start."""
        return self._program(jax.random.key(seed))

    @cached_property
    def _program(self) -> Callable[[Key], tuple[Theta, Data, State]]:
        """One program for all seeds, and not one for each operation."""
        return jax.jit(self._drawn)

    def _drawn(self, key: Key) -> tuple[Theta, Data, State]:
        key_theta, key_x, key_y = jax.random.split(key, 3)
        x = jax.random.uniform(key_x, (EXAMPLES, *self.inputs))
        x = x.at[:, 0].set(0) if self.dark else x
        y = jax.nn.one_hot(jax.random.randint(key_y, (EXAMPLES,), 0, OUTPUTS), OUTPUTS)
        return self.theta(key_theta), (x, y[:, : self.outputs]), self.rest(EXAMPLES)


def precise(block: bool) -> Gradient | Block:
    """Settles until nothing moves in double precision."""
    return Block(20_000, 1e-13, omega=1.1) if block else Gradient(20_000, 1e-13, epsilon=0.1)


def hopfield(net: Hopfield, cost: Cost | None = None, gain: float = 0.5, dark: bool = False) -> Problem:
    """A network; if `dark`, weights from the first input are 0, and nothing pulls at them."""

    def theta(key: Key) -> Theta:
        # Random biases put some units between their bounds and some at one of them.
        theta = net.init(key, gain) | (cost.init(jax.random.fold_in(key, 1), gain) if cost is not None else {})
        if dark:
            from_input = {synapse.name for synapse in net.synapses if synapse.pre == net.clamped}
            theta["W"] = {k: W.at[0].set(0) if k in from_input else W for k, W in theta["W"].items()}
        keys = jax.random.split(key, len(theta["b"]))
        b = {k: 0.3 + 0.3 * jax.random.normal(q, u.shape) for q, (k, u) in zip(keys, theta["b"].items(), strict=True)}
        return theta | {"b": b}

    outputs = net.free.get("output", OUTPUTS)  # a readout stands outside of the network
    return Problem(Total(net, cost or SquaredError()), theta, net.rest, outputs, dark, dict(net.layers)[net.clamped])


def layered(activation: Activation = hard_sigmoid, **kwargs: Any) -> Problem:
    return hopfield(Hopfield.layered(INPUTS, 6, 4, OUTPUTS, activation=activation), **kwargs)


def skip(activation: Activation = hard_sigmoid) -> Problem:
    sizes = {"input": INPUTS, "a": 6, "b": 4, "output": OUTPUTS}
    pairs = [("input", "a"), ("a", "b"), ("b", "output"), ("input", "output"), ("a", "output")]
    return hopfield(Hopfield(sizes, pairs, activation=activation))


def fully_connected(activation: Activation = hard_sigmoid) -> Problem:
    return hopfield(Hopfield.fully_connected(INPUTS, 7, OUTPUTS, activation=activation), gain=0.4)


def convolutional(
    pool: Pooling, activation: Activation = hard_sigmoid, *, side: int = 8, readout: bool = False
) -> Problem:
    """Two convolutions, each with pooling, and an output layer or a readout.

    Without bounds a `side` of 4 pixels will do. With them, all units of the second convolution could be at one.
    """
    net = Hopfield.convolutional(
        (side, side, 1), (2, 3), None if readout else OUTPUTS, pool=pool, activation=activation
    )
    return hopfield(net, SoftmaxReadout.of(net, OUTPUTS) if readout else None, gain=0.8)


def residual() -> Problem:
    """Convolutions with strides, and a skip past two of them."""
    # At a gain of 0.8 the least curvature is 0.09 in place of 0.57: the STDP claim holds there too, but its path takes
    # ten times as many steps to rest.
    return hopfield(Hopfield.residual((4, 4, 1), (2,), OUTPUTS), gain=0.4)


def resistive(net: Resistive) -> Problem:
    """A circuit whose conductances are well above 0, so that none is below when θ is varied."""

    def theta(key: Key) -> Theta:
        theta = net.init(key, gain=1.0)
        return theta | {"W": {name: g + 0.1 for name, g in theta["W"].items()}}

    return Problem(Total(net, SquaredError()), theta, net.space.rest, net.free["output"], inputs=(net.inputs_expected,))


def crossbars(diode: Shockley | None = None) -> Problem:
    """A layered circuit with diodes at its hidden nodes."""
    return resistive(Resistive.layered(INPUTS, 6, OUTPUTS, gain=4.0, diode=diode))


def bridge() -> Problem:
    """Two bridges side by side between two inputs, two rails and two outputs, with diodes both ways at one node."""
    pairs = [("x1", "a"), ("x1", "b"), ("x2", "b"), ("x2", "c"), ("a", "b"), ("b", "c"), ("a", "up"), ("c", "down")]
    pairs += [("a", "y1"), ("b", "y1"), ("b", "y2"), ("c", "y2"), ("y1", "down"), ("y2", "up")]
    return resistive(
        Resistive.netlist(
            pairs,
            inputs=["x1", "x2"],
            outputs=["y1", "y2"],
            rails={"up": 1.0, "down": -1.0},
            diodes={"b": 2},
            diode=Shockley(1e-2, 2.0),
        )
    )


def oscillators(net: Hopfield) -> Problem:
    """Phases with random fields of about 1."""
    energy = Oscillators(net)

    def theta(key: Key) -> Theta:
        theta = energy.init(key)
        fields, unravel = ravel_pytree({name: theta[name] for name in "bc"})
        return theta | unravel(fields + 0.3 * jax.random.normal(key, fields.shape))

    return Problem(Total(energy, PhaseError()), theta, energy.rest)


def memory(separation: Separation, gain: float) -> Problem:
    """Random patterns, whose second half is completed from the first, the input."""
    whole = Memory({"cue": INPUTS, "output": OUTPUTS}, separation)

    def energy(theta: Theta, x: Array, s: Layers) -> Scalar:
        return whole(theta, None, s | {"cue": x})

    space = Space({"output": OUTPUTS}, separation.low, separation.high)
    return Problem(Total(energy, SquaredError(), space=space), partial(whole.init, patterns=5, gain=gain), space.rest)


def spring_theta(key: Key) -> Theta:
    a, b = jax.random.split(key)
    return {
        "A": jax.random.normal(a, (OUTPUTS, INPUTS)),
        "k": jax.random.uniform(b, (OUTPUTS,), minval=0.5, maxval=2.0),
    }


def spring_energy(theta: Theta, x: Array, s: Array) -> Scalar:
    """Springs of stiffness k and a quartic stop hold s near A x; nothing Hopfield about it."""
    stretch = s - theta["A"] @ x
    return jnp.sum(theta["k"] * stretch**2) / 2 + jnp.sum(s**4) / 4 + jnp.sum(jnp.cos(s[1:] * s[:-1])) / 5


def spring_cost(theta: Theta, y: Array, s: Array) -> Scalar:
    return jnp.sum((s - y) ** 2) / 2


def tilted(theta: Theta, v: tuple[Array, Array], beta: Number, s: Array) -> Scalar:
    """An F that is not E + βC: β also bends the energy, and drives s through a sine (section 3.4)."""
    x, y = v
    drive = theta["A"] @ x + jnp.sin(beta) * y
    return (
        jnp.sum(theta["k"] * jnp.exp(beta / 3) * (s - drive) ** 2) / 2
        + jnp.sum(s**4) / 4
        + beta**2 * jnp.sum(s * theta["k"])
        + beta * jnp.sum((s - y) ** 2)
    )


def springs_at_rest(batch: int) -> Array:
    return jnp.zeros((batch, OUTPUTS))


def quadratic_theta(key: Key) -> Theta:
    a, b = jax.random.split(key)
    half = jax.random.normal(a, (OUTPUTS, OUTPUTS)) / 3
    return {"K": half @ half.T + jnp.eye(OUTPUTS), "B": jax.random.normal(b, (OUTPUTS, INPUTS))}


def quadratic(theta: Theta, x: Array, s: Array) -> Scalar:
    """½ sᵀ K s − sᵀ B x, whose minimum is K⁻¹ B x; only the symmetric part of K matters."""
    return s @ theta["K"] @ s / 2 - s @ theta["B"] @ x


def double_well_theta(key: Key) -> Theta:
    return {"a": jnp.array(1.0), "b": 0.1 + 0.1 * jax.random.uniform(key, (INPUTS,))}


def double_well(theta: Theta, x: Array, s: Array) -> Scalar:
    """a (s² − 1)² − (b·x) s: two minima, near −1 and 1."""
    return jnp.sum(theta["a"] * (s**2 - 1) ** 2 - theta["b"] @ x * s)


def double_well_cost(theta: Theta, y: Array, s: Array) -> Scalar:
    return jnp.sum((s - y[0]) ** 2) / 2


def left_well(batch: int) -> Array:
    return jnp.full((batch, 1), -0.8)


# With these gains there is one minimum: with several, two relaxations may rightly end in two of them.
# The figure of a claim is of the first subject that the claim applies to.
ZOO = {
    "layered, tanh": layered(tanh),
    "layered": layered(),
    "layered, sigmoid": layered(sigmoid, gain=3.0),
    "fully connected": fully_connected(),
    "fully connected, tanh": fully_connected(tanh),
    "skip": skip(),
    "skip, sigmoid": skip(sigmoid),
    "L2 penalty": layered(cost=SquaredError(l2=0.1)),
    "L1 penalty": layered(tanh, cost=SquaredError(l1=0.1), dark=True),
    "cross-entropy": layered(cost=CrossEntropy(scale=2.0)),
    "cross-entropy, tanh, L2": layered(tanh, cost=CrossEntropy(l2=0.05)),
    "double well": Problem(Total(double_well, double_well_cost), double_well_theta, left_well),
    "quadratic": Problem(Total(quadratic, spring_cost), quadratic_theta, springs_at_rest),
    "user energy": Problem(Total(spring_energy, spring_cost), spring_theta, springs_at_rest),
    "user F": Problem(system(tilted), spring_theta, springs_at_rest),
}
HOPFIELD = {name: problem for name, problem in ZOO.items() if problem.block}
IMAGES = {
    "convolution, max": convolutional(MaxPool()),
    "convolution, softmax": convolutional(SoftmaxPool(), smooth_step, side=4),
    "convolution, average, readout": convolutional(AveragePool(), half_sigmoid, readout=True),
    "residual": residual(),
}

CIRCUITS = {
    "circuit": crossbars(),
    "circuit, Shockley": crossbars(Shockley(1e-4, 1.1)),
    "circuit, bridge": bridge(),
}

# Energies that the field has found since: angles, and patterns that are stored.
SINCE = {
    "oscillators": oscillators(Hopfield.layered(INPUTS, 6, OUTPUTS)),
    "oscillators, lateral": oscillators(Hopfield.fully_connected(INPUTS, 5, OUTPUTS)),
    "attention memory": memory(LogSumExp(2.0), gain=1.5),
    "dense memory": memory(Power(3), gain=4.0),
}


def pair(width: float = 0.05) -> Subject:
    """Two leaky units without a synapse between them, u̇ = W x(t) − u, whose inputs are W = 1/`width` strong."""
    net = Hopfield({"current": 2, "units": 2}, [("current", "units")], clamped="current")
    theta = {"W": {"current-units": jnp.eye(2) / width}, "b": {"units": jnp.zeros(2)}}
    v = jnp.array([[0.02, 0.01]]), jnp.ones((1, 2))
    rule = EquilibriumPropagation(Symmetric(), precise(True), precise(True))
    return Subject("pair of units", Total(net, SquaredError(layer="units")), theta, v, net.rest(1), rule)


# `eqprop verify` leaves these out to save time: other subjects have each of their features.
SPARED = ("fully connected, tanh", "skip, sigmoid", "L2 penalty")
SUBJECTS: dict[str, Callable[[], Subject]] = {
    name: partial(problem.subject, name)
    for name, problem in (ZOO | IMAGES | CIRCUITS | SINCE).items()
    if name not in SPARED
}
# This one is so small that its distributions are known exactly, by sums over a grid of states, and over all states of
# a Boltzmann machine.
TWO_UNITS = hopfield(Hopfield.layered(INPUTS, 1, 1, activation=tanh), gain=1.0)
SUBJECTS["two units"] = partial(TWO_UNITS.subject, "two units")
SUBJECTS["pair of units"] = pair
