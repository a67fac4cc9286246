"""Settling by spikes: units hear random spikes of each other, whose means are the rates."""

from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from eqprop.boundary import entrance, require_whole
from eqprop.compile import compiled
from eqprop.errors import InputError
from eqprop.relax.base import Info, Relaxation, Trace, checked, energies, restless
from eqprop.total import System, TotalEnergy
from eqprop.types import Array, Data, Key, Layers, Number, Theta


class Spiking(Relaxation):
    """s_k ← Π(s_k − ε ∂F/∂s_k(s_k, z)): a layer k hears the others as spikes z_i ∈ {0, 1}, with p(z_i = 1) = s_i.

    In every step each unit spikes or does not, by chance; its potential s_i leaks, and adds up what the spikes of the
    others send. As E[z] = s, and the force on a layer is linear in the others, a step is on average that of `Gradient`,
    the rate dynamics ds/dt = −∂F/∂s. Where no unit reaches a bound, the mean of s follows them exactly, and s
    fluctuates about it with a variance of O(ε), since it remembers about 1/ε steps. At a bound only fluctuations
    inwards are left, which shift the mean by O(√ε). Inputs and the nudge are currents, not spikes.

    After `burn_in` steps that forget the start, the mean of s over `samples` steps is the settled state. For networks
    of hard sigmoids, whose rates lie between 0 and 1. Each phase has spikes of its own; rules of two phases draw new
    ones for every minibatch, and without a key they are the same each time. O'Connor et al. (2019) and Martin et al.
    (2021) trained spiking networks by Equilibrium Propagation, with other neurons.
    """

    epsilon: float = 0.2
    burn_in: int = eqx.field(default=30, static=True)
    samples: int = eqx.field(default=70, static=True)
    key: Key | None = None

    def __check_init__(self) -> None:
        if not 0 < self.epsilon <= 1:
            raise InputError(f"epsilon={self.epsilon!r}: give a step above 0 and of at most 1 (try 0.2)")
        require_whole(0, burn_in=self.burn_in)
        require_whole(1, samples=self.samples)

    @property
    def steps(self) -> int:
        """How many steps each example takes."""
        return self.burn_in + self.samples

    def check(self, F: System) -> None:
        """Refuse states that are no probabilities, or have no named layers."""
        _ = F.space.shapes
        low, high = _ends(F.space.low), _ends(F.space.high)
        if low != {0.0} or high != {1.0}:
            raise InputError(
                f"states have the bounds {F.space.low} and {F.space.high}, rates of spikes lie between 0 and 1: "
                "take hard_sigmoid as activation"
            )

    def with_key(self, key: Key) -> Self:
        """The relaxation with other spikes."""
        return eqx.tree_at(lambda spiking: spiking.key, self, key, is_leaf=lambda leaf: leaf is None)

    def settle(
        self, F: System, theta: Theta, v: Data, beta: Number, s: Layers, key: Key | None = None
    ) -> tuple[Layers, Info]:
        """The mean potentials after the burn-in."""

        def step(t: Array, carry: tuple[Layers, Layers]) -> tuple[Layers, Layers]:
            s, sums = carry
            s = self._step(F, theta, v, beta, s, jax.random.fold_in(self._key(key), t))
            return s, jax.tree.map(lambda sum, u: sum + jnp.where(t < self.burn_in, 0, u), sums, s)

        _, sums = jax.lax.fori_loop(0, self.steps, step, (s, jax.tree.map(jnp.zeros_like, s)))
        mean = jax.tree.map(lambda sum: sum / self.samples, sums)
        return mean, restless(len(jax.tree.leaves(s)[0]), self.steps)

    def settle_each(self, F: System, theta: Theta, v: Data, betas: Array, s: Layers) -> tuple[Layers, Info]:
        """A settling from s at each β of a vector, with spikes of its own."""
        keys = jax.random.split(self._key(None), len(betas))
        return jax.vmap(lambda beta, key: self.settle(F, theta, v, beta, s, key))(betas, keys)

    @entrance
    def trace(self, F: TotalEnergy, theta: Theta, v: Data, beta: Number, s: Layers, key: Key | None = None) -> Trace:
        """Every state on the way; what never rests has no residual."""
        path, energy = _path(self, checked(self, F, v, beta, s), theta, v, beta, s, self._key(key))
        return Trace(path, energy, jnp.full_like(energy, jnp.nan))

    def _key(self, key: Key | None) -> Key:
        given = self.key if key is None else key
        return jax.random.key(0) if given is None else given

    def _step(self, F: System, theta: Theta, v: Data, beta: Number, s: Layers, key: Key) -> Layers:
        """One step of a batch."""
        keys = dict(zip(s, jax.random.split(key, len(s)), strict=True))
        z = {layer: jax.random.bernoulli(keys[layer], u).astype(u.dtype) for layer, u in s.items()}

        def one(v: Data, beta: Number, s: Layers, z: Layers) -> Layers:
            heard = {layer: F.force(theta, v, beta, z | {layer: u}, (layer,))[layer] for layer, u in s.items()}
            return F.space.project({layer: (u + self.epsilon * heard[layer]).astype(u.dtype) for layer, u in s.items()})

        return jax.vmap(one, in_axes=(0, 0 if jnp.ndim(beta) else None, 0, 0))(v, beta, s, z)


@compiled
def _path(
    spiking: Spiking, F: System, theta: Theta, v: Data, beta: Number, s: Layers, key: Key
) -> tuple[Layers, Array]:
    def step(s: Layers, t: Array) -> tuple[Layers, Layers]:
        s = spiking._step(F, theta, v, beta, s, jax.random.fold_in(key, t))
        return s, s

    _, path = jax.lax.scan(step, s, jnp.arange(spiking.steps))
    path = jax.tree.map(lambda first, rest: jnp.concatenate([first[:, None], jnp.moveaxis(rest, 0, 1)], 1), s, path)
    return path, energies(F, theta, v, beta, path)


def _ends(bound: Any) -> set[float]:
    """All values of a bound; where there is none, infinity."""
    parts = list(bound.values()) if isinstance(bound, dict) else [bound]
    return {float(value) for part in parts for value in np.ravel(np.inf if part is None else part)}
