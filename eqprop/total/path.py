"""Motion in place of rest: systems that follow inputs in time by Hamilton's equations."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.boundary import require_whole
from eqprop.errors import InputError
from eqprop.state import Space
from eqprop.total.base import System, system
from eqprop.types import Array, Data, Number, Scalar, State, Theta


class Moving(abc.ABC):
    """What `Motion` and `Echo` ask of a system: to move on its own, forth and back."""

    @abc.abstractmethod
    def travel(self, theta: Theta, v: Data, beta: Number, start: State, *, back: bool = False) -> State:
        """The path of one example from its first entry on; or, back, from its last entry to the first."""


class Path(System, Moving):
    """F along a path: F'(θ, v, β, path) = dt Σ_t F(θ, v_t, β, q_t), where q moves in the potential F.

    H(t) = ½ ‖p‖² + F(θ, v_t, β, q),   q̇ = p,   ṗ = −∂F/∂q,   t = 0, …, `steps`, each `dt` long

    The parts of v have time as their first axis, `steps` + 1 entries for an example. A state has q and p of all times:
    an array of shape (steps + 1, 2, …) for each array of F's state. The first and the last term of sums over time count
    half. The steps are leapfrog's, which the same steps with −p undo.

    By Recurrent Hamiltonian Echo Learning (Pourcel & Ernoult 2025), Theorem 1 then holds for paths. Let the system
    move freely, turn p round at the end, and let it go back under the nudge β. At β = 0 it retraces its path; else it
    brings an echo of the cost C_t of all times. With J(θ) = dt Σ_t C(θ, v_t, q_t),

    > dJ/dθ = d/dβ dt Σ_t ∂F/∂θ(θ, v_t, β, q_t^β) at β = 0,

    which is what `EquilibriumPropagation(nudge, Motion(), Echo())` takes of this system. The derivation is on the page
    about streams. Leapfrog's steps are time-symmetric, so that it holds for any dt, not in the limit only.
    """

    F: System = eqx.field(converter=system)
    steps: int = eqx.field(static=True)
    dt: float = 0.1

    def __check_init__(self) -> None:
        require_whole(1, steps=self.steps)
        if not 0 < self.dt < float("inf"):
            raise InputError(f"dt={self.dt!r}: give a positive step in time")
        if self.F.space.bounded or not self.F.conservative:
            raise InputError(f"F={self.F!r}: motion needs an energy without bounds, as with tanh, or oscillators")

    def __call__(self, theta: Theta, v: Data, beta: Number, s: State) -> Scalar:
        positions = jax.tree.map(lambda u: u[:, 0], s)
        values = jax.vmap(self.F, in_axes=(None, 0, None, 0))(theta, v, beta, positions)
        return self.dt * (jnp.sum(values) - (values[0] + values[-1]) / 2)

    @property
    def space(self) -> Space:
        """Position and momentum of each unit of F, at all times."""
        space = self.F.space
        if space.named:
            return Space({name: (self.steps + 1, 2, *shape) for name, shape in space.shapes.items()})
        return Space(None if space.layers is None else (self.steps + 1, 2, *space.layers))  # pyright: ignore[reportArgumentType]

    @property
    def smooth(self) -> bool:
        """That of F."""
        return self.F.smooth

    def predict(self, theta: Theta, v: Data, s: State) -> Array:
        """What F predicts at the end."""
        return self.F.predict(theta, jax.tree.map(lambda a: a[-1], v), jax.tree.map(lambda u: u[-1, 0], s))

    def project(self, theta: Theta) -> Theta:
        """That of F."""
        return self.F.project(theta)

    def check_data(self, v: Data) -> None:
        """Refuse data whose second axis is not time, and what F refuses at the first time."""
        if any(jnp.shape(a)[1:2] != (self.steps + 1,) for a in jax.tree.leaves(v)):
            shapes = [jnp.shape(a) for a in jax.tree.leaves(v)]
            raise InputError(f"data of the shapes {shapes}: the second axis is time, with steps + 1 = {self.steps + 1}")
        self.F.check_data(jax.tree.map(lambda a: a[:, 0], v))

    def travel(self, theta: Theta, v: Data, beta: Number, start: State, *, back: bool = False) -> State:
        """Leapfrog: half a kick, a drift, half a kick."""
        end = -1 if back else 0
        q, p = (jax.tree.map(lambda u, part=part: u[end, part], start) for part in (0, 1))
        p = jax.tree.map(jnp.negative, p) if back else p

        def kicked(p: State, q: State, at: Data) -> State:
            force = self.F.force(theta, at, beta, q)
            return jax.tree.map(lambda a, f: a + self.dt / 2 * f, p, force)

        def step(now: tuple[State, State], between: tuple[Data, Data]) -> tuple[tuple[State, State], State]:
            q, p = now
            p = kicked(p, q, between[0])
            q = jax.tree.map(lambda a, b: a + self.dt * b, q, p)
            p = kicked(p, q, between[1])
            return (q, p), _joined(q, p)

        times = jax.tree.map(lambda a: a[::-1] if back else a, v)
        between = (jax.tree.map(lambda a: a[:-1], times), jax.tree.map(lambda a: a[1:], times))
        _, rest = jax.lax.scan(step, (q, p), between)
        path = jax.tree.map(lambda first, more: jnp.concatenate([first[None], more]), _joined(q, p), rest)
        return jax.tree.map(lambda u: u[::-1].at[:, 1].multiply(-1), path) if back else path


def _joined(q: State, p: State) -> State:
    return jax.tree.map(lambda a, b: jnp.stack([a, b]), q, p)
