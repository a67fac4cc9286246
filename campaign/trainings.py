"""Trainings in processes of their own, for attacks from outside.

A process is forked from this one, which has loaded everything and computed nothing: so it begins at once. It finds all
programs compiled.
"""

import json
import os
import shlex
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import jax
import safetensors.numpy

from campaign.base import FINE, Outcome
from eqprop import data
from eqprop.cli.main import main, parse
from eqprop.compile import keep_programs

# What is drawn in the end takes longer than the training, and nothing depends on it.
OPTIONS = "--train 200 --hidden 8 --epochs 8 --batch-size 20 --beta 0.5 --persistent --checkpoint-seconds 0"
TRAIN = ["train", "digits", *shlex.split(OPTIONS)]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Training:
    """`eqprop args` in a process, in the folder of the case; what it says is kept elsewhere: that disk may be full."""

    def __init__(self, folder: Path, args: list[str], prepare: Callable[[], None] = lambda: None):
        self.shown = tempfile.TemporaryFile()  # noqa: SIM115  (closed with this object)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(self._child(folder, args, prepare))

    def _child(self, folder: Path, args: list[str], prepare: Callable[[], None]) -> int:
        try:
            for number in SIGNALS:  # which may be ignored, as by nohup
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            os.dup2(self.shown.fileno(), 1)
            os.dup2(self.shown.fileno(), 2)
            os.chdir(folder)
            prepare()
            with mock.patch("eqprop.cli.train.draw", lambda *_: None):
                status = main(args)
        except SystemExit as exit:
            status = exit.code
        except BaseException:
            traceback.print_exc()
            status = 70
        sys.stdout.flush()
        sys.stderr.flush()
        return int(status or 0)

    def wait(self) -> int:
        """The exit status; that of a signal is negative."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    @property
    def words(self) -> str:
        return " ".join(os.pread(self.shown.fileno(), 10**6, 0).decode(errors="replace").split())


def begin(folder: Path, **more: Any) -> Training:
    """A training in `run`, or the way on with one."""
    if (folder / "run" / "config.json").exists():
        return Training(folder, ["train", "--resume", "run", "--checkpoint-seconds", "0"], **more)
    return Training(folder, [*TRAIN, "--run-dir", "run"], **more)


def until_a_moment(random: Random, folder: Path, say: Callable[[str], None], what: str) -> Training:
    """A training that has been under way until a random moment, at which `what` happens."""
    seconds = whole()[1]
    moment = random.uniform(0.02, seconds)
    say(f"{what} after {moment:.2f} of {seconds:.2f} s")
    training = begin(folder)
    time.sleep(moment)
    return training


def outcome(folder: Path) -> dict[str, Any]:
    """All that a training leaves behind, but for the time that it took."""
    arrays = {
        f"{name} {key}": (array.dtype.str, array.shape, array.tobytes())
        for name in ("checkpoint", "weights")
        for key, array in safetensors.numpy.load_file(folder / "run" / f"{name}.safetensors").items()
    }
    lines = (folder / "run" / "history.jsonl").read_text().splitlines()
    history = [{k: v for k, v in json.loads(line).items() if "seconds" not in k} for line in lines]
    return {"arrays": arrays, "history": history}


def prepare() -> None:
    """Load all, have command lines read, and train once without being disturbed."""
    keep_programs(Path.cwd() / "programs")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    data.load("digits")
    parse(TRAIN)
    whole()
    parse(["train", "--resume", str(Path.cwd() / "whole" / "run")])


@cache
def whole() -> tuple[dict[str, Any], float]:
    """What an undisturbed training comes to, and how long it takes."""
    folder = Path.cwd() / "whole"
    folder.mkdir()
    begin(folder).wait()  # which compiles
    for path in (folder / "run").iterdir():
        path.unlink()
    (folder / "run").rmdir()
    began = time.monotonic()
    if status := (training := begin(folder)).wait():
        raise RuntimeError(f"a training ended with status {status}: {training.words}")
    return outcome(folder), time.monotonic() - began


def finished(folder: Path) -> Outcome:
    """Go on to the end: what comes of it must be what comes of a training that nothing disturbed."""
    training = begin(folder)
    if status := training.wait():
        return Outcome("lost", f"to go on ended with status {status}: {training.words[-300:]}")
    return compared(folder)


def compared(folder: Path) -> Outcome:
    """What a training that has come to its end has left behind, beside that of one that nothing disturbed."""
    if outcome(folder) != whole()[0]:
        return Outcome("lost", "the training ended with other numbers")
    if scraps := [path.name for path in (folder / "run").glob(".*")]:
        return Outcome("lost", f"it left {scraps} behind")
    return Outcome(FINE)
