"""What the README shows is true: its code runs, its commands exist."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from marks import slow, slow_but

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
EXAMPLES = slow_but(sorted((ROOT / "examples").glob("*.py")), ROOT / "examples" / "settling.py")


@pytest.mark.parametrize(
    "code",
    [slow(SNIPPETS[1]), SNIPPETS[2], slow(SNIPPETS[3])],
    ids=["scikit-learn", "your own energy", "verify"],
)
def test_the_code_runs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_the_quick_start_is_short_and_learns(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line in SNIPPETS[0].splitlines() if line.strip()]
    assert len(lines) <= 15
    names: dict[str, object] = {}
    exec(compile(SNIPPETS[0].replace("epochs=10", "epochs=3"), "README.md", "exec"), names)
    history = names["history"]
    assert isinstance(history, list)
    assert history[-1]["valid_error"] < 0.1
    assert str(history[-1]) in capsys.readouterr().out


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\((?!http)([^)]+)\)", README):
        assert (ROOT / target.partition("#")[0]).exists(), target


def test_the_makefile_has_the_two_commands() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, flags=re.MULTILINE), command


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_examples_run(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is told where to draw, and leaves a picture there."""
    monkeypatch.chdir(tmp_path)
    where = ["--out", str(tmp_path)] if script.stem == "gallery" else [str(tmp_path / "picture.png")]
    monkeypatch.setattr(sys, "argv", [script.name, *where])
    runpy.run_path(str(script), run_name="__main__")
    drawn = [path for path in tmp_path.rglob("*.png") if path.is_file()]
    assert drawn and all(picture.read_bytes().startswith(b"\x89PNG") for picture in drawn)
