"""Circuits at the command line, and the study of imperfect devices."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

import eqprop as ep
from eqprop import data
from eqprop.errors import InputError
from eqprop.study import circuits, preset
from tests.command import run


def test_every_effect_makes_a_bench_that_differs_from_the_plain_one_in_itself_only() -> None:
    plain = circuits.Bench()
    for name, effect in circuits.EFFECTS.items():
        benches = [effect.bench(value) for value in effect.values]
        assert len(set(benches)) == len(benches), name
        for bench in [*benches, *(effect.remedied(value) for value in effect.values if effect.remedy)]:
            assert bench.devices.range == pytest.approx((1 / bench.ratio, 1.0))
            assert bench.net.sizes["hidden"] == plain.net.sizes["hidden"]
            circuits.rule("symmetric", bench).check(ep.Total(bench.net, ep.SquaredError()))


def test_runs_are_all_strengths_by_all_ways_and_remedies() -> None:
    question = circuits.Question(seeds=2, effects=("states", "drift"))
    runs = list(question.runs())
    states, drift = (circuits.EFFECTS[name] for name in ("states", "drift"))
    assert len(runs) == len(set(runs)) == 2 * (4 * len(states.values) + 3 * len(drift.values))


def test_an_unknown_effect_is_refused() -> None:
    with pytest.raises(InputError, match="'gravity' is none of"):
        circuits.Question(effects=("gravity",))


def test_a_bench_with_noise_learns_less_than_one_without() -> None:
    digits = data.load("digits")
    question = circuits.Question(epochs=3)
    quiet, noisy = (question.carry_out(("read noise", a, "symmetric", 0), digits)["test"] for a in (0.0, 0.2))
    assert quiet < 30 < noisy


@pytest.mark.slow
def test_the_study_writes_a_page_and_goes_on_where_it_was_left(tmp_path: Path) -> None:
    words = ("reproduce", "circuits", "--epochs", "1", "--seeds", "1", "--effects", "stuck devices")
    assert run(*words, "--run-dir", str(tmp_path / "study")) == 0
    kept = json.loads((path := tmp_path / "study" / "circuits.json").read_text())
    assert len(kept["runs"]) == 9
    path.write_text(json.dumps(kept | {"runs": kept["runs"][:8]}))
    assert run("reproduce", "circuits", "--resume", str(tmp_path / "study")) == 0
    assert json.loads(path.read_text())["runs"] == kept["runs"]
    page = (tmp_path / "study" / "README.md").read_text()
    assert "| stuck devices, share 0.05 |" in page
    assert (tmp_path / "study" / "circuits.png").exists()


def test_train_makes_circuits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--train", "60", "--hidden", "6", "--epochs", "2", "--least", "0.001", "--most", "0.2")
    folder = tmp_path / "run"
    assert run("train", "digits", "--net", "resistive", *options, "--json", "--run-dir", str(folder)) == 0
    assert json.loads(capsys.readouterr().out)["net"] == "64-6-10-resistive"
    theta, _ = ep.Run.open(folder).load_weights(ep.Resistive.layered(64, 6, 10).init(jax.random.key(0)))
    every = np.concatenate([np.ravel(g) for g in theta["W"].values()])
    assert every.min() >= np.float32(0.001) and every.max() <= np.float32(0.2)
    assert (folder / "receptive_fields.png").exists()
    assert run("evaluate", str(folder), "--json") == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--input-gain", "5"), "is for circuits"),
        (("--net", "resistive", "--ideality", "2"), "--diode shockley"),
        (("--net", "resistive", "--activation", "tanh"), "diodes and rails"),
        (("--net", "resistive", "--method", "backpropagation"), "an energy of its own"),
        (("--net", "resistive", "--balance"), "balance"),
        (("--net", "resistive", "--least", "2", "--most", "1"), "least=2.0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("train", "digits", *words) == 2
    assert told in capsys.readouterr().err


def test_rates_follow_the_sizes_of_a_circuit() -> None:
    small, large = (preset("digits", architecture="resistive", hidden=(n,)).learning.learning_rate for n in (25, 100))
    assert np.allclose(np.divide(small, large), 2.0)
