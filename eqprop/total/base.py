"""F, the total energy, and all that relaxations and rules may ask of it (section 3)."""

import abc
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from eqprop.boundary import one_number, require_arguments, short
from eqprop.compile import is_known
from eqprop.cost import Cost
from eqprop.energy.base import Energy, check_field
from eqprop.errors import InputError
from eqprop.given import as_arrays
from eqprop.state import Space
from eqprop.types import Array, Data, Layers, Number, Scalar, State, Theta, Weight

Ability = TypeVar("Ability")
LARGEST = 1e12
"""Of the numbers in data, in single precision: products of three are still finite."""


class TotalEnergy(Protocol):
    """F(θ, v, β, s) → a number, for one example: a `System`, or any function that JAX can differentiate."""

    def __call__(self, theta: Theta, v: Data, beta: Number, s: State, /) -> Any: ...


class System(eqx.Module):
    """F(θ, v, β, s) for one example, and what else there is to say of it.

    Everything has a default that follows from F by automatic differentiation, so a plain function is enough wherever
    an F is asked for (`system` makes it one of these). Override what is known better: a vector field has a `field`,
    a device that is measured `contrast`, a network whose answer is not a part of its state `predict`, one whose weights
    are conductances `project`. Further abilities are classes of their own, which a relaxation or a rule asks for by
    `offer`; one that is missing is refused in words.
    """

    conservative: ClassVar[bool] = True
    """Whether the force is −∂F/∂s of the F that is called, as rules that compare or sample energies need."""
    traceable: ClassVar[bool] = True
    """Whether JAX can trace all of it; a device that is measured cannot be, and `update` does not compile it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_field(cls)

    @abc.abstractmethod
    def __call__(self, theta: Theta, v: Data, beta: Number, s: State) -> Scalar:
        """F, which JAX can differentiate with respect to each argument."""

    @property
    def space(self) -> Space:
        """What the state is, and its bounds; by default nothing is known and nothing bounded."""
        return Space()

    @property
    def smooth(self) -> bool:
        """Whether F has all derivatives by s within the bounds, as the holomorphic nudge needs; by default it has."""
        return True

    def force(self, theta: Theta, v: Data, beta: Number, s: State, layers: tuple[str, ...] | None = None) -> State:
        """What pulls at the state: −∂F/∂s, or the `field` of a system that is not conservative.

        With `layers`, only what pulls at these. For complex s it is the complex derivative, for which F must be smooth.
        """
        if not self.conservative:
            field = self.field(theta, v, beta, s)
            return field if layers is None else {layer: field[layer] for layer in layers}
        part, whole = (s, lambda s: s) if layers is None else ({k: s[k] for k in layers}, lambda part: s | part)
        smooth = any(jnp.iscomplexobj(u) for u in jax.tree.leaves(s))
        slope = jax.grad(lambda part: self(theta, v, beta, whole(part)), holomorphic=smooth)(part)
        return jax.tree.map(jnp.negative, slope)

    def field(self, theta: Theta, v: Data, beta: Number, s: State) -> State:
        """ds/dt, for a system that is not conservative."""
        raise InputError(f"F={self!r} is not conservative, and does not say its field: implement `field`")

    def cost_at(self, theta: Theta, v: Data, s: State) -> Scalar:
        """C(θ, v, s) := ∂F/∂β(θ, v, 0, s) (section 3.4)."""
        return jax.grad(self, argnums=2)(theta, v, 0.0, s)

    def contrast(
        self, theta: Theta, v: Data, beta: Array, w: Array, states: State, weight: Weight | None = None
    ) -> Theta:
        """Σ_k w_k ∂F/∂θ(θ, v, β_k, s_k), averaged over a batch (Theorem 1); the axes of `states` are k and examples."""

        def total(theta: Theta) -> Array:
            per_example = jax.vmap(self, in_axes=(None, 0, None, 0))
            values = jax.vmap(per_example, in_axes=(None, None, 0, 0))(theta, v, beta, states)
            return jnp.real(w @ jnp.average(values, axis=1, weights=weight))

        return jax.grad(total)(theta)

    def predict(self, theta: Theta, v: Data, s: State) -> Array:
        """The outputs of one example whose state has settled to s."""
        raise InputError(f"F={self!r} does not say what it predicts: give eqprop.system(F, predict=…)")

    def take(self, v: Data) -> Data:
        """Examples of a batch in the form that F asks for, where they come in another; by default as they are."""
        return v

    def check_data(self, v: Data) -> None:
        """Refuse examples of a batch that cannot be meant; unlike in F, their values are known here. By default none.

        Whoever compiles asks it first.
        """

    def project(self, theta: Theta) -> Theta:
        """The nearest θ that is allowed; by default all are."""
        return theta

    def offer(self, ability: type[Ability]) -> Ability | None:
        """What has the ability asked for, or None."""
        return self if isinstance(self, ability) else None


class Blocks(abc.ABC):
    """What block descent asks of a system; the state is a dict of layers."""

    @property
    @abc.abstractmethod
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The layers that move at once, in the order from input to output; each layer is in one block."""

    @abc.abstractmethod
    def curvature(
        self, theta: Theta, v: Data, beta: Number, s: Layers, block: tuple[str, ...]
    ) -> dict[str, Array | float]:
        """For each layer of `block` a bound on ∂²F/∂s² while the other blocks stay put; it is above 0."""


class Reversal(abc.ABC):
    """What asymmetric Equilibrium Propagation asks of a vector field: other dynamics, whose Jacobian is transposed."""

    @property
    @abc.abstractmethod
    def reversed(self) -> "System":
        """A system of the same states, for the data that `held_at` gives.

        At β = 0 its force is 0 where that of the vector field is, and has there the Jacobian Jᵀ.
        """

    @abc.abstractmethod
    def held_at(self, theta: Theta, v: Data, s: State) -> Data:
        """The data of the reversed system that rests at s, a free fixed point of one example."""


class Outputs(abc.ABC):
    """What rules ask for that clamp the outputs, as an infinite β would (section 4.1)."""

    @abc.abstractmethod
    def clamp(self, v: Data) -> Layers:
        """The outputs by layer where the cost is least, for one example."""

    @abc.abstractmethod
    def clamped(self, layers: tuple[str, ...]) -> "System":
        """The energy alone with these layers held, as a system of the others with v = (v, values held)."""

    @abc.abstractmethod
    def energy_at(self, theta: Theta, v: Data, s: Layers) -> Scalar:
        """E(θ, v, s), the energy without the cost."""

    @abc.abstractmethod
    def require_no_penalty(self, rule: str) -> None:
        """Refuse penalties on θ, for a rule that does not see the cost."""


class Plain(System):
    """A function F(θ, v, β, s), and what its user says of it."""

    function: Callable[..., Any]
    space_: Space
    predict_: Callable[..., Any] | None
    project_: Callable[..., Any] | None

    def __call__(self, theta: Theta, v: Data, beta: Number, s: State) -> Scalar:
        try:
            value = self.function(theta, v, beta, s)
        except (TypeError, AttributeError) as error:
            if not (isinstance(v, tuple) and v[-1] is None):
                raise
            raise InputError(
                f"F={short(self.function)} does not do without a target, which is None to predict ({error}): leave the "
                "cost out where it is None, or give trainer.predict(theta, (x, y)) any y, which does nothing at β = 0"
            ) from error
        return one_number(value, "F", self.function)

    @property
    def space(self) -> Space:
        return self.space_

    def predict(self, theta: Theta, v: Data, s: State) -> Array:
        return super().predict(theta, v, s) if self.predict_ is None else self.predict_(theta, v, s)

    def project(self, theta: Theta) -> Theta:
        return theta if self.project_ is None else self.project_(theta)


def system(
    F: TotalEnergy,
    *,
    space: Space | None = None,
    predict: Callable[[Theta, Data, State], Any] | None = None,
    project: Callable[[Theta], Theta] | None = None,
) -> System:
    """F as a `System`: a plain function F(θ, v, β, s) with what else there is to say of it.

    space: what a state is, and its bounds.
    predict: (θ, v, s) → outputs.
    project: θ → the nearest θ that is allowed.

        >>> F = system(lambda theta, v, beta, s: (s - theta * v) ** 2 / 2, space=Space((), low=0.0))
        >>> float(F.force(2.0, 3.0, 0.0, jnp.array(5.0)))
        1.0
    """
    if isinstance(F, System):
        if any(given is not None for given in (space, predict, project)):
            raise InputError(f"F={F!r} is a system already: override what it says in a subclass")
        return F
    if isinstance(F, Energy):
        raise InputError(f"F={F!r} is an energy without a cost: give Total(energy, cost), e.g. with SquaredError()")
    if not callable(F):
        raise InputError(f"F={F!r} cannot be called: give a function F(theta, v, beta, s)")
    if isinstance(F, type):
        raise InputError(f"F={short(F)} is a class: give a function F(theta, v, beta, s)")
    require_arguments(F, "F", "theta", "v", "beta", "s")
    if predict is not None:
        require_arguments(predict, "predict", "theta", "v", "s")
    if project is not None:
        require_arguments(project, "project", "theta")
    return Plain(F, Space() if space is None else space, predict, project)


def examples(F: TotalEnergy, x: Any, y: Any = None) -> tuple[Data, Data]:
    """Data as they come, as v = (x, y) that F takes: for feeds, `fit`, `measure` and `predict`.

    F: a system; its energy says what becomes of inputs, and its cost what of targets, each by its `take`. Below is what
        those of the library say. Of an F that is one function nothing is known, and examples are taken as they are.
    x: inputs, whose first axis counts examples: arrays, PyTorch tensors, pandas tables, lists. Bytes are divided by
        255, for an energy of your own too; images are flattened, or given their channel, for networks of the library.
    y: targets, or labels that count classes from 0, which become one-hot rows; a cost of your own refuses labels unless
        it says what to do with them. None to predict.

    What F would still refuse is refused here, with the way out: inputs that its activation does not hear, for one.

        >>> import eqprop as ep
        >>> F = ep.Total(ep.Hopfield.layered(4, 3), ep.SquaredError())
        >>> x, y = ep.examples(F, np.array([[[0, 255], [51, 0]]], np.uint8), [2])
        >>> x.tolist(), y.tolist()
        ([[0.0, 1.0, 0.20000000298023224, 0.0]], [[0.0, 0.0, 1.0]])
    """
    F = system(F)
    x, y = as_arrays((x, y))
    if not is_known((x, y)):
        raise InputError(
            "examples looks at values, which jax.jit, vmap and grad hide: call it before, and hand over its v"
        )
    counts = []
    for name, part in (("x", x), ("y", y)):
        leaves, several = jax.tree.leaves(part), isinstance(part, list | tuple)
        if not all(map(np.ndim, leaves)) or not (leaves or several or part is None):
            what = "is one number" if leaves else "holds no array"
            raise InputError(f"{name}={short(part)} {what}: give an array, whose first axis counts examples")
        if leaves:
            rows: Any = part if several else leaves[0]
            counts.append(len(rows))
    if len({*counts}) > 1:
        raise InputError(f"{counts[0]} inputs and {counts[1]} targets: give one for each")
    v = F.take((x, y))
    require_finite(v)
    F.check_data(v)
    return v


def need(F: System, ability: type[Ability], who: str, remedy: str) -> Ability:
    """What of F has the ability; refused in words if F does not offer it."""
    if (found := F.offer(ability)) is None:
        raise InputError(f"{who}, and F={_in_short(F)} does not offer it: {remedy}")
    return found


def by_layer(name: str, given: Any, layers: Iterable[str] = ()) -> dict[str, Any]:
    """What a method of the user gave for `layers`, refused if it is no dict or lacks one of them."""
    known = given if isinstance(given, dict) else {}
    lacking = [layer for layer in layers if layer not in known]
    if lacking or known is not given:
        found = f"{sorted(known)} without {lacking[0]!r}" if known else "no dict of layers"
        raise InputError(f"{name} gave {found}: it must give a dict, with an entry for each of {[*layers]}")
    return given


def _in_short(F: System) -> str:
    """What F is made of: Total(Hopfield, SquaredError)."""
    parts = [type(part).__name__ for part in vars(F).values() if isinstance(part, Energy | Cost)]
    return type(F).__name__ + (f"({', '.join(parts)})" if parts else "")


def require_finite(v: Data) -> None:
    """Refuse data that are no numbers, not finite, or too large, and parts that do not count examples."""
    most = LARGEST**8 if jax.config.read("jax_enable_x64") else LARGEST
    for leaf in filter(is_known, jax.tree.leaves(v)):
        if not np.ndim(leaf):
            raise InputError(f"the data have {short(leaf)} in the place of an array, whose first axis counts examples")
        shared = isinstance(leaf, jax.Array) and not leaf.is_fully_addressable  # other processes have a part of it
        values, xp = (leaf, jnp) if shared else (np.asarray(leaf), np)
        if not (jnp.issubdtype(values.dtype, jnp.number) or values.dtype == bool):
            raise InputError(f"the data are of type {values.dtype}: give arrays of numbers")
        inexact = jnp.issubdtype(values.dtype, jnp.inexact)
        largest = min(most, float(jnp.finfo(values.dtype).max)) if inexact else most
        good = abs(values) <= largest  # a NaN is never good
        if not good.all():
            row = int(xp.argmin(good.reshape(len(values), -1).all(axis=1)))
            first = values.ravel()[int(xp.argmin(good))]
            why = f"as large as {first:.3g}" if xp.isfinite(first) else "not finite"
            raise InputError(f"the data hold a value that is {why}, first in example {row}: remove it")


def require_energy(F: System, rule: str, remedy: str = "take VectorField") -> None:
    """Refuse a vector field, for rules that compare or sample energies."""
    if not F.conservative:
        raise InputError(f"{rule} needs an energy, and F={_in_short(F)} settles along a vector field: {remedy}")


def require_traceable(F: System, who: str) -> None:
    """Refuse a device, for what is compiled."""
    if not F.traceable:
        raise InputError(
            f"{who} compiles F, and F={_in_short(F)} is not traceable: what is measured learns by eqprop.update, or in "
            "a session by eqprop.bench.fit and eqprop.bench.measure"
        )


def energy_of(F: TotalEnergy) -> Callable[[Theta, Data, State], Any]:
    """E(θ, v, s) := F(θ, v, 0, s) (section 3.4, "Another View of the Framework")."""
    return lambda theta, v, s: F(theta, v, 0.0, s)


def cost_of(F: TotalEnergy) -> Callable[[Theta, Data, State], Any]:
    """C(θ, v, s) := ∂F/∂β(θ, v, 0, s), by automatic differentiation (section 3.4)."""
    return system(F).cost_at
