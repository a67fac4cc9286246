"""What may import what, and what `import eqprop` must not load."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import eqprop

PACKAGE = Path(eqprop.__file__).parent
# From the bottom to the top: a room imports rooms that stand before it, never one that comes later.
ROOMS = [
    "errors",
    "memory",
    "boundary",
    "types",
    "compile",
    "given",
    "tree",
    "state",
    "energy",
    "cost",
    "readout",
    "total",
    "nudge",
    "relax",
    "rule",
    "device",
    "train",
    "store",
    "data",
    "provenance",
    "spice",
    "bench",
    "plots",
    "verification",
    "study",
    "progress",
    "cluster",
    "sklearn",
    "page",
    "cli",
    "__main__",
]
HEAVY = ["diffrax", "optimistix", "lineax", "sklearn", "matplotlib", "PIL", "rich", "tyro", "starlette", "uvicorn"]


def imports(tree: ast.AST) -> set[str]:
    """Every module that is imported, at any place."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def files(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]


def upward(room: str, names: set[str]) -> set[str]:
    """Those of the names that lie in a later room, whatever follows the room's name."""
    later = set(ROOMS[ROOMS.index(room) + 1 :])
    return {name for name in names if name.startswith("eqprop.") and name.split(".")[1] in later}


def test_every_file_is_in_a_room() -> None:
    there = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
    assert there - {"__init__"} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_knows_nothing_of_those_above_it(room: str) -> None:
    for path in files(room):
        assert not upward(room, imports(parsed(path))), path


@pytest.mark.parametrize(
    "planted",
    [
        "from eqprop.plots.style import theme",
        "import eqprop.cli.main",
        "from eqprop.train import fit",
        "import eqprop.rule",
    ],
)
def test_an_import_that_leads_up_is_noticed(planted: str) -> None:
    assert upward("relax", imports(ast.parse(f"def f():\n    {planted}\n")))
    assert not upward("relax", imports(ast.parse("from eqprop.energy.base import Energy")))


def test_no_module_is_hidden_behind_a_name_of_its_package() -> None:
    """`import eqprop.a.b as m` must give the module b."""
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] in ("__init__", "__main__"):
            continue
        package = importlib.import_module(".".join(parts[:-1]))
        there = getattr(package, parts[-1], None)
        assert there is None or there is sys.modules.get(".".join(parts)), ".".join(parts)


@pytest.mark.parametrize("room", ["energy", "cost", "total", "nudge", "relax", "rule", "train"])
def test_the_core_asks_for_abilities_and_never_for_attributes_or_concrete_classes(room: str) -> None:
    """`isinstance` is for what is abstract, or comes from outside of the library."""
    abstract = {
        "Ability",
        "Activation",
        "Blockwise",
        "Cost",
        "Energy",
        "Feed",
        "Nudge",
        "Pooling",
        "Relaxation",
        "Rule",
    }
    abstract |= {"Resistors", "Separation", "Synapse", "System"}
    for path in files(room):
        for node in ast.walk(parsed(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            assert node.func.id != "hasattr", f"{path}: {ast.unparse(node)}"
            if node.func.id == "isinstance":
                asked = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                ours = {name for name in asked if hasattr(eqprop, name)}
                assert ours <= abstract, f"{path}: {ast.unparse(node)}"


def test_importing_eqprop_loads_none_of_the_heavy_parts() -> None:
    program = f"import eqprop, json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_only_the_command_line_knows_the_library_that_parses_it() -> None:
    users = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py") if "tyro" in imports(parsed(path))}
    assert users == {"cli"}


def test_nothing_is_read_or_written_through_pickle() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert not imports(parsed(path)) & {"pickle", "cloudpickle", "dill", "joblib"}, path


def test_every_public_name_exists_and_says_what_it_is() -> None:
    assert eqprop.__all__ == sorted(eqprop.__all__)
    for name in eqprop.__all__:
        assert getattr(eqprop, name).__doc__, name
