"""The ways to learn that are compared: Equilibrium Propagation and its relatives (section 4), a row for each.

Every row is an energy on the same layers and a rule, so that all train through the same loop. A rule that is added
here can be trained with (`eqprop train --method`), is compared (`eqprop compare`), and passes the tests that all do.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import optax

from eqprop.energy import BoltzmannMachine, Chain, Directed, Feedforward, Hopfield, Resistive, XieSeung, identity
from eqprop.energy.variant import Variant
from eqprop.errors import InputError
from eqprop.nudge import Nudge, OneSided
from eqprop.relax import Block, ErrorDescent, Forward, Gibbs, Gradient, Langevin, Relaxation, Stepwise
from eqprop.rule import (
    STDP,
    AsymmetricEquilibriumPropagation,
    Backpropagation,
    BackpropagationThroughTime,
    BoltzmannLearning,
    BoltzmannLikelihood,
    ChainPropagation,
    ContinualEquilibriumPropagation,
    ContrastiveDivergence,
    ContrastiveHebbian,
    CoupledLearning,
    DyadicEquilibriumPropagation,
    EquilibriumPropagation,
    RecurrentBackpropagation,
    Rule,
    StochasticEquilibriumPropagation,
    VectorField,
)

Network: TypeAlias = Hopfield | Resistive | Variant
"""An energy on layers and synapses, which can begin its own θ."""
Kind = TypeVar("Kind", bound=Relaxation)


class Phases(NamedTuple):
    """What the settings say about settling: the relaxations of the free and of the second phase, and the nudge.

    For rules that move the weights themselves also the learning rates, and the schedule that they follow.
    """

    free: Relaxation
    second: Relaxation
    nudge: Nudge
    rates: Any = 0.01
    schedule: Callable[[Any], Any] | None = None


PER_BLOCK = 2
"""Layers in a block of a chain."""
NUDGE = {"nudge", "beta", "growth"}
TUNED = {"surrogate", "tune"}
FREE = {"relaxation", "order", "omega", "epsilon", "free_steps", "tol", "accelerate", "persistent", "carry"}
SECOND = {"nudged_steps", "nudged_relaxation"}
NUDGED, BACKWARD = "nudged or clamped", "derivatives travel back"
SAMPLED, DIRECTED = "Boltzmann machines", "feedback weights of their own"
EXACT = Block(steps=2000, tol=1e-6, omega=1.0)
CONVERGED = RecurrentBackpropagation(EXACT, replace(EXACT, order="backward"))


def own(layers: Any) -> Any:
    """The energy of the layers themselves."""
    return layers


@dataclass(frozen=True)
class Method:
    """A way to learn.

    title: the name of the method in tables.
    family: the group of relatives with which it is shown.
    first, second: its two phases, in the words of the paper's table of correspondences (section 4) where it has them.
    rule: makes the rule, given how to settle.
    network: makes the energy, given the layers.
    uses: those settings of settling that matter to it.
    persistent: whether an example always goes on from where it last ended.
    shrink: the part of itself that each weight loses in an update, at a learning rate of 1.
    rate: multiplies the learning rate that is asked for.
    beta: β where none is asked for; None: 1 / N.
    block: the layers of a block, where they settle block by block; None: all settle together.
    path: whether the second phase always takes gradient steps, as a rule needs that learns along the way.
    moving: whether weights move by their learning rates in the second phase already, as plain gradient descent does.
    noise: whether Langevin dynamics take the place of settling, in both phases.
    inside: whether targets must lie inside of the bounds of a clipped activation, as outputs at a bound do not learn.
    truth: the rule that gives the true gradient of what the method's network predicts, for comparison.
    """

    title: str
    family: str
    first: str
    second: str
    rule: Callable[[Phases], Rule]
    network: Callable[[Any], Network] = own
    uses: frozenset[str] = frozenset(FREE | SECOND)
    persistent: bool = False
    shrink: float = 0.0
    rate: float = 1.0
    beta: float | None = None
    block: int | None = None
    path: bool = False
    moving: bool = False
    noise: bool = False
    inside: bool = False
    truth: Rule = CONVERGED


def _equilibrium(phases: Phases) -> Rule:
    return EquilibriumPropagation(phases.nudge, phases.free, phases.second)


def _chain(layers: Hopfield) -> Chain:
    """The layers in blocks; outputs are linear, as those of a feed-forward network."""
    rho = layers.rho | {list(layers.free)[-1]: identity}
    net = Hopfield(dict(layers.layers), layers.synapses, clamped=layers.clamped, activation=rho)
    return Chain(net, PER_BLOCK)


def _predictive(phases: Phases) -> Rule:
    steps = _only(Stepwise, phases.second).steps
    return EquilibriumPropagation(phases.nudge, Forward(), ErrorDescent(steps))


def _negative(phases: Phases) -> Rule:
    return EquilibriumPropagation(OneSided(_opposite(phases.nudge.beta)), phases.free, phases.second)


@cache  # the same function for the same schedule, so that nothing compiles twice
def _opposite(beta: float | optax.Schedule) -> float | optax.Schedule:
    return (lambda step: -1 * beta(step)) if callable(beta) else -beta


def _xie_seung(phases: Phases) -> Rule:
    free, second = (_feed_forward(relaxation) for relaxation in (phases.free, phases.second))
    return ContrastiveHebbian(free, second)


def _only(kind: type[Kind], relaxation: Relaxation) -> Kind:
    """The relaxation, which must be of the kind that a rule asks for."""
    if not isinstance(relaxation, kind):
        raise InputError(f"relaxation={relaxation!r}: this method settles by {kind.__name__}")
    return relaxation


def _feed_forward(relaxation: Relaxation) -> Relaxation:
    """Weak feedback leaves nothing to over-relax, and layers that differ in stiffness by powers of γ."""
    if not isinstance(relaxation, Block):
        raise InputError("relaxation=gradient: layers of Xie & Seung differ in stiffness by 1/γ; use block descent")
    return replace(relaxation, omega=1.0 if relaxation.omega is None else relaxation.omega)


def _continual(phases: Phases) -> Rule:
    second = _only(Stepwise, phases.second)
    return ContinualEquilibriumPropagation(phases.nudge, phases.free, second, phases.rates, phases.schedule)


def _fixed_feedback(layers: Hopfield) -> Directed:
    """With the same feedback weights whatever the seed."""
    return Directed.with_fixed_feedback(layers, jax.random.key(0))


# The positive phase of a Boltzmann machine: with one hidden layer, one sweep from the clamped outputs is exact. Deeper
# machines would need more sweeps, but do not learn from scratch anyhow.
ONE_SWEEP = Gibbs(burn_in=0, samples=1)
MACHINE: dict[str, Any] = {
    "network": BoltzmannMachine,
    "uses": frozenset(),
    "rate": 10.0,
    "truth": BoltzmannLikelihood(),
}

METHODS = {
    "equilibrium": Method(
        "Equilibrium Propagation",
        NUDGED,
        "free phase",
        "weakly clamped phase",
        _equilibrium,
        uses=frozenset(NUDGE | FREE | SECOND | {"precision"} | TUNED),
    ),
    "stdp": Method(
        "EP by STDP",
        NUDGED,
        "free phase",
        "weakly clamped phase, learning on the way",
        lambda phases: STDP(phases.nudge, phases.free, _only(Gradient, phases.second)),
        uses=frozenset(NUDGE | FREE | {"nudged_steps"}),
        path=True,
    ),
    "continual": Method(
        "Continual EP",
        NUDGED,
        "free phase",
        "weakly clamped phase, weights moving",
        _continual,
        uses=frozenset(NUDGE | FREE | SECOND),
        moving=True,
    ),
    "stochastic": Method(
        "EP with noise",
        NUDGED,
        "free phase, sampled",
        "weakly clamped phase, sampled",
        lambda phases: StochasticEquilibriumPropagation(phases.nudge, _only(Langevin, phases.free)),
        uses=frozenset(NUDGE | {"temperature", "epsilon", "free_steps"}),
        noise=True,
    ),
    "negative": Method(
        "EP, nudged away only",
        NUDGED,
        "free phase",
        "weakly clamped phase, β < 0",
        _negative,
        uses=frozenset({"beta", "growth", "precision"} | FREE | SECOND),
        inside=True,
    ),
    "contrastive-hebbian": Method(
        "Contrastive Hebbian learning",
        NUDGED,
        "free phase (or negative phase)",
        "clamped phase (or positive phase)",
        lambda phases: ContrastiveHebbian(phases.free, phases.second),
    ),
    "coupled": Method(
        "Coupled learning",
        NUDGED,
        "free phase",
        "partly clamped phase",
        lambda phases: CoupledLearning(0.5, phases.free, phases.second),
    ),
    "recurrent-backpropagation": Method(
        "Recurrent backpropagation",
        BACKWARD,
        "free phase",
        "recurrent backprop, linear",
        lambda phases: RecurrentBackpropagation(phases.free, phases.second),
        inside=True,
    ),
    "through-time": Method(
        "Backpropagation through time",
        BACKWARD,
        "free phase",
        "backward pass through its steps",
        lambda phases: BackpropagationThroughTime(_only(Stepwise, phases.free)),
        uses=frozenset((FREE - {"tol", "accelerate"}) | {"precision"}),
        inside=True,
    ),
    "backpropagation": Method(
        "Backpropagation",
        BACKWARD,
        "forward pass",
        "backward pass",
        lambda _: Backpropagation(),
        network=Feedforward,
        uses=frozenset(),
        truth=Backpropagation(),
    ),
    "chain": Method(
        "EP blocks, backpropagation between",
        BACKWARD,
        "free phase, block by block",
        "weakly clamped phase of each block",
        lambda phases: ChainPropagation(phases.nudge, phases.free, phases.second),
        network=_chain,
        uses=frozenset(NUDGE | FREE | SECOND),
        beta=0.1,
        block=PER_BLOCK,
    ),
    "predictive-coding": Method(
        "EP of predictive coding",
        NUDGED,
        "forward pass",
        "weakly clamped phase of the errors",
        _predictive,
        network=Feedforward,
        uses=frozenset(NUDGE | {"nudged_steps"} | TUNED),
        beta=0.05,
        truth=Backpropagation(),
    ),
    "xie-seung": Method(
        "Xie & Seung",
        NUDGED,
        "free phase, weak feedback",
        "clamped phase",
        _xie_seung,
        network=XieSeung,
        uses=frozenset((FREE | SECOND) - {"epsilon"}),
    ),
    "boltzmann": Method(
        "Boltzmann machine learning",
        SAMPLED,
        "negative phase, sampled",
        "positive phase, clamped, sampled",
        lambda _: BoltzmannLearning(clamped=ONE_SWEEP, chain=Gibbs(burn_in=20, samples=10)),
        **MACHINE,
    ),
    "contrastive-divergence": Method(
        "Contrastive divergence, CD-1",
        SAMPLED,
        "positive phase, clamped, sampled",
        "one sweep of the negative phase",
        lambda _: ContrastiveDivergence(clamped=ONE_SWEEP),
        **MACHINE,
    ),
    "persistent-divergence": Method(
        "Persistent CD",
        SAMPLED,
        "negative phase, carried on",
        "positive phase, clamped, sampled",
        lambda _: BoltzmannLearning(clamped=ONE_SWEEP, chain=Gibbs(burn_in=4, samples=1)),
        persistent=True,
        **MACHINE,
    ),
    "vector-field": Method(
        "EP in a vector field",
        DIRECTED,
        "free phase, own feedback weights",
        "weakly clamped phase",
        lambda phases: VectorField(phases.nudge, phases.free, phases.second),
        network=Directed,
        uses=frozenset(NUDGE | FREE | SECOND),
    ),
    "asymmetric": Method(
        "Asymmetric EP",
        DIRECTED,
        "free phase, own feedback weights",
        "weakly clamped phase, weights exchanged",
        lambda phases: AsymmetricEquilibriumPropagation(phases.nudge, phases.free, phases.second),
        network=Directed,
        uses=frozenset(NUDGE | FREE | SECOND),
    ),
    "dyadic": Method(
        "Dyadic EP",
        DIRECTED,
        "free phase, own feedback weights",
        "pair of states, weakly clamped",
        lambda phases: DyadicEquilibriumPropagation(phases.nudge.beta, phases.free, phases.second),
        network=Directed,
        uses=frozenset({"beta"} | FREE | SECOND),
    ),
    "fixed-feedback": Method(
        "EP, fixed random feedback",
        DIRECTED,
        "free phase, fixed feedback weights",
        "weakly clamped phase",
        lambda phases: VectorField(phases.nudge, phases.free, phases.second),
        network=_fixed_feedback,
        uses=frozenset(NUDGE | FREE | SECOND),
    ),
    "kolen-pollack": Method(
        "EP, Kolen–Pollack",
        DIRECTED,
        "free phase, own feedback weights",
        "weakly clamped phase",
        _equilibrium,
        network=Directed,
        uses=frozenset(NUDGE | FREE | SECOND),
        shrink=1.0,
    ),
}
