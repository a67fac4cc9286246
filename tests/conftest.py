"""Fixtures for all tests."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision, for comparisons with derivatives."""
    with jax.enable_x64(True):
        yield
