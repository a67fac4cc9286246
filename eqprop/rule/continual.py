"""Continual Equilibrium Propagation: weights move while the nudged network settles (Ernoult et al. 2020)."""

from collections.abc import Callable
from typing import Annotated, Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.boundary import short
from eqprop.errors import InputError
from eqprop.nudge import Nudge, OneSided
from eqprop.relax import Block, Gradient, Info, Relaxation, Settling, Stepwise
from eqprop.rule.base import Learned, Nudged
from eqprop.total import System
from eqprop.types import Array, Data, Key, Numbers, PyTree, State, Theta, Weight


class ContinualEquilibriumPropagation(Nudged):
    """In every nudged step, θ_{t+1} = θ_t − η/β (∂F/∂θ(θ_t, β, s_{t+1}) − ∂F/∂θ(θ_t, β, s_t)), s_{t+1} by θ_t.

    All that a synapse needs is there at the time: two consecutive states, and nothing that is remembered from the free
    phase (Ernoult et al. 2020, arXiv 2005.04168). If θ stayed put, the sum of all steps would be the update of
    Equilibrium Propagation; the rate η moves it by O(η). The gradient returned is (θ_0 − θ_T)/η, so that plain gradient
    descent at the rate η ends at θ_T. Other optimizers make another step of it.

    rate: η, one number, or a tree like θ or the top of one; give it to the optimizer too, as `optax.sgd(0.05)`.
    schedule: from the number of minibatches learned to a factor for all rates, that of the optimizer; None: 1.
    nudge: of two β_k. The path leads from the state at the first to that at the second. One-sided, it begins at the
        free state. The symmetric nudge first goes to s^β, and learns on the way from there to s^{−β}.
    nudged: all its steps are taken, and weights move in each.
    """

    nudge: Nudge = OneSided(0.2)
    free: Relaxation = Block(steps=100, tol=1e-4, accelerate=True)
    nudged: Stepwise = Gradient(steps=15, epsilon=0.5)
    rate: Annotated[PyTree, Numbers(whole=True)] = 0.01
    schedule: Callable[[Any], Any] | None = None

    def __check_init__(self) -> None:
        if self.nudged.accelerate or self.nudged.tol is not None:
            raise InputError(
                "weights move in each of a number of steps: give a nudged phase without `accelerate` and `tol`"
            )
        beta, _ = jax.eval_shape(self.nudge.at(0), jax.random.key(0))
        if beta.shape != (2,) or jnp.issubdtype(beta.dtype, jnp.complexfloating):
            raise InputError(f"nudge={self.nudge!r}: a path leads between two real β; take OneSided or Symmetric")

    def at(self, step: Any) -> Self:
        """The rule with the β and the rates after `step` minibatches."""
        rule = super().at(step)
        if self.schedule is None:
            return rule
        factor = self.schedule(step)
        rates = jax.tree.map(lambda rate: rate * factor, self.rate)
        return eqx.tree_at(lambda rule: (rule.rate, rule.schedule), rule, (rates, None))

    def learn(self, F: System, theta: Theta, v: Data, s: State, key: Key, weight: Weight | None = None) -> Learned:
        """(θ_0 − θ_T)/η, and the free fixed points."""
        rates = self._rates(theta)
        s_free, free = self.free.settle(F, theta, v, 0.0, s)
        (here, there), (_, w) = self.nudge(key)
        start = s_free if self.nudge.uses_free else self.nudged.settle(F, theta, v, here, s_free)[0]

        def step(t: Array, carry: tuple[Theta, Settling]) -> tuple[Theta, Settling]:
            gradient, before = carry
            now = F.project(jax.tree.map(lambda w, rate, g: (w - rate * g).astype(w.dtype), theta, rates, gradient))
            after = self.nudged.step(F, now, v, there, before)
            both = jax.tree.map(lambda new, old: jnp.stack([new, old]), after.s, before.s)
            # The cost counts β times: what its own dependence on θ adds comes with the first step.
            betas = jnp.stack([there, jnp.where(t == 0, here, there)])
            more = F.contrast(now, v, betas, jnp.stack([w, -w]), both, weight)
            return jax.tree.map(jnp.add, gradient, more), after

        begin = (jax.tree.map(jnp.zeros_like, theta), self.nudged.init(start))
        gradient, end = jax.lax.fori_loop(0, self.nudged.steps, step, begin)
        nudged = Info(end.residual, end.t, end.residual <= 0)
        return Learned(gradient, s_free, {"free": free, "nudged": nudged}, {})

    def _rates(self, theta: Theta) -> Theta:
        """η for each array of θ; what is given may be the top of a tree like it."""
        try:
            rates = jax.tree.map(lambda rate, part: jax.tree.map(lambda _: rate, part), self.rate, theta)
            fits = jax.tree.map(lambda rate, w: jnp.shape(rate) in ((), jnp.shape(w)), rates, theta)
        except ValueError:  # of another structure
            rates, fits = None, False
        if not all(jax.tree.leaves(fits)):
            raise InputError(f"rate={short(self.rate)}: give one number, or a tree like θ or the top of one")
        return rates
