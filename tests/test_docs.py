"""What the documentation shows is true: its code runs and prints what it says, and its reference is complete."""

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import eqprop
import eqprop.bench
import eqprop.device
import eqprop.plots
import eqprop.sklearn
from marks import nothing_missing, slow_but

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *(page for folder in ("tutorials", "since-2017") for page in sorted((DOCS / folder).glob("*.md"))),
    DOCS / "devices.md",
    DOCS / "large-data.md",
    DOCS / "cluster.md",
]
NUMBER = re.compile(r"[-−]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")
DOCUMENTED: dict[ModuleType, list[str]] = {
    eqprop: [name for name in eqprop.__all__ if not inspect.ismodule(getattr(eqprop, name))],
    eqprop.bench: eqprop.bench.__all__,
    eqprop.device: eqprop.device.__all__,
    eqprop.data: [name for name in eqprop.data.__all__ if callable(getattr(eqprop.data, name))],
    eqprop.plots: [name for name in eqprop.plots.__all__ if callable(getattr(eqprop.plots, name))],
    eqprop.sklearn: eqprop.sklearn.__all__,
    eqprop.spice: [name for name in eqprop.spice.__all__ if callable(getattr(eqprop.spice, name))],
}
LONG = ("rule.layer", "sklearn.classifier", "sklearn.regressor", "train.epochs")  # they train
EXAMPLES = (
    "cluster.joining",
    "device.base",
    "device.diodes",
    "device.read",
    "device.writing",
    "energy.graph",
    "energy.memory",
    "energy.oscillators",
    "nudge",
    "relax.block",
    "rule.equilibrium",
    "rule.layer",
    "sklearn.classifier",
    "sklearn.regressor",
    "state",
    "total.base",
    "total.sum",
    "train.epochs",
    "store.model",
    "train.feed",
    "train.layout",
    "train.rates",
    "train.rows",
    "train.tracking",
    "train.trainer",
    "verification.run",
)


def blocks(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and content."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def alike(printed: str, shown: str) -> bool:
    """The same words, and nearly the same numbers: other machines round differently."""
    skeletons = [NUMBER.sub("#", text).split() for text in (printed, shown)]
    numbers = [NUMBER.findall(text.replace("−", "-")) for text in (printed, shown)]
    return skeletons[0] == skeletons[1] and all(map(near, *numbers))


def near(a: str, b: str) -> bool:
    """Within a third, or two units of the last place that is shown."""
    decimals = len(a.partition("e")[0].partition(".")[2])
    place = 0 if "e" in a else 2 * 10.0**-decimals if "." in a else 0
    return abs(float(a) - float(b)) <= max(place, abs(float(b)) / 3, 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_and_prints_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # for pages that write files
    if "ep.spice" in page.read_text() and not eqprop.spice.installed():
        pytest.skip("ngspice is not installed: apt-get install ngspice")
    names: dict[str, Any] = {"__name__": page.stem}
    printed = ""
    for language, content in blocks(page.read_text()):
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(content, page.name, "exec"), names)
            assert not printed, f"{page.name} does not show what it prints:\n{printed}"
            printed = out.getvalue()
        elif language == "text":
            assert alike(printed, content), f"{page.name} shows\n{content}\nand prints\n{printed}"
            printed = ""
    assert not printed, f"{page.name} does not show what it prints:\n{printed}"


@pytest.mark.slow
def test_what_is_added_from_outside_works_and_touches_no_private_name(tmp_path: Path) -> None:
    """The guide to extending, in a process of its own, as it wants two devices."""
    code = "\n".join(
        content for language, content in blocks((DOCS / "extending.md").read_text()) if language == "python"
    )
    assert not private_names(code)
    (tmp_path / "extending.py").write_text(f"import jax\nassert len(jax.devices()) == 2\n{code}")
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "extending.py"],
        cwd=tmp_path,
        env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def private_names(code: str) -> list[str]:
    """Attributes and imported names that begin with one underscore."""
    found: list[str] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute):
            found.append(node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found += [part for alias in node.names for part in alias.name.split(".")]
            found += (getattr(node, "module", None) or "").split(".")
    return [name for name in found if name.startswith("_") and not name.startswith("__")]


def test_a_private_name_is_noticed() -> None:
    for planted in ("net._units", "ep.train._key", "from eqprop.rule.base import _learn", "import eqprop._x as x"):
        assert private_names(planted), planted
    assert not private_names("for _ in range(3):\n    print(net.__class__, ep.rest(1))")


def test_what_counts_as_alike() -> None:
    assert alike("cost 0.512 → 0.450", "cost 0.515 → 0.456\n")
    assert alike("w = 1.49,\n cost 0.0", "w = 1.50, cost 0.1")
    assert not alike("w = 1.49", "v = 1.49")
    assert not alike("pass 3 of 3", "pass 2 of 3")
    assert not alike("off by 0.0100", "off by 0.0200")
    assert not alike("FAIL", "pass")


@pytest.mark.parametrize("module", DOCUMENTED, ids=lambda module: module.__name__)
def test_every_public_name_is_in_the_reference(module: ModuleType) -> None:
    found = {name for page in (DOCS / "api").glob("*.md") for name in re.findall(r"^::: (\S+)", page.read_text(), re.M)}
    names = [f"{module.__name__}.{name}" for name in DOCUMENTED[module]]
    nothing_missing(names, found, "names without a line `::: NAME` on a page of docs/api")


@pytest.mark.parametrize("module", DOCUMENTED, ids=lambda module: module.__name__)
def test_every_public_name_and_method_says_what_it_is(module: ModuleType) -> None:
    silent = []
    for name in DOCUMENTED[module]:
        thing = getattr(module, name)
        silent += [] if thing.__doc__ else [name]
        if inspect.isclass(thing):
            owners = [cls for cls in thing.__mro__ if cls.__module__.startswith("eqprop")]
            silent += [
                f"{cls.__name__}.{name}"
                for cls in owners
                for name, _ in methods(cls)
                if not inspect.getdoc(getattr(cls, name))
            ]
    assert not silent


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class itself defines."""
    for name, member in vars(cls).items():
        if isinstance(member, property | classmethod | staticmethod):
            member = member.fget if isinstance(member, property) else member.__func__
        if not name.startswith("_") and (inspect.isfunction(member) or hasattr(member, "__wrapped__")):
            yield name, member


@pytest.mark.parametrize("module", slow_but(EXAMPLES, *(name for name in EXAMPLES if name not in LONG)))
def test_the_examples_of_docstrings_are_true(module: str) -> None:
    done = doctest.testmod(importlib.import_module(f"eqprop.{module}"))
    assert done.attempted and not done.failed


def test_all_pages_can_be_found() -> None:
    nav = (ROOT / "mkdocs.yml").read_text()
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    nothing_missing(pages, nav, "pages that are not in `nav` of mkdocs.yml")
