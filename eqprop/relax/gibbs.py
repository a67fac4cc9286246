"""Gibbs sampling: the binary units of a Boltzmann machine are drawn, layer after layer, given all others."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.boltzmann import BoltzmannMachine, machine_of
from eqprop.energy.hopfield import State, Theta
from eqprop.energy.total import TotalEnergy
from eqprop.errors import InputError
from eqprop.relax.base import Info, require_floats, restless


class Gibbs(eqx.Module):
    """s_i ~ p(s_i = 1 | all others) = sigmoid(∂Φ/∂s_i), whose stationary distribution is p(s | x) ∝ e^{−E}.

    A sweep draws the layers one after the other, from the output to the first hidden layer. After `burn_in` sweeps that
    forget the start, every `thin`-th state is kept until there are `samples` of them. In the first sweep from rest the
    output does not hear of the input yet, so one sweep is never enough to predict.
    """

    burn_in: int = eqx.field(default=5, static=True)
    samples: int = eqx.field(default=10, static=True)
    thin: int = eqx.field(default=1, static=True)

    def __check_init__(self) -> None:
        for name, least in (("burn_in", 0), ("samples", 1), ("thin", 1)):
            if not isinstance(value := getattr(self, name), int) or value < least:
                raise InputError(f"{name}={value!r}: give a whole number of {least} or more")

    @property
    def sweeps(self) -> int:
        """How many sweeps each example takes."""
        return self.burn_in + self.samples * self.thin

    def info(self, examples: int) -> Info:
        """Of so many chains."""
        return restless(examples, self.sweeps)

    @compiled
    def sample(
        self, F: TotalEnergy, theta: Theta, v: Any, s: State, key: Array, held: State | None = None
    ) -> tuple[State, State]:
        """States that follow p, with axes (examples, samples, …), and the binary state of each chain's end.

        In v, s and `held` the first axis counts examples. The layers in `held` are clamped to its values and not drawn.
        In the states kept, the layer that a sweep draws last stands as its probability: E is linear in it, so ∂E/∂θ has
        the same expectation with less noise (Rao and Blackwell).
        """
        machine, held = machine_of(F), held or {}
        for layer, u in held.items():
            if layer not in s or jnp.shape(u) != s[layer].shape:
                shapes = {layer: u.shape for layer, u in s.items()}
                raise InputError(f"held[{layer!r}] of shape {jnp.shape(u)} does not fit the state of {shapes}")
        s = s | {layer: jnp.asarray(u, s[layer].dtype) for layer, u in held.items()}

        def keep(kept: State, t: Array, s: State, p: State) -> State:
            # A place is written over until its turn is over, so that one loop serves burn-in and samples.
            place = jnp.maximum(t, 0) // self.thin
            state = s | dict(list(p.items())[-1:])
            return {layer: kept[layer].at[:, place].set(u) for layer, u in state.items()}

        kept = {layer: jnp.zeros((len(u), self.samples, *u.shape[1:]), u.dtype) for layer, u in s.items()}
        last, kept = self._run(machine, theta, v, s, key, tuple(held), keep, kept)
        return kept, last

    def __call__(
        self, F: TotalEnergy, theta: Theta, v: Any, beta: float, s: State, key: Array | None = None
    ) -> tuple[State, Info]:
        """E[s]: the mean, over all sweeps after the burn-in, of the probabilities that units are drawn from.

        It is what the machine predicts, with less noise than the draws have. Without a key, the noise is the same each
        time. A machine is clamped, not nudged, so β must be the number 0.
        """
        if not isinstance(beta, int | float) or beta != 0:
            raise InputError(
                f"beta={beta!r}: a Boltzmann machine is clamped, not nudged; give 0, or sample with `held`"
            )
        return self._mean(F, theta, v, s, jax.random.key(0) if key is None else key), self.info(len(v[0]))

    @compiled
    def _mean(self, F: TotalEnergy, theta: Theta, v: Any, s: State, key: Array) -> State:
        def keep(kept: State, t: Array, s: State, p: State) -> State:
            return jax.tree.map(lambda sum, p: sum + jnp.where(t < 0, 0, p), kept, p)

        _, sums = self._run(machine_of(F), theta, v, s, key, (), keep, jax.tree.map(jnp.zeros_like, s))
        return jax.tree.map(lambda sum: sum / (self.samples * self.thin), sums)

    def _run(
        self,
        machine: BoltzmannMachine,
        theta: Theta,
        v: Any,
        s: State,
        key: Array,
        held: tuple[str, ...],
        keep: Callable[[State, Array, State, State], State],
        kept: State,
    ) -> tuple[State, State]:
        """All sweeps, of which keep(kept, t, s, p) sees the draws s and their probabilities p; t < 0 in the burn-in."""
        require_floats(s)
        drawn = [layer for block in reversed(machine.blocks) for layer in block if layer not in held]
        sizes = [machine.free[layer] for layer in drawn]

        def sweep(t: Array, carry: tuple[State, State]) -> tuple[State, State]:
            s, kept = carry
            p = {}
            # One draw serves all layers: most of a sweep's time goes into it.
            noise = jax.random.uniform(jax.random.fold_in(key, t), (len(v[0]), sum(sizes)))
            for layer, size, end in zip(drawn, sizes, np.cumsum(sizes), strict=True):
                chance = jax.vmap(lambda x, s, layer=layer: machine.probability(theta, x, s, layer))(v[0], s)
                p[layer] = chance.astype(s[layer].dtype)
                s = s | {layer: (noise[:, end - size : end] < p[layer]).astype(s[layer].dtype)}
            return s, keep(kept, t - self.burn_in, s, p)

        return jax.lax.fori_loop(0, self.sweeps, sweep, (s, kept))
