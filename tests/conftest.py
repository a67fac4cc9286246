"""Fixtures for all tests."""

import os
from collections.abc import Iterator
from pathlib import Path

# Without it, scikit-learn leaves one of its checks out; SciPy reads it when it is imported.
os.environ["SCIPY_ARRAY_API"] = "1"

import jax
import pytest
from hypothesis import settings

from eqprop.compile import compile_quickly

compile_quickly()  # for the processes that tests start as well

# Both workers, the processes that tests start, and the next run share what was compiled.
STORE = {
    "jax_compilation_cache_dir": str(Path(__file__).parent.parent / ".pytest_cache" / "jax"),
    "jax_persistent_cache_min_compile_time_secs": 0.1,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    # Most programs here run for milliseconds: to compile them well takes longer than they do.
    "jax_disable_most_optimizations": True,
}
for option, value in STORE.items():
    jax.config.update(option, value)
    os.environ[option.upper()] = str(value)

# The first example of a property compiles, which takes seconds; the machine may be busy with others.
settings.register_profile("eqprop", deadline=None)
settings.load_profile("eqprop")


@pytest.fixture(scope="module", autouse=True)
def few_programs() -> Iterator[None]:
    """Forget the programs of a module: thousands of them exhaust the memory maps that Linux lets a process have."""
    yield
    jax.clear_caches()


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision, for comparisons with derivatives."""
    with jax.enable_x64(True):
        yield
