"""A benchmark's result: a table in the terminal, a JSON file, a figure, a section of the report."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table

from eqprop.provenance import machine_and_versions
from eqprop.store.atomic import write_atomic

FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"


@dataclass(frozen=True)
class Report:
    """What a benchmark returns.

    `text` (Markdown) says what was compared and how; `rows` are the table, all with the same keys, whose values are
    numbers, words, or a spread {"median", "low", "high"}; `draw` makes the figure; `options` are those of
    the command line that the result depends on.
    """

    title: str
    text: str
    rows: list[dict[str, Any]]
    draw: Callable[[], Figure] | None = None
    options: str = ""


def publish(name: str, report: Report, *, short: bool, folder: Path) -> None:
    """Print the table; write `name.json` and `name.png`; and put the report together anew from all there is."""
    console = Console()
    table = Table(title=report.title, box=box.SIMPLE, title_justify="left")
    for column in report.rows[0]:
        table.add_column(column, justify="left" if isinstance(report.rows[0][column], str) else "right")
    for row in report.rows:
        table.add_row(*map(cell, row.values()))
    console.print(table)
    folder.mkdir(parents=True, exist_ok=True)
    kept = {
        "title": report.title,
        "text": report.text,
        "options": report.options,
        "short": short,
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine_and_versions(),
        "rows": report.rows,
    }
    write_atomic(folder / f"{name}.json", (json.dumps(kept, indent=1, ensure_ascii=False) + "\n").encode())
    if report.draw:
        figure = report.draw()
        figure.savefig(picture := folder / f"{name}.png", dpi=110, metadata={"Software": None})
        console.print(f"figure: {picture}")
    write_atomic(folder / "README.md", summary(folder).encode())


def summary(folder: Path) -> str:
    """The Markdown report: a section for each result in the folder."""
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench` (`make bench SHORT=1` is quicker and rougher; `python -m benchmarks --help` runs single",
        "ones). Contenders take turns within one run; a ratio is the median over rounds of the ratio within a round,",
        "with its quartiles in brackets.",
    ]
    for path in sorted(folder.glob("*.json")):
        kept = json.loads(path.read_text())
        names = list(kept["rows"][0])
        about = ", ".join(f"{key} {value}" for key, value in kept["machine"].items())
        lines += ["", f"## {kept['title']}", "", kept["text"].strip(), ""]
        lines += ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
        lines += ["| " + " | ".join(map(cell, row.values())) + " |" for row in kept["rows"]]
        if (folder / f"{path.stem}.png").exists():
            lines += ["", f"![{kept['title']}]({path.stem}.png)"]
        mode = " (short mode)" if kept["short"] else ""
        command = f"python -m benchmarks {path.stem} {kept.get('options', '')}".strip()
        lines += ["", f"*`{command}`{mode}, {kept['date']}: {about}.*"]
    return "\n".join(lines) + "\n"


def cell(value: Any) -> str:
    """A value of the table, in words."""
    if isinstance(value, dict):
        return f"{cell(value['median'])} [{cell(value['low'])}, {cell(value['high'])}]"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "–" if value is None else str(value)
