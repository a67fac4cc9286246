"""Random numbers that belong to rows, so that they do not depend on how many devices share a minibatch."""

import functools
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl, threefry2x32_p

from eqprop.errors import InputError
from eqprop.types import Array, Key, Shape

THREEFRY = "threefry2x32"


def key_of_rows(key: Key, first: Array | int, count: int) -> Key:
    """A key for the `count` rows of a batch from row `first` on, by which each row draws what it would in the whole.

    An array that is drawn with it and whose first axis has `count` rows is that part of what `key` draws for the whole
    batch. Everything else it gives, other shapes and further keys, is what `key` gives: the same on all devices.

        >>> key = jax.random.key(0)
        >>> whole, part = jax.random.normal(key, (6, 3)), jax.random.normal(key_of_rows(key, 4, 2), (2, 3))
        >>> bool((whole[4:] == part).all())
        True
    """
    if str(jax.random.key_impl(key)) != THREEFRY:
        raise InputError(
            f"a key of the kind {jax.random.key_impl(key)!s}, whose numbers do not belong to rows: on several devices, "
            f"give jax.random.key(seed, impl={THREEFRY!r})"
        )
    data = jnp.append(jax.random.key_data(key), jnp.asarray(first, jnp.uint32))
    return jax.random.wrap_key_data(data, impl=_rows(count))


@functools.cache
def _rows(count: int) -> Any:
    """Threefry, whose numbers are a hash of the key and of their place: a key is its own two words and a first row."""

    def words(data: Array) -> Key:
        return jax.random.wrap_key_data(data[:2], impl=THREEFRY)

    def derived(keys: Key, data: Array) -> Array:
        found = jax.random.key_data(keys)
        return jnp.concatenate([found, jnp.broadcast_to(data[2], (*found.shape[:-1], 1))], axis=-1)

    def seed(seed: Array) -> Array:
        return jnp.append(jax.random.key_data(jax.random.key(seed, impl=THREEFRY)), jnp.uint32(0))

    def split(data: Array, shape: Shape) -> Array:
        return derived(jax.random.split(words(data), shape), data)

    def fold_in(data: Array, number: Any) -> Array:
        return derived(jax.random.fold_in(words(data), number), data)

    def random_bits(data: Array, width: int, shape: Shape) -> Array:
        kind = jnp.dtype(f"uint{width}")
        if not shape or shape[0] != count:
            return jax.random.bits(words(data), shape, kind)
        before = data[2] * jnp.uint32(prod(shape[1:]))
        place = before + jax.lax.iota(jnp.uint32, prod(shape)).reshape(shape)
        above = (place < before).astype(jnp.uint32)  # the upper half of a number of 64 bits
        high, low = threefry2x32_p.bind(*jnp.broadcast_arrays(data[0], data[1], above, place))
        return (high.astype(kind) << 32) | low.astype(kind) if width == 64 else (high ^ low).astype(kind)

    return define_prng_impl(
        key_shape=(3,), seed=seed, split=split, random_bits=random_bits, fold_in=fold_in, name=f"rows of {count}"
    )
