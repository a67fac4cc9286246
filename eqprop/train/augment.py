"""Augmentation: other views of the same image, drawn anew each time that it is seen."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from eqprop.errors import InputError
from eqprop.types import Data, Key


@dataclass(frozen=True)
class FlipAndCrop:
    """An image mirrored left to right by chance, and shifted by up to `crop` pixels either way.

    It is the `augment` of a feed whose examples are v = (x, y), x of shape (height, width, channels). What a shift
    uncovers is 0: where images are normalised, that is their mean colour.

        >>> view = FlipAndCrop(flip=False, crop=1)
        >>> x, _ = view(jax.random.key(0), (jnp.ones((2, 2, 1)), None))
        >>> x.shape
        (2, 2, 1)
    """

    flip: bool = True
    crop: int = 4

    def __post_init__(self) -> None:
        if not isinstance(self.crop, int) or self.crop < 0:
            raise InputError(f"crop={self.crop!r}: give a whole number of pixels, 0 or more")

    def __call__(self, key: Key, v: Data) -> Data:
        x, y = v
        if jnp.ndim(x) != 3 or self.crop >= min(x.shape[:2]):
            raise InputError(
                f"crop={self.crop} of an image of shape {jnp.shape(x)}: give (height, width, channels), with sides "
                "larger than the crop"
            )
        mirror, shift = jax.random.split(key)
        if self.flip:
            x = jnp.where(jax.random.bernoulli(mirror), x[:, ::-1], x)
        if self.crop:
            room = jnp.pad(x, ((self.crop, self.crop), (self.crop, self.crop), (0, 0)))
            corner = jax.random.randint(shift, (2,), 0, 2 * self.crop + 1)
            x = jax.lax.dynamic_slice(room, (*corner, 0), x.shape)
        return x, y
