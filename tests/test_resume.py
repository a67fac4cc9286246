"""A run that is stopped, at whatever moment and in whatever way, goes on as if it had not been."""

import errno
import gc
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from command import run
from eqprop import DivergedError, Progress, Run, data, fit
from eqprop.cli.main import parse
from eqprop.cli.stopping import Stop
from eqprop.cli.train import Train
from eqprop.study import Experiment, perform
from eqprop.train import epochs
from eqprop.train.trainer import _advance
from marks import slow, slow_but

TIMED = ("seconds", "valid_seconds", "seconds_per_epoch", "run_dir")


def outcome(folder: Path) -> dict[str, Any]:
    """All that a finished run is, in bits: θ, the optimizer, the particles, the key, the history, the result."""
    found: dict[str, Any] = {}
    for name in ("checkpoint.safetensors", "weights.safetensors"):
        for array, values in safetensors.numpy.load_file(folder / name).items():
            found[f"{name} {array}"] = (str(values.dtype), values.shape, values.tobytes())
    records = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    result = json.loads((folder / "result.json").read_text())
    found["history"], found["result"] = [
        [{key: value for key, value in record.items() if key not in TIMED} for record in part]
        for part in (records, [result])
    ]
    return found


def reached(folder: Path) -> tuple[int, int]:
    """The epochs and the minibatches of the next that the checkpoint has behind it."""
    arrays = safetensors.numpy.load_file(folder / "checkpoint.safetensors")
    return int(arrays["epoch"]), int(arrays["batch"])


# ---- killed ----

KILLS = 5
SETTINGS = "digits --persistent --nudge random-sign --hidden 200 --free-steps 300 --nudged-steps 20 --epochs 8"
PATIENCE = 300  # seconds, after which a process is taken to hang


class Process:
    """The command line in a process of its own, saving after every piece of training."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.saved = self.stamp()
        how = ["--resume", str(folder)] if folder.exists() else [*SETTINGS.split(), "--run-dir", str(folder)]
        command = [sys.executable, "-m", "eqprop", "train", *how, "--checkpoint-seconds", "0"]
        with open(folder.with_suffix(".log"), "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def stamp(self) -> int:
        path = self.folder / "checkpoint.safetensors"
        return path.stat().st_mtime_ns if path.exists() else 0

    def wait_until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            assert self.process.poll() is None, self.folder.with_suffix(".log").read_text()
            assert time.monotonic() < deadline, "hangs"
            time.sleep(0.001)

    def kill(self) -> int:
        self.process.send_signal(signal.SIGKILL)
        return self.process.wait()


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_with_the_weights_of_one_left_alone(tmp_path: Path) -> None:
    moments = random.Random(0)
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    reference = Process(whole)
    process = reference
    try:
        history = whole / "history.jsonl"
        reference.wait_until(lambda: history.exists() and history.stat().st_size > 0)
        ways = [(0, 0)]
        for kill in range(KILLS):
            process = Process(torn)
            process.wait_until(lambda process=process: process.stamp() != process.saved)
            time.sleep(moments.uniform(0, 0.5))
            if kill % 2:  # while a file is being written
                process.wait_until(lambda: any(torn.glob(".*.part")))
            assert process.kill() == -signal.SIGKILL
            ways.append(reached(torn))
        assert sorted(set(ways)) == ways  # each went on from where the one before was killed
        process = Process(torn)
        assert process.process.wait(PATIENCE) == 0, torn.with_suffix(".log").read_text()
        assert reference.process.wait(PATIENCE) == 0, whole.with_suffix(".log").read_text()
    finally:
        for started in (reference, process):
            started.kill()
    assert outcome(torn) == outcome(whole)
    assert list(torn.glob(".*")) == []


# ---- stopped from within, which is quicker and can be aimed ----


def experiment(*args: str) -> Experiment:
    command = parse(["train", *args])
    assert isinstance(command, Train)
    return command.experiment


OPTIONS = "digits --hidden 6 --nudge random-sign --persistent --batch-size 5 --train 58 --epochs 3"
EXPERIMENT = experiment(*OPTIONS.split())
FEW = 12  # minibatches in an epoch, the last of them not full
DIGITS = data.load("digits")


def train(
    folder: Path,
    observe: Callable[[Progress], None] = lambda _: None,
    epochs: int = 3,
    every: float = 0,
    experiment: Experiment = EXPERIMENT,
) -> None:
    """Begin the run in the folder, or go on with it."""
    longer = replace(experiment, learning=replace(experiment.learning, epochs=epochs))
    run = Run.open(folder) if folder.exists() else Run.create(folder, longer.to_dict())
    perform(longer.build(DIGITS), run, checkpoint_seconds=every, observe=observe)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder)
    return outcome(folder)


@pytest.fixture
def piecemeal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of one minibatch, however fast the machine is."""
    monkeypatch.setattr(epochs, "PIECE_SECONDS", 0.0)


class Killed(BaseException):
    """An end that nobody has time to react to."""


def stop_after(count: int, how: type[BaseException] = Killed) -> Callable[[Progress], None]:
    def observe(progress: Progress) -> None:
        if int(progress.state.epoch) * FEW + int(progress.state.batch) == count:
            raise how

    return observe


@pytest.mark.parametrize("stops", slow_but([[1], [5], [11, 12], [13, 18, 35], [36]], [13, 18, 35]), ids=str)
@pytest.mark.usefixtures("piecemeal")
def test_a_stop_between_two_minibatches_changes_nothing(
    tmp_path: Path, whole: dict[str, Any], stops: list[int]
) -> None:
    for stop in stops:
        with pytest.raises(Killed):
            train(tmp_path / "run", stop_after(stop))
    train(tmp_path / "run")
    assert outcome(tmp_path / "run") == whole


@pytest.mark.usefixtures("piecemeal")
@pytest.mark.slow
def test_states_that_carry_over_go_on_after_a_stop(tmp_path: Path) -> None:
    carried = replace(EXPERIMENT, settling=replace(EXPERIMENT.settling, persistent=False, carry=True))
    train(tmp_path / "whole", experiment=carried)
    for stop in (5, FEW, 2 * FEW + 1):  # within an epoch, at its end, after its first minibatch
        with pytest.raises(Killed):
            train(tmp_path / "run", stop_after(stop), experiment=carried)
    train(tmp_path / "run", experiment=carried)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("stop", [1, FEW + 1])
@pytest.mark.usefixtures("piecemeal")
def test_a_run_stopped_before_its_first_checkpoint_begins_anew(
    tmp_path: Path, whole: dict[str, Any], stop: int
) -> None:
    with pytest.raises(Killed):
        train(tmp_path / "run", stop_after(stop), every=float("inf"))
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()
    train(tmp_path / "run", every=float("inf"))
    assert outcome(tmp_path / "run") == whole


@pytest.mark.parametrize("stop", [5, 13])
@pytest.mark.usefixtures("piecemeal")
def test_an_interrupt_saves_where_it_was(tmp_path: Path, whole: dict[str, Any], stop: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", stop_after(stop, KeyboardInterrupt), every=float("inf"))
    assert reached(tmp_path / "run") == divmod(stop, FEW)
    train(tmp_path / "run", every=float("inf"))
    assert outcome(tmp_path / "run") == whole


@pytest.mark.parametrize("write", slow_but([1, 2, 3, 27, 28], 2, 28))
@pytest.mark.usefixtures("piecemeal")
def test_a_stop_within_a_write_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, Any], write: int
) -> None:
    folder, writes, replace_file = tmp_path / "run", 0, os.replace

    def counted(source: str, target: Path) -> None:
        nonlocal writes
        writes += folder.exists() and (folder / "config.json").exists()
        if writes == write:
            raise KeyboardInterrupt
        replace_file(source, target)

    monkeypatch.setattr(os, "replace", counted)
    with pytest.raises(KeyboardInterrupt):
        train(folder)
    train(folder)
    assert outcome(folder) == whole


def test_a_finished_run_goes_on_to_more_epochs_as_if_it_had_not_finished(tmp_path: Path, whole: dict[str, Any]) -> None:
    train(tmp_path / "run", epochs=1)
    train(tmp_path / "run", epochs=3)
    assert outcome(tmp_path / "run") == whole


def test_a_finished_run_that_is_resumed_stays_as_it_is(tmp_path: Path, whole: dict[str, Any]) -> None:
    train(tmp_path / "run")
    train(tmp_path / "run")
    assert outcome(tmp_path / "run") == whole


def test_going_on_compiles_nothing_that_is_compiled_already(tmp_path: Path) -> None:
    setup = EXPERIMENT.build(DIGITS)
    trainer, state, feed = setup.trainer, setup.state, setup.feed
    fit(trainer, state, feed, epochs=2)
    count = _advance.run._cache_size()  # pyright: ignore[reportFunctionMemberAccess]
    state = trainer.advance(state, feed, 5)
    Run(tmp_path).save(state, [], 0.0)
    state, _, _ = Run(tmp_path).load(state)
    fit(trainer, state, feed, epochs=2)
    assert _advance.run._cache_size() == count  # pyright: ignore[reportFunctionMemberAccess]


# ---- at the command line ----

TRAIN = ["train", *OPTIONS.split()]
DIVERGE = ["--optimizer", "sgd", "--learning-rate", "1e3", "--l2", "1"]  # θ grows a thousandfold each minibatch


@pytest.mark.usefixtures("piecemeal")
def test_an_interrupted_command_can_be_resumed_with_more_epochs_and_leaves_no_scraps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], whole: dict[str, Any]
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "a run"
    with monkeypatch.context() as patch:
        patch.setattr("eqprop.progress.TrainingBar.update", interrupt)
        assert run(*TRAIN, "--epochs", "2", "--run-dir", folder, "--checkpoint-seconds", "0") == 130
    assert f"interrupted: go on with `eqprop train --resume '{folder}'`" in capsys.readouterr().err
    scrap = folder / ".checkpoint.safetensors.k3x.part"
    scrap.write_bytes(b"half a checkpoint")
    assert run("train", "--resume", folder, "--epochs", "3") == 0
    assert not scrap.exists()
    assert outcome(folder) == whole
    # The raised number is what the next resume goes by.
    assert json.loads((folder / "config.json").read_text())["learning"]["epochs"] == 3


@pytest.mark.parametrize(
    ("name", "word"), [("SIGINT", "interrupted"), ("SIGTERM", "terminated"), ("SIGHUP", "hung up")]
)
@pytest.mark.usefixtures("piecemeal")
def test_a_signal_saves_where_it_was_and_tells_how_to_go_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    whole: dict[str, Any],
    name: str,
    word: str,
) -> None:
    number, folder, heard = signal.Signals[name], tmp_path / "run", []

    def send(*_: Any) -> None:
        heard.append(1)
        if len(heard) == 17:
            signal.raise_signal(number)

    outside = signal.signal(number, signal.SIG_DFL)  # it may be ignored, as by nohup, and is then left alone
    try:
        with monkeypatch.context() as patch:
            patch.setattr("eqprop.progress.TrainingBar.update", send)
            assert run(*TRAIN, "--run-dir", folder) == 128 + number
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, outside)
    assert f"{word}: go on with `eqprop train --resume {folder}`" in capsys.readouterr().err
    assert reached(folder) == divmod(17, FEW)
    assert run("train", "--resume", folder) == 0
    assert outcome(folder) == whole


def test_a_signal_while_pictures_are_drawn_says_what_is_saved_and_how_to_get_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("eqprop.cli.train.draw", lambda *_: signal.raise_signal(signal.SIGTERM))
        assert run(*TRAIN, "--run-dir", folder) == 128 + signal.SIGTERM
    said = f"the trained network is saved in {folder}, and what is left is to draw it"
    assert f"terminated: {said}; go on with `eqprop train --resume {folder}`" in capsys.readouterr().err
    assert not (folder / "learning_curve.png").exists()
    assert run("train", "--resume", folder) == 0
    assert (folder / "learning_curve.png").exists()


@pytest.mark.usefixtures("piecemeal")
def test_an_interrupt_that_got_lost_is_heeded_at_the_next_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(*_: Any) -> None:
        with suppress(KeyboardInterrupt):  # as Python does with what a callback of C code raises
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("eqprop.progress.TrainingBar.update", send)
    assert run(*TRAIN, "--run-dir", tmp_path / "run") == 128 + signal.SIGTERM
    assert reached(tmp_path / "run") == (0, 1)


INTERRUPTED = """
import os, signal, sys, eqprop_command

class WhileLoading:
    @staticmethod
    def find_spec(name, *_):
        if name == "jax":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, WhileLoading)
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background would ignore
eqprop_command.main()
"""


def test_ctrl_c_while_the_library_loads_ends_the_command_quietly() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "interrupted\n")


def test_a_second_signal_does_not_disturb_the_words_on_the_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job in the background ignores SIGINT, so another one it is."""

    def impatient(reason: object) -> str:
        signal.raise_signal(signal.SIGTERM)
        return str(reason)

    monkeypatch.setattr("eqprop.cli.main.parse", lambda _: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr("eqprop.cli.main._printable", impatient)
    assert run("data", "list") == 128 + signal.SIGTERM
    assert capsys.readouterr().err.strip() == "terminated"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("at", ["start", "stop"])
def test_a_signal_while_garbage_is_collected_arrives_after_it(first: bool, at: str) -> None:
    """Python prints an exception from there, and goes on; a collection may also take longer than the signal waits."""
    calls: list[str] = []

    def callback(phase: str, _: Any) -> None:
        calls.append(phase)
        if calls.count(at) == 1 and phase == at:
            signal.raise_signal(signal.SIGTERM)
            time.sleep(0.05)

    printed: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", printed.append)
        gc.callbacks.insert(0 if first else len(gc.callbacks), callback)
        try:
            with pytest.raises(KeyboardInterrupt), Stop() as stop:
                gc.collect()
                for _ in range(500):
                    time.sleep(0.01)
        finally:
            gc.callbacks.remove(callback)
    assert (stop.word, printed) == ("terminated", [])


def test_a_signal_while_an_object_is_deleted_arrives_after_it() -> None:
    class Deleted:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)
            time.sleep(0.05)

    printed: list[Any] = []
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt), Stop():
        patch.setattr(sys, "unraisablehook", printed.append)
        Deleted()
        for _ in range(500):
            time.sleep(0.01)
    assert printed == []


@pytest.mark.parametrize("write", [slow(2), 5, slow(30)])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.usefixtures("piecemeal")
def test_a_disk_that_fails_loses_nothing_that_was_saved(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    whole: dict[str, Any],
    number: int,
    write: int,
) -> None:
    folder, writes, fsync = tmp_path / "run", 0, os.fsync

    def failing(descriptor: int) -> None:
        nonlocal writes
        writes += 1
        if writes > write:
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        status = run(*TRAIN, "--run-dir", folder, "--checkpoint-seconds", "0")
    shown = " ".join(capsys.readouterr().err.split())
    assert status == 1 and os.strerror(number) in shown
    assert f"What was saved until then is whole: mend that, and go on with `eqprop train --resume {folder}`" in shown
    assert list(folder.glob(".*")) == []
    assert run("train", "--resume", folder) == 0
    assert outcome(folder) == whole


@pytest.mark.usefixtures("piecemeal")
def test_a_folder_that_is_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    monkeypatch.setattr("eqprop.progress.TrainingBar.update", lambda *_: shutil.rmtree(folder, ignore_errors=True))
    assert run(*TRAIN, "--run-dir", folder, "--checkpoint-seconds", "0") == 1
    assert f"the folder {folder} is gone" in " ".join(capsys.readouterr().err.split())


def test_a_run_from_before_a_setting_was_added_goes_on_with_its_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], whole: dict[str, Any]
) -> None:
    folder = tmp_path / "run"
    train(folder, epochs=1)
    path = folder / "config.json"
    complete = json.loads(path.read_text())
    older = json.loads(path.read_text())
    del older["cost"], older["network"]["bias"], older["learning"]["changes"]
    path.write_text(json.dumps(older))
    assert run("train", "--resume", folder, "--epochs", "3") == 0
    assert outcome(folder) == whole
    complete["learning"]["epochs"] = 3
    assert json.loads(path.read_text()) == complete
    newer = complete | {"network": complete["network"] | {"colour": "red"}}
    path.write_text(json.dumps(newer))
    capsys.readouterr()
    assert run("train", "--resume", folder) == 2
    assert "the settings' network have an unknown 'colour'" in " ".join(capsys.readouterr().err.split())


@pytest.mark.usefixtures("piecemeal")
def test_a_run_that_diverges_ends_with_a_word_and_its_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run(*TRAIN, *DIVERGE, "--run-dir", folder, "--checkpoint-seconds", "0") == 3
    shown = capsys.readouterr()
    assert "stopped: values are no longer finite in epoch" in shown.err
    assert "lower the learning rate" in shown.err
    assert f"checkpoint is in {folder}" in shown.err
    assert shown.out == ""
    assert not (folder / "result.json").exists()

    kept = Run.open(folder)
    diverging = Experiment.from_dict(kept.config)
    setup = diverging.build(DIGITS)
    state, history, _ = kept.load(setup.state)
    assert (len(history), int(state.batch)) != (0, 0)
    for name in ("checkpoint.safetensors", "weights.safetensors"):
        for array in safetensors.numpy.load_file(folder / name).values():
            assert np.isfinite(array).all()
    # What is kept is the last good state: the very next minibatch is the bad one.
    with pytest.raises(
        DivergedError, match=f"epoch {len(history) + 1}, minibatch {int(state.batch) + 1}, by the update"
    ):
        perform(setup, kept)


def test_a_run_that_kills_its_network_ends_with_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert run(*TRAIN, "--learning-rate", "1e30", "--run-dir", folder) == 3
    shown = capsys.readouterr()
    assert "stopped: nothing is learned any more in epoch 1" in shown.err
    assert "lower the learning rate, the initial weights and biases, or β (learning_rate=1e+30)" in shown.err
    assert not (folder / "result.json").exists()


def test_a_run_that_diverges_before_its_first_checkpoint_claims_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run(*TRAIN, *DIVERGE, "--run-dir", folder) == 3
    assert ("last good checkpoint" in capsys.readouterr().err) == (folder / "checkpoint.safetensors").exists()
