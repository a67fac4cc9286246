"""Settling with noise: s does not come to rest, it samples the Boltzmann distribution of F."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from eqprop.boundary import entrance, require_whole
from eqprop.compile import compiled
from eqprop.errors import InputError
from eqprop.relax.base import Info, Relaxation, Trace, checked, energies, restless
from eqprop.total import System, TotalEnergy, system
from eqprop.types import Array, Data, Key, Number, State, Theta


class Langevin(Relaxation):
    """ds = −∂F/∂s dt + √(2T) dB, whose stationary distribution is p(s) ∝ e^{−F/T} (Appendix C, with σ = √(2T)).

    Solved by Diffrax's ShARK, for additive noise: two evaluations of ∂F/∂s a step, and a stationary distribution that
    is off by O(dt²). dt must be well below 2/c where c is the largest curvature of F. After `burn_in` steps that
    forget the start, every `thin`-th state is kept until there are `samples` of them. With T = 0 it is the noiseless
    ds = −∂F/∂s dt.

    The bounds of F are not used: noise would leave them at every step, and F is defined beyond. There the hard sigmoid
    is flat, and a unit feels nothing of the others until it is back: to learn with noise, take tanh or the sigmoid.
    """

    temperature: float = 1.0
    dt: float = 0.1
    burn_in: int = eqx.field(default=100, static=True)
    samples: int = eqx.field(default=20, static=True)
    thin: int = eqx.field(default=10, static=True)

    def __check_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise InputError(f"temperature={self.temperature!r}: give a finite T of 0 or more (the paper's is 1)")
        if not 0 < self.dt < float("inf"):
            raise InputError(f"dt={self.dt!r}: give a positive step of time (try 0.1)")
        require_whole(0, burn_in=self.burn_in)
        require_whole(1, samples=self.samples, thin=self.thin)

    @property
    def steps(self) -> int:
        """How many steps each example takes."""
        return self.burn_in + self.samples * self.thin

    def info(self, examples: int) -> Info:
        """How the chains of all examples went."""
        return restless(examples, self.steps)

    @entrance
    def sample(self, F: TotalEnergy, theta: Theta, v: Data, beta: Number, s: State, key: Key) -> State:
        """States that follow p, with axes (examples, samples, …); each example has noise of its own.

        In v and s the first axis counts examples; β is one number, or one per example.
        """
        return _sample(self, checked(self, F, v, beta, s), theta, v, beta, s, key)

    def draw(self, F: System, theta: Theta, v: Data, beta: Number, s: State, key: Key) -> State:
        """`sample`, as a part of a larger program."""
        import diffrax  # takes its time to load, and few need it

        _, restore = ravel_pytree(jax.tree.map(lambda u: u[0], s))
        x = jax.vmap(lambda s: ravel_pytree(s)[0])(s)  # one draw of noise serves all layers
        if x.dtype not in (jnp.float32, jnp.float64):  # others cannot count the steps
            raise InputError(f"Langevin draws no noise for states of type {x.dtype}: give float32 or float64")

        def force(v: Data, beta: Number, x: Array) -> Array:
            return ravel_pytree(F.force(theta, v, beta, restore(x)))[0]

        forces = jax.vmap(force, in_axes=(0, 0 if jnp.ndim(beta) else None, 0))
        terms, solver = self._terms(lambda x: forces(v, beta, x), x, key), diffrax.ShARK()

        def advance(step: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            x, kept = carry
            t = step.astype(x.dtype)
            x = solver.step(terms, t, t + 1, x, args=None, solver_state=None, made_jump=False)[0]
            # Each place is overwritten until its last step, so that one loop serves burn-in and samples.
            place = jnp.maximum(step - self.burn_in, 0) // self.thin
            return x, kept.at[:, place].set(x)

        kept = jnp.zeros((len(x), self.samples, x.shape[1]), x.dtype)
        _, kept = jax.lax.fori_loop(0, self.steps, advance, (x, kept))
        return jax.vmap(jax.vmap(restore))(kept)

    def settle(
        self, F: System, theta: Theta, v: Data, beta: Number, s: State, key: Key | None = None
    ) -> tuple[State, Info]:
        """E[s], over the samples: what the noisy network predicts. Without a key, the noise is the same each time."""
        states = self.draw(F, theta, v, beta, s, jax.random.key(0) if key is None else key)
        return jax.tree.map(lambda u: jnp.mean(u, axis=1), states), self.info(len(jax.tree.leaves(s)[0]))

    @entrance
    def trace(self, F: TotalEnergy, theta: Theta, v: Data, beta: Number, s: State, key: Key | None = None) -> Trace:
        """Every state on the way, those that would be forgotten included; what never rests has no residual."""
        every = replace(self, burn_in=0, samples=self.steps, thin=1)
        path = every.sample(F, theta, v, beta, s, jax.random.key(0) if key is None else key)
        path = jax.tree.map(lambda first, rest: jnp.concatenate([first[:, None], rest], axis=1), s, path)
        energy = _energies(system(F), theta, v, beta, path)
        return Trace(path, energy, jnp.full_like(energy, jnp.nan))

    def _terms(self, force: Callable[[Array], Array], x: Array, key: Array) -> Any:
        """The equation of the whole batch, in which time counts steps: whole numbers do not round.

        That matters, for Diffrax draws the noise of a step from the bits of its two times.
        """
        import diffrax
        import lineax as lx

        scale = lx.DiagonalLinearOperator(jnp.full_like(x, jnp.sqrt(2 * self.temperature * self.dt)))
        path = diffrax.UnsafeBrownianPath(
            jax.ShapeDtypeStruct(x.shape, x.dtype), key, levy_area=diffrax.SpaceTimeLevyArea
        )
        return diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, x, args: (self.dt * force(x)).astype(x.dtype)),
            diffrax.ControlTerm(lambda t, x, args: scale, path),
        )


@compiled
def _sample(langevin: Langevin, F: System, theta: Theta, v: Data, beta: Number, s: State, key: Key) -> State:
    return langevin.draw(F, theta, v, beta, s, key)


_energies = compiled(energies)
