"""Markdown, as the reports need it."""

from collections.abc import Mapping, Sequence


def table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The lines of a table; the first row's keys are its head."""
    head = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    return head + ["| " + " | ".join(row.values()) + " |" for row in rows]
