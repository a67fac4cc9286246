"""Data as people have them: arrays of NumPy and JAX, tensors of PyTorch, tables of pandas, lists of numbers."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.boundary import article
from eqprop.errors import InputError
from eqprop.types import PyTree


@runtime_checkable
class Table(Protocol):
    """What pandas and polars call a table, or a column of one."""

    def to_numpy(self) -> np.ndarray: ...


@runtime_checkable
class Tensor(Protocol):
    """What PyTorch and others call a tensor: its memory can be read by DLPack, without a copy."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...

    def __dlpack_device__(self) -> tuple[Any, int]: ...


def as_arrays(v: PyTree) -> PyTree:
    """The same tree, in which everything that holds numbers is an array."""
    return jax.tree.map(_as_array, v, is_leaf=_is_leaf)


def _is_leaf(node: Any) -> bool:
    """Whether it is a list of numbers, which JAX would take for a tree, or an iterator, which is none."""
    plain = isinstance(node, list) and bool(node) and isinstance(node[0], int | float | str | list | np.generic)
    return plain or isinstance(node, Iterator)


def _as_array(given: Any) -> Any:
    if isinstance(given, np.ma.MaskedArray):
        raise InputError("the data are a masked array: fill what is hidden by `filled`, or leave it out")
    if isinstance(given, jax.Array) and jnp.issubdtype(given.dtype, jax.dtypes.extended):
        raise InputError("the data hold a key of jax.random: give arrays of numbers")
    if isinstance(given, np.ndarray | jax.Array):
        return given
    kind = article(type(given).__name__)
    try:
        if isinstance(given, Table):
            return given.to_numpy()
        if isinstance(given, Tensor):
            kind, _ = given.__dlpack_device__()
            return np.from_dlpack(given) if int(kind) == 1 else jax.numpy.from_dlpack(given)
        if isinstance(given, list):
            return np.asarray(given)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        way = "give arrays, of a tensor tensor.detach().float()"
        raise InputError(f"the data are {kind} that is not read ({error}): {way}") from error
    raise InputError(
        f"the data hold {kind}, which is no array: give arrays of numbers, of a data.Split its `v`, or its `x` to "
        "predict, of an image np.asarray(image); minibatches from an iterator are for eqprop.Iterated"
    )
