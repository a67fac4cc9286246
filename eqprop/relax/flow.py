"""The paper's dynamics in continuous time: leaky integrators that follow the force on them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.total import UNBOUNDED, TotalEnergy, box_of, slope
from eqprop.errors import InputError
from eqprop.relax.base import Info, Trace
from eqprop.relax.box import project, residual


class Flow(eqx.Module):
    """ds/dt = −∂F/∂s (section 2.2), for the time `time`, by Diffrax with steps that keep the error of s within `tol`.

    Where F has a box, a unit at an end of it stays there while the force points outwards. This is the limit of the
    paper's clipped steps s ← Π(s − ε ∂F/∂s) for ε → 0 (section 5.1). Each time that a unit reaches an end, the
    velocity jumps and the steps become short for a moment.
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
        s = project(F, jax.tree.map(lambda path: path[:, -1], solution.ys))
        met = jax.vmap(lambda v, s: residual(F, s, _force(F, theta, v, beta, s)))(v, s)
        return s, Info(met, solution.stats["num_steps"], met <= self.tol)

    @compiled
    def trace(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any, times: Array) -> Trace:
        """The way at the `times` given, which rise from 0; `energy` is F and `residual` that of the states there."""

        def one(v: Any, s: Any) -> Trace:
            path = project(F, self._solve(F, theta, v, beta, s, times).ys)
            at = jax.vmap(lambda s: (F(theta, v, beta, s), residual(F, s, _force(F, theta, v, beta, s))))
            return Trace(path, *at(path))

        return jax.vmap(one)(v, s)

    def _solve(self, F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any, times: Array | None) -> Any:
        import diffrax  # takes its time to load, and few need it

        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, s, args: velocity(F, theta, v, beta, s)),
            diffrax.Tsit5(),
            t0=0.0,
            t1=self.time if times is None else times[-1],
            dt0=None,
            y0=s,
            saveat=diffrax.SaveAt(t1=True) if times is None else diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=self.tol, atol=self.tol),
            max_steps=100_000,
        )


def velocity(F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any) -> Any:
    """ds/dt of one example: the force, but 0 for a unit at an end of the box that the force would push out.

    A state beyond an end, where rounding may have left it, counts as at that end.
    """
    force = _force(F, theta, v, beta, project(F, s))
    if box_of(F) == UNBOUNDED:
        return force
    low, high = box_of(F)
    return jax.tree.map(lambda u, f: jnp.where(((u <= low) & (f < 0)) | ((u >= high) & (f > 0)), 0, f), s, force)


def _force(F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any) -> Any:
    return jax.tree.map(lambda g: -g, slope(F, theta, v, beta, s))
