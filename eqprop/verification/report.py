"""The findings as a table, as a Markdown page with figures, and as numbers for other programs."""

import inspect
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqprop.provenance import footer
from eqprop.store.atomic import write_atomic, write_figure
from eqprop.verification.base import Check, Claim, Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 88  # of a formula: what a page shows without a scroll bar


@dataclass(frozen=True)
class Report:
    """All findings. `print` it for a table; `plot()` it; `save` it as a page; ask whether it `passed`."""

    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every check of every finding holds, and there is one."""
        return any(finding.checks for finding in self.findings) and all(finding.passed for finding in self.findings)

    @property
    def failures(self) -> dict[tuple[str, str], tuple[Check, ...]]:
        """The checks that failed, by claim and subject."""
        return {
            (finding.claim.name, finding.subject): tuple(check for check in finding.checks if not check.passed)
            for finding in self.findings
            if not finding.passed
        }

    @property
    def total(self) -> str:
        """In a sentence, how many findings hold."""
        skipped = sum(bool(finding.skipped) for finding in self.findings)
        checked = len(self.findings) - skipped
        words = f"{checked - len(self.failures)} of {checked} findings hold"
        return words + (f", {skipped} skipped" if skipped else "")

    def __repr__(self) -> str:
        return f"<Report: {self.total}; print it for a table>"

    def _repr_html_(self) -> str:
        """For notebooks: a table."""
        rows = ["<tr><th>claim, on</th><th></th><th>checks that hold</th></tr>"]
        for finding in self.findings:
            mark = "skipped" if finding.skipped else "pass" if finding.passed else "<b>FAIL</b>"
            good = finding.skipped or f"{sum(check.passed for check in finding.checks)} of {len(finding.checks)}"
            advice = "".join(f"<br>→ {escape(words)}" for words in _advice(finding))
            rows.append(f"<tr><td>{escape(finding.name)}{advice}</td><td>{mark}</td><td>{escape(str(good))}</td></tr>")
        return f"<table><caption>{self.total}</caption>{''.join(rows)}</table>"

    def __str__(self) -> str:
        width = max((len(finding.name) for finding in self.findings), default=0)
        lines = []
        for finding in self.findings:
            good = sum(check.passed for check in finding.checks)
            mark, of = ("pass" if finding.passed else "FAIL"), f"{good} of {len(finding.checks)}"
            if finding.skipped:
                mark, of = "skip", finding.skipped
            lines.append(f"{mark}  {finding.name:<{width}}  {of}")
            for check in finding.checks:
                if not check.passed:
                    lines.append(f"      {check.what}: {check.value:.3g}, wanted {check.wanted}")
            lines += [f"      → {advice}" for advice in _advice(finding)]
        return "\n".join(lines)

    def plot(self) -> "dict[str, Figure]":
        """A figure for each claim that has one, of the first subject whose finding has numbers to show."""
        shown = {name: next((f for f in some if f.curves), None) for name, some in self.by_claim().items()}
        drawn = {name: finding.claim.picture(finding) for name, finding in shown.items() if finding is not None}
        return {name: figure for name, figure in drawn.items() if figure is not None}

    def by_claim(self) -> dict[str, list[Finding]]:
        """The findings of each claim, by its name."""
        found: dict[str, list[Finding]] = {}
        for finding in self.findings:
            found.setdefault(finding.claim.name, []).append(finding)
        return found

    def to_dict(self) -> dict[str, Any]:
        """For JSON: everything but the curves; a value that is not finite becomes null."""

        def entry(check: Check) -> dict[str, Any]:
            return asdict(check) | {"value": check.value if math.isfinite(check.value) else None}

        return {
            "passed": self.passed,
            "findings": [
                {
                    "claim": f.claim.name,
                    "subject": f.subject,
                    "passed": f.passed,
                    "skipped": f.skipped,
                    "checks": [entry(c) for c in f.checks],
                }
                for f in self.findings
            ],
        }

    def save(self, folder: str | Path, commands: Sequence[str] = ()) -> None:
        """README.md with every number, and the figures beside it."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        figures = self.plot()
        lines = ["# The paper's claims, checked", "", *_summary(self), ""]
        for title, findings in self.by_claim().items():
            claim = findings[0].claim
            lines += [f"## {title[0].upper()}{title[1:]} ({claim.place})", "", *_quoted(claim), ""]
            if title in figures:
                name = f"{title.replace(' ', '_')}.png"
                write_figure(folder / name, figures[title])
                lines += [f"![{title}]({name})", ""]
            lines += ["| on | what | value | wanted | |", "|---|---|---|---|---|"]
            lines += [row for finding in findings for row in _rows(finding)]
            lines.append("")
        lines += [footer(commands), ""]
        write_atomic(folder / "README.md", "\n".join(lines).encode())


def _advice(finding: Finding) -> Iterable[str]:
    return dict.fromkeys(check.advice for check in finding.checks if check.advice)


def _summary(report: Report) -> list[str]:
    checks = [check for finding in report.findings for check in finding.checks]
    good = sum(check.passed for check in checks)
    return [f"**{good} of {len(checks)} checks hold**, in {len(report.findings)} findings (a claim on a subject)."]


def _quoted(claim: Claim) -> list[str]:
    """What the claim says: its formulas, which are indented or stand first, as they are; its words as a paragraph."""
    formula, _, words = (inspect.getdoc(claim) or "").partition("\n\n")
    paragraphs = (part if part.startswith("    ") else part.replace("*", "\\*") for part in words.split("\n\n"))
    return [
        "```text",
        *textwrap.wrap(formula, WIDTH, subsequent_indent="    "),
        "```",
        "",
        *"\n\n".join(paragraphs).split("\n"),
    ]


def _rows(finding: Finding) -> list[str]:
    if finding.skipped:
        return [f"| {finding.subject} | nothing | | | {finding.skipped} |"]
    return [_row(finding, check) for check in finding.checks]


def _row(finding: Finding, check: Check) -> str:
    mark = "holds" if check.passed else f"**fails** {check.advice}"
    cells = (finding.subject, check.what, f"{check.value:.3g}", check.wanted, mark)
    return f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |"
