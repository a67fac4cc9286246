"""Fixtures for all tests."""

from collections.abc import Iterator

import jax
import pytest
from hypothesis import settings

# The first example of a property compiles, which takes seconds; the machine may be busy with others.
settings.register_profile("eqprop", deadline=None)
settings.load_profile("eqprop")


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision, for comparisons with derivatives."""
    with jax.enable_x64(True):
        yield
