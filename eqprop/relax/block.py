"""Block descent: one layer after the other goes to its minimum, the others waiting."""

from functools import reduce
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.errors import InputError
from eqprop.relax.base import Stepwise
from eqprop.total import Blocks, System, by_layer, need
from eqprop.types import Array, Data, Int, Layers, Number, Scalar, Theta


class Block(Stepwise):
    """One step visits every block k of F: s_k ← Π(s_k − ω/c_k ∂F/∂s_k).

    c_k bounds the curvature of F in block k while the others stay put, so that ω ≤ 1 never raises F; for the
    hard sigmoid with the squared cost c_k is the curvature itself, and ω = 1 the exact minimum over the block.
    ω > 1, over-relaxation, settles sooner: by default 1.2, which suits most examples, rising to 1.5 from step 6 to
    step 10, for the slow ones that are still on their way then.

    order: "forward" visits the blocks from the input to the output, so that the first step from rest is a feed-forward
        pass; "backward" from the output to the input, as a nudge travels; "both" goes forward and then back in one
        step. Where pooling has switches, the way back costs a third of the way there, as it looks at the same fields.

    F must offer `Blocks`, as Hopfield energies do; the state is a dict.

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
    order: Literal["forward", "backward", "both"] = eqx.field(default="forward", static=True, kw_only=True)

    def __check_init__(self) -> None:
        if self.omega is not None and not 0 < self.omega < 2:
            raise InputError(f"omega={self.omega!r}: over-relaxation needs 0 < ω < 2 (None: chosen for you)")
        if self.order not in ("forward", "backward", "both"):
            raise InputError(f"order={self.order!r}: choose forward, backward or both")

    def check(self, F: System) -> None:
        """Refuse an F that does not say its blocks and their curvature."""
        _blocks(F)

    @property
    def remedy(self) -> str:
        take = "Take" if self.omega is None else f"Lower omega={float(self.omega):g}, or take"
        return f"{take} more than {self.steps} steps; weights that are too large take longest"

    @property
    def restraint(self) -> str:
        return f"{super().restraint}, and that a `curvature` of your own bounds ∂²F/∂s² in each block"

    def move(
        self, F: System, theta: Theta, v: Data, beta: Number, s: Layers, t: Int[Array, ""]
    ) -> tuple[Layers, Scalar]:
        """One step of one example: the new state, and the largest residual met on the way."""
        offered = _blocks(F)
        blocks = offered.blocks
        _check_layers(blocks, s)
        omega = jnp.clip(1.2 + 0.075 * (t - 6), 1.2, 1.5) if self.omega is None else self.omega
        met = []
        for block in self._visits(blocks):
            part = {layer: s[layer] for layer in block}
            force = F.force(theta, v, beta, s, block)
            met.append(F.space.residual(part, force))
            real = jax.tree.map(jnp.real, s)
            bound = by_layer("curvature", offered.curvature(theta, v, _size(beta), real, block), block)
            step = {k: omega / bound[k] for k in block}
            # The layers that come next see this one in the precision of the state, whatever that of ω and β.
            s = s | F.space.project({k: (part[k] + step[k] * force[k]).astype(part[k].dtype) for k in block})
        return s, reduce(jnp.maximum, met)

    def _visits(self, blocks: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        """The blocks in the order of one step; on the way back, the last one is not visited again."""
        back = blocks[::-1]
        return {"forward": blocks, "backward": back, "both": (*blocks, *back[1:])}[self.order]


def _size(beta: Number) -> Number:
    """What bounds the curvature for a complex β: its modulus. A real one speaks for itself, sign included."""
    return jnp.abs(beta) if jnp.iscomplexobj(beta) else beta


def _blocks(F: System) -> Blocks:
    return need(
        F,
        Blocks,
        "Block descent needs the blocks of F and a bound on the curvature in each",
        "let the energy be an eqprop.Blockwise and the cost an eqprop.Curved, or use eqprop.Gradient, which works for "
        "every F",
    )


def _check_layers(blocks: tuple[tuple[str, ...], ...], s: Layers) -> None:
    layers = sorted(s) if isinstance(s, dict) else []
    if sorted(layer for block in blocks for layer in block) != layers:
        raise InputError(f"the blocks {blocks} of F are not the layers of the state, each once: it has {layers}")
