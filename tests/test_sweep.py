"""Sweeps: what is varied, as many workers as join, one that is killed, and the report."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from command import run
from eqprop import InputError, data
from eqprop.cli.main import parse
from eqprop.cli.sweep import Search
from eqprop.cli.train import Train
from eqprop.study import Experiment, Setup, sweep_page
from eqprop.study.sweep import Sweep
from eqprop.study.varied import Choice, Range, read_varied
from eqprop.study.workers import Tried, Workshop

SMALL = ("epochs=2", "hidden=20", "train=200", "batch_size=50")
RATES = "learning_rate=1e-4:3e-2:log"


# ---- what is varied ----


@pytest.mark.parametrize(
    ("text", "varied"),
    [
        ("beta=0.1:1", Range("beta", 0.1, 1.0)),
        ("learning-rate=1e-4:1e-2:log", Range("learning_rate", 1e-4, 1e-2, log=True)),
        ("free_steps=2:9", Range("free_steps", 2, 9)),
        ("hidden=100,50x50", Choice("hidden", ((100,), (50, 50)))),
        ("nudge=symmetric,one-sided", Choice("nudge", ("symmetric", "one-sided"))),
        ("accelerate=true,false", Choice("accelerate", (True, False))),
        ("tol=none,1e-3", Choice("tol", (None, 1e-3))),
    ],
)
def test_what_is_varied_is_read(text: str, varied: Range | Choice) -> None:
    assert read_varied(text) == varied


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("beta", "name=low:high"),
        ("bet=1:2", "no setting 'bet'"),
        ("beta=1:0.1", "lower end below"),
        ("beta=0:1:log", "above 0"),
        ("beta=a:b", "no number"),
        ("free_steps=1.5:3", "no whole number"),
        ("nudge=0:1", "that is a number"),
        ("hidden=10,10", "twice"),
        ("accelerate=maybe,true", "true or false"),
    ],
)
def test_what_cannot_be_varied_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_varied(text)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({}, "nothing is varied"),
        ({"vary": ("beta=0.1:1",), "set": ("beta=1",)}, "beta is there twice"),
        ({"vary": ("valid=10,20",)}, "on which examples"),
        ({"vary": ("beta=0.1:1",), "search": "grid"}, "beta has a range"),
        ({"vary": ("seed=0,1",)}, "lucky"),
        ({"vary": ("beta=0.1:1",), "set": ("valid=0",)}, "hold some examples out"),
        ({"vary": ("momentum=0.5:2",)}, "momentum=2.0"),
        ({"vary": ("beta=0.1:1",), "trials": 0}, "trials=0"),
    ],
)
def test_a_sweep_that_cannot_be_meant_is_refused_before_it_begins(fields: dict, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Sweep("digits", **fields)


def test_a_file_says_what_options_do(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(
        """
        dataset = "digits"
        trials = 7
        [set]
        epochs = 3
        hidden = [20, 20]
        [vary]
        learning_rate = { low = 1e-4, high = 1e-2, log = true }
        beta = { low = 0.1, high = 1 }
        activation = ["hard_sigmoid", "tanh"]
        """
    )
    sweep = Sweep.of(Sweep.read(tmp_path / "sweep.toml"), "a file")
    assert sweep.trials == 7
    assert sweep.asked == {"epochs": 3, "hidden": (20, 20)}
    assert sweep.varied == (
        Range("learning_rate", 1e-4, 1e-2, log=True),
        Range("beta", 0.1, 1.0),
        Choice("activation", ("hard_sigmoid", "tanh")),
    )
    (tmp_path / "sweep.toml").write_text("trails = 7")
    with pytest.raises(InputError, match="unknown 'trails'"):
        Sweep.read(tmp_path / "sweep.toml")


def test_an_option_of_0_wins_over_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sweep.toml").write_text('sweep_seed = 3\ntrials = 7\nvary = { beta = "0.1:1" }')
    options = parse(["sweep", "--file", str(tmp_path / "sweep.toml"), "--sweep-seed", "0"])
    assert isinstance(options, Search)
    assert options.given() == {"sweep_seed": 0}
    assert run("sweep", "--file", str(tmp_path / "sweep.toml"), "--trials", "0") == 2
    assert "trials=0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "settings",
    [
        ("epochs=3", "hidden=20x20", "accelerate=true", "tol=1e-3"),
        ("architecture=conv", "hidden=8x8", "flip=true", "learning_rate=0.01"),
        ("method=stochastic", "hidden=20"),
    ],
)
def test_the_command_of_a_setting_trains_by_just_that_setting(settings: tuple[str, ...]) -> None:
    sweep = Sweep("digits", set=settings, vary=("beta=0.1:1",))
    values = {"beta": 0.3000000000000001}
    command = parse(sweep_page.command(sweep, values).split()[1:])
    assert isinstance(command, Train)
    assert command.experiment == sweep.experiment(values)


def test_a_grid_has_every_combination_once() -> None:
    sweep = Sweep("digits", vary=("hidden=10,20", "seed=0,1,2"), search="grid")
    assert sweep.count == 6
    every = [tuple(sweep.combination(k).items()) for k in range(6)]
    assert len(set(every)) == 6
    assert every[1] == (("hidden", "10"), ("seed", "1"))


# ---- workers ----


def begin(folder: Path, **fields: object) -> tuple[Workshop, data.Dataset]:
    sweep = Sweep("digits", set=SMALL, **fields)  # pyright: ignore[reportArgumentType]
    folder.mkdir()
    sweep.save(folder, ["a command"])
    return Workshop(folder, sweep), data.load("digits")


class Killed(BaseException):
    """In place of a signal: nothing in the library catches it."""


@pytest.mark.slow
def test_a_trial_that_was_left_is_finished_by_another_worker_and_counted_once(tmp_path: Path) -> None:
    workshop, digits = begin(tmp_path / "left", vary=(RATES,), trials=3)
    epochs = []

    def die(progress: object) -> None:
        epochs.append(progress)
        if len(epochs) == 2:
            raise Killed

    with pytest.raises(Killed):
        workshop.work(digits, checkpoint_seconds=0, follow=lambda *_: Following(die))
    assert [one.state for one in workshop.tried()] == ["running"]
    values = workshop.tried()[0].values
    another = Workshop(tmp_path / "left", workshop.sweep)
    another.work(digits)
    tried = another.tried()
    assert [one.number for one in tried] == [0, 1, 2]
    assert tried[0].values == values
    assert {one.state for one in tried} <= {"done", "pruned"}

    alone, _ = begin(tmp_path / "alone", vary=(RATES,), trials=3)
    alone.work(digits)
    assert alone.tried() == tried  # what is tried, and what comes of it, is the same as without the accident


class Following:
    def __init__(self, observe):
        self.observe = observe

    def __enter__(self):
        return self.observe

    def __exit__(self, *_: object) -> None:
        pass


def test_a_trial_that_another_process_trains_is_left_alone(tmp_path: Path) -> None:
    one, _ = begin(tmp_path / "two", vary=(RATES,), trials=2)
    other = Workshop(tmp_path / "two", one.sweep)
    with one._claim() as first, other._claim() as second, one._claim() as third:
        assert first is not None and second is not None
        assert (first.number, second.number, third) == (0, 1, None)
        assert first.params != second.params
    with other._claim() as again:
        assert again is not None and again.number == 0


@pytest.mark.slow
def test_settings_that_diverge_or_do_not_go_together_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Experiment.build

    def picky(self: Experiment, data: data.Dataset) -> Setup:
        if self.settling.beta == 0.5:
            raise InputError("not with those")
        return build(self, data)

    monkeypatch.setattr(Experiment, "build", picky)
    workshop, digits = begin(tmp_path / "bad", vary=("learning_rate=0.002,1e30", "beta=0.9,0.5"), search="grid")
    workshop.work(digits)
    assert [one.state for one in workshop.tried()] == ["done", "refused", "diverged", "refused"]
    assert [one.why[:13] for one in workshop.tried()] == ["", "not with thos", "nothing is le", "not with thos"]
    page = "\n".join(sweep_page.page(workshop.sweep, workshop.tried(), pictured=False))
    assert "- Trial 1: not with those" in page


def test_a_line_that_was_cut_off_is_mended(tmp_path: Path) -> None:
    workshop, _ = begin(tmp_path / "torn", vary=(RATES,), trials=2)
    with workshop._claim():
        pass
    with open(tmp_path / "torn" / "journal.log", "ab") as journal:
        journal.write(b'{"op_code":4,"worker_id":"59ef')
    again = Workshop(tmp_path / "torn", workshop.sweep)
    with again._claim() as trial:
        assert trial is not None and trial.number == 0
    assert len(Workshop(tmp_path / "torn", workshop.sweep).tried()) == 1


@pytest.mark.slow
def test_trials_see_no_test_data_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    build = Experiment.build
    monkeypatch.setattr(Experiment, "build", lambda self, data: seen.append(len(data.test)) or build(self, data))
    workshop, digits = begin(tmp_path / "blind", vary=("seed=0,1",), search="grid")
    workshop.work(digits)
    assert seen == [0, 0]
    assert all(one.test_error is None for one in workshop.tried())


# ---- the report ----


def tried(number: int, error: float | None, state: str = "done", **values: object) -> Tried:
    return Tried(number, state, values, error, None if error is None else error + 1, 2, "")


def test_means_and_deviations_over_seeds_decide_not_single_runs() -> None:
    sweep = Sweep("digits", vary=("hidden=10,20", "seed=0,1"), search="grid", test=True)
    some = [
        tried(0, 1.0, hidden=(10,), seed=0),
        tried(1, 5.0, hidden=(10,), seed=1),
        tried(2, 2.0, hidden=(20,), seed=0),
        tried(3, 2.5, hidden=(20,), seed=1),
    ]
    rows = sweep_page.table_rows(sweep, some)
    assert rows[0] == {
        "hidden": "20",
        "validation error": "2.25 ± 0.35 %",
        "test error": "3.25 ± 0.35 %",
        "seeds": "2",
    }
    assert sweep_page.best(sweep, some) == {"hidden": (20,)}
    # A setting one of whose seeds failed is not compared by the others.
    some[3] = tried(3, None, "diverged", hidden=(20,), seed=1)
    assert sweep_page.best(sweep, some) == {"hidden": (10,)}


def test_pruned_trials_are_never_the_best() -> None:
    sweep = Sweep("digits", vary=("beta=0.1:1",))
    some = [tried(0, 3.0, beta=0.5), tried(1, 2.0, "pruned", beta=0.2), tried(2, None, "running", beta=0.3)]
    assert sweep_page.best(sweep, some) == {"beta": 0.5}
    assert [row["trial"] for row in sweep_page.table_rows(sweep, some)] == ["0", "1", "2"]


@pytest.mark.slow
def test_the_command_line_sweeps_reports_and_joins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    settings = ["--set", *SMALL, "--vary", RATES, "--trials", 2, "--run-dir", folder]
    assert run("sweep", "digits", *settings, "--json") == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [trial["number"] for trial in found["trials"]] == [0, 1]
    page = (folder / "README.md").read_text()
    assert found["best"] in page
    assert "eqprop sweep digits" in page and "seed=0,1,2,3,4" in page
    assert (folder / "parallel_coordinates.png").exists()
    assert run("sweep", "--resume", folder, "--json") == 0  # nothing is left to do
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["trials"] == found["trials"]
    assert run("sweep", "--resume", folder, "--trials", 5) == 2
    assert "leave it out" in capsys.readouterr().err
    assert run("sweep", "digits", "--vary", "temperature=0.1:1") == 2
    assert "does nothing for method=equilibrium" in " ".join(capsys.readouterr().err.split())


# ---- killed ----

TRIALS, PATIENCE = 40, 600


@pytest.mark.slow
def test_forty_trials_by_two_processes_one_of_which_is_killed(tmp_path: Path) -> None:
    """No trial is lost, and none is counted twice; the one that was killed is finished by the other."""
    folder = tmp_path / "sweep"
    first = ["digits", "--set", "epochs=6", "hidden=100", "--vary", RATES, "beta=0.1:1", "--trials", str(TRIALS)]
    worker = begin_process(tmp_path / "first.log", *first, "--run-dir", str(folder))
    wait_until(lambda: (folder / "trials" / "0001").exists(), worker)
    other = begin_process(tmp_path / "other.log", "--resume", str(folder))
    wait_until(lambda: (folder / "trials" / "0008").exists() and holds(folder, other), other)
    killed = max(trials_of(folder, other))
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert worker.wait(PATIENCE) == 0, (tmp_path / "first.log").read_text()
    sweep, _ = Sweep.load(folder)
    told = Workshop(folder, sweep).tried()
    assert [one.number for one in told] == list(range(TRIALS))
    assert {one.state for one in told} <= {"done", "pruned", "diverged"}
    ends = [json.loads(line) for line in (folder / "journal.log").read_text().splitlines()]
    told_once = Counter(line["trial_id"] for line in ends if line["op_code"] == 6 and line["state"] != 0)
    assert told_once == dict.fromkeys(range(TRIALS), 1)
    assert f"{TRIALS} trials by tpe search" in (folder / "README.md").read_text()
    # Both had a part in what the killed one left.
    assert len({line["worker_id"] for line in ends if line.get("trial_id") == killed}) == 2


def begin_process(log: Path, *args: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "eqprop", "sweep", *args, "--checkpoint-seconds", "0"]
    with open(log, "w") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)


def wait_until(done, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)


def trials_of(folder: Path, process: subprocess.Popen[bytes]) -> list[int]:
    """The trials whose lock the process holds open, as Linux tells."""
    opened = (os.path.realpath(path) for path in Path(f"/proc/{process.pid}/fd").iterdir())
    return [int(Path(path).name) for path in opened if str(folder / "locks") in path and Path(path).name.isdigit()]


def holds(folder: Path, process: subprocess.Popen[bytes]) -> bool:
    """Whether the process is in the middle of a trial that has a checkpoint."""
    try:
        held = trials_of(folder, process)
    except OSError:
        return False
    return bool(held) and (folder / "trials" / f"{max(held):04d}" / "checkpoint.safetensors").exists()
