"""Operations that training takes, counted from the shapes of a network.

An operation is a multiplication or an addition in the product of a synapse; what else is done to each unit is left out,
and so is a readout. A *pass* is one product of a synapse: from the layer below to the one above, or back.
"""

import jax

from eqprop.energy import Graph
from eqprop.energy.synapse import Synapse
from eqprop.relax import Block, Stepwise
from eqprop.rule import EquilibriumPropagation
from eqprop.study.experiment import Experiment


def iteration(net: Graph) -> int:
    """Of one image, if every synapse passes once each way: the number by which networks are compared."""
    return 2 * sum(2 * synapse.products(dict(net.layers)) for synapse in net.synapses)


def step(net: Graph, relaxation: Stepwise) -> int:
    """Of one image and one step, for activations that are clipped: others also ask for bounds on the curvature."""
    shapes = dict(net.layers)
    return 2 * sum(_passes(synapse, relaxation) * synapse.products(shapes) for synapse in _inner(net))


def drive(net: Graph) -> int:
    """Of one image: what the input sends, which does not change while the network settles."""
    shapes = dict(net.layers)
    return 2 * sum(synapse.products(shapes) for synapse in net.synapses if synapse not in _inner(net))


def contrast(net: Graph) -> int:
    """Of one image and one settled state: ∂F/∂θ. Pooling needs the field again, to see its switches."""
    shapes = dict(net.layers)
    return 2 * sum((1 if synapse.bilinear else 2) * synapse.products(shapes) for synapse in net.synapses)


def update(net: Graph, rule: EquilibriumPropagation) -> int:
    """Of one image in one update: the free phase, the nudged ones, and what is made of them."""
    free, nudged = rule.free, rule.nudged
    assert isinstance(free, Stepwise) and isinstance(nudged, Stepwise)
    states = len(rule.nudge(jax.random.key(0))[0])
    settled = states - rule.nudge.uses_free
    settling = free.steps * step(net, free) + settled * nudged.steps * step(net, nudged) + 2 * drive(net)
    return settling + states * contrast(net)


def training(experiment: Experiment, image: tuple[int, int, int], classes: int, images: int) -> int:
    """Of all epochs over this number of images."""
    _, trainer = experiment.assemble(image, classes)
    assert isinstance(trainer.rule, EquilibriumPropagation)
    return experiment.learning.epochs * images * update(experiment.layers(image, classes), trainer.rule)


def _inner(net: Graph) -> list[Synapse]:
    """The synapses between layers that settle."""
    return [synapse for synapse in net.synapses if net.clamped not in (synapse.pre, synapse.post)]


def _passes(synapse: Synapse, relaxation: Stepwise) -> int:
    """Each layer hears once from either side. On the way forward, the switches of a pooling have to be found again.

    On the way back, what layers hear from below is what they heard on the way forward.
    """
    if not isinstance(relaxation, Block) or relaxation.order == "backward":
        return 2
    forward = 2 if synapse.bilinear else 3
    return forward + (relaxation.order == "both")
