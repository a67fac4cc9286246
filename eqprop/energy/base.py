"""E, the energy: what the network is (section 2.1)."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np

from eqprop.boundary import one_number
from eqprop.errors import InputError
from eqprop.state import Space
from eqprop.types import Array, Data, Layers, Scalar, State, Theta


def unit_range(x: Any) -> Any:
    """Bytes of a batch as numbers from 0 to 1; any other array as it is."""
    if getattr(x, "dtype", None) != np.uint8:
        return x
    if np.ndim(x) and len(x) > 1 and np.max(x, initial=0) == 1:  # one image may be black
        raise InputError(
            "x has bytes of 0 and 1, and bytes are divided by 255: give x.astype(np.float32) to keep them, "
            "or, of images that are black, x / np.float32(255)"
        )
    return np.asarray(x, np.float32) / 255


def check_field(kind: type) -> None:
    """Refuse a class with a method `field` that would settle by its energy all the same; a number may be named so."""
    if callable(vars(kind).get("field")) and getattr(kind, "conservative", False) is True:
        raise InputError(
            f"{kind.__name__} gives a `field`, and its states settle along it only where it also says "
            "`conservative = False`: say so, or give the field another name"
        )


class Energy(abc.ABC):
    """E(θ, x, s) → a number, for one example.

    A plain function will do where an energy is asked for. A class can say more: all of it is here, with what holds if
    it says nothing.
    """

    conservative: ClassVar[bool] = True
    """Whether states settle along −∂E/∂s; if not, along `field`, which need not be the gradient of anything."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_field(cls)

    @abc.abstractmethod
    def __call__(self, theta: Theta, x: Data, s: State) -> Scalar:
        """E, which JAX can differentiate with respect to each argument."""

    @property
    def space(self) -> Space:
        """What the state is, and its bounds; by default nothing is known and nothing bounded."""
        return Space()

    @property
    def smooth(self) -> bool:
        """Whether E has all derivatives by s within the bounds, as the holomorphic nudge needs; by default it has."""
        return True

    def field(self, theta: Theta, x: Data, s: State) -> State:
        """ds/dt, for an energy that is not conservative."""
        raise InputError(f"energy={self!r} is not conservative, and does not say its field: implement `field`")

    def check_inputs(self, x: Data) -> None:  # noqa: B027  (nothing to refuse is the default)
        """Refuse inputs of a batch that cannot be meant; unlike in E, their values are known here. By default none."""

    def take(self, x: Data) -> Data:
        """Inputs of a batch in the form that E asks for, where they come in another; bytes, by default, over 255."""
        return jax.tree.map(unit_range, x)

    def project(self, theta: Theta) -> Theta:
        """The nearest θ that is allowed, as with conductances that cannot be negative; by default all are."""
        return theta


class Blockwise(abc.ABC):
    """What block descent asks of an energy; its state is a dict of layers."""

    @property
    @abc.abstractmethod
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The layers that move at once, in the order from input to output; each layer is in one block."""

    @abc.abstractmethod
    def curvature(self, theta: Theta, x: Data, s: Layers, block: tuple[str, ...]) -> dict[str, Any]:
        """For each layer of `block` a bound on ∂²E/∂s² while the other blocks stay put."""


class Reversible(abc.ABC):
    """A vector field that can be run in reverse: what unit i does to unit j is then what j did to i."""

    @property
    @abc.abstractmethod
    def reversed(self) -> Energy:
        """The vector field in reverse, for the inputs that `held_at` gives."""

    @abc.abstractmethod
    def held_at(self, theta: Theta, x: Data, s: State) -> Data:
        """The inputs of the reversed field by which it rests at s too, a fixed point of one example."""


class ForwardPass(abc.ABC):
    """An energy whose free fixed point is found in one pass."""

    @abc.abstractmethod
    def forward(self, theta: Theta, x: Data) -> State:
        """The free fixed point of one example."""


class Predictive(ForwardPass):
    """An energy of predictive coding, ½ Σ_k ‖e_k‖², where e_k is how far layer k is from what those before it predict.

    States and errors determine each other: each layer is its prediction plus its error.
    """

    @abc.abstractmethod
    def errors(self, theta: Theta, x: Data, s: Layers) -> Layers:
        """The errors e_k of the state s of one example."""

    @abc.abstractmethod
    def erring(self, theta: Theta, x: Data, errors: Layers) -> Layers:
        """The state whose errors are these, by one pass; without errors it is `forward`."""


class Linked(abc.ABC):
    """A network of blocks in a chain, each of which settles to a minimum of its own energy."""

    @property
    @abc.abstractmethod
    def links(self) -> tuple[Any, ...]:
        """The energies of the blocks, from the input to the output, with what each hears and owns (`chain.Link`)."""

    @abc.abstractmethod
    def inputs(self, x: Data) -> Layers:
        """The input by the name of its layer."""


class Interacting(abc.ABC):
    """An energy whose units interact through an interaction Φ of their firing rates (section 2.1)."""

    @abc.abstractmethod
    def rates(self, x: Data, s: Layers) -> Layers:
        """ρ(u) of every layer, the input included."""

    @abc.abstractmethod
    def phi(self, theta: Theta, rho: Layers) -> Scalar:
        """The interaction Φ, given the firing rates of all layers."""


class Binary(Energy):
    """An energy of units that are 0 or 1; each layer can be drawn at random given all others (section 4.2)."""

    @abc.abstractmethod
    def probability(self, theta: Theta, x: Data, s: Layers, layer: str) -> Array:
        """p(s_i = 1 | all other layers) for the units of a layer."""

    @abc.abstractmethod
    def require_enumerable(self) -> None:
        """Refuse a machine with too many configurations to sum over."""

    @abc.abstractmethod
    def log_likelihood(self, theta: Theta, x: Data, y: Array, layer: str) -> Scalar:
        """log p(y | x), exactly, for a y of zeros and ones in `layer`."""


class PlainEnergy(Energy, eqx.Module):
    """A function E(θ, x, s), about which no more is known."""

    function: Callable[[Theta, Data, State], Any]
    space_: Space

    def __call__(self, theta: Theta, x: Data, s: State) -> Scalar:
        return one_number(self.function(theta, x, s), "energy", self.function)

    @property
    def space(self) -> Space:
        return self.space_
