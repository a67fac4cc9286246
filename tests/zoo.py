"""Small total energies of every kind, on which the same properties are tested."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

import eqprop as ep

EXAMPLES, INPUTS, OUTPUTS = 3, 4, 3


@dataclass(frozen=True)
class Problem:
    """F, with θ, v and a start that fit it, drawn from a seed; `block` says whether block descent applies."""

    F: Any
    theta: Callable[[jax.Array], Any]
    rest: Callable[[int], Any]
    block: bool = True

    def draw(self, seed: int) -> tuple[Any, Any, Any]:
        key_theta, key_x, key_y = jax.random.split(jax.random.key(seed), 3)
        x = jax.random.uniform(key_x, (EXAMPLES, INPUTS))
        y = jax.nn.one_hot(jax.random.randint(key_y, (EXAMPLES,), 0, OUTPUTS), OUTPUTS)
        return self.theta(key_theta), (x, y), self.rest(EXAMPLES)


def hopfield(net: ep.Hopfield, cost: ep.Cost | None = None, gain: float = 0.5) -> Problem:
    def theta(key: jax.Array) -> Any:
        # Random biases put some units inside the box and some at its ends.
        theta = net.init(key, gain)
        keys = jax.random.split(key, len(theta["b"]))
        b = {k: 0.3 + 0.3 * jax.random.normal(q, u.shape) for q, (k, u) in zip(keys, theta["b"].items(), strict=True)}
        return theta | {"b": b}

    return Problem(ep.Total(net, cost or ep.SquaredError()), theta, net.rest)


def layered(activation: ep.Activation = ep.hard_sigmoid, **kwargs: Any) -> Problem:
    return hopfield(ep.Hopfield.layered(INPUTS, 6, 4, OUTPUTS, activation=activation), **kwargs)


def skip(activation: ep.Activation = ep.hard_sigmoid) -> Problem:
    sizes = {"input": INPUTS, "a": 6, "b": 4, "output": OUTPUTS}
    pairs = [("input", "a"), ("a", "b"), ("b", "output"), ("input", "output"), ("a", "output")]
    return hopfield(ep.Hopfield(sizes, pairs, activation=activation))


def fully_connected(activation: ep.Activation = ep.hard_sigmoid) -> Problem:
    return hopfield(ep.Hopfield.fully_connected(INPUTS, 7, OUTPUTS, activation=activation), gain=0.4)


def spring_theta(key: jax.Array) -> Any:
    a, b = jax.random.split(key)
    return {
        "A": jax.random.normal(a, (OUTPUTS, INPUTS)),
        "k": jax.random.uniform(b, (OUTPUTS,), minval=0.5, maxval=2.0),
    }


def spring_energy(theta: Any, x: Any, s: Any) -> Any:
    """Springs of stiffness k and a quartic stop hold s near A x; nothing Hopfield about it."""
    stretch = s - theta["A"] @ x
    return jnp.sum(theta["k"] * stretch**2) / 2 + jnp.sum(s**4) / 4 + jnp.sum(jnp.cos(s[1:] * s[:-1])) / 5


def spring_cost(theta: Any, y: Any, s: Any) -> Any:
    return jnp.sum((s - y) ** 2) / 2


def tilted(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    """An F that is not E + βC: β also bends the energy, and drives s through a sine (section 3.4)."""
    x, y = v
    drive = theta["A"] @ x + jnp.sin(beta) * y
    return (
        jnp.sum(theta["k"] * jnp.exp(beta / 3) * (s - drive) ** 2) / 2
        + jnp.sum(s**4) / 4
        + beta**2 * jnp.sum(s * theta["k"])
        + beta * jnp.sum((s - y) ** 2)
    )


def springs_at_rest(batch: int) -> Any:
    return jnp.zeros((batch, OUTPUTS))


# Gains are such that there is one minimum: with several, two relaxations may rightly end in two of them.
ZOO = {
    "layered": layered(),
    "layered, sigmoid": layered(ep.sigmoid, gain=3.0),
    "layered, tanh": layered(ep.tanh),
    "fully connected": fully_connected(),
    "fully connected, tanh": fully_connected(ep.tanh),
    "skip": skip(),
    "skip, sigmoid": skip(ep.sigmoid),
    "L2 penalty": layered(cost=ep.SquaredError(l2=0.1)),
    "L1 penalty": layered(ep.tanh, cost=ep.SquaredError(l1=0.1)),
    "cross-entropy": layered(cost=ep.CrossEntropy(scale=2.0)),
    "cross-entropy, tanh, L2": layered(ep.tanh, cost=ep.CrossEntropy(l2=0.05)),
    "user energy": Problem(ep.Total(spring_energy, spring_cost), spring_theta, springs_at_rest, block=False),
    "user F": Problem(tilted, spring_theta, springs_at_rest, block=False),
}
HOPFIELD = {name: problem for name, problem in ZOO.items() if problem.block}
