"""Settling with noise: s does not come to rest, it samples the Boltzmann distribution of F."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import TotalEnergy, slope
from eqprop.errors import InputError
from eqprop.relax.base import require_floats


class Langevin(eqx.Module):
    """ds = −∂F/∂s dt + √(2T) dB, whose stationary distribution is p(s) ∝ e^{−F/T} (Appendix C, with σ = √(2T)).

    Solved by Diffrax's ShARK, for additive noise: two evaluations of ∂F/∂s a step, and a stationary distribution that
    is off by O(dt²). dt must be well below 2/c where c is the largest curvature of F. After `burn_in` steps that
    forget the start, every `thin`-th state is kept until there are `samples` of them. With T = 0 it is the noiseless
    ds = −∂F/∂s dt.

    The box of F is not used: noise would leave it at every step, and F is defined outside of it.
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
        for name, least in (("burn_in", 0), ("samples", 1), ("thin", 1)):
            if not isinstance(value := getattr(self, name), int) or value < least:
                raise InputError(f"{name}={value!r}: give a whole number of {least} or more")

    @compiled
    def sample(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any, key: Array) -> Any:
        """States that follow p, with axes (examples, samples, …); each example has noise of its own.

        In v and s the first axis counts examples; β is one number, or one per example.
        """
        import diffrax  # takes its time to load, and few need it

        require_floats(s)
        terms, solver = self._terms(F, theta, v, beta, s, key), diffrax.ShARK()
        time = jnp.result_type(*jax.tree.leaves(s))

        def advance(step: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            s, kept = carry
            t = step.astype(time)
            s = solver.step(terms, t, t + 1, s, args=None, solver_state=None, made_jump=False)[0]
            # A place is written over until its turn is over, so that one loop serves burn-in and samples.
            place = jnp.maximum(step - self.burn_in, 0) // self.thin
            return s, jax.tree.map(lambda k, u: k.at[:, place].set(u), kept, s)

        kept = jax.tree.map(lambda u: jnp.zeros((len(u), self.samples, *u.shape[1:]), u.dtype), s)
        return jax.lax.fori_loop(0, self.burn_in + self.samples * self.thin, advance, (s, kept))[1]

    def __call__(
        self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any, key: Array | None = None
    ) -> tuple[Any, None]:
        """E[s], over the samples: what the noisy network predicts. Without a key, the noise is the same each time."""
        states = self.sample(F, theta, v, beta, s, jax.random.key(0) if key is None else key)
        return jax.tree.map(lambda u: jnp.mean(u, axis=1), states), None

    def _terms(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any, key: Array) -> Any:
        """The equation of the whole batch, in which time counts steps: whole numbers do not round.

        That matters, for Diffrax draws the noise of a step from the bits of its two times.
        """
        import diffrax
        import lineax as lx

        slopes = jax.vmap(lambda v, beta, s: slope(F, theta, v, beta, s), in_axes=(0, 0 if jnp.ndim(beta) else None, 0))

        def force(t: Any, s: Any, args: Any) -> Any:
            return jax.tree.map(lambda g, u: (-self.dt * g).astype(u.dtype), slopes(v, beta, s), s)

        scale = jax.tree.map(lambda u: jnp.full_like(u, jnp.sqrt(2 * self.temperature * self.dt)), s)
        shape = jax.tree.map(lambda u: jax.ShapeDtypeStruct(u.shape, u.dtype), s)
        path = diffrax.UnsafeBrownianPath(shape, key, levy_area=diffrax.SpaceTimeLevyArea)
        noise = diffrax.ControlTerm(lambda t, s, args: lx.DiagonalLinearOperator(scale), path)
        return diffrax.MultiTerm(diffrax.ODETerm(force), noise)
