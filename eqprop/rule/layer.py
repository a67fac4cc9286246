"""EP as a layer: a function (θ, x) → s for any JAX program, whose backward pass is a nudged phase."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from optax.tree_utils import tree_vdot

from eqprop.boundary import entrance
from eqprop.cost import Cost, Curved
from eqprop.energy.base import Energy
from eqprop.errors import InputError
from eqprop.nudge import Nudge, Symmetric
from eqprop.relax import Block, Info, Relaxation
from eqprop.relax.base import check_batch, require_rows
from eqprop.rule.equilibrium import DRAW, nudged_states
from eqprop.state import Space
from eqprop.total import System, Total, require_energy
from eqprop.types import Array, Data, Key, Number, Scalar, State, Theta


class Pull(Cost, Curved):
    """C(g, s) = ⟨g, s⟩ with the cotangent g as the target: its force is −β g, and it has no curvature."""

    def __call__(self, theta: Theta, y: State, s: State) -> Scalar:
        return jnp.asarray(tree_vdot(y, s))

    def curvature(self, theta: Theta, beta: Number) -> dict[str, Any]:
        """No bounds, as it is linear."""
        return {}


class Layer(eqx.Module):
    """s = argmin_s E(θ, x, s) as a function of θ and x, for a batch; made by `layer`.

    Let g be the cotangent of s, what comes from the rest of the program on its way back. The derivatives of ⟨g, s⟩ are
    those of the objective whose cost is ⟨g, s⟩, so Theorem 1 gives both from nudged phases:

        dθ = Σ_k w_k ∂E/∂θ(θ, x, s^{β_k}),   dx = Σ_k w_k ∂E/∂x(θ, x, s^{β_k}),   F = E(θ, x, s) + β ⟨g, s⟩

    g is divided by its largest component in the batch, and the contrast multiplied by it. So β is about how far the
    unit that is pulled at most moves, and the relative error of the gradient does not depend on the size of g.
    """

    F: Total
    nudge: Nudge
    free: Relaxation
    nudged: Relaxation

    @entrance
    def __call__(self, theta: Theta, x: Data, s: State | None = None, key: Key | None = None) -> State:
        """The states that the examples of x settle to; the first axis of all arrays counts examples.

        s is where they begin, None for where the energy says; `key` is for nudges and relaxations that draw, as
        `RandomSign` and `Spiking` do, and None is always the same.
        """
        s = self._start(x, s)
        key = jax.random.key(0) if key is None else key
        return _settled((theta, x), jax.lax.stop_gradient(s), key, self)

    @entrance
    def settle(self, theta: Theta, x: Data, s: State | None = None) -> tuple[State, Info]:
        """The same states, and how they settled: to see whether they converged. Not to be differentiated."""
        return self.free(self.F, theta, (x, None), 0.0, self._start(x, s))

    def _start(self, x: Data, s: State | None) -> State:
        if s is None:
            require_rows("x", x)
            if not (leaves := jax.tree.leaves(x)):
                raise InputError(f"x={x!r} does not tell how many examples there are: give s, where they begin")
            s = self.F.space.rest(len(leaves[0]))
        check_batch(self.F, (x, None), s)
        return s


NUDGE = Symmetric(0.05)
FREE = Block(steps=100, tol=1e-5, accelerate=True)
NUDGED = Block(steps=100, tol=1e-5, accelerate=True, order="backward")


def layer(
    energy: Energy | Callable[..., Any],
    nudge: Nudge = NUDGE,
    free: Relaxation = FREE,
    nudged: Relaxation = NUDGED,
    *,
    space: Space | None = None,
) -> Layer:
    """EP as a layer: a function (θ, x) → s that any JAX program can contain and differentiate in reverse.

    energy: E(θ, x, s) of one example: a network, or any function.
    nudge: the β_k of the backward pass, in units of the state.
    free, nudged: how the states settle in the forward and in the backward pass.
    space: what the state of a plain function is, and its bounds.

    The gradient is as good as the fixed points are: what a settling leaves to do is divided by β.

        >>> import eqprop as ep
        >>> net = ep.Hopfield.layered(3, 4, 2)
        >>> theta, x = net.init(jax.random.key(0)), jnp.ones((5, 3))
        >>> settle = layer(net)
        >>> settle(theta, x)["output"].shape
        (5, 2)
        >>> gradient = jax.grad(lambda theta: jnp.sum(settle(theta, x)["output"] ** 2))(theta)
        >>> gradient["W"]["input-hidden"].shape
        (3, 4)
    """
    if isinstance(energy, System):
        raise InputError(f"energy={energy!r} is a total energy: give its energy alone, the cost is what comes behind")
    F = Total(energy, Pull(), space=space)
    require_energy(F, "A layer", "give an energy, as Hopfield with symmetric weights")
    if callable(nudge.beta):
        raise InputError(f"nudge={nudge!r} has a schedule, and a layer counts no minibatches: give a number as beta")
    for part in (nudge, free, nudged):
        part.check(F)
    for relaxation in (free, nudged):
        if relaxation.rounding is not None:
            nudge.check_precision(relaxation.rounding)
    return Layer(F, nudge, free, nudged)


def drawn(key: Key) -> Array:
    """Two keys for what relaxations draw, in the free and in the nudged phases."""
    return jax.random.split(jax.random.fold_in(key, DRAW))


@eqx.filter_custom_vjp
def _settled(given: tuple[Theta, Data], s: State, key: Key, layer: Layer) -> State:
    theta, x = given
    return layer.free.with_key(drawn(key)[0]).settle(layer.F, theta, (x, None), 0.0, s)[0]


@_settled.def_fwd
def _(perturbed: Any, given: tuple[Theta, Data], s: State, key: Key, layer: Layer) -> tuple[State, State]:
    s = _settled.fn(given, s, key, layer)
    return s, s


@_settled.def_bwd
def _(s: State, g: State, perturbed: Any, given: tuple[Theta, Data], _s: State, key: Key, layer: Layer) -> Any:
    g = jax.tree.map(lambda u, pull: jnp.zeros_like(u) if pull is None else pull, s, g)
    return pulled_back(layer.F.energy, *given, s, g, layer.nudge, layer.nudged, key)[0]


def pulled_back(
    energy: Energy, theta: Theta, x: Data, s: State, g: State, nudge: Nudge, nudged: Relaxation, key: Key
) -> tuple[tuple[Theta, Data], Info]:
    """The cotangents of θ and x, given those g of the free states s; and how the nudged phases settled."""
    size = jnp.max(jnp.stack([jnp.max(jnp.abs(u), initial=0.0) for u in jax.tree.leaves(g)]))
    unit = jax.tree.map(lambda u: u / jnp.where(size > 0, size, 1), g)
    beta, w = nudge(key)
    F = Total(energy, Pull())
    states, info = nudged_states(nudged.with_key(drawn(key)[1]), nudge, F, theta, (x, unit), beta, s)

    def contrast(given: tuple[Theta, Data]) -> Array:
        of_batch = jax.vmap(energy, in_axes=(None, 0, 0))
        values = jax.vmap(of_batch, in_axes=(None, None, 0))(*given, states)
        return size * jnp.real(jnp.dot(w, jnp.sum(values, axis=1)))

    return eqx.filter_grad(contrast)((theta, x)), info
