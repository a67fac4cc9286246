"""Xie & Seung's update as γ → 0: that of backpropagation (section 4.4)."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from eqprop.cost import SquaredError
from eqprop.data import Dataset
from eqprop.energy import Feedforward, Hopfield, Total, XieSeung
from eqprop.relax import Block
from eqprop.rule import Backpropagation, ContrastiveHebbian

GAMMAS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
EXAMPLES = 100


def weak_feedback(data: Dataset, hidden: int = 500, seed: int = 0) -> list[dict[str, float]]:
    """For each γ, in double precision on the first training examples:

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
        theta["b"]["output"] += 0.5
        expected, passed, _ = Backpropagation()(Total(Feedforward(net), cost), theta, v, rest)
        for gamma in GAMMAS:
            rule = ContrastiveHebbian(Block(steps=60, omega=1.0), Block(steps=60, omega=1.0, backward=True))
            found, settled, _ = rule(Total(XieSeung(net, gamma), cost), theta, v, rest)
            a, b = ravel_pytree(found)[0], ravel_pytree(expected)[0]
            s, t = ravel_pytree(settled)[0], ravel_pytree(passed)[0]
            rows.append(
                {
                    "gamma": gamma,
                    "cosine": float(a @ b / (jnp.linalg.norm(a) * jnp.linalg.norm(b))),
                    "error": float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)),
                    "state": float(jnp.linalg.norm(s - t) / jnp.linalg.norm(t)),
                }
            )
    return rows
