"""F, the total energy: the one object that all of Equilibrium Propagation is formulated in (section 3)."""

from collections.abc import Callable
from math import inf
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.errors import InputError

UNBOUNDED = (-inf, inf)


class TotalEnergy(Protocol):
    """F(θ, v, β, s) → scalar, for one example: any function that JAX can differentiate.

    θ, v and s may be arrays or dicts, tuples, … of arrays. These attributes are looked for and used if they are
    there: `box`, the (low, high) that states are clipped to; `blocks` and `curvature`, for block descent;
    `rest`, the state to start from. `Hopfield` has them all. An F with a method `slope`, of the same arguments, settles
    along −slope instead of −∂F/∂s: a vector field, which need not be the gradient of anything.
    """

    def __call__(self, theta: Any, v: Any, beta: Any, s: Any, /) -> Array: ...


class Total(eqx.Module):
    """F(θ, v, β, s) = E(θ, x, s) + β C(θ, y, s) with v = (x, y).

    Any callables of that form will do. The box, the blocks and the curvature come from the energy and the
    cost where they have them. To predict without a target, let y be None: then F is E.

        >>> F = Total(lambda theta, x, s: (s - theta * x) ** 2 / 2, lambda theta, y, s: (s - y) ** 2 / 2)
        >>> F(2.0, (3.0, 7.0), 0.5, 5.0)  # ½ (5 − 6)² + 0.5 · ½ (5 − 7)²
        1.5
    """

    energy: Any
    cost: Any

    def __check_init__(self) -> None:
        for role, signature in (("energy", "E(theta, x, s)"), ("cost", "C(theta, y, s)")):
            if not callable(part := getattr(self, role)):
                raise InputError(f"{role}={part!r} cannot be called: give a function {signature}")

    def __call__(self, theta: Any, v: tuple[Any, Any], beta: Any, s: Any) -> Array:
        x, y = v
        if y is None:
            return self.energy(theta, x, s)
        return self.energy(theta, x, s) + beta * self.cost(theta, y, s)

    @property
    def slope(self) -> Callable[[Any, Any, Any, Any], Any] | None:
        """Where the energy brings a vector field, that field plus β ∂C/∂s."""
        if not hasattr(self.energy, "slope"):
            return None

        def slope(theta: Any, v: tuple[Any, Any], beta: Any, s: Any) -> Any:
            x, y = v
            field = self.energy.slope(theta, x, s)
            if y is None:
                return field
            pull = jax.grad(self.cost, argnums=2)(theta, y, s)
            return jax.tree.map(lambda f, p: f + beta * p, field, pull)

        return slope

    @property
    def box(self) -> tuple[float, float]:
        """The (low, high) that states are clipped to: that of the energy; all numbers, if it has none."""
        return box_of(self.energy)

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The parts of the state that block descent visits one after the other: those of the energy."""
        return self.energy.blocks

    @property
    def rest(self) -> Callable[[int], Any]:
        """n → the state that n examples start from: that of the energy."""
        return self.energy.rest

    def curvature(self, theta: Any, v: tuple[Any, Any], beta: Any, s: Any, block: Any) -> dict[str, Any]:
        """A bound on ∂²F/∂s² for each layer of `block` while the other blocks stay put."""
        for part in (self.energy, self.cost):
            if not hasattr(part, "curvature"):
                raise InputError(f"block descent needs {part!r} to bound its `curvature`: add it, or use Gradient")
        x, _ = v
        added = self.cost.curvature(beta)
        bounds = self.energy.curvature(theta, x, s, block)
        return {layer: bound + added.get(layer, 0.0) for layer, bound in bounds.items()}


def box_of(F: Any) -> tuple[float, float]:
    """The (low, high) that states are clipped to; all numbers, if F does not say."""
    return getattr(F, "box", UNBOUNDED)


def slope(F: TotalEnergy, theta: Any, v: Any, beta: Any, s: Any) -> Any:
    """∂F/∂s, or the vector field that F brings in its place.

    For complex s and a smooth F, it is the complex derivative, which that of the real part determines.
    """
    if has_field(F):
        return F.slope(theta, v, beta, s)  # pyright: ignore[reportAttributeAccessIssue]
    return jax.grad(lambda s: jnp.real(F(theta, v, beta, s)))(s)


def slope_of(layers: tuple[str, ...], F: TotalEnergy, theta: Any, v: Any, beta: Any, s: dict[str, Any]) -> dict:
    """`slope` in some layers of s alone, the others being constants."""
    part = {layer: s[layer] for layer in layers}
    if has_field(F):
        found = slope(F, theta, v, beta, s)
        return {layer: found[layer] for layer in layers}
    return slope(lambda theta, v, beta, part: F(theta, v, beta, s | part), theta, v, beta, part)


def has_field(F: TotalEnergy) -> bool:
    """Whether F brings a vector field to settle along, in place of ∂F/∂s."""
    return getattr(F, "slope", None) is not None


def require_energy(F: TotalEnergy, rule: str) -> None:
    """Refuse a vector field, for rules that compare or sample energies."""
    if has_field(F):
        raise InputError(f"{rule} needs an energy, and F={F!r} settles along a vector field: take VectorField")


def energy_of(F: TotalEnergy) -> Callable[[Any, Any, Any], Array]:
    """E(θ, v, s) := F(θ, v, 0, s) (section 3.4, "Another View of the Framework")."""
    return lambda theta, v, s: F(theta, v, 0.0, s)


def cost_of(F: TotalEnergy) -> Callable[[Any, Any, Any], Array]:
    """C(θ, v, s) := ∂F/∂β(θ, v, 0, s), by automatic differentiation (section 3.4)."""
    return lambda theta, v, s: jax.grad(F, argnums=2)(theta, v, 0.0, s)
