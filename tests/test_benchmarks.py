"""The benchmarks' own machinery: what it counts, and what it writes."""

import importlib.util
import inspect
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks.__main__ import Name, main
from benchmarks.apart import apart, one_core
from benchmarks.report import Report, publish
from benchmarks.settle import steps_to
from benchmarks.timing import race, spread
from eqprop.provenance import machine_and_versions
from marks import nothing_missing


def test_contenders_take_turns_and_the_first_round_does_not_count() -> None:
    turns: list[str] = []
    times = race({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, rounds=3)
    assert turns == ["a", "b"] * 4
    assert {name: len(spent) for name, spent in times.items()} == {"a": 3, "b": 3}


def test_a_spread_is_the_median_with_quartiles() -> None:
    assert spread(range(101)) == {"median": 50, "low": 25, "high": 75}


def test_a_process_of_its_own_answers_and_is_bound_to_its_cores() -> None:
    assert apart("timing.spread(range(101))") == spread(range(101))
    if hasattr(os, "sched_getaffinity"):
        cores = one_core()
        assert cores and apart("timing.spread(list(__import__('os').sched_getaffinity(0)))", cores) == spread([*cores])


def test_steps_to_a_tolerance_are_counted_from_the_start() -> None:
    met = np.array([[1.0, 0.5, 0.01, 0.02], [0.001, 1, 1, 1], [1, 1, 1, 1]])
    assert steps_to(0.1, met).tolist() == [2, 0, np.inf]


@pytest.mark.parametrize("name", Name.__args__)
def test_every_benchmark_named_exists(name: str) -> None:
    spec = importlib.util.find_spec(f"benchmarks.{name}")
    assert spec and spec.origin
    assert "\ndef run(short: bool" in Path(spec.origin).read_text(), f"benchmarks/{name}.py has no run(short)"


def test_every_benchmark_says_what_it_measures() -> None:
    told = re.findall(r"^- (\w+): ", inspect.getdoc(main) or "", re.MULTILINE)
    nothing_missing(Name.__args__, told, "benchmarks that the docstring of benchmarks.__main__.main does not name")


def test_results_become_a_file_a_figure_and_a_section_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"network": "tiny", "ratio": {"median": 2.0, "low": 1.5, "high": 2.5}, "steps": 12_345.0, "none": None}]
    publish("first", Report("One", "Why.", rows, Figure), short=True, folder=tmp_path)
    publish("second", Report("Two", "How.", rows), short=False, folder=tmp_path)
    assert "2 [1.5, 2.5]" in capsys.readouterr().out
    kept = json.loads((tmp_path / "first.json").read_text())
    assert kept["rows"] == rows
    assert kept["machine"] == machine_and_versions()
    report = (tmp_path / "README.md").read_text()
    for line in (
        "## One",
        "Why.",
        "![One](first.png)",
        "(short mode)",
        "## Two",
        "| tiny | 2 [1.5, 2.5] | 12,345 | – |",
    ):
        assert line in report
    assert "second.png" not in report
