"""What may import what, and what `import eqprop` must not load."""

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

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
CORE = ["state", "energy", "cost", "total", "nudge", "relax", "rule", "device", "train"]
WHOLE = "page"  # the first room that may import `eqprop` itself
HEAVY = ["diffrax", "optimistix", "lineax", "sklearn", "matplotlib", "PIL", "rich", "tyro", "starlette", "uvicorn"]


def imports(tree: ast.AST) -> set[str]:
    """Every module that is imported, at any place, and every name that is imported from one."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found |= {f"{module}.{alias.name}" for alias in node.names}
            found |= {module} - {"eqprop"}  # of which only the names are imported, as in `from eqprop import data`
    return found


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def files(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]


def room_of(name: str) -> str:
    """The room of an imported name; `eqprop` and what it exports know everything below `WHOLE`."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else WHOLE


def upward(room: str, names: set[str]) -> set[str]:
    """Those of the names that lie in a later room, and relative ones, which do not say where they lie."""
    later = set(ROOMS[ROOMS.index(room) + 1 :])
    ours = {name for name in names if name.split(".")[0] == "eqprop"}
    return {name for name in ours if room_of(name) in later} | {name for name in names if name.startswith(".")}


def test_every_file_is_in_a_room() -> None:
    there = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
    assert there - {"__init__"} == set(ROOMS)


def test_the_architecture_page_has_the_rooms_in_this_order() -> None:
    tree = (PACKAGE.parent / "docs" / "architecture.md").read_text().split("```")[1]
    named = re.findall(r"^  (\w+)(?:/|\.py)", tree, flags=re.MULTILINE)
    assert named == [room for room in ROOMS if room != "__main__"]


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
        "import eqprop",
        "from eqprop import fit",
        "from ..train.epochs import fit",
        "from .. import train",
    ],
)
def test_an_import_that_leads_up_is_noticed(planted: str) -> None:
    assert upward("relax", imports(ast.parse(f"def f():\n    {planted}\n")))
    assert not upward("relax", imports(ast.parse("from eqprop.energy.base import Energy")))
    assert not upward("study", imports(ast.parse("from eqprop import data, plots")))


def test_no_module_is_hidden_behind_a_name_of_its_package() -> None:
    """`import eqprop.a.b as m` must give the module b."""
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] in ("__init__", "__main__"):
            continue
        package = importlib.import_module(".".join(parts[:-1]))
        there = getattr(package, parts[-1], None)
        assert there is None or there is sys.modules.get(".".join(parts)), ".".join(parts)


@pytest.mark.parametrize("room", CORE)
def test_the_core_asks_for_abilities_and_never_for_attributes_or_concrete_classes(room: str) -> None:
    for path in files(room):
        assert not concrete(parsed(path), vars(module_of(path))), path


def module_of(path: Path) -> Any:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return importlib.import_module(".".join(part for part in parts if part != "__init__"))


def concrete(tree: ast.AST, names: dict[str, Any]) -> list[str]:
    """Calls that ask whether there is an attribute, or whether something is of a class of ours that is not abstract.

    What the caller asks for, as in `System.offer`, is not looked at.
    """
    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id == "hasattr":
            found.append(ast.unparse(node))
        if node.func.id in ("isinstance", "issubclass"):
            kinds = [part for part in ast.walk(node.args[1]) if isinstance(part, ast.Name | ast.Attribute)]
            there = [eval(ast.unparse(part), names) for part in kinds if root(part) in names]
            if any(map(is_concrete, there)):
                found.append(ast.unparse(node))
    return found


def root(part: ast.expr) -> str:
    while isinstance(part, ast.Attribute):
        part = part.value
    return part.id if isinstance(part, ast.Name) else ""


def is_concrete(kind: Any) -> bool:
    """A class of the library that says how something is done, and not only what it can do.

    An `Activation` is data with a name, which has no subclasses.
    """
    ours = isinstance(kind, type) and kind.__module__.startswith("eqprop.") and kind is not eqprop.Activation
    return ours and not inspect.isabstract(kind) and not getattr(kind, "_is_protocol", False)


@pytest.mark.parametrize(
    ("planted", "noticed"),
    [
        ("isinstance(F, Hopfield)", True),
        ("isinstance(F, Energy | Hopfield)", True),
        ("isinstance(F, (int, energy.Hopfield))", True),
        ("issubclass(type(F), Hopfield)", True),
        ("hasattr(F, 'blocks')", True),
        ("isinstance(F, Energy)", False),
        ("isinstance(F, ability)", False),
        ("isinstance(F, int | str)", False),
    ],
)
def test_a_question_for_a_concrete_class_is_noticed(planted: str, noticed: bool) -> None:
    names = {"Hopfield": eqprop.Hopfield, "Energy": eqprop.Energy, "energy": eqprop, "int": int, "str": str}
    assert bool(concrete(ast.parse(planted), names)) == noticed


def test_importing_eqprop_loads_none_of_the_heavy_parts() -> None:
    program = f"import eqprop, json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    program += "; eqprop.progress.TrainingBar, eqprop.plots.learning_curve"  # as the documentation has them
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
