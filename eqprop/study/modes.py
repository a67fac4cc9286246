"""A network in which the two phases of contrastive Hebbian learning end in different modes (section 4.1)."""

import jax
import jax.numpy as jnp

from eqprop.cost import SquaredError
from eqprop.energy import Hopfield
from eqprop.nudge import Symmetric
from eqprop.relax import Block
from eqprop.rule import ContrastiveHebbian, CoupledLearning, EquilibriumPropagation, Rule
from eqprop.total import Total
from eqprop.types import Array

UPDATES, RATE = 200, 0.1
SETTLED = Block(steps=500, tol=1e-7, omega=1.0)
RULES = {
    "Equilibrium Propagation": EquilibriumPropagation(Symmetric(0.1), SETTLED, SETTLED),
    "Coupled learning, η = 0.1": CoupledLearning(0.1, SETTLED, SETTLED),
    "Contrastive Hebbian learning": ContrastiveHebbian(SETTLED, SETTLED),
}


def different_modes() -> dict[str, dict[str, list[float]]]:
    """How each rule learns to read out a flip-flop: the cost before each update, and J_CHL of the first example.

    Two hidden units inhibit each other, and each of two inputs switches one of them on. The output is to be 0.8 when
    the first is on and 0.2 when the second is. Only the synapses to it learn, and they begin with the opposite. A nudge
    leaves the flip-flop as it is. An output that is held at 0.8 switches it over, through the stronger synapse: the
    clamped phase is then in the mode of the other unit, lower in energy than the free phase; the other unit learns the
    answer, and the one that is on forgets what it knew.
    """
    net = Hopfield(
        {"input": 2, "hidden": 2, "output": 1}, [("input", "hidden"), ("hidden", "hidden"), ("hidden", "output")]
    )
    given = {"input-hidden": 0.2 * jnp.eye(2), "hidden-hidden": jnp.array([-1.2])}
    biases = {"hidden": jnp.array([0.3, 0.3]), "output": jnp.zeros(1)}
    v = jnp.eye(2), jnp.array([[0.8], [0.2]])
    F = Total(net, SquaredError())

    def learn(rule: Rule) -> dict[str, Array]:
        def update(W: Array, _: None) -> tuple[Array, dict[str, Array]]:
            theta = {"W": given | {"hidden-output": W}, "b": biases}
            learned = rule.learn(F, theta, v, net.rest(2), jax.random.key(0))
            measured = {"cost": jnp.mean(jax.vmap(F.cost_at, (None, 0, 0))(theta, v, learned.state))}
            measured |= {name: values[0] for name, values in learned.measured.items() if name == "objective"}
            return W - RATE * learned.gradient["W"]["hidden-output"], measured

        return jax.lax.scan(update, jnp.array([[0.3], [0.9]]), length=UPDATES)[1]

    return {name: {key: values.tolist() for key, values in learn(rule).items()} for name, rule in RULES.items()}
