"""The documentation's site: what the commands, the docstrings and the claims make of themselves."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import eqprop
from eqprop.cli.main import COMMANDS, Command
from eqprop.data.loading import FILE_SETS, whereabouts
from eqprop.verification import CLAIMS
from eqprop.verification.report import WIDTH

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))


def test_the_page_on_the_command_line_has_every_command_and_option() -> None:
    page = importlib.import_module("commands").page()
    assert set(COMMANDS.values()) == set(get_args(Command))
    for name in COMMANDS:
        assert f"## eqprop {name}\n" in page
    assert "### eqprop reproduce as-published\n" in page and "### eqprop data fetch\n" in page
    rows = re.findall(r"^\| `(--[\w-]+)` \| (.+?) \| (.+) \|$", page, flags=re.MULTILINE)
    assert {"--hidden", "--resume", "--claims", "--data-dir", "--beta"} <= {name for name, _, _ in rows}
    assert not [name for name, _, about in rows if not about.strip()], "an option says nothing"
    assert "| `--epochs` | `10` | passes over the training examples |" in page


def test_arguments_of_a_docstring_become_a_list() -> None:
    fields: Any = pytest.importorskip("griffe") and importlib.import_module("fields")
    listed = fields._listed(eqprop.Trainer.__doc__ or "")
    lines = [line for line in listed.splitlines() if line.startswith("    - **`") or line.startswith("- **`")]
    assert fields._listed("What it is.\n\na: one\n    and more\nb, c: two") == (
        "What it is.\n\n- **`a`**: one\n    and more\n- **`b, c`**: two\n\n<!-- -->"
    )
    assert fields._listed("Mind: this is a sentence\nof two lines.") == "Mind: this is a sentence\nof two lines."
    assert not lines or len(lines) == 8


def test_signatures_say_the_type_and_not_how_it_is_checked() -> None:
    griffe, fields = pytest.importorskip("griffe"), importlib.import_module("fields")
    source = "def f(a: Annotated[int, CHECKED], b: dict[str, Annotated[Any, Strength()]] | None): ..."
    with griffe.temporary_visited_module(source) as module:
        fields._visit(module)
        assert [str(given.annotation) for given in module["f"].parameters] == ["int", "dict[str, Any] | None"]


def test_formulas_of_pages_that_are_written_by_hand_are_no_text_that_markdown_changes() -> None:
    """A quotation is a command; between dollar signs, an underscore is no emphasis."""
    for page in [
        *DOCS.glob("*.md"),
        *DOCS.glob("since-2017/*.md"),
        *DOCS.glob("concepts/*.md"),
        *DOCS.glob("tutorials/*.md"),
    ]:
        assert not re.findall(r"^> .*[=≤].*$", re.sub(r"`[^`]*`", "", page.read_text()), flags=re.MULTILINE), page.name


def test_nothing_is_fetched_from_elsewhere_and_search_works_without_a_server() -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    for name in re.findall(r"vendor/[\w./-]+\.(?:js|css)", settings):
        assert (DOCS / name).is_file(), name
    assert "- offline" in settings and "iframe-worker" in settings
    fonts = re.findall(r"url\((fonts/[\w-]+\.woff2)\)", (DOCS / "vendor" / "katex" / "katex.min.css").read_text())
    assert fonts and all((DOCS / "vendor" / "katex" / font).is_file() for font in fonts)


def test_the_prose_of_claims_is_prose_and_formulas_fit_the_page() -> None:
    page = (DOCS / "verify" / "README.md").read_text()
    boxes = re.findall(r"^```text\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert len(boxes) == len(CLAIMS)
    assert max(len(line) for box in boxes for line in box.splitlines()) <= WIDTH
    assert "\ndF/dt is found by differences in time along the flow." in page


def test_versions_agree() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{eqprop.__version__}"' in project
    assert f"version: {eqprop.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{eqprop.__version__}}}" in (DOCS / "cite.md").read_text()


def test_what_a_newcomer_is_told() -> None:
    """Where the command is after `make run`, and what a name that is added to the library needs besides."""
    assert "source $(BIN)/activate" in (ROOT / "Makefile").read_text()
    assert "source .venv/bin/activate" in (ROOT / "README.md").read_text()
    assert "docs/api/" in (DOCS / "extending.md").read_text()
    for name in ("CITATION.cff", "SECURITY.md", "CODE_OF_CONDUCT.md", ".github/workflows/release.yml", ".ci/release"):
        assert (ROOT / name).is_file() or not (ROOT / ".ci").exists(), name  # a source archive has none of them


@pytest.mark.parametrize("card", sorted((DOCS / "models").glob("*.md")), ids=lambda card: card.stem)
def test_a_network_that_comes_with_the_documentation_is_as_good_as_its_card_says(card: Path) -> None:
    weights = card.with_suffix(".safetensors")
    if not weights.exists():
        pytest.skip("the source archive has cards alone")
    name = card.stem.partition("-")[0]
    if name != "digits" and not Path(str(whereabouts(FILE_SETS[name]))).is_dir():
        pytest.skip(f"{name} is not in the cache")
    test = eqprop.data.load(name).test
    classes = eqprop.predict(*eqprop.load(weights), test.x.reshape(-1, *eqprop.data.outline(name).shape)).argmax(1)
    told = float(re.findall(r"^\| test \| ([\d.]+)% \|$", card.read_text(), flags=re.MULTILINE)[0])
    assert 100 * (classes != test.labels).mean() == pytest.approx(told, abs=0.011 if name == "mnist" else 0.3)
    assert weights.stat().st_size < 2_000_000
