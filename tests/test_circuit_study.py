"""Circuits at the command line, and the study of imperfect devices."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import eqprop as ep
from eqprop import data
from eqprop.cli.main import parse
from eqprop.device.writing import transformation
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::eqprop.LearningWarning")  # which the noise deserves
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


SMALL = ("--net", "resistive", "--train", "60", "--hidden", "6", "--schedule", "staircase", "--json")
DEVICES = (
    "--least",
    "0.001",
    "--most",
    "0.2",
    "--states",
    "64",
    "--stuck",
    "0.1",
    "--volts",
    "3",
    "1.5",
    "--bits",
    "8",
)
DEVICES += ("--bits", "8", "--read-noise", "0.01", "--reads", "2")


def conductances(folder: Path) -> np.ndarray:
    theta, _ = ep.Run.open(folder).load_weights(ep.Resistive.layered(64, 6, 10).init(jax.random.key(0)))
    return np.concatenate([np.ravel(g) for g in theta["W"].values()])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A circuit of devices that are not perfect."""
    folder = tmp_path_factory.mktemp("circuits") / "run"
    assert run("train", "digits", *SMALL, *DEVICES, "--epochs", "2", "--run-dir", folder) == 0
    return folder


@pytest.mark.slow
def test_train_makes_circuits_of_devices(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = conductances(trained)
    assert every.min() >= np.float32(0.001) and every.max() <= np.float32(0.2)
    levels = (every - 0.001) / 0.199 * 63
    written = np.abs(levels - np.round(levels)) < 1e-3
    assert 0.85 < written.mean() < 0.95  # a tenth is stuck where it began
    kept = json.loads((trained / "config.json").read_text())["devices"]
    assert (kept["states"], kept["bits"], kept["volts"]) == (64, 8, [3.0, 1.5])
    assert (trained / "receptive_fields.png").exists()
    assert run("evaluate", trained, "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["net"] == "64-6-10-resistive"


@pytest.mark.slow
def test_devices_go_on_where_they_were(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run("train", "digits", *SMALL, *DEVICES, "--epochs", "1", "--run-dir", folder) == 0
    assert run("train", "--resume", folder, "--epochs", "2") == 0
    assert (conductances(folder) == conductances(trained)).all()


def test_the_options_of_devices_reach_what_writes_and_reads() -> None:
    words = ("--up-down", "0.1", "--soft-bounds", "--write-noise", "0.02", "--write-spread", "0.3", "--drift", "0.05")
    command: Any = parse(["train", "digits", *SMALL, *DEVICES, *words, "--offset", "0.004", "--rounding", "nearest"])
    trainer = command.experiment.assemble(64, 10)[1]
    read = trainer.rule.reading
    assert (read.bits, read.noise, read.offset_spread, read.repeats) == (8, 0.01, 0.004, 2)
    assert read.high["hidden"].tolist() == pytest.approx([3.0] * 3 + [0.15] * 3)
    assert (read.low["output"], read.high["output"]) == (-1.5, 1.5)
    expected = ep.device.Writing(
        states=64, rounding="nearest", noise=0.02, dw_min_dtod=0.3, up_down=0.1, soft_bounds=True, stuck=0.1, nu=0.05,
        w_min=0.001, w_max=0.2, parts=("W",),
    )  # fmt: skip
    assert trainer.optimizer.devices is transformation(expected)
    plain: Any = parse(["train", "digits", "--net", "resistive"])
    assert isinstance(plain.experiment.assemble(64, 10)[1].rule.reading, ep.device.Exact)


@pytest.mark.skipif(not ep.spice.installed(), reason="ngspice is not installed: apt-get install ngspice")
@pytest.mark.slow
def test_a_trained_circuit_is_written_for_spice_and_compared(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.cir"
    assert run("spice", trained, "--example", "3", "--beta", "0.05", "--netlist", path, "--json") == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["betas"] == [0.0, 0.05] and found["largest"] < 1e-5
    label = data.load("digits").test.labels[3]
    assert found["label"] == label
    free, pulled = found["output"]
    assert pulled[label] > free[label]
    volts = ep.spice.run(path.read_text())  # the file is the circuit of the last of both
    assert sorted(set(np.round(pulled, 6)) - set(np.round([*volts.values()], 6))) == []
    assert run("spice", trained) == 0
    assert "largest difference from ngspice in volts, 1 example" in capsys.readouterr().out
    assert (trained / "circuit.cir").exists()


@pytest.mark.slow
def test_a_netlist_is_refused_in_words_where_there_is_none(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("spice", trained, "--example", "360") == 2
    assert "give a number from 0 to 359" in capsys.readouterr().err
    ep.Run.create(tmp_path / "run", preset("digits").to_dict())
    assert run("spice", tmp_path / "run") == 2
    assert "train one with --net resistive" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--input-gain", "5"), "is for circuits"),
        (("--net", "resistive", "--ideality", "2"), "--diode shockley"),
        (("--net", "resistive", "--activation", "tanh"), "diodes and rails"),
        (("--net", "resistive", "--method", "backpropagation"), "an energy of its own"),
        (("--net", "resistive", "--balance"), "balance"),
        (("--net", "resistive", "--least", "2", "--most", "1"), "least=2.0"),
        (("--states", "64"), "states=64 is for circuits"),
        (("--read-noise", "0.1"), "read_noise=0.1 is for circuits"),
        (("--net", "resistive", "--states", "64"), "give --most"),
        (("--net", "resistive", "--bits", "8"), "give --volts"),
        (("--net", "resistive", "--bits", "80", "--volts", "1"), "bits=80"),
        (("--net", "resistive", "--volts", "1", "2", "3"), "one for each of 2 layers"),
        (("--net", "resistive", "--stuck", "2"), "stuck=2.0: give a number from 0 to 1"),
        (("--net", "resistive", "--rounding", "nearest"), "rounding='nearest' does nothing"),
        (("--net", "resistive", "--reads", "4"), "reads=4 does nothing"),
        (("--net", "resistive", "--read-noise", "0.1", "--method", "through-time"), "no readings of two phases"),
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
