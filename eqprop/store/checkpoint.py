"""Arrays and what belongs with them in one file: safetensors, with JSON in its header and a checksum."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from eqprop.errors import InputError
from eqprop.store.atomic import write_atomic
from eqprop.train.layout import lay, whole
from eqprop.tree import named

NOTES, SUM = "notes", "sha256"


def save(path: Path, tree: Any, notes: dict[str, Any]) -> None:
    """Write the arrays of `tree` and the JSON `notes`: whole and on disk, or not at all."""
    import safetensors.numpy

    arrays = flattened(tree)
    text = json.dumps(notes)
    metadata = {NOTES: text, SUM: _digest(arrays, text)}
    write_atomic(path, safetensors.numpy.save(arrays, metadata))


def load(path: Path, like: Any) -> tuple[Any, dict[str, Any]]:
    """Read what `save` wrote: arrays in the structure of `like`, whose names, shapes and types must agree."""
    arrays, notes = read(path)
    leaves = named(like)
    if odd := sorted(leaves.keys() ^ arrays.keys()):
        where = "lacks" if odd[0] in leaves else "has an unexpected"
        raise InputError(f"{path} is of another network or trainer: it {where} {odd[0]!r}")
    for name, leaf in leaves.items():
        wanted, found = _plain(leaf), arrays[name]
        if (wanted.shape, wanted.dtype) != (found.shape, found.dtype):
            raise InputError(
                f"{path} is of another network or trainer: {name!r} is {found.dtype}{list(found.shape)} "
                f"instead of {wanted.dtype}{list(wanted.shape)}"
            )
    return restored(arrays, like), notes


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays by their paths, and the notes, of what `save` wrote."""
    import safetensors

    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        with safetensors.safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged or cut off: {error}") from error
    if SUM not in metadata or NOTES not in metadata:
        raise InputError(f"{path} was not written by eqprop: it has no notes or no checksum")
    if _digest(arrays, metadata[NOTES]) != metadata[SUM]:
        raise InputError(f"{path} is damaged: its content does not have the checksum that was stored with it")
    return arrays, json.loads(metadata[NOTES])


def flattened(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree by their paths; keys of random numbers as the numbers that they are."""
    return {name: _plain(leaf) for name, leaf in named(tree).items()}


def restored(arrays: Mapping[str, np.ndarray], like: Any) -> Any:
    """The inverse of `flattened`: arrays in the structure of `like`."""
    leaves = [_like(arrays[name], leaf) for name, leaf in named(like).items()]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(whole(jax.random.key_data(leaf) if _is_key(leaf) else leaf), order="C")


def _like(array: np.ndarray, leaf: Any) -> jax.Array:
    """The array as the leaf lies: on one device, or on those of a mesh."""
    where = leaf.sharding if isinstance(leaf, jax.Array) else None
    restored = lay(array, where) if isinstance(where, NamedSharding) else jnp.asarray(array)
    return jax.random.wrap_key_data(restored, impl=jax.random.key_impl(leaf)) if _is_key(leaf) else restored


def _digest(arrays: dict[str, np.ndarray], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
