"""A readout: outputs that are computed from the settled state, and are no part of it."""

from collections.abc import Mapping
from math import prod, sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.boundary import entrance, require_whole
from eqprop.cost import OutputCost, require_shares
from eqprop.energy.graph import Graph
from eqprop.errors import InputError
from eqprop.state import Space
from eqprop.types import Array, Data, Gain, Key, Layers, Number, Scalar, Shape, Theta


class SoftmaxReadout(OutputCost):
    """C = −Σ_c y_c log softmax(Wᵀ s + b)_c, where s is the state of `layer` and W, b are weights of their own.

    W and b are θ["readout"]. They learn through ∂F/∂θ like all others: at both ends of a nudge their part is β ∂C/∂θ
    (Laborieux et al. 2021). The nudge acts on `layer`, so the outputs themselves need not settle.

    units: of the layer that is read.
    classes: how many outputs there are.

        >>> import eqprop as ep
        >>> net = ep.Hopfield.convolutional((8, 8, 1), (16,))
        >>> cost = SoftmaxReadout.of(net, classes=10)
        >>> theta = net.init(jax.random.key(0)) | cost.init(jax.random.key(1))
        >>> theta["readout"]["W"].shape
        (256, 10)
    """

    units: int = eqx.field(default=1, static=True)
    classes: int = eqx.field(default=2, static=True)

    @classmethod
    def of(cls, net: Graph, classes: int, layer: str | None = None, **penalties: Any) -> "SoftmaxReadout":
        """The readout of a layer of a network: of the last one, unless another is named."""
        layer = [*net.shapes][-1] if layer is None else layer
        if layer not in net.shapes:
            raise InputError(f"layer={layer!r} is not a layer that settles: there are {', '.join(net.shapes)}")
        return cls(layer=layer, units=prod(net.shapes[layer]), classes=classes, **penalties)

    def __check_init__(self) -> None:
        require_whole(1, units=self.units)
        require_whole(2, classes=self.classes)

    @entrance
    def init(self, key: Key, gain: Gain = 0.5) -> dict[str, Any]:
        """Weights in the range ±gain/√units, biases zero."""
        limit = gain / sqrt(self.units)
        w = jax.random.uniform(key, (self.units, self.classes), minval=-limit, maxval=limit)
        return {"readout": {"W": w, "b": jnp.zeros(self.classes)}}

    def predict(self, theta: Theta, s: Layers) -> Array:
        """Wᵀ s + b, before the softmax."""
        state = jnp.ravel(super().predict(theta, s))
        if len(state) != self.units:
            raise InputError(
                f"units={self.units} of SoftmaxReadout, but layer {self.layer!r} has {len(state)}: take "
                "SoftmaxReadout.of(net, classes)"
            )
        w, b = self._weights(theta)
        return state @ w + b

    @property
    def where(self) -> str:
        return "the readout"

    def outputs(self, space: Space) -> Shape:
        """One for each class."""
        return (self.classes,)

    def check_targets(self, y: Data) -> None:
        """Refuse targets that do not sum to 1."""
        require_shares(y)

    def loss(self, output: Array, y: Array) -> Scalar:
        """−Σ_c y_c log softmax(output)_c."""
        return -jnp.sum(y * jax.nn.log_softmax(output))

    def curvature(self, theta: Theta, beta: Number) -> dict[str, Any]:
        """½ β ‖WᵀW‖, for β above 0; a negative β only lowers the curvature."""
        # ∂²C/∂s² = W (diag(p) − ppᵀ) Wᵀ, and what is in brackets lies between 0 and ½.
        w, _ = self._weights(theta)
        largest = jnp.max(jnp.sum(jnp.abs(w.T @ w), axis=0))
        return {self.layer: jnp.maximum(beta, 0) * largest / 2}

    def _weights(self, theta: Theta) -> tuple[Array, Array]:
        """W and b; refused if θ lacks them, or has others."""
        shapes = {"W": (self.units, self.classes), "b": (self.classes,)}
        make = "make it with the cost's init, as in net.init(key) | cost.init(key)"
        if not isinstance(theta, Mapping) or "readout" not in theta:
            raise InputError(f"theta lacks 'readout': {make}")
        readout = theta["readout"]
        if not isinstance(readout, Mapping) or readout.keys() != shapes.keys():
            found = sorted(readout) if isinstance(readout, Mapping) else _kind(readout)
            raise InputError(f"theta['readout'] is {found} in place of W and b: {make}")
        for name, shape in shapes.items():
            if getattr(readout[name], "shape", None) != shape:
                raise InputError(
                    f"theta['readout'][{name!r}] is {_kind(readout[name])} instead of an array of shape {shape}: {make}"
                )
        return readout["W"], readout["b"]


def _kind(leaf: Any) -> str:
    """What stands where an array of weights ought to; a list has no shape, as its entries are traced."""
    return f"an array of shape {leaf.shape}" if hasattr(leaf, "shape") else f"of type {type(leaf).__name__}"
