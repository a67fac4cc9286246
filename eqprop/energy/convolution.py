"""Convolutions: synapses between image-shaped layers, the same kernel at every place."""

from collections.abc import Iterator, Mapping
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
TURNED = ("CHWN", "IHWO", "HWNC")


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
    return _convolve(image[None], kernel, stride, [(padding, padding)] * 2, CHANNELS_LAST)[0]


@partial(convolve.defjvp, symbolic_zeros=True)
def _(stride: int, padding: int, primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    # By automatic differentiation XLA would take three times as long on a CPU for the way back to the image, and a
    # hundred times as long for the kernel, whenever it is inside of a loop (JAX 0.10). Both are laid out such that what
    # they transpose to are convolutions of the usual layout, without a stride: for the kernel, of channels as if they
    # were images, with examples as if they were channels.
    (image, kernel), (by_image, by_kernel) = primals, tangents
    out = convolve(image, kernel, stride, padding)
    change = jnp.zeros_like(out)
    if not isinstance(by_image, SymbolicZero):
        for seen, part, around in _without_stride(by_image, kernel, out.shape, stride, padding):
            change += _convolve(seen[None], part.swapaxes(2, 3), 1, around, SWAPPED)[0]
    if not isinstance(by_kernel, SymbolicZero):
        for seen, part, around in _without_stride(image, by_kernel, out.shape, stride, padding):
            turned = seen.transpose(2, 0, 1)[..., None], part.transpose(2, 0, 1, 3)
            change += _convolve(*turned, 1, around, TURNED)[:, :, 0]
    return out, change


def _without_stride(
    image: Array, kernel: Array, places: Shape, stride: int, padding: int
) -> Iterator[tuple[Array, Array, list[tuple[int, int]]]]:
    """A convolution as a sum of convolutions without a stride, one for each place of a pixel within the stride.

    Each has the pixels at that place, the weights that see them, and the padding around them. Where that is negative,
    the last pixels are seen by no weight.
    """
    for place in np.ndindex(*(min(size, stride) for size in kernel.shape[:2])):
        seen, part, around = image, kernel, []
        for axis, first in enumerate(place):
            part = jax.lax.slice_in_dim(part, first, None, stride, axis)
            before = max(-((first - padding) // stride), 0)
            start = min(first + before * stride - padding, seen.shape[axis])  # a long stride may skip all pixels
            seen = jax.lax.slice_in_dim(seen, start, None, stride, axis)
            around.append((before, places[axis] + part.shape[axis] - 1 - before - seen.shape[axis]))
        yield seen, part, around


def _convolve(
    image: Array, kernel: Array, stride: int, around: list[tuple[int, int]], layout: tuple[str, str, str]
) -> Array:
    if jnp.iscomplexobj(image) and not jnp.iscomplexobj(kernel):  # XLA is slow with complex numbers
        parts = (_convolve(part, kernel, stride, around, layout) for part in (image.real, image.imag))
        return jax.lax.complex(*parts)
    image, kernel = (a.astype(jnp.result_type(image, kernel)) for a in (image, kernel))
    return jax.lax.conv_general_dilated(image, kernel, (stride, stride), around, dimension_numbers=layout)
