"""Block descent: one layer after the other goes to its minimum, the others waiting."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.energy.total import slope_of
from eqprop.errors import InputError
from eqprop.relax.base import Relaxation
from eqprop.relax.box import project, residual


class Block(Relaxation):
    """One step visits every block k of F once: s_k ← Π(s_k − ω/c_k ∂F/∂s_k).

    c_k bounds the curvature of F in block k while the others stay put, so that ω ≤ 1 never raises F; for the
    hard sigmoid with the squared cost c_k is the curvature itself, and ω = 1 the exact minimum over the block.
    ω > 1, over-relaxation, settles sooner: by default 1.2, which suits most examples, rising to 1.5 from step 6 to
    step 10, for the slow ones that are still on their way then. `backward` visits the blocks in reverse, from the
    output to the input, as a nudge travels. F must offer `blocks` and `curvature`, as Hopfield energies do;
    the state is a dict.

        >>> import eqprop as ep
        >>> net = ep.Hopfield.layered(2, 1)
        >>> F = ep.Total(net, ep.SquaredError())
        >>> theta = {"W": {"input-output": jnp.array([[0.1], [0.2]])}, "b": {"output": jnp.array([0.5])}}
        >>> v = (jnp.array([[1.0, 1.0]]), jnp.array([[0.0]]))
        >>> state, info = Block(steps=50, tol=1e-6)(F, theta, v, 0.0, net.rest(1))
        >>> state["output"].round(3).tolist(), info.converged.tolist()  # 0.1 + 0.2 + 0.5
        ([[0.800000011920929]], [True])
    """

    omega: float | None = None
    backward: bool = eqx.field(default=False, static=True, kw_only=True)

    def __check_init__(self) -> None:
        if self.omega is not None and not 0 < self.omega < 2:
            raise InputError(f"omega={self.omega!r}: over-relaxation needs 0 < ω < 2 (None: chosen for you)")

    def step(self, F: Any, theta: Any, v: Any, beta: Any, s: Any, t: Any) -> tuple[Any, Array]:
        """One visit to every block of one example: the new state, and the largest residual met on the way."""
        _check(F, s)
        omega = jnp.clip(1.2 + 0.075 * (t - 6), 1.2, 1.5) if self.omega is None else self.omega
        met = []
        for block in reversed(F.blocks) if self.backward else F.blocks:
            part = {layer: s[layer] for layer in block}
            force = {layer: -g for layer, g in slope_of(block, F, theta, v, beta, s).items()}
            met.append(residual(F, part, force))
            bound = F.curvature(theta, v, _size(beta), jax.tree.map(jnp.real, s), block)
            # A strong negative nudge can make a block concave; any positive bound is then still a bound.
            step = {k: omega / jnp.maximum(bound[k], 0.1) for k in block}
            s = s | project(F, {k: part[k] + step[k] * force[k] for k in block})
        return s, jnp.max(jnp.stack(met))


def _size(beta: Any) -> Any:
    """What bounds the curvature for a complex β: its modulus. A real one speaks for itself, sign included."""
    return jnp.abs(beta) if jnp.iscomplexobj(beta) else beta


def _check(F: Any, s: Any) -> None:
    if not hasattr(F, "blocks") or not hasattr(F, "curvature"):
        raise InputError(
            f"Block descent needs to know the blocks of F and their curvature, and {F!r} does not say: "
            "give it `blocks` and `curvature`, or use eqprop.relax.Gradient, which works for every F"
        )
    layers = sorted(s) if isinstance(s, dict) else []
    if sorted(layer for block in F.blocks for layer in block) != layers:
        raise InputError(f"the blocks {F.blocks} of F are not the layers of the state, each once: it has {layers}")
