"""No settling at all: the forward pass of a feed-forward network."""

import jax
import jax.numpy as jnp

from eqprop.energy.base import ForwardPass
from eqprop.relax.base import Info, Relaxation
from eqprop.total import System, need
from eqprop.types import Data, Key, Number, State, Theta


class Forward(Relaxation):
    """s = forward(θ, x), the free fixed point of an energy that has one in closed form, as `Feedforward` does."""

    def check(self, F: System) -> None:
        """Refuse an F without a forward pass."""
        forward_pass(F)

    def settle(
        self, F: System, theta: Theta, v: Data, beta: Number, s: State, key: Key | None = None
    ) -> tuple[State, Info]:
        """The pass counts as one step. β is not used, and of the state given only the number of examples is."""
        x, _ = v
        count = len(jax.tree.leaves(s)[0])
        return jax.vmap(forward_pass(F).forward, in_axes=(None, 0))(theta, x), one_step(count)


def forward_pass(F: System) -> ForwardPass:
    """The forward pass of F."""
    remedy = "take Total(Feedforward(net), cost), or another rule"
    return need(F, ForwardPass, "A forward pass is asked for", remedy)


def one_step(examples: int) -> Info:
    """The `Info` of a phase that takes one step and is exact."""
    return Info(jnp.zeros(examples), jnp.ones(examples, int), jnp.ones(examples, bool))
