"""What is shipped: all of the package and nothing else."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import eqprop

ROOT = Path(__file__).parent.parent
PACKAGE = {"eqprop_command.py"} | {
    f"eqprop/{path.relative_to(ROOT / 'eqprop')}"
    for path in (ROOT / "eqprop").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"eqprop-{eqprop.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    info = {name.split("/", 1)[1] for name in names if name.startswith(f"eqprop-{eqprop.__version__}.dist-info/")}
    assert info == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert {name for name in names if ".dist-info/" not in name} == PACKAGE
    assert "eqprop/py.typed" in PACKAGE


def test_the_source_holds_what_its_tests_need(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    tops = {name.split("/")[0] for name in names}
    assert tops == {
        ".gitignore",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "PKG-INFO",
        "README.md",
        "benchmarks",
        "campaign",
        "docs",
        "eqprop",
        "eqprop_command.py",
        "examples",
        "mkdocs.yml",
        "pyproject.toml",
        "tests",
    }
    assert {name for name in names if name.startswith("eqprop")} == PACKAGE
    assert not any("__pycache__" in name or name.endswith(".pyc") for name in names)
    weights = {str(Path(name).parent) for name in names if name.endswith(".safetensors")}
    assert weights <= {"docs/models", "tests/data/0.1.0", "tests/data/0.1.0/run"}
