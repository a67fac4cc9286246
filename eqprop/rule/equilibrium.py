"""Equilibrium Propagation: the gradient of what the settled network does, from settling twice."""

import abc
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.energy.base import Linked
from eqprop.errors import InputError
from eqprop.nudge import Nudge, Symmetric
from eqprop.relax import Block, Info, Relaxation
from eqprop.rule.base import Learned, Nudged
from eqprop.rule.parts import count_parts, learn_in_parts
from eqprop.rule.reading import Exact, Reading
from eqprop.total import System
from eqprop.types import Array, Data, Key, State, Theta, Weight

READ, DRAW = 1, 2
"""Folded into the key of a minibatch, for readings and for relaxations; the nudge is drawn with the key itself."""


def as_complex(s: State) -> State:
    """States as complex numbers, of the same precision."""
    return jax.tree.map(lambda u: u.astype(jnp.result_type(u, jnp.complex64)), s)


class Settled(NamedTuple):
    """What is read of the phases: free states, the β_k with weights w_k, and the states s^{β_k} (first axis k)."""

    free: State
    beta: Array
    w: Array
    states: State


def nudged_states(
    nudged: Relaxation, nudge: Nudge, F: System, theta: Theta, v: Data, beta: Array, s_free: State
) -> tuple[State, Info]:
    """s^{β_k} from the free states, which stand for β = 0 where the nudge uses them; and how the others settled."""
    pulled = beta[1:] if nudge.uses_free else beta
    start = as_complex(s_free) if jnp.iscomplexobj(beta) else s_free
    states, info = nudged.settle_each(F, theta, v, pulled, start)
    if nudge.uses_free:
        states = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), s_free, states)
    return states, info


class TwoPhase(Nudged):
    """Rules of a free phase and nudged ones: `free` settles at β = 0, `nudged` at each β_k from the free state.

    `reading` is how the settled states are measured before they are compared; by default they are known exactly.
    """

    nudge: Nudge = Symmetric(0.5)
    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    nudged: Relaxation = Block(steps=100, tol=1e-4, accelerate=True, order="backward")
    reading: Reading = Exact()

    def second(self, F: System, theta: Theta, v: Data, s: State) -> tuple[System, Data]:
        """What settles in the nudged phases, and its data, given the free states of a batch; by default F itself."""
        return F, v

    @abc.abstractmethod
    def gradient(self, F: System, theta: Theta, v: Data, settled: Settled, weight: Weight | None) -> Theta:
        """From the settled states of a batch to the gradient."""

    def measured(self, F: System, theta: Theta, v: Data, settled: Settled) -> dict[str, Array]:
        """What else is known of each example once the phases have settled, by name; by default nothing."""
        return {}

    def learn(self, F: System, theta: Theta, v: Data, s: State, key: Key, weight: Weight | None = None) -> Learned:
        """Settle freely and at each β_k, and compare; a large batch in parts."""
        beta, w = self.nudge(key)
        learn = partial(self._learn, F, theta, beta, w)
        count = count_parts(theta, s, len(beta)) if F.traceable else 1
        key = jax.random.fold_in(key, READ)
        return learn(v, s, weight, key) if count == 1 else learn_in_parts(learn, count, theta, v, s, weight, key)

    def _learn(
        self, F: System, theta: Theta, beta: Array, w: Array, v: Data, s: State, weight: Weight | None, key: Key
    ) -> Learned:
        free_key, nudged_key = jax.random.split(jax.random.fold_in(key, DRAW))
        s_free, free = self.free.with_key(free_key).settle(F, theta, v, 0.0, s)
        G, u = self.second(F, theta, v, s_free)
        states, nudged = nudged_states(self.nudged.with_key(nudged_key), self.nudge, G, theta, u, beta, s_free)
        settled = self._read(s_free, beta, w, states, key)
        gradient = self.gradient(F, theta, v, settled, weight)
        return Learned(gradient, s_free, {"free": free, "nudged": nudged}, self.measured(F, theta, v, settled))

    def _read(self, s_free: State, beta: Array, w: Array, states: State, key: Key) -> Settled:
        """What is measured of the phases; the free one once, also where it is among the states."""
        read = self.reading(states, key)
        if self.nudge.uses_free:
            return Settled(jax.tree.map(lambda u: u[0], read), beta, w, read)
        (free,) = self.reading.each([s_free], jax.random.fold_in(key, READ))
        return Settled(free, beta, w, read)


class EquilibriumPropagation(TwoPhase):
    """∂J/∂θ ≈ Σ_k w_k ∂F/∂θ(θ, v, β_k, s^{β_k}), averaged over the batch (Theorem 1, section 3.3).

    `free` settles at β = 0 from the state given, `nudged` settles at each β_k from the free fixed point.
    Written with ∂F/∂θ rather than ∂E/∂θ, it includes the ∂C/∂θ of costs that depend on θ.

    With `surrogate`, it also measures L = Σ_k w_k F(θ, v, β_k, s^{β_k}), which tends to the cost as β → 0. At any β
    the rule follows the exact gradient of L (Scellier et al. 2023). To measure it takes one energy for each phase.

        >>> import eqprop as ep
        >>> net = ep.Hopfield.layered(3, 4, 2)
        >>> F, theta = ep.Total(net, ep.SquaredError()), net.init(jax.random.key(0))
        >>> v = (jnp.ones((5, 3)), jnp.full((5, 2), 0.5))
        >>> learned = EquilibriumPropagation()(F, theta, v, net.rest(5))
        >>> learned.gradient["W"]["hidden-output"].shape, learned.state["output"].shape
        ((4, 2), (5, 2))
        >>> bool(learned.phases["free"].converged.all())
        True
    """

    surrogate: bool = eqx.field(default=False, static=True, kw_only=True)

    @property
    def measures(self) -> tuple[str, ...]:
        """The surrogate, if it is asked for."""
        return ("surrogate",) if self.surrogate else ()

    def check(self, F: System) -> None:
        """Refuse what the parts refuse, and a chain, where a nudge of the outputs moves the last block alone."""
        super().check(F)
        if (chain := F.offer(Linked)) is not None and len(chain.links) > 1:
            raise InputError(
                "EquilibriumPropagation would teach the last block of a chain only, as nothing comes back to those "
                "before it: take ChainPropagation"
            )

    def measured(self, F: System, theta: Theta, v: Data, settled: Settled) -> dict[str, Array]:
        """L of each example, if it is asked for."""
        if not self.surrogate:
            return {}
        of_batch = jax.vmap(F, in_axes=(None, 0, None, 0))
        energies = jax.vmap(of_batch, in_axes=(None, None, 0, 0))(theta, v, settled.beta, settled.states)
        return {"surrogate": jnp.real(settled.w @ energies)}

    def gradient(self, F: System, theta: Theta, v: Data, settled: Settled, weight: Weight | None) -> Theta:
        """Σ_k w_k ∂F/∂θ(θ, v, β_k, s^{β_k})."""
        return F.contrast(theta, v, settled.beta, settled.w, settled.states, weight)
