"""EP within blocks, backpropagation between them (Nest & Ernoult 2024)."""

import jax
import jax.numpy as jnp
from optax.tree_utils import tree_add

from eqprop.energy.base import Linked
from eqprop.nudge import Nudge
from eqprop.relax import Relaxation
from eqprop.rule.base import Learned, Nudged
from eqprop.rule.layer import FREE, NUDGE, NUDGED, Pull, drawn, pulled_back
from eqprop.total import System, Total, need
from eqprop.types import Array, Data, Key, State, Theta, Weight


class ChainPropagation(Nudged):
    """∂J/∂θ of a chain of blocks that each settle: g_k goes back from block to block, and nudges one after the other.

        g_K = ∂C/∂s_K,    dθ += Σ_k w_k ∂E_k/∂θ(θ, x_k, s_k^{β_k}),    g_{k−1} += Σ_k w_k ∂E_k/∂x_k(θ, x_k, s_k^{β_k})

    with s_k^β a minimum of E_k + β ⟨g_k, s_k⟩, as in `layer`: what is learned is what reverse differentiation of a
    program of such layers gives. `free` settles the chain, `nudged` each block. F must offer `Linked`, as `Chain` does.
    """

    nudge: Nudge = NUDGE
    free: Relaxation = FREE
    nudged: Relaxation = NUDGED

    def check(self, F: System) -> None:
        """Refuse an F without blocks in a chain, and blocks that a nudged phase cannot settle."""
        links = _chain(F).links
        super().check(F)
        for link in links:
            self.nudged.check(Total(link, Pull()))

    def learn(self, F: System, theta: Theta, v: Data, s: State, key: Key, weight: Weight | None = None) -> Learned:
        """Settle the chain, and go back through its blocks."""
        chain, (x, _) = _chain(F), v
        s, free = self.free.with_key(drawn(key)[0]).settle(F, theta, v, 0.0, s)

        def mean(theta: Theta, s: State) -> Array:
            return jnp.average(jax.vmap(F.cost_at, in_axes=(None, 0, 0))(theta, v, s), weights=weight)

        gradient, g = jax.grad(mean, argnums=(0, 1))(theta, s)
        known, phases = chain.inputs(x) | s, []
        for link in reversed(chain.links):
            given = theta, link.heard(known), link.own(s), link.own(g)
            (more, back), nudged = pulled_back(link, *given, self.nudge, self.nudged, key)
            gradient = tree_add(gradient, more)
            g = g | {layer: g[layer] + pull for layer, pull in back.items() if layer in g}
            phases.append(nudged)
        told = jax.tree.map(lambda *parts: jnp.concatenate(parts), *phases)
        return Learned(gradient, s, {"free": free, "nudged": told}, {})


def _chain(F: System) -> Linked:
    remedy = "take Total(Chain(net), cost), or EquilibriumPropagation for one energy"
    return need(F, Linked, "ChainPropagation needs blocks in a chain", remedy)
