"""What all effects of writing share: an Optax transformation in which every weight is a device of its own."""

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple
from zlib import crc32

import jax
import jax.numpy as jnp
import optax

from eqprop.errors import InputError
from eqprop.tree import named
from eqprop.types import Array, Key, PyTree, Seed, Theta


class Devices(NamedTuple):
    """What an effect remembers: what each device has of its own, in a tree like θ, and the key of what comes next."""

    own: PyTree
    key: Key | None


def per_device(
    write: Callable[[Array, Array, Any, Any], tuple[Array, Any]],
    own: Callable[[Array, Any], Any] = lambda w, key: (),
    *,
    name: str = "",
    seed: Seed | None = None,
    once: bool = False,
) -> optax.GradientTransformation:
    """An Optax transformation from what each device does by itself.

    write: (Δw, w, own, key) → what Δw becomes, and what the devices have of their own from then on.
    own: (w, key) → what the devices of one array have of their own at first.
    name, seed: of what is drawn. Effects of different names draw different numbers from the same seed.
    once: nothing is drawn after the start, so that updates have no key.
    """
    if seed is not None and not isinstance(seed, int):
        raise InputError(f"seed={seed!r}: give a whole number, from which everything random follows")

    def init(params: Theta) -> Any:
        leaves, tree = jax.tree.flatten(params)
        born, key = (None, None) if seed is None else jax.random.split(_key(seed, name))
        each = (own(jnp.asarray(w), k) for w, k in zip(leaves, _keys(born, len(leaves)), strict=True))
        return Devices(jax.tree.unflatten(tree, each), None if once else key)

    def update(updates: Theta, state: Any, params: Theta | None = None) -> tuple[Theta, Any]:
        if params is None:
            raise InputError("a device needs to know θ to change it: call update(updates, state, params)")
        leaves, tree = jax.tree.flatten(params)
        now, key = (None, None) if state.key is None else jax.random.split(state.key)
        changes, owns = (tree.flatten_up_to(part) for part in (updates, state.own))
        done = [
            write(change, jnp.asarray(w), mine, k)
            for change, w, mine, k in zip(changes, leaves, owns, _keys(now, len(leaves)), strict=True)
        ]
        written = [new.astype(change.dtype) for (new, _), change in zip(done, changes, strict=True)]
        return tree.unflatten(written), Devices(tree.unflatten([mine for _, mine in done]), key)

    return optax.GradientTransformation(init, update)


def only(transformation: optax.GradientTransformation, *parts: str) -> optax.GradientTransformation:
    """The transformation for some parts of θ, given by their paths or the tops of them, as "W" or "W/input-hidden".

    >>> w = jnp.ones(1)
    >>> half = only(optax.scale(0.5), "W")
    >>> halved, _ = half.update({"W": w, "b": w}, half.init({"W": w, "b": w}))
    >>> halved["W"].item(), halved["b"].item()
    (0.5, 1.0)
    """
    return optax.masked(transformation, lambda tree: among(tree, parts))


def among(tree: Theta, parts: tuple[str, ...]) -> PyTree:
    """A tree like θ: which of its arrays are in these parts."""
    paths = list(named(tree))
    for part in parts:
        if not any(_under(path, part) for path in paths):
            raise InputError(f"parts={parts}: θ has no {part!r}; there are {', '.join(paths)}")
    chosen = [any(_under(path, part) for part in parts) for path in paths]
    return jax.tree.unflatten(jax.tree.structure(tree), chosen)


def inside(change: Array, w: Array, low: float, high: float) -> Array:
    """The change that ends within the range: w + Δw is not beyond it by the last digit either."""
    low_, high_ = (jnp.asarray(end, w.dtype) for end in (low, high))
    change = jnp.clip(w + change, low_, high_) - w
    digit = 2 * jnp.finfo(w.dtype).eps * jnp.maximum(jnp.abs(w), jnp.maximum(jnp.abs(low_), jnp.abs(high_)))
    change = jnp.where(w + change > high_, change - digit, change)
    return jnp.where(w + change < low_, change + digit, change)


def check_range(w_min: float, w_max: float) -> None:
    """Refuse what is no range."""
    if not -inf < w_min < w_max < inf:
        raise InputError(f"w_min={w_min!r}, w_max={w_max!r}: give two finite numbers, the lower one first")


def check_deviation(**given: float) -> None:
    """Refuse what is no standard deviation."""
    for name, value in given.items():
        if not 0 <= value < inf:
            raise InputError(f"{name}={value!r}: give a standard deviation of 0 or more")


def _under(path: str, part: str) -> bool:
    return path == part or path.startswith(f"{part}/")


def _key(seed: int, name: str) -> Key:
    return jax.random.fold_in(jax.random.key(seed), crc32(name.encode()))


def _keys(key: Key | None, count: int) -> Any:
    return [None] * count if key is None else jax.random.split(key, count)
