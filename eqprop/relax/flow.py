"""The paper's dynamics in continuous time: leaky integrators that follow the force on them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from eqprop.boundary import entrance, short
from eqprop.compile import compiled
from eqprop.errors import InputError
from eqprop.relax.base import Info, Relaxation, Trace, checked
from eqprop.total import System, TotalEnergy
from eqprop.types import Array, Data, Key, Number, State, Theta


class Flow(Relaxation):
    """ds/dt = −∂F/∂s (section 2.2), for the time `time`, by Diffrax with steps that keep the error of s within `tol`.

    A unit at a bound stays there while the force points outwards. This is the limit of the
    paper's clipped steps s ← Π(s − ε ∂F/∂s) for ε → 0 (section 5.1). Each time that a unit reaches a bound, the
    velocity jumps and the steps become short for a moment.
    """

    time: float = 100.0
    tol: float = 1e-6

    def __check_init__(self) -> None:
        for name in ("time", "tol"):
            if not 0 < (value := getattr(self, name)) < float("inf"):
                raise InputError(f"{name}={value!r}: give a positive number")

    def settle(
        self, F: System, theta: Theta, v: Data, beta: Number, s: State, key: Key | None = None
    ) -> tuple[State, Info]:
        """Flow from s; a residual within `tol` counts as converged."""
        axes = (0, 0 if jnp.ndim(beta) else None, 0)
        solution = jax.vmap(lambda v, beta, s: self.solve(F, theta, v, beta, s, None), axes)(v, beta, s)
        s = F.space.project(jax.tree.map(lambda path: path[:, -1], solution.ys))
        met = jax.vmap(lambda v, beta, s: F.space.residual(s, F.force(theta, v, beta, s)), axes)(v, beta, s)
        return s, Info(met, solution.stats["num_steps"], met <= self.tol)

    @entrance
    def trace(
        self,
        F: TotalEnergy,
        theta: Theta,
        v: Data,
        beta: Number,
        s: State,
        key: Key | None = None,
        *,
        times: Array | None = None,
    ) -> Trace:
        """The way at the `times` given, which rise from 0; `energy` is F and `residual` that of the states there.

        Without times, at a hundred that are equally far apart.
        """
        times = jnp.linspace(0.0, self.time, 101) if times is None else _rising(times)
        return _trace(self, checked(self, F, v, beta, s), theta, v, beta, s, times)

    def solve(self, F: System, theta: Theta, v: Data, beta: Number, s: State, times: Array | None) -> Any:
        """Diffrax's solution for one example, at its end or at the `times` given."""
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


@compiled
def _trace(flow: Flow, F: System, theta: Theta, v: Data, beta: Number, s: State, times: Array) -> Trace:
    def one(v: Data, beta: Number, s: State) -> Trace:
        path = F.space.project(flow.solve(F, theta, v, beta, s, times).ys)
        at = jax.vmap(lambda s: (F(theta, v, beta, s), F.space.residual(s, F.force(theta, v, beta, s))))
        return Trace(path, *at(path))

    return jax.vmap(one, (0, 0 if jnp.ndim(beta) else None, 0))(v, beta, s)


def _rising(times: Array) -> Array:
    """Times as floating numbers; refused unless they are two or more that rise from 0."""
    if jnp.ndim(times) != 1 or len(times) < 2 or jnp.iscomplexobj(times):
        raise InputError(f"times={short(times)} are not points of time in a row: give two or more real numbers")
    if not isinstance(times, Tracer) and not (times[0] == 0 and np.all(np.diff(np.asarray(times, float)) > 0)):
        raise InputError("times must begin at 0 and rise: give them in order, as jnp.linspace(0, 10, 101)")
    return jnp.asarray(times, jnp.result_type(times, jnp.float32))


def velocity(F: System, theta: Theta, v: Data, beta: Number, s: State) -> State:
    """ds/dt of one example: the force, but 0 for a unit at a bound that the force would push out.

    A state beyond a bound, where rounding may have left it, counts as at that bound.
    """
    return F.space.along(s, F.force(theta, v, beta, F.space.project(s)))
