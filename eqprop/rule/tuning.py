"""Which β? Where the gradient errs least: a strong nudge bends it, a weak one drowns in what is not known exactly."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from optax.tree_utils import tree_norm, tree_sub

from eqprop.compile import compiled
from eqprop.errors import InputError
from eqprop.nudge import Nudge
from eqprop.relax.base import check_batch
from eqprop.rule.equilibrium import DRAW, READ, Settled, TwoPhase, nudged_states
from eqprop.total import System, TotalEnergy, system
from eqprop.types import Array, Data, Key, State, Theta

OCTAVES = range(-10, 4)


class Tuned(NamedTuple):
    """What `tune_nudge` found.

    nudge: the nudge of the rule, with the β that errs least.
    betas: the strengths that were tried, in rising order.
    bias, noise: the estimated parts of the error at each, as shares of the length of the gradient at the chosen β.
    """

    nudge: Nudge
    betas: np.ndarray
    bias: np.ndarray
    noise: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """The estimated relative error of the gradient at each β, √(bias² + noise²)."""
        return np.hypot(self.bias, self.noise)

    @property
    def beta(self) -> float:
        """The β that was chosen."""
        return float(self.betas[self.error.argmin()])


def tune_nudge(
    rule: TwoPhase,
    F: TotalEnergy,
    theta: Theta,
    v: Data,
    s: State,
    key: Key | None = None,
    betas: Sequence[float] | np.ndarray | Array | None = None,
) -> Tuned:
    """The β at which the estimated error of the rule's gradient is least, from what a batch shows; without a solve.

    Let g_j be the gradient of the batch at strengths β_1 < β_2 < …, and g'_j the same again, with the phases settled
    for as many steps once more, and read again. Then

        noise_j = ‖g_j − g'_j‖,        bias_j = Σ_{i≤j} ‖g_i − g_{i−1}‖ over those i where this exceeds both noises.

    The noise is what an unfinished settling, rounding and the reading of states leave, and grows as 1/β. The bias is
    how far the gradient has turned since the weakest nudge, by the triangle inequality: O(β²) for a symmetric nudge of
    a smooth energy, and whatever kinks make of it. A β that leaves no minimum errs by ∞. An error that all β share, as
    that of phases of a few steps, is not seen.

    rule: a rule of two phases, with its nudge, relaxations and reading; its β is where the search begins.
    v, s: a batch, as in a rule; the more examples, the steadier.
    betas: what to try, in rising order; None: from 1/1024 to 8 times the β of the rule, in octaves.

    β is data: `eqx.tree_at(lambda rule: rule.nudge, rule, tuned.nudge)` trains on without compiling.
    """
    if not isinstance(rule, TwoPhase):
        raise InputError(f"rule={rule!r} has no two phases to compare: tune EquilibriumPropagation or a rule like it")
    F = system(F)
    rule.check(F)
    check_batch(F, v, s)
    rule = rule.at(0)
    tried = np.asarray([rule.nudge.beta * 2.0**k for k in OCTAVES] if betas is None else betas, float)
    rising = tried.ndim == 1 and len(tried) >= 3 and (np.diff(np.abs(tried), prepend=0.0) > 0).all()
    if not rising or not np.isfinite(tried).all():
        raise InputError(f"betas={betas!r}: give three or more strengths in rising order, none of them 0")
    key = jax.random.key(0) if key is None else key
    moved, noise, size = map(np.asarray, _ladder(rule, F, theta, v, s, key, jnp.asarray(tried)))
    # Two readings differ by the noise of both, and so do the gradients of two β.
    seen = moved > np.hypot(noise, np.concatenate([[0.0], noise[:-1]]))
    bias = np.cumsum(np.where(seen, moved, 0.0))
    lost = ~np.isfinite(bias + noise + size)
    bias, noise = np.where(lost, np.inf, bias), np.where(lost, np.inf, noise)
    if lost.all():
        raise InputError(f"betas={tried.tolist()}: no gradient is finite at any of them; settle by other steps")
    best = int(np.hypot(bias, noise).argmin())
    unit = size[best] if size[best] > 0 else 1.0
    nudge = eqx.tree_at(lambda nudge: nudge.beta, rule.nudge, float(tried[best]))
    return Tuned(nudge, tried, bias / unit, noise / unit)


@compiled
def _ladder(
    rule: TwoPhase, F: System, theta: Theta, v: Data, s: State, key: Key, betas: Array
) -> tuple[Array, Array, Array]:
    """‖g_j − g_{j−1}‖, ‖g_j − g'_j‖ and ‖g_j‖, one β after the other."""
    drawn = jax.random.split(jax.random.fold_in(key, DRAW), 4)
    free = rule.free.with_key(drawn[0]).settle(F, theta, v, 0.0, s)[0]
    rested = rule.free.with_key(drawn[1]).all_steps().settle(F, theta, v, 0.0, free)[0]
    G, u = rule.second(F, theta, v, free)
    nudged, longer = rule.nudged.with_key(drawn[2]), rule.nudged.all_steps()

    def one(before: Theta, beta: Array) -> tuple[Theta, tuple[Array, Array, Array]]:
        nudge = eqx.tree_at(lambda nudge: nudge.beta, rule.nudge, beta)
        beta_k, w = nudge(key)
        states = nudged_states(nudged, nudge, G, theta, u, beta_k, free)[0]
        again = jax.vmap(lambda b, s, key: longer.with_key(key).settle(G, theta, u, b, s)[0])(
            beta_k, states, jax.random.split(drawn[3], len(beta_k))
        )

        def gradient(states: State, s_free: State, key: Key) -> Theta:
            if nudge.uses_free:
                states = jax.tree.map(lambda u, one: u.at[0].set(one), states, s_free)
            settled = Settled(s_free, beta_k, w, rule.reading(states, key))
            return rule.gradient(F, theta, v, settled, None)

        keys = jax.random.split(jax.random.fold_in(key, READ))
        g, other = gradient(states, free, keys[0]), gradient(again, rested, keys[1])
        return g, (tree_norm(tree_sub(g, before)), tree_norm(tree_sub(g, other)), tree_norm(g))

    _, found = jax.lax.scan(one, jax.tree.map(jnp.zeros_like, theta), betas)
    return found[0].at[0].set(0.0), *found[1:]
