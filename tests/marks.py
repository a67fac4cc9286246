"""Which cases of a test `make test` runs, and which wait for `make test-slow`."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """All cases, marked as slow but for the quick ones, which must be among them."""
    cases = list(cases)
    assert all(case in cases for case in quick), f"{quick} are not all in {cases}"
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]


def slow(*values: Any) -> Any:
    """One case that is slow."""
    return pytest.param(*values, marks=pytest.mark.slow)
