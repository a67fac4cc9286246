"""Several devices: a mesh of them, and what lies where.

A mesh has two axes. Along `examples`, devices share each minibatch; along `units`, they share θ.
"""

import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from eqprop.errors import InputError
from eqprop.types import Array, PyTree, State

EXAMPLES, UNITS = "examples", "units"


def mesh(devices: int | None = None, *, units: int = 1) -> Mesh:
    """A mesh of devices to train on: `Trainer(…, mesh=mesh())`.

    devices: how many of each process; None: all.
    units: over how many devices the weights are spread, for layers that do not fit on one; examples are shared by the
        others.

        >>> dict(mesh(1).shape)
        {'examples': 1, 'units': 1}
    """
    there, each = jax.devices(), jax.local_device_count()
    if devices is not None and (not isinstance(devices, int) or not 1 <= devices <= each):
        raise InputError(
            f"devices={devices!r}: there are {each}; jax.config.update('jax_num_cpu_devices', N) makes N of one CPU, "
            "before JAX computes anything"
        )
    by_process = [[d for d in there if d.process_index == process] for process in range(jax.process_count())]
    there = [device for own in by_process for device in own[:devices]]
    count = len(there)
    if not isinstance(units, int) or units < 1 or count % units:
        raise InputError(f"units={units!r}: give a number that divides the {count} devices")
    return jax.make_mesh(
        (count // units, units), (EXAMPLES, UNITS), axis_types=(AxisType.Auto, AxisType.Auto), devices=there
    )


def check_mesh(mesh: Any) -> None:
    """Refuse what is no mesh, or has other axes."""
    if not isinstance(mesh, Mesh) or set(mesh.axis_names) != {EXAMPLES, UNITS}:
        raise InputError(f"mesh={mesh!r}: give one with the axes {EXAMPLES!r} and {UNITS!r}, as eqprop.mesh() makes it")
    if any(kind != AxisType.Auto for kind in mesh.axis_types):
        raise InputError(f"mesh with axes of the types {mesh.axis_types}: give AxisType.Auto, as eqprop.mesh() does")


def shardings(theta: PyTree, mesh: Mesh) -> Any:
    """How θ lies on a mesh: each array is divided along its last axis that can be, by the number of `units`.

    Only the shapes of θ are looked at. So weights that are too large for one device can be drawn where they will lie:

        >>> import eqprop as ep
        >>> net, devices = ep.Hopfield.layered(4, 8, 2), mesh(1)
        >>> where = shardings(jax.eval_shape(net.init, jax.random.key(0)), devices)
        >>> theta = jax.jit(net.init, out_shardings=where)(jax.random.key(0))
        >>> theta["W"]["input-hidden"].sharding == where["W"]["input-hidden"]
        True
    """

    def one(leaf: Any) -> NamedSharding:
        shape, parts = jnp.shape(leaf), mesh.shape[UNITS]
        axis = next((i for i in reversed(range(len(shape))) if parts > 1 and shape[i] % parts == 0), None)
        return NamedSharding(mesh, PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, UNITS))

    return jax.tree.map(one, theta)


def lay(tree: Any, where: Any) -> Any:
    """The arrays of a tree on the devices of a sharding, or of a tree of shardings; those that lie there stay.

    Every process must give the same arrays.
    """
    if isinstance(where, NamedSharding):
        where = jax.tree.map(lambda _: where, tree)
    return jax.tree.map(_lay, tree, where)


def _lay(leaf: Any, where: NamedSharding) -> Array:
    if isinstance(leaf, jax.Array) and leaf.sharding.device_set == where.device_set and leaf.committed:
        return leaf
    if where.is_fully_addressable:
        return jax.device_put(leaf, where)
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        words = _lay(jax.random.key_data(leaf), NamedSharding(where.mesh, PartitionSpec()))
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
    array = np.asarray(leaf)
    return jax.make_array_from_callback(array.shape, where, lambda part: array[part])


def everywhere(mesh: Mesh) -> NamedSharding:
    """The whole of an array on each device."""
    return NamedSharding(mesh, PartitionSpec())


def by_rows(mesh: Mesh, tree: State) -> NamedSharding:
    """Rows divided over the devices, so that each has those of its examples; all on each if they cannot be divided."""
    rows = {len(leaf) for leaf in jax.tree.leaves(tree)}
    divides = all(count % mesh.shape[EXAMPLES] == 0 for count in rows)
    return NamedSharding(mesh, PartitionSpec(EXAMPLES) if divides else PartitionSpec())


def own_rows(mesh: Mesh, count: int) -> range:
    """Which of `count` rows that all devices divide lie on those of this process."""
    owners = [device.process_index for device in mesh.devices[:, 0]]
    each, own = count // len(owners), [i for i, owner in enumerate(owners) if owner == jax.process_index()]
    return range(own[0] * each, (own[-1] + 1) * each)


def lay_rows(own: np.ndarray, count: int, mesh: Mesh) -> Array:
    """One array of minibatches with `count` rows, of which each process gives its own; the first axis counts them."""
    where = NamedSharding(mesh, PartitionSpec(None, EXAMPLES))
    return jax.make_array_from_process_local_data(where, own, (len(own), count, *own.shape[2:]))


def spans_processes(mesh: Mesh | None) -> bool:
    """Whether other processes have a part in it, so that all must do the same."""
    return mesh is not None and len({device.process_index for device in mesh.devices.flat}) > 1


def agreed(mesh: Mesh | None, value: float) -> float:
    """The value of the first process, for what would be another in each, as a time; all must ask at once."""
    return float(multihost_utils.broadcast_one_to_all(np.float32(value))) if spans_processes(mesh) else value


def require_same(mesh: Mesh | None, text: str, what: str) -> None:
    """Refuse to go on, in all processes, if one has another text; all must ask at once."""
    if not spans_processes(mesh):
        return
    own = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint32)
    found = np.asarray(multihost_utils.process_allgather(own))
    if odd := np.flatnonzero((found != found[0]).any(axis=1)).tolist():
        raise InputError(f"{what} of process {odd[0]} differ from those of process 0: start all by the same command")


def whole(leaf: Any) -> np.ndarray:
    """All of an array, wherever its parts lie; all processes must ask at once for one that they share."""
    if isinstance(leaf, jax.Array) and not (leaf.is_fully_addressable or leaf.is_fully_replicated):
        return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))
    return np.asarray(leaf)
