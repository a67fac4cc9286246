"""F = E + βC: an energy and a cost (section 3.1)."""

from collections.abc import Callable
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.boundary import CHECKED, require_arguments
from eqprop.cost import Clampable, Cost, Curved, PlainCost
from eqprop.energy.base import Blockwise, Energy, PlainEnergy, Reversible
from eqprop.errors import InputError
from eqprop.state import Space
from eqprop.total.base import Ability, Blocks, Outputs, Reversal, System, by_layer
from eqprop.types import Array, Data, Layers, Number, Scalar, State, Theta


class Total(System):
    """F(θ, v, β, s) = E(θ, x, s) + β C(θ, y, s) with v = (x, y).

    Any functions of that form will do; of a plain energy, `space` says what the state is. What the energy and the cost
    say of themselves (bounds, blocks, what is predicted, …) holds for F. To predict without a target, let y be None:
    then F is E.

        >>> F = Total(lambda theta, x, s: (s - theta * x) ** 2 / 2, lambda theta, y, s: (s - y) ** 2 / 2)
        >>> F(2.0, (3.0, 7.0), 0.5, 5.0)  # ½ (5 − 6)² + 0.5 · ½ (5 − 7)²
        1.5
    """

    energy: Any
    cost: Any

    def __init__(
        self,
        energy: Annotated[Energy | Callable[..., Any], CHECKED],
        cost: Annotated[Cost | Callable[..., Any], CHECKED],
        *,
        space: Space | None = None,
    ):
        for role, part, signature in (("energy", energy, "E(theta, x, s)"), ("cost", cost, "C(theta, y, s)")):
            if not callable(part):
                raise InputError(f"{role}={part!r} cannot be called: give a function {signature}")
            if isinstance(part, type):
                raise InputError(
                    f"{role}={part.__name__} is a class: give {part.__name__}(), or a function {signature}"
                )
        if isinstance(energy, Energy) and space is not None:
            raise InputError(f"energy={energy!r} says itself what its states are: leave `space` out")
        if not isinstance(energy, Energy):
            require_arguments(energy, "energy", "theta", "x", "s")
        if not isinstance(cost, Cost):
            require_arguments(cost, "cost", "theta", "y", "s")
        self.energy = energy if isinstance(energy, Energy) else PlainEnergy(energy, space or Space())
        self.cost = cost if isinstance(cost, Cost) else PlainCost(cost)

    def __call__(self, theta: Theta, v: tuple[Data, Data], beta: Number, s: State) -> Scalar:
        x, y = v
        if y is None:
            return self.energy(theta, x, s)
        return self.energy(theta, x, s) + beta * self.cost(theta, y, s)

    def cost_at(self, theta: Theta, v: tuple[Data, Data], s: State) -> Scalar:
        """C(θ, y, s), which needs a target."""
        if v[1] is None:
            raise InputError("the targets are None, and the cost compares with them: give v = (inputs, targets)")
        if not self.conservative:  # a vector field need not have an energy
            return self.cost(theta, v[1], s)
        return super().cost_at(theta, v, s)

    @property
    def conservative(self) -> bool:
        """Whether the energy's force is its gradient."""
        return self.energy.conservative

    @property
    def space(self) -> Space:
        """That of the energy."""
        return self.energy.space

    @property
    def smooth(self) -> bool:
        """That of the energy."""
        return self.energy.smooth

    def field(self, theta: Theta, v: tuple[Data, Data], beta: Number, s: State) -> State:
        """The vector field of the energy − β ∂C/∂s."""
        x, y = v
        field = self.energy.field(theta, x, s)
        if y is None:
            return field
        smooth = any(jnp.iscomplexobj(u) for u in jax.tree.leaves(s))
        pull = jax.grad(self.cost, argnums=2, holomorphic=smooth)(theta, y, s)
        return jax.tree.map(lambda f, p: f - beta * p, field, pull)

    def predict(self, theta: Theta, v: Data, s: State) -> Array:
        """What the cost compares with the target."""
        return self.cost.predict(theta, s)

    def take(self, v: tuple[Data, Data]) -> tuple[Data, Data]:
        """Inputs as the energy takes them, and targets as the cost does."""
        x, y = v
        return self.energy.take(x), None if y is None else self.cost.take(y, self.space)

    def check_data(self, v: tuple[Data, Data]) -> None:
        """Refuse inputs that the energy refuses, and targets that the cost does."""
        if not isinstance(v, tuple | list) or len(v) != 2:
            raise InputError(f"v is {type(v).__name__}: give (inputs, targets), with None for targets to predict")
        x, y = v
        for name, part in (("inputs", x), ("targets", y)):
            if any(map(jnp.iscomplexobj, jax.tree.leaves(part))):
                raise InputError(f"the {name} are complex numbers: give real ones")
        self.energy.check_inputs(x)
        if y is not None:
            self.cost.check_targets(y)

    def project(self, theta: Theta) -> Theta:
        """That of the energy."""
        return self.energy.project(theta)

    def offer(self, ability: type[Ability]) -> Ability | None:
        """What the energy and the cost can do, alone or together."""
        if isinstance(self, ability):
            return self
        for together, needs in VIEWS.items():
            if ability in together.__mro__:
                able = isinstance(self.energy, needs[0]) and isinstance(self.cost, needs[1])
                return together(self) if able else None
        return self.energy if isinstance(self.energy, ability) else super().offer(ability)


class TotalBlocks(eqx.Module, Blocks):
    """The blocks of the energy; its curvature and that of the cost."""

    F: Total

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        return self.F.energy.blocks

    def curvature(
        self, theta: Theta, v: tuple[Data, Data], beta: Number, s: Layers, block: tuple[str, ...]
    ) -> dict[str, Any]:
        x, _ = v
        added = by_layer("curvature of the cost", self.F.cost.curvature(theta, beta))
        bounds = by_layer("curvature of the energy", self.F.energy.curvature(theta, x, s, block), block)
        # A strong negative nudge can make a block concave; any positive bound is then still a bound.
        return {layer: jnp.maximum(bound + added.get(layer, 0.0), 0.1 * bound) for layer, bound in bounds.items()}


class TotalOutputs(eqx.Module, Outputs):
    """The outputs where the cost is least, clamped in the energy."""

    F: Total

    def clamp(self, v: tuple[Data, Array]) -> Layers:
        return self.F.cost.clamp(v[1])

    def clamped(self, layers: tuple[str, ...]) -> System:
        return Clamped(self.F.energy, layers)

    def energy_at(self, theta: Theta, v: tuple[Data, Array], s: Layers) -> Scalar:
        return self.F.energy(theta, v[0], s)

    def require_no_penalty(self, rule: str) -> None:
        self.F.cost.require_no_penalty(rule)


class TotalReversal(eqx.Module, Reversal):
    """The energy reversed, with the same cost."""

    F: Total

    @property
    def reversed(self) -> System:
        return Total(self.F.energy.reversed, self.F.cost)

    def held_at(self, theta: Theta, v: tuple[Data, Data], s: State) -> tuple[Data, Data]:
        x, y = v
        return self.F.energy.held_at(theta, x, s), y


VIEWS: dict[type, tuple[type, type]] = {
    TotalBlocks: (Blockwise, Curved),
    TotalOutputs: (Energy, Clampable),
    TotalReversal: (Reversible, Cost),
}


class Clamped(System):
    """E(θ, x, s) with the `layers` of s held at given values, v = ((x, y), values); the state is what remains.

    As β → ∞, the only outputs of finite energy F = E + βC are those where C is least. Bounds, blocks and curvature are
    those of E, so whatever lets E settle also settles what remains.
    """

    energy: Any
    layers: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, theta: Theta, v: tuple[Data, Layers], beta: Number, s: Layers) -> Scalar:
        (x, _), held = v
        return self.energy(theta, x, s | held)

    @property
    def space(self) -> Space:
        """That of the energy, without what is held."""
        space = self.energy.space
        left = {layer: shape for layer, shape in space.shapes.items() if layer not in self.layers}
        return Space(left, space.low, space.high)

    def offer(self, ability: type[Ability]) -> Ability | None:
        """The blocks of the energy, if it has them."""
        if ability is Blocks and isinstance(self.energy, Blockwise):
            return ClampedBlocks(self)  # pyright: ignore[reportReturnType]
        return super().offer(ability)


class ClampedBlocks(eqx.Module, Blocks):
    """Those of the energy, without what is held."""

    F: Clamped

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        left = (tuple(layer for layer in block if layer not in self.F.layers) for block in self.F.energy.blocks)
        return tuple(block for block in left if block)

    def curvature(self, theta: Theta, v: Any, beta: Number, s: Layers, block: tuple[str, ...]) -> dict[str, Any]:
        (x, _), held = v
        return self.F.energy.curvature(theta, x, s | held, block)
