"""The pages that studies write: Markdown with tables and figures, and what led to them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from textwrap import fill
from typing import Any

from eqprop.provenance import footer
from eqprop.store.atomic import write_atomic, write_figure


def write_page(folder: Path, lines: Sequence[str], figures: Mapping[str, Any], commands: Sequence[str]) -> None:
    """README.md with these lines, the commands and the machine; and each figure as a PNG of its name."""
    for name, figure in figures.items():
        write_figure(folder / f"{name}.png", figure)
    write_atomic(folder / "README.md", "\n".join([*lines, "", footer(commands), ""]).encode())


def table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The lines of a table; the first row's keys are its head."""
    head = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    return head + ["| " + " | ".join(row.values()) + " |" for row in rows]


def answered(title: str, sentence: str, text: str, rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The lines of a page: what is asked, the answer, how it was found, and the numbers."""
    paragraphs = [sentence, *text.strip().split("\n\n")]
    return [f"# {title}", "", *(line for text in paragraphs for line in (paragraph(text), "")), *table(rows)]


def paragraph(text: str) -> str:
    """The text in lines of 120 characters at the most."""
    return fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def left_to_do(done: int, trials: int) -> list[str]:
    """A line that says how many trials are left, if any."""
    return [f"{trials - done} of {trials} runs are still to be done."] if done < trials else []


def mean_and_deviation(values: Sequence[float], pattern: str = "{:.2f} %") -> str:
    """One value, or the mean ± the standard deviation of several."""
    if len(values) == 1:
        return pattern.format(values[0])
    number, _, unit = pattern.partition(" ")
    return f"{number.format(mean(values))} ± {number.format(stdev(values))} {unit}".strip()
