"""Which cases of a test wait for `make test-slow`, and lists that must name all there is."""

from collections.abc import Container, Iterable
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


def nothing_missing(wanted: Iterable[str], there: Container[str], where: str) -> None:
    """Fail with the names of what is wanted and not there; `where` begins the sentence."""
    if missing := [name for name in wanted if name not in there]:
        pytest.fail(f"{where}: {', '.join(missing)}", pytrace=False)
