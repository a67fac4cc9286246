"""Convolutions: synapses between image-shaped layers, the same kernel at every place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from eqprop.energy.pooling import Pooling
from eqprop.energy.synapse import Synapse
from eqprop.errors import InputError
from eqprop.types import Array, Key, Layers, Scalar, Shape

CHANNELS_LAST, SWAPPED = ("NHWC", "HWIO", "NHWC"), ("NHWC", "HWOI", "NHWC")


@dataclass(frozen=True)
class Convolution(Synapse):
    """Φ = ⟨pool(W ∗ ρ(pre)), ρ(post)⟩ between layers of shape (height, width, channels).

    pre, post: the layers.
    shape: of the kernel W: (height, width, channels of pre, channels of post).
    stride: pixels from one place of the kernel to the next.
    padding: pixels of 0 added on each side.
    pool: what sums the windows of the result up; None for no pooling.

    Φ is linear in `post`, and in `pre` too without pooling or with the average. The bias of a channel of `post` belongs
    to the network, and is the same before the pooling as behind it.
    """

    pre: str
    post: str
    shape: tuple[int, int, int, int]
    stride: int = 1
    padding: int = 0
    pool: Pooling | None = None

    def __post_init__(self) -> None:
        if (
            np.ndim(self.shape) != 1
            or len(self.shape) != 4
            or not all(isinstance(n, int) and n > 0 for n in self.shape)
        ):
            raise InputError(
                f"shape={self.shape!r}: give the kernel's height, its width, and the channels before and after it"
            )
        object.__setattr__(self, "shape", tuple(self.shape))
        if self.pre == self.post:
            raise InputError(f"a convolution of {self.pre!r} with itself: a convolution leads from a layer to another")
        if not isinstance(self.stride, int) or self.stride < 1:
            raise InputError(f"stride={self.stride!r}: give a positive whole number of pixels")
        if not isinstance(self.padding, int) or self.padding < 0:
            raise InputError(f"padding={self.padding!r}: give a whole number of pixels, 0 or more")

    @property
    def smooth(self) -> bool:
        return self.pool is None or self.pool.smooth

    def init(self, key: Key, gain: float) -> Array:
        """Weights in the range ±gain/√fan_in, where fan_in is what the kernel sees at one place."""
        limit = gain / sqrt(prod(self.shape[:3]))
        return jax.random.uniform(key, self.shape, minval=-limit, maxval=limit)

    def phi(self, w: Array, rho: Layers) -> Scalar:
        return jnp.sum(self.pooled(w, rho[self.pre]) * rho[self.post])

    def pooled(self, w: Array, rate: Array) -> Array:
        """pool(W ∗ ρ(pre)): what `post` is sent."""
        field = convolve(rate, w, self.stride, self.padding)
        return field if self.pool is None else self.pool(field)

    def output(self, image: Shape) -> Shape:
        """The shape that `post` has for a `pre` of the shape `image`; refused if they do not fit together."""
        height, width, before, after = self.shape
        if len(image) != 3:
            raise InputError(f"layer {self.pre!r} has the shape {image}: give (height, width, channels)")
        if image[2] != before:
            raise InputError(f"layer {self.pre!r} has {image[2]} channels, and the kernel {self.shape} takes {before}")
        sides = []
        for side, kernel in zip(image, (height, width), strict=False):
            if kernel > side + 2 * self.padding:
                raise InputError(
                    f"a kernel of {height} × {width} is larger than the {image[0]} × {image[1]} pixels of layer "
                    f"{self.pre!r} with {self.padding} pixels around them: take a smaller kernel or more padding"
                )
            places = (side + 2 * self.padding - kernel) // self.stride + 1
            sides.append(places if self.pool is None else self.pool.size(places))
        return (*sides, after)

    @property
    def bilinear(self) -> bool:
        return self.pool is None or (self.pool.smooth and not self.pool.bend)

    def products(self, shapes: Mapping[str, Shape]) -> int:
        places = replace(self, pool=None).output(shapes[self.pre])[:2]
        return prod(places) * prod(self.shape)

    def fit(self, shapes: dict[str, Shape]) -> None:
        if (expected := self.output(shapes[self.pre])) != shapes[self.post]:
            raise InputError(
                f"the convolution from {self.pre!r} of {shapes[self.pre]} leads to the shape {expected}, and layer "
                f"{self.post!r} has {shapes[self.post]}: give it that shape"
            )

    def coupling(self, w: Array, rho: Layers, layer: str) -> Array | float:
        """How pooling couples the units below it: b Σ_c |W_ci| |post_c| Σ_j |W_cj|, with b the pooling's `bend`.

        ∂²Φ/∂pre² is JᵀDJ with J the convolution and D, for each window, post times the pooling's second derivatives. So
        it lies between ±b Jᵀ|post|J, and that between the diagonal matrices of its absolute row sums.
        """
        if self.pool is None or not self.pool.bend or layer == self.post:
            return 0.0
        size = jnp.abs(w)
        above = self.pool.spread(jnp.abs(rho[self.post])) * size.sum((0, 1, 2))
        _, back = jax.vjp(lambda rate: convolve(rate, size, self.stride, self.padding), jnp.abs(rho[self.pre]))
        return self.pool.bend * back(above)[0]


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def convolve(image: Array, kernel: Array, stride: int, padding: int) -> Array:
    """The convolution of one image, channels last."""
    return _convolve(image, kernel, stride, padding, CHANNELS_LAST)


@partial(convolve.defjvp, symbolic_zeros=True)
def _(stride: int, padding: int, primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    # By automatic differentiation XLA would take three times as long on a CPU for the way back to the image, and a
    # hundred times as long for the kernel, whenever it is inside of a loop (JAX 0.10). Both are written such that what
    # they transpose to is quick: convolutions of the usual layout without a stride, and a product with patches.
    (image, kernel), (by_image, by_kernel) = primals, tangents
    out = convolve(image, kernel, stride, padding)
    change = jnp.zeros_like(out)
    if not isinstance(by_image, SymbolicZero):
        change += _by_image(by_image, kernel, out.shape[:2], stride, padding)
    if not isinstance(by_kernel, SymbolicZero):
        patches = _patches(image, kernel.shape[:2], out.shape[:2], stride, padding)
        change += _apart(jnp.matmul, patches, by_kernel.reshape(-1, kernel.shape[-1]))
    return out, change


def _by_image(image: Array, kernel: Array, places: Shape, stride: int, padding: int) -> Array:
    """The convolution again, as a sum over the places of a pixel within a stride, each of which needs no stride."""
    if stride == 1:
        return _convolve(image, kernel.swapaxes(2, 3), 1, padding, SWAPPED)
    change = jnp.zeros((), image.dtype)
    for place in np.ndindex(*(min(size, stride) for size in kernel.shape[:2])):
        part = kernel[place[0] :: stride, place[1] :: stride]
        missing = [max(-((first - padding) // stride), 0) for first in place]  # pixels of padding before the image
        seen = image
        around = []
        for axis, (first, before) in enumerate(zip(place, missing, strict=True)):
            seen = jax.lax.slice_in_dim(seen, first + before * stride - padding, None, stride, axis)
            after = places[axis] + part.shape[axis] - 1 - before - seen.shape[axis]  # negative: pixels that none sees
            around.append((before, after))
        change += _convolve(seen, part.swapaxes(2, 3), 1, around, SWAPPED)
    return change


def _convolve(
    image: Array, kernel: Array, stride: int, padding: int | Sequence[tuple[int, int]], layout: tuple[str, str, str]
) -> Array:
    around = [(padding, padding)] * 2 if isinstance(padding, int) else padding

    def linear(image: Array, kernel: Array) -> Array:
        image, kernel = (a.astype(jnp.result_type(image, kernel)) for a in (image, kernel))
        return jax.lax.conv_general_dilated(image[None], kernel, (stride, stride), around, dimension_numbers=layout)[0]

    return _apart(linear, image, kernel)


def _apart(linear: Callable[[Array, Array], Array], state: Array, weights: Array) -> Array:
    """A product of both, apart for the real and the imaginary part of a state: XLA is slow with complex numbers."""
    if jnp.iscomplexobj(state) and not jnp.iscomplexobj(weights):
        return jax.lax.complex(linear(state.real, weights), linear(state.imag, weights))
    return linear(state, weights)


def _patches(image: Array, kernel: Shape, places: Shape, stride: int, padding: int) -> Array:
    """What the kernel sees at each of its places: two axes for the places, and one for all that it sees."""
    padded = jnp.pad(image, ((padding, padding), (padding, padding), (0, 0)))
    rows, columns = (
        [slice(first, first + (count - 1) * stride + 1, stride) for first in range(size)]
        for size, count in zip(kernel, places, strict=True)
    )
    return jnp.concatenate([padded[row, column] for row in rows for column in columns], axis=-1)
