"""What can be chosen on the page: relaxations, nudges and rules, each with a name and a sentence.

Only what the system at hand can do is offered.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from eqprop.errors import InputError
from eqprop.nudge import Holomorphic, Nudge, OneSided, RandomSign, Symmetric
from eqprop.page.course import REST
from eqprop.relax import Block, Flow, Gradient, Langevin, Relaxation
from eqprop.rule import Rule
from eqprop.study.methods import METHODS, Phases, own
from eqprop.total import System

Made = TypeVar("Made")


class Choice(NamedTuple, Generic[Made]):
    """Something to choose: its name on the page, a sentence about it, and what it is."""

    title: str
    about: str
    made: Made


class Pair(NamedTuple):
    """The relaxations of the free phase and of the nudged ones."""

    free: Relaxation
    nudged: Relaxation


RELAXATIONS: dict[str, Choice[Pair]] = {
    "block": Choice(
        "Block descent",
        "Each layer in turn moves to where its energy is least. Quick: a dozen sweeps.",
        Pair(Block(60, REST), Block(60, REST, order="backward")),
    ),
    "accelerated": Choice(
        "Block descent, accelerated",
        "Block descent that also looks at where its last two sweeps were heading. The library's default.",
        Pair(Block(60, REST, accelerate=True), Block(60, REST, accelerate=True, order="backward")),
    ),
    "gradient": Choice(
        "The paper's step",
        "All units move a little down the slope of the energy at once (section 5.1).",
        Pair(Gradient(200, REST), Gradient(200, REST)),
    ),
    "flow": Choice(
        "Continuous time",
        "The differential equation that the paper's step approximates (section 2.2).",
        Pair(Flow(time=40.0, tol=1e-5), Flow(time=40.0, tol=1e-5)),
    ),
    "noise": Choice(
        "With noise",
        "Every unit also trembles, and never quite rests (appendix C).",
        Pair(
            Langevin(temperature=1e-3, dt=0.2, burn_in=50, samples=50, thin=1),
            Langevin(temperature=1e-3, dt=0.2, burn_in=50, samples=50, thin=1),
        ),
    ),
}
NUDGES: dict[str, Choice[Callable[[float], Nudge]]] = {
    "symmetric": Choice(
        "Both ways", "Pulled to the target and, from the same place, pushed away from it as hard.", Symmetric
    ),
    "one-sided": Choice("One way", "Pulled to the target, as in the paper (section 3.3).", OneSided),
    "random-sign": Choice("Random sign", "To the target or away from it, as a coin says (section 5.2).", RandomSign),
    "holomorphic": Choice(
        "Around a circle", "β takes complex values on a circle; real parts are shown.", lambda b: Holomorphic(abs(b))
    ),
}
ABOUT_RULES = {
    "equilibrium": "Compares the nudged states with each other, or with the free one (section 3.3).",
    "stdp": "Learns while the nudged state moves, as synapses do (section 2.4).",
    "stochastic": "Compares averages over noisy states (appendix C).",
    "negative": "Nudged away from the target only.",
    "contrastive-hebbian": "Compares the free state with one whose outputs are held at the target (section 4.1).",
    "coupled": "Compares the free state with one whose outputs are held a little nearer to the target.",
    "recurrent-backpropagation": "The exact gradient, by a linear system that settles (section 4.3).",
    "through-time": "The exact gradient of the steps that were taken (backpropagation through time).",
}


def usable(kinds: Mapping[str, Choice[Made]], check: Callable[[Made], Any]) -> dict[str, Choice[Made]]:
    """Those that the check does not refuse."""
    fit = {}
    for name, choice in kinds.items():
        try:
            check(choice.made)
        except InputError:
            continue
        fit[name] = choice
    return fit


def relaxations_for(F: System, own: Mapping[str, Choice[Pair]]) -> dict[str, Choice[Pair]]:
    """Those of one's own, and the library's that F can be settled by."""

    def check(pair: Pair) -> None:
        pair.free.check(F)
        pair.nudged.check(F)

    return dict(own) | usable({name: choice for name, choice in RELAXATIONS.items() if name not in own}, check)


def nudges_for(
    F: System, first: str | None, own: Mapping[str, Choice[Callable[[float], Nudge]]] | None = None
) -> dict[str, Choice[Any]]:
    """Those of one's own, and the library's that F can be nudged by, with one of them as the first."""
    kinds = dict(own or {}) | usable(NUDGES, lambda nudge: nudge(0.5).check(F))
    return {name: kinds[name] for name in sorted(kinds, key=lambda name: name != first)}


def rules_for(
    F: System, phases: Phases, own_rules: Mapping[str, Choice[Callable[[Phases], Rule]]]
) -> dict[str, Choice[Callable[[Phases], Rule]]]:
    """Those of one's own, and the methods of the library that learn in F by settling as in `phases`."""
    library = {
        name: Choice(METHODS[name].title, about, METHODS[name].rule)
        for name, about in ABOUT_RULES.items()
        if METHODS[name].network is own
    }
    kept = {name: choice for name, choice in library.items() if name not in own_rules}
    return dict(own_rules) | usable(kept, lambda rule: rule(phases_for(rule, phases)).check(F))


def phases_for(rule: Callable[[Phases], Rule], phases: Phases) -> Phases:
    """The phases, with relaxations of the kind that a rule insists on in place of others."""
    for free, second in (
        (phases.free, phases.second),
        (phases.free, RELAXATIONS["gradient"].made.nudged),
        (RELAXATIONS["noise"].made.free, RELAXATIONS["noise"].made.nudged),
    ):
        try:
            rule(replaced := phases._replace(free=free, second=second))
        except InputError:
            continue
        return replaced
    return phases
