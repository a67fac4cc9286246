"""`eqprop compare`: all methods learn; one table, one figure, and it goes on where it was left."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import eqprop.rule
from command import run
from eqprop import data
from eqprop.study import METHODS, update_times
from eqprop.study.relatives import Comparison
from eqprop.study.training import errors
from eqprop.train import fit
from marks import nothing_missing, slow_but

DOCS = Path(__file__).parent.parent / "docs"


EXACT = ("asymmetric", "dyadic")
"""Feedback weights of their own need not come to agree with the forward ones where gradients are exact."""


@pytest.mark.parametrize("method", slow_but(METHODS, "equilibrium", "backpropagation"))
def test_every_method_learns(method: str) -> None:
    """A smaller network on fewer digits than `eqprop compare` takes: there, errors are 1 to 4 %."""
    experiment = Comparison().experiment("digits", method)
    faster = 1 if METHODS[method].moving else 2  # weights that move while states do stand no larger rates
    rates = tuple(faster * rate for rate in experiment.learning.learning_rate)
    learning = replace(experiment.learning, train=600, epochs=6, learning_rate=rates)
    experiment = replace(experiment, learning=learning, network=replace(experiment.network, hidden=(100,)))
    setup = experiment.build(data.load("digits"))
    state, history = fit(setup.trainer, setup.state, setup.feed, epochs=6)
    assert errors(setup, state.theta, 6)["test_error"] < 0.12
    if "angle" in history[0] and method not in EXACT:
        assert history[-1]["angle"] < history[0]["angle"] < 90


METHODS_COMPARED = ("equilibrium", "contrastive-hebbian", "backpropagation", "kolen-pollack")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared") / "all"
    options = ["--datasets", "digits", "--methods", *METHODS_COMPARED, "--epochs", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(update_times, "SECONDS", 0.01)
        assert run("compare", *options, "--run-dir", folder) == 0
    return folder


@pytest.mark.slow
def test_the_report_tells_of_phases_gradients_errors_and_times(compared: Path) -> None:
    text = (compared / "README.md").read_text()
    for word in (
        "free phase",
        "weakly clamped phase",
        "forward pass",
        "backward pass",
        "cosine",
        "test error",
        "steps",
    ):
        assert word in text
    assert "differs from backpropagation's by" in text
    assert "J_CHL < 0 in the last epoch: Contrastive Hebbian learning" in text
    for picture in ("learning_curves.png", "feedback.png", "modes.png"):
        assert picture in text
        assert (compared / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_what_is_done_is_not_done_again(compared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in compared.rglob("*.json")}
    assert run("compare", "--resume", compared, "--json") == 0
    unchanged = {path for path in before if path.name != "contest.json"}
    assert all(path.stat().st_mtime_ns == before[path] for path in unchanged)
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    rows: dict[str, dict[str, Any]] = {row["method"]: row for row in result["runs"]}
    assert tuple(rows) == METHODS_COMPARED
    assert rows["backpropagation"]["cosine"] == pytest.approx(1, abs=1e-5)
    assert 0.9 < rows["equilibrium"]["cosine"] <= 1
    assert rows["kolen-pollack"]["cosine"] < rows["equilibrium"]["cosine"]
    assert [row["steps"] for row in rows.values()] == [10 + 6 + 6, 10 + 6, 2, 10 + 6 + 6]
    assert all(row["milliseconds_per_update"] > 0 and row["test_error"] < 0.3 for row in rows.values())


@pytest.mark.slow  # as some refuse a folder that a whole comparison made
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--methods", "equilibrium", "equilibrium"], "each once"),
        (["--epochs", "0"], "epochs=0"),
        (["--resume", "{folder}", "--epochs", "3"], "--epochs with --resume"),
        (["--resume", "{folder}", "--short"], "--short with --resume"),
        (["--resume", "{folder}", "--run-dir", "elsewhere"], "exclude each other"),
        (["--resume", "nowhere"], "not the folder of `eqprop compare`"),
        (["--run-dir", "{folder}"], "is not empty"),
    ],
)
def test_bad_options_are_refused(
    compared: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert run("compare", "--datasets", "digits", *(option.format(folder=compared) for option in options)) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_a_setting_that_does_nothing_for_a_method_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "digits", "--method", "backpropagation", "--free-steps", "7") == 2
    assert "free_steps=7 does nothing for method=backpropagation" in " ".join(capsys.readouterr().err.split())


def test_a_method_whose_outputs_would_not_learn_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "digits", "--method", "recurrent-backpropagation") == 2
    assert "give --targets 0.2 0.8" in " ".join(capsys.readouterr().err.split())


def test_the_documentation_has_every_rule() -> None:
    text = (DOCS / "relatives.md").read_text()
    rules = [name for name in eqprop.rule.__all__ if hasattr(getattr(eqprop.rule, name), "free")]
    nothing_missing([f"`{name}`" for name in rules], text, "rules that docs/relatives.md does not name")
