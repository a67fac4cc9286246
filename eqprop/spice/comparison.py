"""A network settled by the library, and by ngspice."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.compile import compiled
from eqprop.cost import SquaredError
from eqprop.energy import Resistive, Shockley
from eqprop.errors import InputError
from eqprop.relax import Block, Relaxation
from eqprop.spice.ngspice import solve
from eqprop.spice.writing import STEEP, circuit_of
from eqprop.total import System, Total, TotalEnergy, system
from eqprop.types import Data, Layers, Number, Theta

Voltages = dict[str, np.ndarray]


@dataclass(frozen=True)
class Comparison:
    """The voltages at each β by layer, the first axis counting examples: the library's and ngspice's."""

    betas: tuple[float, ...]
    library: tuple[Voltages, ...]
    ngspice: tuple[Voltages, ...]

    @property
    def differences(self) -> tuple[dict[str, float], ...]:
        """At each β, the largest difference of each layer, in volts."""
        pairs = zip(self.library, self.ngspice, strict=True)
        return tuple(
            {layer: float(np.max(np.abs(ours[layer] - theirs[layer]))) for layer in ours} for ours, theirs in pairs
        )

    @property
    def largest(self) -> float:
        """The largest difference of all, in volts."""
        return float(np.max([volts for each in self.differences for volts in each.values()]))

    def __str__(self) -> str:
        layers = list(self.library[0])
        width = max(10, *map(len, layers))
        count = len(next(iter(self.library[0].values())))
        lines = [f"largest difference from ngspice in volts, {count} example{'s' * (count > 1)}"]
        lines += ["  ".join([f"{'β':>9}", *(f"{layer:>{width}}" for layer in layers)])]
        for beta, each in zip(self.betas, self.differences, strict=True):
            lines += ["  ".join([f"{beta:>9.3g}", *(f"{each[layer]:>{width}.1e}" for layer in layers)])]
        return "\n".join(lines)

    __repr__ = __str__


def compare(
    F: TotalEnergy,
    theta: Theta,
    v: tuple[Data, Data],
    betas: Sequence[float] = (0.0,),
    *,
    relaxation: Relaxation | None = None,
    ideal: Shockley = STEEP,
    timeout: float = 60.0,
) -> Comparison:
    """Let a resistive network settle at each β, in double precision, and ask ngspice for the same.

    v: examples (x, y), counted by the first axis; y may be None if all β are 0.
    betas: 0 for the free network, others for nudged ones, which start from where the free one rests.
    relaxation: how the library settles; None: until nothing moves.
    ideal: what ideal diodes become in SPICE.
    timeout: seconds to wait for one run of ngspice.

    A nudge by a cost other than `SquaredError` is given to ngspice as constant currents, those of the settled state.
    """
    with jax.enable_x64(True):
        F = system(F)
        net = circuit_of(F)
        theta, v = jax.tree.map(_double, (theta, v))
        F.check_data(v)
        relaxation = relaxation or _until_still(net, theta, v[0])
        free, _ = relaxation(F, theta, v, 0.0, F.space.rest(len(v[0])))
        library, ngspice = [], []
        for beta in betas:
            s = relaxation(F, theta, v, float(beta), free)[0] if beta else free
            if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(s)):
                raise InputError(f"beta={beta!r}: the network does not come to rest; a push so strong has no minimum")
            own = isinstance(F, Total) and isinstance(F.cost, SquaredError)
            pulls = None if own or not beta else _pulls(F, theta, v, float(beta), s)
            library.append(jax.tree.map(np.asarray, s))
            ngspice.append(solve(F, theta, v, float(beta), currents=pulls, ideal=ideal, timeout=timeout))
    return Comparison(tuple(map(float, betas)), tuple(library), tuple(ngspice))


def _double(a: Data) -> Data:
    a = jnp.asarray(a)
    return a.astype(float) if jnp.issubdtype(a.dtype, jnp.inexact) else a


def _until_still(net: Resistive, theta: Theta, x: Data) -> Block:
    """Block descent to where currents balance but for the rounding of the largest."""
    volts = np.max(np.abs(np.asarray(jax.vmap(net.inputs)(x)[net.clamped])))
    ones = {layer: jnp.ones(size) for layer, size in net.sizes.items()}
    load = max(float(np.max(net.coupling(theta["W"], ones, layer))) for layer in net.free)
    return Block(50_000, 1e-15 * max(1.0, float(volts) * load))


@compiled
def _pulls(F: System, theta: Theta, v: Data, beta: Number, s: Layers) -> Layers:
    """−β ∂C/∂v of each example."""

    def one(v: Data, s: Layers) -> Layers:
        return jax.tree.map(lambda pull: -beta * pull, jax.grad(F.cost_at, argnums=2)(theta, v, s))

    return jax.vmap(one)(v, s)
