"""What may import what, and what `import eqprop` must not load."""

import ast
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import eqprop

PACKAGE = Path(eqprop.__file__).parent
CORE = ["energy", "cost", "nudge", "relax", "rule", "train", "data", "compile", "errors", "files"]
HEAVY = ["diffrax", "optimistix", "lineax", "sklearn", "matplotlib", "rich", "tyro", "starlette", "uvicorn"]


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at any place in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def files(part: str) -> list[Path]:
    return sorted((PACKAGE / part).rglob("*.py")) or [PACKAGE / f"{part}.py"]


@pytest.mark.parametrize("part", CORE)
def test_the_core_knows_nothing_of_what_is_built_on_it(part: str) -> None:
    for path in files(part):
        for outer in ("cli", "plots", "sklearn", "live", "experiment"):
            assert f"eqprop.{outer}" not in imports(path), path


@pytest.mark.parametrize(("earlier", "later"), list(pairwise(CORE[:6])))
def test_data_flow_in_one_direction(earlier: str, later: str) -> None:
    for path in files(earlier):
        assert not any(name.startswith(f"eqprop.{later}") for name in imports(path)), path


def test_importing_eqprop_loads_none_of_the_heavy_parts() -> None:
    program = f"import eqprop, json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_nothing_is_read_or_written_through_pickle() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert not imports(path) & {"pickle", "cloudpickle", "dill", "joblib"}, path


def test_every_public_name_exists_and_says_what_it_is() -> None:
    assert eqprop.__all__ == sorted(eqprop.__all__)
    for name in eqprop.__all__:
        assert getattr(eqprop, name).__doc__, name
