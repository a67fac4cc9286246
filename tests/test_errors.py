"""Bad input is refused in words that name it and say what would do, before anything is written."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import safetensors.numpy

import eqprop as ep
from command import run
from eqprop.data.registry import FILE_SETS
from eqprop.store.atomic import to_json
from eqprop.study import CostOptions, Experiment, LearningOptions, NetworkOptions
from marks import slow

# The sizes of tests/test_cli.py, so that the same programs serve.
TRAIN = ["train", "digits", "--train", "60", "--hidden", "5", "--epochs", "2", "--batch-size", "20", "--beta", "0.5"]
CHECKPOINT, WEIGHTS, CONFIG = "checkpoint.safetensors", "weights.safetensors", "config.json"


def unboxed(text: str) -> str:
    """Messages without the frames and line breaks they are shown with."""
    return re.sub(r"[\s│╭╮╰╯─]+", " ", text)


def files(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder; folders have no content."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs, to be copied and spoilt."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert run(*TRAIN, "--run-dir", folder) == 0
    return folder


@pytest.fixture
def place(tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the finished run in `run`, a file in `file`, and no data in the cache."""
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "file").write_text("mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQPROP_DATA", str(tmp_path / "cache"))
    return tmp_path


# ---- the settings of a new run ----

OPTIONS = [
    ("--beta 0", "beta=0.0", "other than 0"),
    ("--beta nan", "beta=nan", "finite"),
    ("--beta inf", "beta=inf", "finite"),
    ("--beta strong", "--beta", "strong"),
    ("--hidden -3", "'hidden'", "-3"),
    ("--hidden 0", "'hidden'", "size 0"),
    ("--hidden 4 0", "'hidden2'", "size 0"),
    ("--hidden 4.5", "--hidden", "4.5"),
    ("--omega 0", "omega=0.0", "0 < ω < 2"),
    ("--omega 2", "omega=2.0", "0 < ω < 2"),
    ("--relaxation gradient --epsilon 0", "epsilon=0.0", "positive"),
    ("--relaxation gradient --epsilon -0.5", "epsilon=-0.5", "positive"),
    ("--free-steps 0", "free_steps=0", "1 or more"),
    ("--nudged-steps 0", "nudged_steps=0", "1 or more"),
    ("--tol -1", "tol=-1.0", "0 or more"),
    ("--tol nan", "tol=nan", "0 or more"),
    ("--batch-size 0", "batch_size=0", "1 or more"),
    ("--epochs 0", "epochs=0", "1 or more"),
    ("--epochs 1.5", "--epochs", "1.5"),
    ("--learning-rate 1 2 3", "learning_rate=(1.0, 2.0, 3.0)", "each of the 2 layers"),
    ("--learning-rate -0.1", "-0.1", "learning rates are 0 or more"),
    ("--learning-rate 0.1 nan", "nan", "learning rates are 0 or more"),
    ("--decay 0", "decay=0.0", "positive"),
    ("--decay nan", "decay=nan", "positive"),
    ("--growth -1", "growth=-1.0", "positive"),
    ("--optimizer sgd --momentum 1", "momentum=1.0", "below 1"),
    ("--optimizer sgd --momentum -0.1", "momentum=-0.1", "from 0"),
    ("--optimizer lbfgs", "optimizer", "lbfgs"),
    ("--gain 0", "gain=0.0", "positive"),
    ("--gain inf", "gain=inf", "positive"),
    ("--l1 -1", "l1=-1.0", "0 or more"),
    ("--l2 -1", "l2=-1.0", "0 or more"),
    ("--cost cross-entropy --scale 0", "scale=0.0", "positive"),
    ("--seed -1", "seed=-1", "0 or more"),
    # JAX would take the rest modulo 2³² for the first and fail on the second.
    (f"--seed {2**32}", f"seed={2**32}", str(2**32 - 1)),
    (f"--seed {2**64}", f"seed={2**64}", str(2**32 - 1)),
    ("--valid -1", "valid=-1", "0 or more"),
    ("--valid 1797", "valid", "not 1797"),
    ("--train 1258", "train=1258", "1257"),
    ("--train 0", "train=0", "1 or more"),
    ("--activation relu", "activation", "hard_sigmoid"),
    # Numbers that were taken where they did nothing, or with which nothing is learned.
    ("--epsilon nan", "epsilon=nan", "positive"),
    ("--scale nan", "scale=nan", "positive"),
    ("--targets nan nan", "targets=(nan, nan)", "finite"),
    ("--temperature inf", "temperature=inf", "0 or more"),
    ("--epsilon 0.1", "epsilon=0.1 does nothing", "block descent"),
    ("--scale 2", "scale=2.0 does nothing", "cost=squared"),
    ("--momentum 0.5", "momentum=0.5 does nothing", "adam"),
    ("--beta 1e-30", "beta=1e-30", "1e-06 or more"),
    ("--beta 1e30", "beta=1e+30", "finite number, up to 1e+06"),
    ("--bias 1e30", "bias=1e+30", "up to 1e+06"),
    ("--tol 1e308", "tol=1e+308", "below 1"),
    ("--learning-rate 0", "learning_rate=(0.0,)", "nothing is learned"),
    ("--relaxation gradient --epsilon 100", "epsilon=100", "never come to rest"),
    ("--relaxation gradient --epsilon 1e-300", "epsilon=1e-300", "steps"),
    ("--targets -1 2", "targets=(-1.0, 2.0)", "from 0 to 1"),
    ("--targets 0.5 0.5", "targets=(0.5, 0.5)", "different"),
    # Sizes that took minutes, or the process down.
    ("--hidden 1000000000000", "hidden=(1000000000000,)", "up to 100,000,000"),
    ("--hidden 99999999", "7,499,999,935 weights", "memory"),
    ("--batch-size 9223372036854775808", "batch_size=9223372036854775808", "up to 2147483647"),
    ("--batch-size 2000000000", "for states", "lower --hidden or --batch-size"),
    ("--free-steps 1000000000", "free_steps=1000000000", "up to 1000000"),
    ("--epochs 99999999999", "epochs=99999999999", "up to 1,000,000"),
    ("--hidden " + " ".join(["4"] * 300), "hidden has 300 layers", "256"),
    ("--architecture ring", "architecture", "fully-connected"),
    ("--architecture fully-connected --hidden 4 4", "hidden=(4, 4)", "one number of units"),
    ("--architecture fully-connected --method backpropagation", "'backpropagation'", "later layer"),
    ("--architecture fully-connected --method boltzmann", "'fully-connected' with method='boltzmann'", "split"),
    ("--precision bfloat16 --tol 0.001", "tol=0.001", "bfloat16"),
    ("--precision bfloat16 --beta 0.01", "beta=0.01", "0.0625 or more"),
    ("--precision bfloat16 --nudge holomorphic --activation tanh", "precision='bfloat16'", "complex"),
    ("--net conv --hidden 4 4 --padding 1", "padding=(1,)", "each of the 2 convolutions"),
    ("--net conv --hidden 4 --padding -1", "padding=(-1,)", "0 or more"),
    ("--net residual --hidden 4 --padding 1", "residual", "leave --kernel, --padding, --pool out"),
    ("--padding 1", "padding=(1,)", "--net conv"),
    ("--net conv --hidden 4 --deviations 3", "deviations=3.0 does nothing", "not normalised"),
    ("--net conv --hidden 4 --normalise --deviations 0", "deviations=0.0", "positive"),
    ("--carry --persistent", "carry and persistent", "exclude each other"),
    ("--temperature 0.1", "temperature=0.1", "does nothing for method=equilibrium"),
    ("--method stochastic --temperature -1", "temperature=-1.0", "0 or more"),
    ("--method stochastic --relaxation gradient", "relaxation=gradient", "does nothing for method=stochastic"),
    ("--method stdp --nudged-relaxation block", "nudged_relaxation=block", "does nothing for method=stdp"),
    ("--method continual --optimizer adam", "optimizer=adam with method='continual'", "--optimizer sgd"),
    ("--method continual --momentum 0.9", "momentum=0.9 with method='continual'", "without momentum"),
    ("--relaxation spiking --method coupled", "relaxation='spiking' with method='coupled'", "choose equilibrium"),
    ("--relaxation spiking --activation tanh", "activation='tanh'", "hard sigmoids"),
    ("--relaxation spiking --omega 1", "omega=1.0 does nothing for spikes", "leave it out"),
    ("--net resistive --weights binary", "weights='binary'", "conductances have no sign"),
    ("--nudge hard", "nudge", "random-sign"),
    ("--nudge holomorphic", "error: the holomorphic nudge", "sigmoid or tanh"),
    ("--normalise", "normalise=True is for convolutions", "--net conv"),
    ("--net conv --kernel 9", "a kernel of 9 × 9 is larger than the 8 × 8 pixels", "smaller kernel"),
    ("--net conv --kernel 4", "kernel=4", "odd"),
    ("--net conv --hidden 4 4 4 4", "windows of 2 pixels do not divide a side of 1", "--pool none"),
    ("--net conv --crop 8", "crop=8", "8 × 8 pixels"),
    ("--net conv --method contrastive-hebbian", "cost='readout' with method='contrastive-hebbian'", "SquaredError"),
    ("--net conv --method coupled", "cost='readout' with method='coupled'", "no part of the state"),
    ("--net conv --method xie-seung", "cost='readout' with method='xie-seung'", "no part of the state"),
    ("--net conv --method boltzmann", "'conv' with method='boltzmann'", "vectors only"),
    ("--cost cross-entropy --method coupled", "cost='cross-entropy' with method='coupled'", "SquaredError"),
    ("--checkpoint-seconds -1", "checkpoint_seconds=-1.0", "0 or more"),
    ("--hiden 4", "--hiden", "--hidden"),
    ("--data-dir file", "digits", "leave 'file' (--data-dir, folder=) out"),
    ("--run-dir run", "folder run is not empty", "--resume run, in Python by eqprop.Run.open('run')"),
    ("--lr 0.1", "--lr", "all options of it: eqprop train --help"),
    ("--run-dir file", "run folder file", "File exists"),
    ("--run-dir file/below", "run folder file/below", "Not a directory"),
    ("--run-dir new --resume run", "--run-dir new and --resume run", "give one"),
    ("--resume nowhere", "nowhere is not the folder of a run", "config.json"),
    ("--resume .", ". is not the folder of a run", "config.json"),
]


@pytest.mark.parametrize(("options", "names", "says"), OPTIONS, ids=[case[0] for case in OPTIONS])
def test_train_refuses(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: str,
    names: str,
    says: str,
) -> None:
    before = files(place)
    status = run(*TRAIN, *options.split())
    shown = capsys.readouterr()
    assert status == 2
    assert names in unboxed(shown.err)
    assert says in unboxed(shown.err)
    assert shown.out == ""
    assert files(place) == before


# ---- other commands, and runs and data that are spoilt first ----


def cut(name: str) -> Callable[[Path], None]:
    def spoil(place: Path) -> None:
        content = (place / "run" / name).read_bytes()
        (place / "run" / name).write_bytes(content[: len(content) // 2])

    return spoil


def flip(name: str) -> Callable[[Path], None]:
    def spoil(place: Path) -> None:
        content = bytearray((place / "run" / name).read_bytes())
        content[3 * len(content) // 4] ^= 1
        (place / "run" / name).write_bytes(content)

    return spoil


def put(name: str, content: bytes) -> Callable[[Path], None]:
    def spoil(place: Path) -> None:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)

    return spoil


def delete(name: str) -> Callable[[Path], None]:
    return lambda place: (place / "run" / name).unlink()


def swap(place: Path) -> None:
    shutil.copy(place / "run" / WEIGHTS, place / "run" / CHECKPOINT)


def config(group: str | None, **changes: Any) -> Callable[[Path], None]:
    """Change config.json; a value of `...` takes the key away."""

    def spoil(place: Path) -> None:
        path = place / "run" / CONFIG
        values = json.loads(path.read_text())
        table = values[group] if group else values
        table.update(changes)
        for key in [key for key, value in table.items() if value is ...]:
            del table[key]
        path.write_text(json.dumps(values))

    return spoil


def intact(_: Path) -> None:
    pass


NO_NOTES = safetensors.numpy.save({"theta": np.zeros(3, np.float32)})
RESUME, EVALUATE, MNIST = "train --resume run", "evaluate run", "train mnist --hidden 4 --run-dir new"

SPOILT = {
    "checkpoint, a bit flipped": (flip(CHECKPOINT), RESUME, f"run/{CHECKPOINT} is damaged", "checksum"),
    "checkpoint, cut off": (cut(CHECKPOINT), RESUME, f"run/{CHECKPOINT} is damaged or cut off", ""),
    "checkpoint, empty": (put(f"run/{CHECKPOINT}", b""), RESUME, f"run/{CHECKPOINT} is damaged or cut off", ""),
    "checkpoint, a folder": (
        lambda place: ((place / "run" / CHECKPOINT).unlink(), (place / "run" / CHECKPOINT).mkdir()),
        RESUME,
        f"run/{CHECKPOINT}",
        "no file",
    ),
    "checkpoint, no safetensors": (put(f"run/{CHECKPOINT}", b"PK" * 99), RESUME, f"run/{CHECKPOINT} is damaged", ""),
    "checkpoint, not ours": (put(f"run/{CHECKPOINT}", NO_NOTES), RESUME, CHECKPOINT, "not written by eqprop"),
    "checkpoint, raised epochs": (flip(CHECKPOINT), f"{RESUME} --epochs 9", CHECKPOINT, "checksum"),
    "checkpoint, only weights": (swap, RESUME, f"run/{CHECKPOINT}: its notes lack 'history'", ""),
    "checkpoint, another network": (
        config("network", hidden=[4]),
        RESUME,
        f"hidden is (4,), but run/{CHECKPOINT} was made with (5,)",
        "restore config.json",
    ),
    "checkpoint, another optimizer": (config("learning", optimizer="sgd"), RESUME, CHECKPOINT, "made with adam"),
    "checkpoint, another number": (config("settling", beta=0.4), RESUME, "beta is 0.4", "made with 0.5"),
    "checkpoint, another seed": (config("learning", seed=3), RESUME, "seed is 3", "made with 0"),
    "checkpoint, particles unsaved": (config("settling", persistent=True), RESUME, "persistent is True", "False"),
    "weights, another number": (config("settling", free_steps=3), EVALUATE, "free_steps is 3", f"run/{WEIGHTS} was"),
    "config, of a later version": (config(None, version=3), RESUME, "version 3", "newer version of eqprop"),
    "config, of no version": (config(None, version="2"), RESUME, "version '2'", "newer version of eqprop"),
    "weights, a bit flipped": (flip(WEIGHTS), EVALUATE, f"run/{WEIGHTS} is damaged", "checksum"),
    "weights, cut off": (cut(WEIGHTS), EVALUATE, f"run/{WEIGHTS} is damaged or cut off", ""),
    "weights, none": (delete(WEIGHTS), EVALUATE, "run has no weights yet", "--resume run"),
    "weights, another network": (config("network", hidden=[4, 4]), EVALUATE, WEIGHTS, "hidden is (4, 4)"),
    "config, none": (delete(CONFIG), RESUME, "run is not the folder of a run", CONFIG),
    "config, cut off": (cut(CONFIG), RESUME, f"run/{CONFIG} is damaged", "restore it"),
    "config, cut off, evaluate": (cut(CONFIG), EVALUATE, f"run/{CONFIG} is damaged", "restore it"),
    "config, no text": (put(f"run/{CONFIG}", b"\xff\xfe\x00"), RESUME, f"run/{CONFIG} is damaged", "restore it"),
    "config, a list": (put(f"run/{CONFIG}", b"[1]"), RESUME, "settings are [1]", "a table of names and values"),
    "config, a group no table": (config(None, cost=3), RESUME, "cost are 3", "a table of names and values"),
    "config, unknown key": (config("settling", betta=1), RESUME, "settling", "unknown 'betta'"),
    "config, key missing": (config(None, dataset=...), RESUME, f"run/{CONFIG}", "lack 'dataset'"),
    "config, wrong type": (config("settling", beta="0.5"), RESUME, "beta is '0.5'", "a number"),
    "config, truth for a number": (config("learning", epochs=True), RESUME, "epochs is True", "a whole number"),
    "config, fraction of a unit": (config("network", hidden=[4.5]), RESUME, "hidden is 4.5", "a whole number"),
    "config, number for a list": (config("network", hidden=4), RESUME, "hidden is 4", "a list of whole numbers"),
    "config, wrong choice": (config("settling", nudge="hard"), RESUME, "nudge is 'hard'", "random-sign"),
    "config, wrong value": (config("settling", beta=0.0), RESUME, "beta=0.0", "other than 0"),
    "config, NaN": (config("settling", beta=float("nan")), EVALUATE, "beta=nan", "finite"),
    "config, unknown data set": (config(None, dataset="emnist"), RESUME, "'emnist'", "fashion"),
    "config, unknown data set, evaluate": (config(None, dataset="emnist"), EVALUATE, "'emnist'", "fashion"),
    "resume, another beta": (intact, f"{RESUME} --beta 0.7", "beta is 0.7", "begun with 0.5"),
    "resume, another data set": (intact, "train mnist --resume run", "dataset is mnist", "begun with digits"),
    "resume, another seed": (intact, f"{RESUME} --seed 1", "seed is 1", "begun with 0"),
    "resume, another network": (intact, f"{RESUME} --hidden 6", "hidden is (6,)", "begun with (5,)"),
    "resume, fewer epochs": (intact, f"{RESUME} --epochs 1", "epochs=1", "already begun epoch 2"),
    "evaluate, no run": (intact, "evaluate nowhere", "nowhere is not the folder of a run", CONFIG),
    "evaluate, a file": (intact, "evaluate file", "file is not the folder of a run", CONFIG),
    "evaluate, nothing": (intact, "evaluate", "evaluate", "the folder of the run"),
    "a name of half a character": (intact, "bench check --report \ud800", r"'\ud800' has half", "give whole ones"),
    "seeds without end": (intact, f"reproduce layers --seeds {2**63}", f"seeds={2**63}", "up to 1000"),
    "a name that is too long": (intact, f"train --resume {'x' * 300}", "File name too long", "config.json"),
    "a data folder whose name is too long": (
        intact,
        f"reproduce epsilon --run-dir new --data-dir {'x' * 300}",
        "File name too long",
        "xxx",
    ),
    "a report in the place of a file": (intact, "bench check --report file", "cannot make the folder file", "exists"),
    "a report below a file": (intact, "verify --report file/below", "cannot make the folder file/below", "Not a dir"),
    "a study of no effects": (intact, "reproduce circuits --effects", "effects=()", "name some"),
    "unknown data set": (intact, "train emnist", "'emnist'", "fashion"),
    "unknown data set, fetch": (intact, "data fetch emnist", "emnist", "fashion"),
    "unknown command": (intact, "trian digits", "trian", "train"),
    "an image too small, before its data are fetched": (
        intact,
        "train mnist --net conv --pool max --hidden 4 4 4 4 --run-dir new",
        "do not divide a side of 7",
        "fewer layers",
    ),
    "data folder, none": (intact, f"{MNIST} --data-dir nowhere", "no folder nowhere", "mnist"),
    "data folder, empty": (
        lambda place: (place / "data").mkdir(),
        f"{MNIST} --data-dir data",
        "train-images-idx3-ubyte is not in data",
        "plain or as .gz",
    ),
    "data file, cut off": (
        # As a browser leaves it whose download was broken off.
        put("data/train-images-idx3-ubyte.gz", bytes.fromhex("1f8b0800000000000003636060")),
        f"{MNIST} --data-dir data",
        "data/train-images-idx3-ubyte.gz is damaged",
        "plain or as .gz",
    ),
    "data file, wrong sum": (
        put("data/train-images-idx3-ubyte", b"\0\0\x08\x03" + bytes(12)),
        f"{MNIST} --data-dir data",
        "data/train-images-idx3-ubyte is damaged or not the original",
        f"expected {FILE_SETS['mnist'].sums['train-images-idx3-ubyte'][:12]}",
    ),
    "data file, wrong sum, fetch": (
        put("data/train-images-idx3-ubyte", b"\0\0\x08\x03" + bytes(12)),
        "data fetch mnist --data-dir data",
        "data/train-images-idx3-ubyte is damaged or not the original",
        "sha256",
    ),
    "data file, damaged in the cache": (
        put("cache/mnist/train-images-idx3-ubyte", b"\0\0\x08\x03"),
        MNIST,
        "cache/mnist/train-images-idx3-ubyte is damaged",
        "eqprop data fetch mnist",
    ),
}


@pytest.mark.parametrize(("spoil", "command", "names", "says"), SPOILT.values(), ids=SPOILT)
def test_command_refuses(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], None],
    command: str,
    names: str,
    says: str,
) -> None:
    spoil(place)
    before = files(place)
    status = run(*command.split())
    shown = capsys.readouterr()
    assert status == 2
    assert names in unboxed(shown.err)
    assert says in unboxed(shown.err)
    assert shown.out == ""
    assert files(place) == before


@pytest.mark.parametrize("case", ["config, number for a list", slow("checkpoint, a bit flipped")])
def test_a_real_process_shows_the_reason_and_no_traceback(place: Path, case: str) -> None:
    spoil, command, names, says = SPOILT[case]
    spoil(place)
    before = files(place)
    done = subprocess.run(
        [sys.executable, "-m", "eqprop", *command.split()], capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 2
    assert done.stdout == ""
    # One line and nothing besides: neither a traceback nor a warning.
    assert re.fullmatch(r"error: .+\n", done.stderr)
    assert names in done.stderr
    assert says in done.stderr
    assert files(place) == before


def test_a_run_folder_that_cannot_be_written_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, dir: Path, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(dir))

    # Permissions do not stop the superuser, who runs the tests in many a container.
    monkeypatch.setattr("eqprop.store.atomic.tempfile.mkstemp", refuse)
    assert run(*TRAIN, "--run-dir", "new") in (1, 2)
    message = unboxed(capsys.readouterr().err)
    assert "Permission denied" in message
    assert "new" in message


def test_a_full_disk_ends_training_with_a_word_and_spares_what_was_saved(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    before = files(place)
    monkeypatch.setattr(os, "fsync", refuse)
    assert run(*RESUME.split(), "--epochs", "3") in (1, 2)
    message = unboxed(capsys.readouterr().err)
    assert "No space left on device" in message
    assert "run/" in message
    assert files(place) == before


# ---- from Python ----

NET = ep.Hopfield.layered(3, 4, 2)
F = ep.Total(NET, ep.SquaredError())
SIZES = {"input": 3, "hidden": 4, "output": 2}
PAIRS = [("input", "hidden"), ("hidden", "output")]
X, Y = np.full((6, 3), 0.5, np.float32), np.eye(2, dtype=np.float32)[[0, 1] * 3]


def theta(net: ep.Hopfield = NET) -> Any:
    return net.init(jax.random.key(0))


def trainer(F: Any = F, rates: Any = 0.1, **options: Any) -> ep.Trainer:
    return ep.Trainer(F, ep.EquilibriumPropagation(), ep.Rated(optax.sgd(1.0), rates), **options)


def fit(
    x: Any = X, y: Any = Y, valid: Any = None, examples: int = 6, weights: Any = None, F: Any = F, **options: Any
) -> None:
    of, first = trainer(F, **options), ep.Shuffled((X[:examples], Y[:examples]))
    state = of.init(theta() if weights is None else weights, first, jax.random.key(0))
    ep.fit(of, state, ep.Shuffled((x, y)), valid, epochs=1)


def settle(F: Any = F, weights: Any = None, s: Any = None) -> None:
    ep.Block(steps=1)(F, theta() if weights is None else weights, (X, Y), 0.0, NET.rest(6) if s is None else s)


def with_value(array: np.ndarray, value: float) -> np.ndarray:
    changed = array.copy()
    changed[4, 1] = value
    return changed


FEED = ep.Shuffled((X, Y))
GRADIENT = ep.EquilibriumPropagation(free=ep.Gradient(), nudged=ep.Gradient())
STATE = trainer().init(theta(), FEED, jax.random.key(0))
WITH_METRIC = trainer(metrics={"error": F.cost.misclassified})


class Partial(ep.System, ep.Blocks):
    """A total energy that forgot a layer."""

    @property
    def blocks(self) -> Any:
        return (("hidden",),)

    def curvature(self, theta: Any, v: Any, beta: Any, s: Any, block: Any) -> Any:
        return {"hidden": 1.0}

    def __call__(self, theta: Any, v: Any, beta: Any, s: Any) -> Any:
        return F(theta, v, beta, s)


@dataclass(frozen=True)
class Wrong(ep.Synapse):
    """A synapse whose Φ is not a number."""

    pre: str = "input"
    post: str = "hidden"
    shape: tuple[int, ...] = (3, 4)

    def init(self, key: Any, gain: float) -> Any:
        return jnp.zeros(self.shape)

    def phi(self, w: Any, rho: Any) -> Any:
        return rho["input"] @ w


CONV = ep.Hopfield.convolutional((8, 8, 1), (2,))
READOUT = ep.SoftmaxReadout.of(CONV, 3)
SEEING = ep.Total(CONV, READOUT)
IMAGE, CLASS = np.full((4, 8, 8, 1), 0.5, np.float32), np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]
EYES = CONV.init(jax.random.key(0)) | READOUT.init(jax.random.key(1))


def rows(array: np.ndarray, row: int, value: Any) -> np.ndarray:
    """The array with one example changed."""
    changed = array.copy()
    changed[row] = value
    return changed


BATCHES = {
    "vectors in place of images": (IMAGE.reshape(4, 64), CLASS, "x.reshape(-1, 8, 8, 1)"),
    "images without channels": (IMAGE[..., 0], CLASS, "x.reshape(-1, 8, 8, 1)"),
    "channels first": (np.moveaxis(IMAGE, -1, 1), CLASS, "channels come last; give np.moveaxis(x, 1, -1)"),
    "images of another size": (np.zeros((4, 28, 28, 1)), CLASS, "shape (28, 28, 1) does not fit layer 'input' of 8"),
    "bytes": (np.full((4, 8, 8, 1), 255, np.uint8), CLASS, "type uint8 go up to 255"),
    "bytes as floating numbers": (255 * IMAGE, CLASS, "go up to 127.5"),
    "far below 0": (-255 * IMAGE, CLASS, "divide bytes by 255"),
    "NaN in an image": (rows(IMAGE, 2, np.nan), CLASS, "not finite, first in example 2"),
    "labels in place of one-hot targets": (IMAGE, np.array([0, 1, 2, 0]), "give one-hot targets, as np.eye(3)[labels]"),
    "a label out of range": (IMAGE, rows(CLASS, 1, 0.0), "the target of example 1 is [0.0, 0.0, 0.0]"),
    "a negative share": (IMAGE, rows(CLASS, 1, (2.0, -1.0, 0.0)), "the target of example 1"),
    "targets of more classes": (IMAGE, np.eye(5, dtype=np.float32)[:4], "shape (5,) does not fit the readout of (3,)"),
    "fewer targets than images": (IMAGE, CLASS[:3], "4, 3"),
    "words": (IMAGE, np.array(["a", "b", "c", "d"]), "<U1: give arrays of numbers"),
}


def fit_images(x: Any, y: Any) -> None:
    of, feed = trainer(SEEING), ep.Shuffled((x, y), batch_size=2)
    ep.fit(of, of.init(EYES, feed, jax.random.key(0)), feed, epochs=1)


def fit_valid(x: Any, y: Any) -> None:
    of, feed = trainer(SEEING), ep.Shuffled((IMAGE, CLASS), batch_size=2)
    ep.fit(of, of.init(EYES, feed, jax.random.key(0)), feed, (x, y), epochs=1)


WAYS = {
    "fit": fit_images,
    "fit, validation": fit_valid,
    "measure": lambda x, y: trainer(SEEING).measure(EYES, (x, y)),
    "predict": lambda x, y: trainer(SEEING).predict(EYES, (x, y)),
    "rule": lambda x, y: ep.EquilibriumPropagation()(SEEING, EYES, (x, y), CONV.rest(4)),
    "relaxation": lambda x, y: ep.Block()(SEEING, EYES, (x, y), 0.1, CONV.rest(4)),
    "trace": lambda x, y: ep.Gradient().trace(SEEING, EYES, (x, y), 0.1, CONV.rest(4)),
}


PROGRAM = r"XLA compilation of jit\((_settle|_trace|_learn|_advance|_measure|_free|_update)\)"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("x", "y", "says"), BATCHES.values(), ids=BATCHES)
def test_a_batch_is_refused_before_anything_compiles(
    caplog: pytest.LogCaptureFixture, way: str, x: Any, y: Any, says: str
) -> None:
    with jax.log_compiles(), pytest.raises(ep.InputError) as caught:
        WAYS[way](x, y)
    assert says in str(caught.value)
    assert not re.search(PROGRAM, caplog.text)


def test_what_the_library_compiles_is_seen_where_it_is_looked_for(caplog: pytest.LogCaptureFixture) -> None:
    with jax.log_compiles():
        ep.Block(3)(SEEING, EYES, (IMAGE, CLASS), 0.1, CONV.rest(4))
    assert re.search(PROGRAM, caplog.text)


def weights(readout: Any) -> Any:
    return CONV.init(jax.random.key(0)) | ({} if readout is None else {"readout": readout})


READOUTS = {
    "none": (None, "theta lacks 'readout'"),
    "of another layer": (
        {"W": jnp.zeros((3, 3)), "b": jnp.zeros(3)},
        "['W'] is an array of shape (3, 3) instead of an array of shape (32, 3)",
    ),
    "of more classes": (
        {"W": jnp.zeros((32, 3)), "b": jnp.zeros(4)},
        "['b'] is an array of shape (4,) instead of an array of shape (3,)",
    ),
    "of lists": ({"W": jnp.zeros((32, 3)), "b": [0.0, 0.0, 0.0]}, "['b'] is of type list instead of an array"),
    "a list": ([0.0, 0.0], "theta['readout'] is of type list in place of W and b"),
    "without biases": ({"W": jnp.zeros((32, 3))}, "is ['W'] in place of W and b"),
    "a matrix": (jnp.zeros((32, 3)), "an array of shape (32, 3)"),
}


@pytest.mark.parametrize("y", [CLASS, None], ids=["with targets", "without"])
@pytest.mark.parametrize(("readout", "says"), READOUTS.values(), ids=READOUTS)
def test_a_readout_that_does_not_fit_is_refused_in_words(readout: Any, says: str, y: Any) -> None:
    with pytest.raises(ep.InputError) as caught:
        ep.Block()(SEEING, weights(readout), (IMAGE, y), 0.0, CONV.rest(4))
    assert says in str(caught.value) and "cost.init(key)" in str(caught.value)


API = {
    "a rule that clamps, with a readout": (
        lambda: ep.ContrastiveHebbian()(SEEING, EYES, (IMAGE, CLASS), CONV.rest(4)),
        "F=Total(Hopfield, SoftmaxReadout) does not offer it: a readout is no part of the state",
    ),
    "a likelihood, with a readout": (
        lambda: ep.Trainer(SEEING, ep.BoltzmannLearning(), optax.sgd(0.1)),
        "F=Total(Hopfield, SoftmaxReadout) does not offer it: a readout is no part of the state",
    ),
    "an experiment that clamps a readout": (
        lambda: Experiment(
            "digits",
            NetworkOptions((4,), "conv"),
            CostOptions("readout"),
            learning=LearningOptions("coupled"),
        ),
        "cost='readout' with method='coupled'",
    ),
    "a readout of other units": (
        lambda: ep.Block()(ep.Total(CONV, ep.SoftmaxReadout("conv1", units=3)), EYES, (IMAGE, None), 0.0, CONV.rest(4)),
        "['W'] is an array of shape (32, 3) instead of an array of shape (3, 2)",
    ),
    "fewer states than examples": (
        lambda: ep.Block()(SEEING, EYES, (IMAGE, None), 0.0, CONV.rest(3)),
        "have 4 examples, and the state has 3",
    ),
    "one image in place of a batch": (
        lambda: ep.Block()(SEEING, EYES, (IMAGE[0], None), 0.0, CONV.rest(1)),
        "have 8 examples, and the state has 1",
    ),
    "a label beyond the classes": (
        lambda: ep.data.Split.from_labels(X, np.array([0, 1, 2, 0, 1, 2]), 2),
        "example 2 has the label 2, where labels go from 0 to 1",
    ),
    "a label below 0": (lambda: ep.data.Split.from_labels(X, np.array([0, -1] * 3), 2), "example 1 has the label -1"),
    "labels that are no whole numbers": (lambda: ep.data.Split.from_labels(X, X[:, 0], 2), "labels of type float32"),
    "synapse to an unknown layer": (lambda: ep.Hopfield(SIZES, [*PAIRS, ("hidden", "out")]), "unknown layer 'out'"),
    "synapse twice": (lambda: ep.Hopfield(SIZES, [*PAIRS, PAIRS[0]]), "('input', 'hidden') is given twice"),
    "synapse twice, reversed": (
        lambda: ep.Hopfield(SIZES, [*PAIRS, ("output", "hidden")]),
        "('output', 'hidden') is given twice",
    ),
    "synapse of three": (lambda: ep.Hopfield(SIZES, [("input", "hidden", "output")]), "not a pair"),  # pyright: ignore
    "synapse within the input": (lambda: ep.Hopfield(SIZES, [*PAIRS, ("input", "input")]), "clamped layer to itself"),
    "synapse within one unit": (
        lambda: ep.Hopfield({"input": 2, "output": 1}, [("input", "output"), ("output", "output")]),
        "('output', 'output') is within a layer of one unit",
    ),
    "layer without synapse": (lambda: ep.Hopfield(SIZES, PAIRS[:1]), "no synapse reaches layer 'output'"),
    "layer name with a dash": (
        lambda: ep.Hopfield({"input": 3, "out-put": 2}, [("input", "out-put")]),
        "'out-put' contains '-'",
    ),
    "layer of a fraction": (lambda: ep.Hopfield.layered(3, 4.5, 2), "layer 'hidden' has size 4.5"),  # pyright: ignore
    "layer of less than nothing": (lambda: ep.Hopfield.layered(3, -4, 2), "layer 'hidden' has size -4"),
    "layers too few": (lambda: ep.Hopfield.layered(3), "sizes=(3,)"),
    "clamped no layer": (lambda: ep.Hopfield(SIZES, PAIRS, clamped="x"), "clamped='x' is not a layer"),
    "layer missing among values": (lambda: NET.per_layer({"hidden": 0.1}), "'output' is unknown or missing"),
    "energy no function": (lambda: ep.Total(3, ep.SquaredError()), "energy=3 cannot be called"),  # pyright: ignore
    "energy of two arguments": (lambda: ep.Total(lambda theta, s: 0.0, ep.SquaredError()), "(theta, x, s)"),
    "cost of two arguments": (lambda: ep.Total(NET, lambda y, s: 0.0), "(theta, y, s)"),
    "F of three arguments": (lambda: ep.system(lambda theta, v, s: 0.0), "(theta, v, beta, s)"),  # pyright: ignore
    "cost of several numbers": (
        lambda: ep.Total(NET, lambda theta, y, s: y).cost(0.0, Y[0], {}),
        "must give one number",
    ),
    "cost of a layer, state of one array": (
        lambda: ep.Total(lambda theta, x, s: s @ s, ep.SquaredError())(0.0, (None, jnp.zeros(2)), 0.1, jnp.zeros(2)),
        "let it be {'output': …}",
    ),
    "metric of one argument": (lambda: trainer(metrics={"e": lambda s: 0.0}), "metrics['e']"),
    "metric of several numbers": (lambda: fit(metrics={"e": lambda theta, v, s: v[1]}), "metric 'e' gave an array of"),
    "move of one argument": (lambda: ep.Stream((X, Y), move=lambda v: v), "(t, v)"),  # pyright: ignore
    "training without targets": (lambda: fit(y=None), "the targets are None"),
    "cost no function": (lambda: ep.Total(NET, 3), "cost=3 cannot be called"),  # pyright: ignore
    "cost of an unknown layer": (lambda: fit(F=ep.Total(NET, ep.SquaredError("out"))), "layer='out' of SquaredError"),
    "cost with a negative penalty": (lambda: ep.SquaredError(l2=-1.0), "l2=-1.0"),
    "cost scaled by nothing": (lambda: ep.CrossEntropy(scale=0.0), "scale=0.0"),
    "input too wide": (lambda: fit(x=np.zeros((6, 5))), "shape (5,) does not fit layer 'input' of 3"),
    "input too wide, validation": (
        lambda: fit(valid=(np.zeros((2, 5)), Y[:2])),
        "shape (5,) does not fit layer 'input' of 3",
    ),
    "target too wide": (lambda: fit(y=np.zeros((6, 5))), "shape (5,) does not fit layer 'output' of (2,)"),
    "state without a layer": (lambda: settle(s={"hidden": jnp.zeros((6, 4))}), "the state has ['hidden'] instead of"),
    "state too wide": (lambda: settle(s=NET.rest(6) | {"output": jnp.zeros((6, 3))}), "'output' has the shape (3,)"),
    "theta of another size": (
        lambda: fit(weights=theta(ep.Hopfield.layered(3, 5, 2))),
        "theta['W'] of 'input-hidden' has the shape (3, 5) instead of (3, 4)",
    ),
    "theta of another depth": (
        lambda: settle(weights=theta(ep.Hopfield.layered(3, 4, 4, 2))),
        "theta['W'] has ['hidden1-hidden2'",
    ),
    "theta without biases": (lambda: settle(weights={"W": theta()["W"]}), "theta"),
    "NaN in the data": (lambda: fit(x=with_value(X, np.nan)), "not finite, first in example 4"),
    "infinity in the data": (lambda: fit(y=with_value(Y, np.inf)), "not finite, first in example 4"),
    "NaN in the validation data": (lambda: fit(valid=(with_value(X, np.nan), Y)), "not finite, first in example 4"),
    "inputs and targets unequal in number": (lambda: fit(y=Y[:3]), "differ in length: 6, 3"),
    "training set empty": (lambda: fit(x=X[:0], y=Y[:0]), "training set is empty"),
    "a synapse that is no number": (
        lambda: ep.Hopfield(SIZES, [Wrong(), PAIRS[1]]),
        "shape (4,) instead of one number",
    ),
    "a synapse that does not fit": (
        lambda: ep.Hopfield(SIZES, [Wrong(shape=(2, 4)), PAIRS[1]]),
        "does not fit the layers",
    ),
    "bounds the wrong way round in a layer": (
        lambda: ep.Space({"a": 1, "b": 1}, low=0.0, high={"a": 1.0, "b": -1.0}),
        "exchange them",
    ),
    "bounds the wrong way round": (
        lambda: ep.Space({"a": 3}, low=np.array([0.0, 0.0, 2.0]), high=1.0),
        "exchange them",
    ),
    "bounds without a layer": (lambda: ep.Space({"a": 1, "b": 1}, low={"a": 0.0}).rest(1), "'b' has none"),
    "a bound that is no number": (lambda: ep.Space(3, low=float("nan")), "low=nan"),
    "particles without slots": (
        lambda: trainer(persistent=True).init(theta(), ep.Iterated(lambda _: iter([(X, Y)]), 1, 6), jax.random.key(0)),
        "no slots for particles",
    ),
    "an iterator that ends too soon": (
        lambda: list(ep.Iterated(lambda _: iter([(X, Y)]), 2, 6).epoch(jax.random.key(0))),
        "ended after 1",
    ),
    "a minibatch that is too large": (
        lambda: list(ep.Iterated(lambda _: iter([(X, Y)]), 1, 4).epoch(jax.random.key(0))),
        "6 examples",
    ),
    "arrays in place of a feed": (lambda: trainer().init(theta(), (X, Y), jax.random.key(0)), "eqprop.Shuffled"),  # pyright: ignore
    "a metric that is there already": (lambda: trainer(metrics={"cost": F.cost_at}), "'cost' is measured already"),
    "what F predicts is not said": (
        lambda: ep.system(lambda *_: 0.0).predict(None, None, None),
        "predict",
    ),
    "particles of fewer examples": (lambda: fit(examples=4, persistent=True), "4"),
    "data in a Split": (lambda: ep.Shuffled(ep.data.Split(X, Y)), "its `v`"),
    "data without targets": (lambda: ep.fit(trainer(), STATE, ep.Shuffled(X), epochs=1), "give (inputs, targets)"),
    "state of another optimizer": (
        lambda: ep.fit(trainer(), STATE._replace(optimizer=optax.adam(1.0).init(theta())), FEED, epochs=1),
        "of another trainer, or of another precision: its optimizer/0/count is int32[], and the trainer's None",
    ),
    "more classes than memory holds": (lambda: ep.data.Split.from_labels(X, Y.argmax(1), 2**40), "TB of memory"),
    "more nodes than memory holds": (lambda: ep.device.diode_spread({"hidden": 2**40}, 1.0), "TB of memory"),
    "ends of a range that are no numbers": (lambda: ep.device.Readings(low={"a": "b"}, high={"a": 1.0}), "low"),  # pyright: ignore
    "a minibatch to predict": (
        lambda: ep.predict(trainer(), theta(), next(FEED.epoch(jax.random.key(0)))),
        "rows of different lengths",
    ),
    "more steps than JAX counts": (
        lambda: ep.Block(4).advance(F, theta(), (X, Y), 0.0, ep.Block(4).init(NET.rest(6)), 2**31),
        "steps=2147483648 is out of range: give a whole number of 0 or more",
    ),
    "examples that hold no array": (lambda: ep.examples(F, X, ep.Power()), "holds no array: give an array"),
    "a number among the inputs": (lambda: ep.examples(lambda *_: 0.0, {"a": X, "b": np.array(1.0)}), "is one number"),
    "inputs of other lengths than targets": (
        lambda: ep.examples(lambda *_: 0.0, {"a": X}, Y[:4]),
        "6 inputs and 4 targets",
    ),
    "inputs in rows of different lengths": (
        lambda: ep.layer(NET).settle(theta(), (X, X[:4])),  # pyright: ignore
        "give",
    ),
    "state without a metric, in fit": (
        lambda: ep.fit(WITH_METRIC, STATE, FEED, epochs=1),
        "sums/metrics/error is None",
    ),
    "state without a metric, in advance": (lambda: WITH_METRIC.advance(STATE, FEED, 1), "sums/metrics/error is None"),
    "state without a metric, in update": (
        lambda: ep.update(WITH_METRIC, STATE, next(FEED.epoch(jax.random.key(0)))),
        "make one by trainer.init(state.theta, feed, key)",
    ),
    "state of another precision": (
        lambda: ep.fit(trainer(), STATE._replace(sums=jax.tree.map(np.float64, STATE.sums)), FEED, epochs=1),
        "sums/count is float64[], and the trainer's float32[]",
    ),
    "more minibatches than an epoch has": (lambda: trainer().advance(STATE, FEED, 2), "batches=2"),
    "rates of another tree": (
        lambda: trainer(rates={"W": 0.1}).init(theta(), FEED, jax.random.key(0)),
        "do not fit theta",
    ),
    "state of whole numbers": (lambda: settle(s=jax.tree.map(lambda u: u.astype(int), NET.rest(6))), "int32"),
    "state of nothing": (lambda: settle(s={}), "cannot settle"),
    "blocks that leave a layer out": (lambda: settle(F=Partial()), "each once"),
    "synapse as one word": (lambda: ep.Hopfield(SIZES, ["input-hidden"]), "synapse 'input-hidden' is not a pair"),  # pyright: ignore
    "Block on a bare function": (lambda: settle(F=lambda theta, v, beta, s: s["hidden"].sum()), "eqprop.Gradient"),
    "Block on a bare energy": (lambda: settle(F=ep.Total(lambda theta, x, s: 0.0, ep.SquaredError())), "curvature"),
    "Block on a bare cost": (lambda: settle(F=ep.Total(NET, lambda theta, y, s: s["output"].sum())), "curvature"),
    "nudge of nothing": (lambda: ep.Symmetric(beta=0.0), "beta=0.0"),
    "nudge without end": (lambda: ep.OneSided(beta=float("-inf")), "beta=-inf"),
    "push that pulls": (lambda: ep.Asymmetric(beta=1.0, push=-0.5), "push=-0.5"),
    "no steps": (lambda: ep.Block(steps=0), "steps=0"),
    "half a step": (lambda: ep.Gradient(steps=2.5), "steps=2.5"),  # pyright: ignore
    "tolerance negative": (lambda: ep.Gradient(tol=-1e-3), "tol=-0.001"),
    "step size negative": (lambda: ep.Gradient(epsilon=-0.5), "epsilon=-0.5"),
    "over-relaxation too strong": (lambda: ep.Block(omega=2.0), "omega=2.0"),
    "minibatch of nothing": (lambda: ep.Shuffled((X, Y), batch_size=0), "batch_size=0"),
    "minibatch of a fraction": (lambda: ep.Shuffled((X, Y), batch_size=2.0), "batch_size=2.0"),  # pyright: ignore
    "rate negative": (lambda: trainer(rates=-0.1), "rates=-0.1"),
    "rate negative in a tree": (lambda: trainer(rates={"W": -0.1, "b": 0.1}), "'W': -0.1"),
    "decay to nothing": (lambda: ep.Staircase(1.0, 10, 0.0), "factor=0.0"),
    "no state to start from": (lambda: ep.Trainer(lambda *_: 0.0, GRADIENT, optax.sgd(0.1)).rest(1), "space=Space"),
    "unknown data set": (lambda: ep.data.load("emnist"), "'emnist'"),
    "settings that are no JSON": (lambda: to_json({"lr": jax.numpy.ones(2)}), "is no JSON (Object of type ArrayImpl"),
    "held out more than there is": (lambda: ep.data.load("digits", valid=9999), "9999"),
    "settings with a key too many": (lambda: Experiment.from_dict({"size": 3}), "the settings"),
    "settings no table": (lambda: Experiment.from_dict("digits"), "'digits'"),
}


@pytest.mark.parametrize(("call", "says"), API.values(), ids=API)
def test_python_refuses(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(ep.InputError) as caught:
        call()
    assert says in str(caught.value)


def test_input_errors_are_value_errors_and_divergence_is_none() -> None:
    assert issubclass(ep.InputError, ValueError)
    assert not issubclass(ep.DivergedError, ValueError)


def test_nothing_asked_for_is_refused_and_not_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    assert "all options of it" not in unboxed(capsys.readouterr().err)
