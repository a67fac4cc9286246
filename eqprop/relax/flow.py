"""The paper's dynamics in continuous time: leaky integrators that follow the force on them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import TotalEnergy, slope
from eqprop.errors import InputError
from eqprop.relax.base import Info, Trace
from eqprop.relax.box import project, residual


class Flow(eqx.Module):
    """ds/dt = −∂F/∂s (section 2.2), for the time `time`, by Diffrax with steps that keep the error of s within `tol`.

    Where F has a box, ds/dt = Π(s − ∂F/∂s) − s: the same inside, and a state that starts in the box never leaves it.
    """

    time: float = 100.0
    tol: float = 1e-6

    def __check_init__(self) -> None:
        for name in ("time", "tol"):
            if not 0 < (value := getattr(self, name)) < float("inf"):
                raise InputError(f"{name}={value!r}: give a positive number")

    @compiled
    def __call__(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any) -> tuple[Any, Info]:
        """Flow from s. In v and s the first axis counts examples; a residual within `tol` counts as converged."""
        solution = jax.vmap(lambda v, s: self._solve(F, theta, v, beta, s, None))(v, s)
        s = jax.tree.map(lambda path: path[:, -1], solution.ys)
        met = jax.vmap(lambda v, s: residual(F, s, _force(F, theta, v, beta, s)))(v, s)
        return s, Info(met, solution.stats["num_steps"], met <= self.tol)

    @compiled
    def trace(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any, times: Array) -> Trace:
        """The way at the `times` given, which rise from 0; `energy` is F and `residual` that of the states there."""

        def one(v: Any, s: Any) -> Trace:
            path = self._solve(F, theta, v, beta, s, times).ys
            at = jax.vmap(lambda s: (F(theta, v, beta, s), residual(F, s, _force(F, theta, v, beta, s))))
            return Trace(path, *at(path))

        return jax.vmap(one)(v, s)

    def _solve(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any, times: Array | None) -> Any:
        import diffrax  # takes its time to load, and few need it

        def field(t: Any, s: Any, args: Any) -> Any:
            moved = project(F, jax.tree.map(jnp.add, s, _force(F, theta, v, beta, s)))
            return jax.tree.map(jnp.subtract, moved, s)

        return diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            t0=0.0,
            t1=self.time if times is None else times[-1],
            dt0=None,
            y0=s,
            saveat=diffrax.SaveAt(t1=True) if times is None else diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=self.tol, atol=self.tol),
            max_steps=100_000,
        )


def _force(F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any) -> Any:
    return jax.tree.map(lambda g: -g, slope(F, theta, v, beta, s))
