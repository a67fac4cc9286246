"""The map of the paper is true: what it names exists, what it says to run can be run, and no equation is missing."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from eqprop.cli.main import parse
from eqprop.cli.train import Train, check_use
from eqprop.cli.verify import Verify
from eqprop.errors import InputError
from eqprop.verification import CLAIMS, SUBJECTS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "paper.md"
TEXT = PAGE.read_text()

# What the paper's source numbers.
EQUATIONS = range(1, 96)
SUBSECTIONS = {2: 4, 3: 5, 4: 4, 5: 2}
SECTIONS = [*"123456", *(f"{n}.{k + 1}" for n, count in SUBSECTIONS.items() for k in range(count)), "A:", "B:", "C:"]
STATEMENTS = ("Theorem 1", "Proposition 2", "Lemma 3", "Theorem 4", "Lemma 5", "Proposition 6")
FLOATS = ("Figure 1", "Figure 2", "Figure 3", "Table 1", "Table 2")


class Row(NamedTuple):
    """A row of the map, with what its answer names: `tokens` in backticks, and the targets of its links."""

    where: str
    says: str
    answer: str

    @property
    def tokens(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.answer)

    @property
    def links(self) -> list[str]:
        return re.findall(r"\]\(([^)]+)\)", self.answer)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


LINES = [cells(line) for line in TEXT.splitlines() if line.startswith("|")]
ROWS = [Row(*line) for line in LINES if len(line) == 3 and line[0] != "where" and set(line[0]) != {"-"}]


@cache
def names(path: Path) -> frozenset[str]:
    """What a Python file defines, with the members of its classes; read, not imported."""
    return frozenset(defined(ast.parse(path.read_text()).body))


def defined(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from defined(node.body, f"{prefix}{node.name}.")
        for target in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
            yield from (prefix + name.id for name in ast.walk(target or ast.Pass()) if isinstance(name, ast.Name))


@cache
def headings(path: Path) -> frozenset[str]:
    """The anchors of a page, as MkDocs spells them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    bare = [re.sub(r"[^a-z0-9 _-]", "", title.lower()) for title in titles]
    return frozenset(re.sub(r"[ -]+", "-", title).strip("-") for title in bare)


@cache
def fault(token: str) -> str:
    """What is wrong with something that the map names; nothing, if it is there."""
    if token.startswith("PENDING"):  # has a test of its own
        return ""
    if token.startswith("eqprop "):
        return command_fault(token)
    file, _, name = token.partition("::")
    path = ROOT / file
    if path.suffix != ".py":
        return f"`{token}` is neither a Python file nor a command"
    if not path.is_file():
        return f"`{token}`: there is no {file}"
    return f"`{token}`: {file} defines no {name}" if name and name not in names(path) else ""


def command_fault(command: str) -> str:
    try:
        parsed = parse(shlex.split(command)[1:])
        if isinstance(parsed, Train):
            check_use(parsed.experiment)
    except (SystemExit, InputError) as error:
        return f"`{command}` is refused: {error}"
    if isinstance(parsed, Verify):
        unknown = {*parsed.claims} - {claim.name for claim in CLAIMS} | {*parsed.subjects} - SUBJECTS.keys()
        return f"`{command}`: unknown {', '.join(unknown)}" if unknown else ""
    return ""


def link_fault(link: str) -> str:
    page, _, anchor = link.partition("#")
    path = PAGE.parent / page
    if not path.is_file():
        return f"{link}: there is no {page}"
    return f"{link}: no such heading" if anchor and anchor not in headings(path) else ""


def checks(row: Row) -> bool:
    """Whether a row says what checks it: a test, a claim, or a report."""
    return bool(row.links) or any(token.startswith(("tests/", "eqprop verify")) for token in row.tokens)


def test_every_row_has_an_answer() -> None:
    assert len(ROWS) >= 100
    assert [line for line in LINES if len(line) != 3] == []
    for row in ROWS:
        assert all(row), row
        if row.answer.startswith("Not built"):
            assert len(row.answer.split()) >= 8, f"{row.where}: say why"
        elif "PENDING" not in row.answer:
            code = [t for t in row.tokens if not t.startswith(("tests/", "eqprop "))]
            assert code and checks(row), f"{row.where}: name the code, and the test, claim or report that checks it"


def test_what_is_named_exists() -> None:
    assert [wrong for row in ROWS for token in row.tokens if (wrong := fault(token))] == []
    assert [wrong for link in re.findall(r"\]\(([^)]+)\)", TEXT) if (wrong := link_fault(link))] == []


@pytest.mark.parametrize(
    "wrong",
    [
        "eqprop/energy/hopfeld.py",
        "eqprop/energy/hopfield.py::Hopfeld",
        "eqprop/energy/hopfield.py::Hopfield.energy",
        "tests/test_hopfield.py::test_the_energy",
        "Hopfield",
        "eqprop trane mnist",
        "eqprop train mnist --nudges symmetric",
        "eqprop train mnist --method backprop",
        "eqprop train mnist --method backpropagation --beta 0.7",
        "eqprop reproduce as-wished",
        "eqprop verify --claims theorem",
        "eqprop verify --claims dynamics --subjects nobody",
    ],
)
def test_what_does_not_exist_is_noticed(wrong: str) -> None:
    assert fault(wrong)


def test_links_that_lead_nowhere_are_noticed() -> None:
    assert link_fault("verify/READ.md")
    assert link_fault("verify/README.md#theorem-3")
    assert not link_fault("verify/README.md#theorem-2-appendix-c")


def test_nothing_of_the_paper_is_missing() -> None:
    where = [row.where for row in ROWS]
    covered = {n for cell in where for n in equations(cell)}
    assert covered == {*EQUATIONS}
    titles = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    assert [number for number in SECTIONS if not any(number in title.split() for title in titles)] == []
    assert [one for one in STATEMENTS + FLOATS if not any(cell.startswith(one) for cell in where)] == []
    commands = [shlex.split(token) for row in ROWS for token in row.tokens if token.startswith("eqprop verify")]
    assert {claim.name for claim in CLAIMS} <= {word for command in commands for word in command}


def equations(where: str) -> Iterator[int]:
    """The numbers in `eq. 5` or `eqs. 71, 74–76`."""
    for numbers in re.findall(r"eqs?\. ([\d–, ]+)", where):
        for part in numbers.split(","):
            first, _, last = part.partition("–")
            yield from range(int(first), int(last or first) + 1)


def test_nothing_is_pending() -> None:
    assert [f"{row.where}: {token}" for row in ROWS for token in row.tokens if token.startswith("PENDING")] == []
