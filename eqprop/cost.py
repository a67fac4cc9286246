"""C, the cost: what is wanted of a settled state (paper, sections 2.1 and 3.1)."""

import abc
from collections.abc import Callable
from math import pi
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from eqprop.boundary import one_number
from eqprop.errors import InputError
from eqprop.state import Space
from eqprop.types import Array, Data, Gain, Key, Layers, Number, Scalar, Shape, State, Theta


class Cost(eqx.Module):
    """C(θ, y, s) → a number, for one example with the target y.

    A plain function will do where a cost is asked for. A class can say more: what the network predicts, and through
    `Curved` and `Clampable` what some relaxations and rules ask for.
    """

    @abc.abstractmethod
    def __call__(self, theta: Theta, y: Data, s: State) -> Scalar:
        """C, which JAX can differentiate with respect to θ and s."""

    def predict(self, theta: Theta, s: State) -> Array:
        """The outputs of one example, which C compares with the target."""
        raise InputError(
            f"cost={self!r} does not say what is predicted: subclass eqprop.Cost, and give it predict(theta, s)"
        )

    def check_targets(self, y: Data) -> None:
        """Refuse targets of a batch that cannot be meant; unlike in C, their values are known here. By default none."""

    def take(self, y: Data, space: Space) -> Data:
        """Targets of a batch in the form that C asks for, where they come in another; by default as they are.

        space: that of the states.

        Whole numbers in a row are refused by default: only the cost can know whether they are labels.
        """
        if isinstance(y, np.ndarray | jax.Array) and y.ndim == 1 and not jnp.issubdtype(y.dtype, jnp.inexact):
            raise InputError(
                f"y are {y.dtype} in a row, and the cost does not say whether it compares labels: give one-hot rows, "
                "as np.eye(classes)[y], or values, as y.astype(float); a cost that takes labels has them of (x, y) as "
                "they are, or says so in its `take`"
            )
        return y

    def init(self, key: Key, gain: Gain = 0.5) -> dict[str, Any]:
        """The part of θ that only the cost has, to be joined to that of the network; by default none."""
        return {}

    def misclassified(self, theta: Theta, v: tuple[Data, Array], s: State) -> Array:
        """A metric: 1 if the largest output is not where the target y of v = (x, y) is largest (section 5)."""
        _, y = v
        outputs = self.predict(theta, s)
        if jnp.shape(y) != outputs.shape:
            raise InputError(
                f"misclassified compares the outputs, of shape {outputs.shape}, with a target of shape {jnp.shape(y)}: "
                "give one-hot targets, as np.eye(classes)[labels], or a metric of your own"
            )
        if outputs.size == 1:
            raise InputError(
                "misclassified asks which output is largest, and there is one: give two outputs, or for targets of 0 "
                "and 1 the metric lambda theta, v, s: abs(F.predict(theta, v, s)[0] - v[1][0]) > 0.5"
            )
        return (jnp.argmax(outputs) != jnp.argmax(y)).astype(jnp.float32)


class Curved(abc.ABC):
    """What block descent asks of a cost."""

    @abc.abstractmethod
    def curvature(self, theta: Theta, beta: Number) -> dict[str, Any]:
        """A bound on β ∂²C/∂s² for each layer that C looks at."""


class Clampable(abc.ABC):
    """A cost of outputs alone, which are held where it is least when β is infinite (section 4.1)."""

    @abc.abstractmethod
    def clamp(self, y: Array) -> Layers:
        """The outputs by layer where C is least."""

    @abc.abstractmethod
    def require_no_penalty(self, rule: str) -> None:
        """Refuse penalties on θ, for a rule that does not see the cost."""


class PlainCost(Cost):
    """A function C(θ, y, s), about which no more is known."""

    function: Callable[[Theta, Data, State], Any]

    def __call__(self, theta: Theta, y: Data, s: State) -> Any:
        return one_number(self.function(theta, y, s), "cost", self.function)


def _penalty(value: float | None) -> float | None:
    """A penalty, or None where it is 0."""
    return None if isinstance(value, int | float) and value == 0 else value


class OutputCost(Cost, Curved):
    """C(θ, y, s) = error of the output `layer` against the target y + l1 Σ|θ| + ½ l2 Σθ².

    The penalties are part of C (section 3.1), so their gradient ∂C/∂θ reaches the weights through ∂F/∂θ. That of |θ|
    is sign(θ), so that a weight which is 0, and which nothing else pulls at, stays 0. All numbers are data: others
    compile nothing. A penalty of 0 is None, and no part of the program: to add up all of θ takes as long as to settle.
    """

    layer: str = eqx.field(default="output", static=True)
    l1: float | None = eqx.field(default=0.0, converter=_penalty)
    l2: float | None = eqx.field(default=0.0, converter=_penalty)

    def __check_init__(self) -> None:
        for penalty in ("l1", "l2"):
            value = getattr(self, penalty)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"{penalty}={value!r}: give a penalty of 0 or more")

    @property
    def where(self) -> str:
        """What complaints call the outputs."""
        return f"layer {self.layer!r}"

    def outputs(self, space: Space) -> Shape:
        """The shape of what is predicted."""
        return space.shapes[self.layer]

    def take(self, y: Data, space: Space) -> Data:
        """One-hot rows of labels that are whole numbers from 0; a column of the targets of a single output."""
        y, shape = np.asarray(y), self.outputs(space)
        if y.ndim > 1 and y.shape[1:] != shape:
            labels = "; of labels in a column give y.ravel()" if y.shape[1:] == (1,) else ""
            raise InputError(
                f"targets of shape {y.shape[1:]} do not fit {self.where} of {shape}: give one-hot rows{labels}"
            )
        if y.ndim != 1 or len(shape) != 1:
            return y
        if shape == (1,):
            return y[:, None].astype(np.float32)
        if not (np.issubdtype(y.dtype, np.integer) or y.dtype == bool):
            raise InputError(
                f"labels of type {y.dtype}: give whole numbers from 0 to {shape[0] - 1}, as "
                "np.unique(labels, return_inverse=True)[1]"
            )
        if len(wrong := np.flatnonzero((y < 0) | (y >= shape[0]))):
            raise InputError(
                f"example {wrong[0]} has the label {y[wrong[0]]}, where labels go from 0 to {shape[0] - 1}: "
                "count classes from 0, or give the network more outputs"
            )
        return np.eye(shape[0], dtype=np.float32)[y.astype(int)]

    @abc.abstractmethod
    def loss(self, output: Array, y: Array) -> Scalar:
        """The error of one output."""

    def __call__(self, theta: Theta, y: Array, s: State) -> Scalar:
        output = self.predict(theta, s)
        if output.shape != (shape := jnp.shape(y)):
            way = "y[:, None]" if output.shape == (1,) else f"one-hot targets, as np.eye({output.shape[0]})[labels]"
            labels = f": give {way}, or let eqprop.examples do so"
            fits = f"a target of shape {shape} does not fit {self.where} of {output.shape}"
            raise InputError(fits + labels if shape == () else fits)
        return self.loss(output, y) + self.penalty(theta)

    def predict(self, theta: Theta, s: State) -> Array:
        """The state of the output layer."""
        if not isinstance(s, dict):
            raise InputError(
                f"{type(self).__name__} compares layer {self.layer!r}, and the state is one array: let it be "
                f"{{{self.layer!r}: …}}, or give a cost that is a function of (theta, y, s)"
            )
        if self.layer not in s:
            raise InputError(f"layer={self.layer!r} of {type(self).__name__} is not a layer: there are {', '.join(s)}")
        return s[self.layer]

    def penalty(self, theta: Theta) -> Scalar | float:
        """l1 Σ|θ| + ½ l2 Σθ²."""
        total: Any = 0.0
        for leaf in jax.tree.leaves(theta):
            if self.l1 is not None:
                # θ sign(θ) in place of |θ|: its derivative at 0 is 0. That of `abs` is 1, and would push a weight of 0.
                total = total + self.l1 * jnp.sum(leaf * jnp.sign(leaf))
            if self.l2 is not None:
                total = total + self.l2 / 2 * jnp.sum(leaf**2)
        return total

    def require_no_penalty(self, rule: str) -> None:
        """Refuse penalties on θ, for a rule that does not see the cost."""
        for penalty in ("l1", "l2"):
            if (value := getattr(self, penalty)) is not None:
                raise InputError(
                    f"{rule} does not see the cost, so {penalty}={value!r} would do nothing: "
                    "leave it at 0, and take weight decay in the optimizer, e.g. optax.adamw"
                )


def require_shares(y: Data) -> None:
    """Refuse targets of a batch that are not the shares of classes, as a softmax has them."""
    values = np.asarray(y)
    if values.ndim < 2:
        return  # the cost itself refuses a shape that fits no layer
    wrong = (values < 0).any(-1) | (np.abs(values.sum(-1) - 1) > 1e-3)
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        raise InputError(
            f"the target of example {row} is {values[row].tolist()}, which are no shares of classes: "
            "give numbers of 0 or more that sum to 1, as one-hot rows do whose labels are in range"
        )


class SquaredError(OutputCost, Clampable):
    """C = ½ ‖output − (low + (high − low) y)‖², the paper's cost for the default targets, y itself.

    An output of the hard sigmoid that is held at an end of its box feels no small nudge, so the gradient that it sees
    is 0. With targets inside of the box, 0.2 and 0.8, outputs stay where they can learn.
    """

    low: float = 0.0
    high: float = 1.0

    def __check_init__(self) -> None:
        if not float("-inf") < self.low < self.high < float("inf"):
            raise InputError(f"low={self.low!r}, high={self.high!r}: give two targets, the lower first")

    def target(self, y: Array) -> Array:
        """What the outputs ought to be."""
        return self.low + (self.high - self.low) * y

    def clamp(self, y: Array) -> Layers:
        """The outputs where C is least: where an infinite β would hold them (section 4.1)."""
        return {self.layer: self.target(y)}

    def loss(self, output: Array, y: Array) -> Scalar:
        """½ ‖output − target(y)‖²."""
        return jnp.sum((output - self.target(y)) ** 2) / 2

    def curvature(self, theta: Theta, beta: Number) -> dict[str, Any]:
        """β, exactly."""
        return {self.layer: beta}


class CrossEntropy(OutputCost):
    """C = −Σ_c y_c log softmax(scale · output)_c for a target y that sums to 1.

    Outputs that live in [0, 1] cannot favour one of ten classes by more than e to 1, hence the `scale`.
    """

    scale: float = 1.0

    def __check_init__(self) -> None:
        if not 0 < self.scale < float("inf"):
            raise InputError(f"scale={self.scale!r}: give a positive number")

    def check_targets(self, y: Data) -> None:
        """Refuse targets that do not sum to 1."""
        require_shares(y)

    def loss(self, output: Array, y: Array) -> Scalar:
        """−Σ_c y_c log softmax(scale · output)_c."""
        return -jnp.sum(y * jax.nn.log_softmax(self.scale * output))

    def curvature(self, theta: Theta, beta: Number) -> dict[str, Any]:
        """½ β scale², for β above 0; a negative β only lowers the curvature."""
        # The Hessian of log-sum-exp, diag(p) − ppᵀ, lies between 0 and ½.
        return {self.layer: jnp.maximum(beta, 0) * self.scale**2 / 2}


class PhaseError(OutputCost, Clampable):
    """C = Σ_o 1 − cos(φ_o − (low + (high − low) y_o)), for outputs that are angles φ.

    A target of 0 stands for the phase `low`, a target of 1 for `high`. What is predicted is in the units of y: 0 at
    `low` and 1 at `high`; whole turns make no difference.
    """

    low: float = 0.0
    high: float = pi / 2

    def __check_init__(self) -> None:
        if not 0 < self.high - self.low < 2 * pi:
            raise InputError(f"low={self.low!r}, high={self.high!r}: give two phases less than a turn apart, low first")

    def loss(self, output: Array, y: Array) -> Scalar:
        """Σ 1 − cos((high − low) (output − y))."""
        return jnp.sum(1 - jnp.cos((self.high - self.low) * (output - y)))

    def predict(self, theta: Theta, s: Layers) -> Array:
        """(φ − low) / (high − low), with φ within half a turn of the middle between them."""
        middle = (self.low + self.high) / 2
        away = super().predict(theta, s) - middle
        away = away - 2 * pi * jnp.round(jnp.real(away) / (2 * pi))  # the part that is no whole turn
        return away / (self.high - self.low) + 0.5

    def clamp(self, y: Array) -> Layers:
        """The phases that the targets stand for."""
        return {self.layer: self.low + (self.high - self.low) * y}

    def curvature(self, theta: Theta, beta: Number) -> dict[str, Any]:
        """|β|: a cosine bends either way."""
        return {self.layer: jnp.abs(beta)}
