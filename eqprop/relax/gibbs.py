"""Gibbs sampling: the binary units of a Boltzmann machine are drawn, layer after layer, given all others."""

from collections.abc import Callable
from math import prod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from eqprop.boundary import entrance, require_whole
from eqprop.compile import compiled
from eqprop.energy.base import Binary
from eqprop.errors import InputError
from eqprop.relax.base import Info, Relaxation, checked, restless
from eqprop.total import System, TotalEnergy, need
from eqprop.types import Array, Data, Key, Layers, Number, Theta


class Gibbs(Relaxation):
    """s_i ~ p(s_i = 1 | all others) = sigmoid(∂Φ/∂s_i), whose stationary distribution is p(s | x) ∝ e^{−E}.

    A sweep draws the layers one after the other, from the output to the first hidden layer. After `burn_in` sweeps that
    forget the start, every `thin`-th state is kept until there are `samples` of them. In the first sweep from rest the
    output does not hear of the input yet, so one sweep is never enough to predict.
    """

    burn_in: int = eqx.field(default=5, static=True)
    samples: int = eqx.field(default=10, static=True)
    thin: int = eqx.field(default=1, static=True)

    def __check_init__(self) -> None:
        require_whole(0, burn_in=self.burn_in)
        require_whole(1, samples=self.samples, thin=self.thin)

    @property
    def sweeps(self) -> int:
        """How many sweeps each example takes."""
        return self.burn_in + self.samples * self.thin

    def info(self, examples: int) -> Info:
        """How the chains of all examples went."""
        return restless(examples, self.sweeps)

    def check(self, F: System) -> None:
        """Refuse an F that is not that of a Boltzmann machine."""
        machine_of(F)

    @entrance
    def sample(
        self, F: TotalEnergy, theta: Theta, v: Data, s: Layers, key: Key, held: Layers | None = None
    ) -> tuple[Layers, Layers]:
        """States that follow p, with axes (examples, samples, …), and the binary state of each chain's end.

        In v, s and `held` the first axis counts examples. The layers in `held` are clamped to its values and not drawn.
        In the states kept, the layer that a sweep draws last stands as its probability: E is linear in it, so ∂E/∂θ has
        the same expectation with less noise (Rao and Blackwell).
        """
        return _sample(self, checked(self, F, v, 0.0, s), theta, v, s, key, held)

    def draw(
        self, F: System, theta: Theta, v: Data, s: Layers, key: Key, held: Layers | None = None
    ) -> tuple[Layers, Layers]:
        """`sample`, as a part of a larger program."""
        machine, held = machine_of(F), held or {}
        for layer, u in held.items():
            if layer not in s or jnp.shape(u) != s[layer].shape:
                shapes = {layer: u.shape for layer, u in s.items()}
                raise InputError(f"held[{layer!r}] of shape {jnp.shape(u)} does not fit the state of {shapes}")
        s = s | {layer: jnp.asarray(u, s[layer].dtype) for layer, u in held.items()}

        def keep(kept: Layers, t: Array, s: Layers, p: Layers) -> Layers:
            # Each place is overwritten until its last sweep, so that one loop serves burn-in and samples.
            place = jnp.maximum(t, 0) // self.thin
            state = s | dict(list(p.items())[-1:])
            return {layer: kept[layer].at[:, place].set(u) for layer, u in state.items()}

        kept = {layer: jnp.zeros((len(u), self.samples, *u.shape[1:]), u.dtype) for layer, u in s.items()}
        last, kept = self._run(machine, theta, v, s, key, tuple(held), keep, kept)
        return kept, last

    def settle(
        self, F: System, theta: Theta, v: Data, beta: Number, s: Layers, key: Key | None = None
    ) -> tuple[Layers, Info]:
        """E[s]: the mean, over all sweeps after the burn-in, of the probabilities that units are drawn from.

        It is what the machine predicts, with less noise than the draws have. Without a key, the noise is the same each
        time. A machine is clamped, not nudged: β must be 0.
        """

        def keep(kept: Layers, t: Array, s: Layers, p: Layers) -> Layers:
            return jax.tree.map(lambda sum, p: sum + jnp.where(t < 0, 0, p), kept, p)

        key = jax.random.key(0) if key is None else key
        _, sums = self._run(machine_of(F), theta, v, s, key, (), keep, jax.tree.map(jnp.zeros_like, s))
        mean = jax.tree.map(lambda sum: sum / (self.samples * self.thin), sums)
        return mean, self.info(len(v[0]))

    def __call__(
        self, F: TotalEnergy, theta: Theta, v: Data, beta: Number, s: Layers, key: Key | None = None
    ) -> tuple[Layers, Info]:
        """As `settle`; a β other than the number 0 is refused."""
        if not isinstance(beta, int | float) or beta != 0:
            raise InputError(
                f"beta={beta!r}: a Boltzmann machine is clamped, not nudged; give 0, or sample with `held`"
            )
        return super().__call__(F, theta, v, beta, s, key)

    def _run(
        self,
        machine: Binary,
        theta: Theta,
        v: Data,
        s: Layers,
        key: Key,
        held: tuple[str, ...],
        keep: Callable[[Layers, Array, Layers, Layers], Layers],
        kept: Layers,
    ) -> tuple[Layers, Layers]:
        """All sweeps; keep(kept, t, s, p) sees the draws s of each and their probabilities p; t < 0: burn-in."""
        shapes = machine.space.shapes
        drawn = [layer for layer in reversed(shapes) if layer not in held]
        sizes = [prod(shapes[layer]) for layer in drawn]

        def sweep(t: Array, carry: tuple[Layers, Layers]) -> tuple[Layers, Layers]:
            s, kept = carry
            p = {}
            # One draw serves all layers: most of a sweep's time goes into it.
            noise = jax.random.uniform(jax.random.fold_in(key, t), (len(v[0]), sum(sizes)))
            for layer, size, end in zip(drawn, sizes, np.cumsum(sizes), strict=True):
                chance = jax.vmap(lambda x, s, layer=layer: machine.probability(theta, x, s, layer))(v[0], s)
                p[layer] = chance.astype(s[layer].dtype)
                dice = noise[:, end - size : end].reshape(p[layer].shape)
                s = s | {layer: (dice < p[layer]).astype(s[layer].dtype)}
            return s, keep(kept, t - self.burn_in, s, p)

        return jax.lax.fori_loop(0, self.sweeps, sweep, (s, kept))


@compiled
def _sample(
    gibbs: Gibbs, F: System, theta: Theta, v: Data, s: Layers, key: Key, held: Layers | None
) -> tuple[Layers, Layers]:
    return gibbs.draw(F, theta, v, s, key, held)


def machine_of(F: System) -> Binary:
    """The energy of F, whose units must be 0 or 1."""
    remedy = "give Total(BoltzmannMachine(net), cost), or take EquilibriumPropagation, which suits every F"
    return need(F, Binary, "A Boltzmann machine is asked for, whose units are drawn", remedy)
