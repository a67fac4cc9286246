"""Xie & Seung's update as γ → 0: that of backpropagation (section 4.4)."""

import jax
import jax.numpy as jnp
from optax.tree_utils import tree_norm, tree_sub

from eqprop.cost import SquaredError
from eqprop.data import Dataset
from eqprop.energy import Feedforward, Hopfield, XieSeung
from eqprop.relax import Block
from eqprop.rule import Backpropagation, ContrastiveHebbian
from eqprop.total import Total
from eqprop.tree import cosine
from eqprop.types import PyTree

GAMMAS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
EXAMPLES = 100


def weak_feedback(data: Dataset, hidden: int = 500, seed: int = 0) -> list[dict[str, float]]:
    """What comes of each γ, in double precision on the first training examples.

    cosine: of the angle between Xie & Seung's update and backpropagation's.
    error: how far they are apart, relative to backpropagation's.
    state: how far the free fixed point is from the forward pass, relative to it.

    The outputs begin with biases of ½, within their box: there, the network of γ = 0 is the feed-forward one.
    """
    inputs, outputs = data.widths
    net, cost = Hopfield.layered(inputs, hidden, outputs), SquaredError()
    rows = []
    with jax.enable_x64(True):
        v = jax.tree.map(lambda a: jnp.asarray(a, float), data.train[:EXAMPLES].v)
        theta, rest = net.init(jax.random.key(seed)), net.rest(EXAMPLES)
        theta["b"][cost.layer] += 0.5
        expected = Backpropagation()(Total(Feedforward(net), cost), theta, v, rest)
        for gamma in GAMMAS:
            rule = ContrastiveHebbian(Block(steps=60, omega=1.0), Block(steps=60, omega=1.0, order="backward"))
            found = rule(Total(XieSeung(net, gamma), cost), theta, v, rest)
            rows.append(
                {
                    "gamma": gamma,
                    "cosine": float(cosine(found.gradient, expected.gradient)),
                    "error": distance(found.gradient, expected.gradient),
                    "state": distance(found.state, expected.state),
                }
            )
    return rows


def distance(found: PyTree, expected: PyTree) -> float:
    """How far two trees are apart, relative to the second."""
    return float(tree_norm(tree_sub(found, expected)) / tree_norm(expected))
