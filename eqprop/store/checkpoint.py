"""Arrays and what belongs with them in one file: safetensors, with JSON in its header and a checksum."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from eqprop.errors import InputError
from eqprop.memory import check_memory
from eqprop.store.atomic import to_json, write_atomic
from eqprop.store.reading import parse_json
from eqprop.store.schema import fitted
from eqprop.train.layout import lay, whole
from eqprop.tree import named

NOTES, SUM = "notes", "sha256"
KINDS = {  # by their names in a file
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"{sign}{bits}": f"{word}{bits}" for sign, word in (("I", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)},
    "BF16": "bfloat16",
    "C64": "complex64",
    "BOOL": "bool",
}


class Outline(NamedTuple):
    """What an array is, apart from its numbers."""

    kind: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, leaf: Any) -> Self:
        array = jax.random.key_data(leaf) if _is_key(leaf) else leaf
        return cls(np.dtype(array.dtype).name, array.shape)

    def __str__(self) -> str:
        return f"{self.kind}{list(self.shape)}"


def save(path: Path, tree: Any, notes: dict[str, Any]) -> None:
    """Write the arrays of `tree` and the JSON `notes`: whole and on disk, or not at all."""
    import safetensors.numpy

    arrays = flattened(tree)
    text = to_json(notes)
    metadata = {NOTES: text, SUM: _digest(arrays, text)}
    write_atomic(path, safetensors.numpy.save(arrays, metadata))


def load(path: Path, like: Any, kind: Any = dict[str, Any], newer: str | None = None) -> tuple[Any, Any]:
    """Read what `save` wrote: arrays in the structure of `like`, whose names, shapes and types must agree.

    The notes must be of the type `kind`, a type hint or a dataclass. Files of earlier versions may lack arrays whose
    names begin with `newer`; these are then as in `like`.
    """
    wanted = {name: Outline.of(leaf) for name, leaf in named(like).items()}

    def check(found: dict[str, Outline]) -> None:
        found = {name: wanted[name] for name in wanted if newer and name.startswith(newer)} | found
        if odd := sorted(wanted.keys() ^ found.keys()):
            where = "lacks" if odd[0] in wanted else "has an unexpected"
            raise InputError(f"{path} is of another network or trainer: it {where} {odd[0]!r}")
        for name, outline in wanted.items():
            if outline != found[name]:
                raise InputError(
                    f"{path} is of another network or trainer: {name!r} is {found[name]} instead of {outline}"
                )

    arrays, notes = read(path, kind, check)
    lacking = {name: _plain(leaf) for name, leaf in named(like).items() if name not in arrays}
    return restored(lacking | arrays, like), notes


def read(
    path: Path, kind: Any = dict[str, Any], check: Callable[[dict[str, Outline]], None] = lambda _: None
) -> tuple[dict[str, np.ndarray], Any]:
    """The arrays by their paths, and the notes, of what `save` wrote; `check` sees the outlines before any is read."""
    import safetensors

    with _opened(path) as file:
        metadata = _metadata(path, file)
        names = list(file.keys())
        check({name: _outline(path, name, file.get_slice(name)) for name in names})
        check_memory(2 * path.stat().st_size, f"to read {path}", "it is not meant for a machine like this")
        try:
            arrays = {name: file.get_tensor(name) for name in names}
        except safetensors.SafetensorError as error:
            raise InputError(f"{path} is damaged or cut off: {error}") from error
    if _digest(arrays, metadata[NOTES]) != metadata[SUM]:
        raise InputError(f"{path} is damaged: its content does not have the checksum that was stored with it")
    return arrays, _notes(path, metadata, kind)


def read_notes(path: Path, kind: Any = dict[str, Any]) -> Any:
    """The notes alone, without a look at the arrays; what `load` or `read` finds later is what counts."""
    with _opened(path) as file:
        return _notes(path, _metadata(path, file), kind)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import safetensors

    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        file = safetensors.safe_open(path, framework="np")
    except safetensors.SafetensorError as error:
        with path.open("rb") as found:
            begun = found.read(9)
        if begun[8:] not in (b"", b"{"):  # after the length of the header comes its JSON
            raise InputError(
                f"{path} is damaged, or no safetensors file (what joblib.dump wrote, joblib.load reads, if you trust "
                f"it): {error}"
            ) from error
        raise InputError(f"{path} is damaged or cut off: {error}") from error
    except OSError as error:
        raise InputError(f"{path} is damaged or cut off: {error}") from error
    with file as opened:
        yield opened


def _metadata(path: Path, file: Any) -> dict[str, str]:
    metadata = file.metadata() or {}
    if SUM not in metadata or NOTES not in metadata:
        raise InputError(f"{path} was not written by eqprop: it has no notes or no checksum")
    return metadata


def _notes(path: Path, metadata: dict[str, str], kind: Any) -> Any:
    return fitted(kind, parse_json(metadata[NOTES], f"{path}: its text", "save it again"), f"{path}: its notes")


def _outline(path: Path, name: str, part: Any) -> Outline:
    if (kind := part.get_dtype()) not in KINDS:
        raise InputError(f"{path} was not written by eqprop: {name!r} has numbers of the type {kind}")
    return Outline(KINDS[kind], tuple(part.get_shape()))


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
