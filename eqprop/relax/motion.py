"""Motion and its echo: what systems that move do instead of settling."""

import jax
import jax.numpy as jnp

from eqprop.relax.base import Info, Relaxation
from eqprop.total import Moving, System, need
from eqprop.types import Data, Key, Number, State, Theta


class Motion(Relaxation):
    """Moves from the first entry of the path given, by the system's own dynamics, to the end (see `Path`).

    Nothing comes to rest: the residual is 0, as the path is one that the system takes, up to the rounding of numbers.
    """

    back = False

    def check(self, F: System) -> None:
        """Refuse a system that settles, and does not move."""
        _moving(F)

    def settle(
        self, F: System, theta: Theta, v: Data, beta: Number, s: State, key: Key | None = None
    ) -> tuple[State, Info]:
        """The paths of a batch."""
        moving = _moving(F)

        def travel(v: Data, beta: Number, s: State) -> State:
            return moving.travel(theta, v, beta, s, back=self.back)

        path = jax.vmap(travel, in_axes=(0, 0 if jnp.ndim(beta) else None, 0))(v, beta, s)
        examples, times = jax.tree.leaves(path)[0].shape[:2]
        return path, Info(jnp.zeros(examples), jnp.full(examples, times - 1), jnp.full(examples, True))


class Echo(Motion):
    """Turns round at the end of the path given and goes back, in reversed time, nudged by β; at β = 0 it retraces it.

    The path that is returned runs forward in time, as the one given.
    """

    back = True


def _moving(F: System) -> Moving:
    return need(
        F, Moving, "Motion needs a system that moves", "give eqprop.Path(F, steps), or let it settle by Gradient"
    )
