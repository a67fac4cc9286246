"""Compilation that is reused: numbers are data, only what shapes the program is part of the program."""

import functools
import gc
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
from jax.core import Tracer

from eqprop.errors import InputError

try:  # JAX has no public way to ask whether it has begun to compute
    from jax._src.xla_bridge import backends_are_initialized
except ImportError:  # a version that has it elsewhere: forked processes are not refused then

    def backends_are_initialized() -> bool:
        return False


Function = TypeVar("Function", bound=Callable[..., Any])
MAPS = Path("/proc/self/maps")
MOST_MAPS = 16_000
"""Memory maps that the compiled programs of a process may take, about 1.5 GB; Linux allows 65,530."""
OFTEN = 25  # programs are compiled between two looks

_programs = 0  # compiled since the last look
_forked = False  # whether this process was forked from one that had computed


def compiled(function: Function) -> Function:
    """`jax.jit` that traces every array and Python number of any argument and keeps the rest as static.

    So a new β, ε or learning rate does not compile again, while energies, which are functions, need no
    special marking. Static parts must be hashable.
    """

    def run(static: tuple[Any, ...], dynamic: list[Any]) -> Any:
        global _programs
        _programs += 1  # Python runs this only where JAX traces
        rest, treedef = static
        leaves = [s if d is None else d for s, d in zip(rest, dynamic, strict=True)]
        args, kwargs = jax.tree.unflatten(treedef, leaves)
        return function(*args, **kwargs)

    run.__name__ = getattr(function, "__name__", "run")  # what JAX calls the program in logs and profiles
    run = jax.jit(run, static_argnums=0)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        check_process()
        leaves, treedef = jax.tree.flatten((args, kwargs))
        if _programs >= OFTEN and is_known(leaves):
            make_room()
        dynamic = [leaf if eqx.is_array_like(leaf) else None for leaf in leaves]
        rest = tuple(None if eqx.is_array_like(leaf) else _hashable(leaf) for leaf in leaves)
        return run((rest, treedef), dynamic)

    wrapper.run = run  # pyright: ignore[reportAttributeAccessIssue]  (its cache size is what tests count)
    return wrapper  # pyright: ignore[reportReturnType]


def is_known(tree: Any) -> bool:
    """Whether the arrays have values: inside of a larger program, which JAX traces, they have shapes only."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def check_process() -> None:
    """Refuse to compute in a process forked from one which had: JAX would wait for threads that it no longer has."""
    if _forked:
        raise InputError(
            "this process was forked from one in which JAX had computed; JAX's threads do not live on in it, and it "
            'can compute nothing: start processes by multiprocessing.get_context("spawn") or "forkserver" (of joblib: '
            "by loky), or fork before anything is computed"
        )


def _in_child() -> None:
    global _forked
    _forked = _forked or backends_are_initialized()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_in_child)


def make_room() -> None:
    """Forget all programs once they take too many of the process's memory maps, as after hundreds of shapes.

    JAX itself keeps every program, and Linux would end the process when it has no map left for the next one.
    """
    global _programs
    _programs = 0
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


def keep_programs(folder: Path) -> None:
    """Keep what XLA compiles in a folder, for this process and those that come after it or run beside it.

    Nothing changes where the user has chosen a folder for JAX, or switched its cache off.
    """
    chosen: Any = jax.config
    if chosen.jax_compilation_cache_dir is None and chosen.jax_enable_compilation_cache:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def compile_quickly() -> None:
    """Make XLA compile in half the time, for programs that run for milliseconds only.

    Call it before JAX computes anything. The version is looked at because XLA ends the process at an option that it
    does not know.
    """
    if version("jaxlib").startswith("0.10."):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"


def _hashable(leaf: Any) -> Any:
    try:
        hash(leaf)
    except TypeError as error:
        raise InputError(
            f"{leaf!r} cannot be part of a compiled program ({error}): "
            "make it a function, a frozen dataclass or an equinox.Module"
        ) from error
    return leaf
