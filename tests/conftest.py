"""Fixtures for all tests."""

import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

# Before JAX is imported: half of the time to compile. An option that XLA does not know would end it, hence the version.
if version("jaxlib").startswith("0.10."):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"

import jax
import pytest
from hypothesis import settings

# Without it, scikit-learn leaves one of its checks out; SciPy reads it when it is imported.
os.environ["SCIPY_ARRAY_API"] = "1"

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
