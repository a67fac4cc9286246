"""An update of a network whose feedback has weights of its own, by each rule for vector fields."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.nets import recipe
from benchmarks.report import Report
from benchmarks.timing import race, spread
from eqprop.cost import SquaredError
from eqprop.energy import Directed, Hopfield
from eqprop.rule import AsymmetricEquilibriumPropagation, DyadicEquilibriumPropagation, Rule, VectorField
from eqprop.study.methods import Phases
from eqprop.total import Reversal, Total
from eqprop.total.base import Ability
from eqprop.train import Shuffled, Trainer

TEXT = """
An update of a network with feedback weights of its own, in minibatches of 100 by the default recipe: the time beside
that of `VectorField`, in processor time. Asymmetric EP settles its nudged phases with forward and feedback weights
exchanged; *by derivatives* it does not know that, and multiplies by Jᵀ in every step, as for a vector field of one's
own.
"""
BATCH = 100


class Unreversed(Total):
    """A network that does not say how it is reversed."""

    def offer(self, ability: type[Ability]) -> Ability | None:
        return None if ability is Reversal else super().offer(ability)


RULES: dict[str, tuple[type[Total], Callable[[Phases], Rule]]] = {
    "vector field": (Total, lambda p: VectorField(p.nudge, p.free, p.second)),
    "asymmetric EP": (Total, lambda p: AsymmetricEquilibriumPropagation(p.nudge, p.free, p.second)),
    "asymmetric EP by derivatives": (
        Unreversed,
        lambda p: AsymmetricEquilibriumPropagation(p.nudge, p.free, p.second),
    ),
    "dyadic EP": (Total, lambda p: DyadicEquilibriumPropagation(p.nudge.beta, p.free, p.second)),
}


def run(short: bool) -> Report:
    minibatches, rounds = (5, 5) if short else (20, 15)
    rows = []
    for hidden in (1, 2):
        experiment = recipe(hidden, batch_size=BATCH)
        sizes = (784, *experiment.network.hidden, 10)
        net, cost = Directed(Hopfield.layered(*sizes)), SquaredError()
        theta = net.init(jax.random.key(0))
        x = jax.random.uniform(jax.random.key(1), (minibatches * BATCH, 784))
        v = (x, jax.nn.one_hot(jnp.arange(len(x)) % 10, 10))
        plain, contenders = experiment.assemble(784, 10)[1], {}
        for name, (kind, rule) in RULES.items():
            trainer = replace(plain, F=kind(net, cost), rule=rule(experiment.phases))
            contenders[name] = trained(trainer, theta, v, minibatches)
        times = race(contenders, rounds, time.process_time)
        for name, spent in times.items():
            rows.append(
                {
                    "network": "-".join(map(str, sizes)),
                    "rule": name,
                    "update, ms": spread(1000 * spent / minibatches),
                    "ratio": spread(spent / times["vector field"]),
                }
            )
    return Report("Vector fields: an update by each rule", TEXT, rows)


def trained(trainer: Trainer, theta: Any, v: Any, minibatches: int) -> Callable[[], Any]:
    """An epoch of a number of minibatches."""
    feed = Shuffled(v, BATCH)
    state = trainer.init(theta, feed, jax.random.key(2))
    return lambda: jax.block_until_ready(trainer.advance(state, feed, minibatches))
