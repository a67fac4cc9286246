"""What a sweep found: a table, a picture, and the best setting as a command to run."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.figure import Figure

from eqprop.plots import parallel_coordinates
from eqprop.study.pages import left_to_do, mean_and_deviation, table, write_page
from eqprop.study.recipes import option
from eqprop.study.sweep import Sweep, Values
from eqprop.study.varied import Range, to_words
from eqprop.study.workers import Tried

SEEDS = "seed=0,1,2,3,4"
PICTURE = "parallel_coordinates"


def write_report(folder: Path, sweep: Sweep, tried: Sequence[Tried], commands: Sequence[str]) -> None:
    """README.md and the picture, about what was tried so far."""
    figure = picture(sweep, tried)
    write_page(folder, page(sweep, tried, figure is not None), {PICTURE: figure} if figure else {}, commands)


def page(sweep: Sweep, tried: Sequence[Tried], pictured: bool) -> list[str]:
    """The lines of the report."""
    lines = [f"# A sweep on {sweep.dataset}", "", summary(sweep, tried), ""]
    lines += [line for word in left_to_do(finished(tried), sweep.count) for line in (word, "")]
    if values := best(sweep, tried):
        lines += ["The best setting, by the validation error:", "", "```sh", command(sweep, values), "```", ""]
        if not _over_seeds(sweep):
            lines += [
                "Its error here is the least of many, and so too low. For the mean and the spread over seeds, with the "
                "test error:",
                "",
                "```sh",
                again(sweep, values),
                "```",
                "",
            ]
    if rows := table_rows(sweep, tried):
        lines += [*table(rows), ""]
    if pictured:
        lines += [f"![Every trial as a line through its settings]({PICTURE}.png)", ""]
    if told := [one for one in tried if one.why]:
        lines += ["## What did not work", "", *(f"- Trial {one.number}: {one.why}" for one in told), ""]
    return lines[:-1]


def summary(sweep: Sweep, tried: Sequence[Tried]) -> str:
    """How many trials ended in which way, in words."""
    kinds = Counter(one.state for one in tried)
    ways = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{sweep.count} trials by {sweep.search} search over {', '.join(sweep.vary)}: {ways or 'none has begun'}."


def finished(tried: Sequence[Tried]) -> int:
    """How many trials have ended."""
    return sum(one.state != "running" for one in tried)


def table_rows(sweep: Sweep, tried: Sequence[Tried]) -> list[dict[str, str]]:
    """A row for each trial, the best first; or, where seeds are varied, for each setting, with mean and spread."""
    if _over_seeds(sweep):
        return _setting_rows(sweep, tried)
    order = sorted(tried, key=lambda one: (one.state != "done", one.error is None, one.error or 0.0))
    return [
        {"trial": str(one.number), "validation error": _percent(one.error)}
        | ({"test error": _percent(one.test_error)} if sweep.test else {})
        | {"epochs": str(one.epochs), "ended": one.state}
        | {name: _short(value) for name, value in one.values.items()}
        for one in order
    ]


def best(sweep: Sweep, tried: Sequence[Tried]) -> Values:
    """The setting of the least validation error, of the least mean over seeds; nothing if no trial is done."""
    groups = _groups(tried)
    errors = {key: mean(one.error for one in some if one.error is not None) for key, some in groups.items()}
    if not errors:
        return {}
    most = max(map(len, groups.values()))  # a setting some of whose seeds are missing, or failed, is not compared
    key = min((key for key in errors if len(groups[key]) == most), key=errors.__getitem__)
    return {name: value for name, value in groups[key][0].values.items() if name != "seed"}


def command(sweep: Sweep, values: Values) -> str:
    """The command that trains by these settings."""
    options = [word for name, value in (sweep.asked | values).items() for word in option(name, value)]
    return shlex.join(["eqprop", "train", sweep.dataset, *options])


def again(sweep: Sweep, values: Values) -> str:
    """The command that trains by these settings from several seeds, and measures the test error too."""
    settings = [f"{name}={to_words(value)}" for name, value in (sweep.asked | values).items() if name != "seed"]
    words = ["eqprop", "sweep", sweep.dataset, "--set", *settings, "--vary", SEEDS, "--search", "grid", "--test"]
    return shlex.join(words)


def picture(sweep: Sweep, tried: Sequence[Tried]) -> Figure | None:
    """Every trial that has an error as a line through its settings."""
    some = [one for one in tried if one.error is not None and one.state != "running"]
    if len(some) < 2:
        return None
    settings = {one.name: [_plain(trial.values[one.name]) for trial in some] for one in sweep.varied}
    log = [one.name for one in sweep.varied if isinstance(one, Range) and one.log]
    return parallel_coordinates(settings, [one.error or 0.0 for one in some], log=log)


def to_dict(one: Tried) -> dict[str, Any]:
    """For JSON."""
    return one._asdict()


def _over_seeds(sweep: Sweep) -> bool:
    return any(one.name == "seed" for one in sweep.varied)


def _groups(tried: Sequence[Tried]) -> dict[str, list[Tried]]:
    """The trials that are done, by their settings without the seed."""
    groups: dict[str, list[Tried]] = {}
    for one in tried:
        if one.state == "done":
            key = repr({name: value for name, value in one.values.items() if name != "seed"})
            groups.setdefault(key, []).append(one)
    return groups


def _setting_rows(sweep: Sweep, tried: Sequence[Tried]) -> list[dict[str, str]]:
    rows = []
    for some in _groups(tried).values():
        parts = {"validation error": [one.error for one in some if one.error is not None]}
        if sweep.test:
            parts["test error"] = [one.test_error for one in some if one.test_error is not None]
        settings = {name: _short(value) for name, value in some[0].values.items() if name != "seed"}
        errors = {name: mean_and_deviation(values) for name, values in parts.items() if values}
        rows.append((mean(parts["validation error"]), settings | errors | {"seeds": str(len(some))}))
    return [row for _, row in sorted(rows, key=lambda row: row[0])]


def _percent(error: float | None) -> str:
    return "–" if error is None else f"{error:.2f} %"


def _plain(value: Any) -> Any:
    """A number where it can be: the only one of a tuple."""
    value = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else to_words(value)


def _short(value: Any) -> str:
    value = _plain(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
