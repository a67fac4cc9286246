"""C, the cost: what is wanted of a settled state (paper, sections 2.1 and 3.1)."""

import abc
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from eqprop.errors import InputError


@dataclass(frozen=True)
class Cost(abc.ABC):
    """C(θ, y, s) = error of the output `layer` against the target y + l1 Σ|θ| + ½ l2 Σθ².

    The penalties are part of C (section 3.1), so their gradient ∂C/∂θ reaches the weights through ∂F/∂θ. That of |θ|
    is sign(θ), so that a weight which is 0, and which nothing else pulls at, stays 0.
    """

    layer: str = "output"
    l1: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        for penalty in ("l1", "l2"):
            if not 0 <= (value := getattr(self, penalty)) < float("inf"):
                raise InputError(f"{penalty}={value!r}: give a penalty of 0 or more")

    def __call__(self, theta: Any, y: Array, s: dict[str, Array]) -> Array:
        output = self.output(s)
        if output.shape != jnp.shape(y):
            raise InputError(f"a target of shape {jnp.shape(y)} does not fit layer {self.layer!r} of {output.shape}")
        loss = self.loss(output, y)
        for leaf in jax.tree.leaves(theta) if self.l1 or self.l2 else ():
            # |θ| as θ sign(θ): its derivative at 0 is 0, where that of `abs` is 1 and would push what is exactly 0.
            loss = loss + self.l1 * jnp.sum(leaf * jnp.sign(leaf)) + self.l2 / 2 * jnp.sum(leaf**2)
        return loss

    def output(self, s: dict[str, Array]) -> Array:
        """The prediction: the state of the output layer."""
        if self.layer not in s:
            raise InputError(f"layer={self.layer!r} of {type(self).__name__} is not a layer: there are {', '.join(s)}")
        return s[self.layer]

    def misclassified(self, v: tuple[Any, Array], s: dict[str, Array]) -> Array:
        """A metric: 1 if the largest output is not where the target y of v = (x, y) is largest (section 5)."""
        _, y = v
        return (jnp.argmax(self.output(s)) != jnp.argmax(y)).astype(jnp.float32)

    @abc.abstractmethod
    def loss(self, output: Array, y: Array) -> Array:
        """The error of one output."""

    @abc.abstractmethod
    def curvature(self, beta: Array | float) -> dict[str, Array | float]:
        """A bound on β ∂²C/∂s² for each layer that C looks at."""


@dataclass(frozen=True)
class SquaredError(Cost):
    """C = ½ ‖output − (low + (high − low) y)‖², the paper's cost for the default targets, y itself.

    An output of the hard sigmoid that is held at an end of its box feels no small nudge, so the gradient that it sees
    is 0. With targets inside of the box, 0.2 and 0.8, outputs stay where they can learn.
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not float("-inf") < self.low < self.high < float("inf"):
            raise InputError(f"low={self.low!r}, high={self.high!r}: give two targets, the lower first")

    def target(self, y: Array) -> Array:
        """What the outputs ought to be."""
        return self.low + (self.high - self.low) * y

    def clamp(self, y: Array) -> dict[str, Array]:
        """The outputs where C is least: where an infinite β would hold them (section 4.1)."""
        return {self.layer: self.target(y)}

    def loss(self, output: Array, y: Array) -> Array:
        """½ ‖output − target(y)‖²."""
        return jnp.sum((output - self.target(y)) ** 2) / 2

    def curvature(self, beta: Array | float) -> dict[str, Array | float]:
        """β, exactly."""
        return {self.layer: beta}


@dataclass(frozen=True)
class CrossEntropy(Cost):
    """C = −Σ_c y_c log softmax(scale · output)_c for a target y that sums to 1.

    Outputs that live in [0, 1] cannot favour one of ten classes by more than e to 1, hence the `scale`.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.scale < float("inf"):
            raise InputError(f"scale={self.scale!r}: give a positive number")

    def loss(self, output: Array, y: Array) -> Array:
        """−Σ_c y_c log softmax(scale · output)_c."""
        return -jnp.sum(y * jax.nn.log_softmax(self.scale * output))

    def curvature(self, beta: Array | float) -> dict[str, Array | float]:
        """½ β scale², for β above 0; a negative β only lowers the curvature."""
        # The Hessian of log-sum-exp, diag(p) − ppᵀ, lies between 0 and ½.
        return {self.layer: jnp.maximum(beta, 0) * self.scale**2 / 2}
