"""Learning rates per layer that follow from how much each layer changes (section 5.2)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from eqprop.energy import Graph


class BalanceState(NamedTuple):
    """Running averages of ‖ΔW_k‖, by synapse, and the number of minibatches they are over."""

    norms: dict[str, jax.Array]
    count: jax.Array


def balanced(net: Graph, memory: float = 0.99) -> optax.GradientTransformation:
    """Scales the updates of each W_k so that ‖ΔW_k‖/‖W_k‖, on average over minibatches, is the same for all k.

    The paper chose its learning rates α_k to that end; here they follow by themselves from running averages that
    forget at the rate `memory`. The geometric mean of the ratios stays what it was, so the one learning rate that is
    left keeps its meaning. The biases of a layer are scaled as the weights that lead to it.
    """
    leads = {layer: next(syn.name for syn in net.synapses if layer in (syn.post, syn.pre)) for layer in net.free}
    leads |= {synapse.post: synapse.name for synapse in reversed(net.synapses)}

    def init(params: Any) -> BalanceState:
        return BalanceState({k: jnp.zeros(()) for k in params["W"]}, jnp.zeros((), int))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, BalanceState]:
        norms = {k: memory * norm + (1 - memory) * jnp.linalg.norm(updates["W"][k]) for k, norm in state.norms.items()}
        count = state.count + 1
        ratios = {k: norm / (1 - memory**count) / jnp.linalg.norm(params["W"][k]) for k, norm in norms.items()}
        # What has not changed yet, or is zero, has no ratio to speak of and is left as it is.
        known = {k: jnp.isfinite(ratio) & (ratio > 0) for k, ratio in ratios.items()}
        logs = {k: jnp.where(known[k], jnp.log(ratio), 0) for k, ratio in ratios.items()}
        mean = sum(logs.values()) / jnp.maximum(sum(known.values()), 1)
        factor = {k: jnp.where(known[k], jnp.exp(mean - log), 1) for k, log in logs.items()}
        scaled = {
            "W": {k: factor[k] * change for k, change in updates["W"].items()},
            "b": {layer: factor[leads[layer]] * change for layer, change in updates["b"].items()},
        }
        return scaled, BalanceState(norms, count)

    return optax.GradientTransformation(init, update)
