"""The command line: what it prints, what it leaves behind, and that every option it offers does something."""

import json
import re
import subprocess
import sys
import traceback
from dataclasses import fields, is_dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import jax
import matplotlib.image
import numpy as np
import pytest
import safetensors.numpy
from rich.console import Console

import eqprop
from command import run
from eqprop import Run, Trainer, data, fit
from eqprop.cli import campaigns
from eqprop.cli.console import result_table
from eqprop.cli.evaluate import Evaluate
from eqprop.cli.main import parse
from eqprop.cli.train import OutputOptions, Train
from eqprop.data import NAMES
from eqprop.energy import Graph
from eqprop.study import PRESETS, Experiment, evaluate, preset
from marks import nothing_missing, slow_but

PACKAGE = Path(eqprop.__file__).parent
GROUPS = ("network", "cost", "settling", "learning", "images", "circuit", "devices")
OPTIONS = {f.name: group for group in GROUPS for f in fields(getattr(PRESETS["digits"], group))}
TRAIN = ["train", "digits", "--train", "60", "--hidden", "5", "--epochs", "2", "--batch-size", "20"]


def weights(folder: Path) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(folder / "weights.safetensors")


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert run(*TRAIN, "--run-dir", str(folder)) == 0
    return folder


# ---- what is printed ----


def test_train_with_json_prints_one_object_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert run(*TRAIN, "--json", "--run-dir", str(folder)) == 0
    shown = capsys.readouterr()
    result = json.loads(shown.out)
    assert shown.out.count("\n") == 1
    kinds = {
        "dataset": str,
        "net": str,
        "epochs": int,
        "train_error": float,
        "valid_error": float,
        "test_error": float,
        "error_unit": str,
        "seconds": float,
        "valid_seconds": float,
        "run_dir": str,
    }
    assert {name: type(result[name]) for name in kinds} == kinds
    assert (result["dataset"], result["net"], result["epochs"]) == ("digits", "64-5-10", 2)
    assert result["run_dir"] == str(folder)
    assert all(0 <= result[f"{part}_error"] <= 1 for part in ("train", "valid", "test"))
    assert result["seconds"] > 0
    assert json.loads((folder / "result.json").read_text()) == result
    # Progress is for people and goes to stderr.
    assert shown.err.count("epoch") == 2


def test_train_without_validation_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*TRAIN, "--valid", "0", "--run-dir", str(tmp_path / "run")) == 0
    assert "none held out" in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "result.json").read_text())["valid_error"] is None


def test_evaluate_prints_the_errors_that_training_found(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", str(finished), "--json") == 0
    shown = capsys.readouterr().out
    result, trained = json.loads(shown), json.loads((finished / "result.json").read_text())
    assert shown.count("\n") == 1
    assert result == {name: trained[name] for name in trained if "seconds" not in name}


def test_evaluate_without_json_prints_a_table_of_the_same(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", str(finished)) == 0
    shown, result = capsys.readouterr().out, json.loads((finished / "result.json").read_text())
    for part, word in (("train", "training"), ("valid", "validation"), ("test", "test")):
        line = next(line for line in shown.splitlines() if word in line)
        assert f"{100 * result[f'{part}_error']:.2f} %" in line
    assert shown.splitlines()[-1] == f"drawn in {finished / 'confusion_matrix.png'}"


def test_the_table_names_a_folder_by_its_name() -> None:
    result = {"dataset": "/far/away/birds", "net": "4-2", "train_error": 0.5, "valid_error": None, "test_error": 0.5}
    table = result_table(result)
    assert table.title == "birds, 4-2" and table.min_width == len("birds, 4-2")  # or the title would be cut in two


def test_a_batch_larger_than_the_training_set_is_told() -> None:
    command = parse(["train", "digits", "--train", "60", "--hidden", "5", "--batch-size", "61"])
    assert isinstance(command, Train)
    with pytest.warns(eqprop.LearningWarning, match="batch_size=61 is more than the 60 training examples.*one update"):
        command._setup(None)


def test_errors_are_fractions_in_every_file_and_earlier_results_are_understood(finished: Path, tmp_path: Path) -> None:
    result, history = Run.open(finished).read_result(), Run.open(finished).read_history()
    assert result["error_unit"] == "fraction"
    # Both are of the last weights, on examples that nothing was learned from in between.
    assert result["valid_error"] == pytest.approx(history[-1]["valid_error"], abs=1e-6)
    old = {"test_error": 2.5, "valid_error": None, "epochs": 3}  # in percent, as earlier versions wrote it
    (tmp_path / "result.json").write_text(json.dumps(old))
    assert Run(tmp_path).read_result() == old | {"test_error": 0.025, "error_unit": "fraction"}


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"eqprop {eqprop.__version__}\n"


def test_names_in_a_table_are_whole_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaigns, "out", Console(width=80))
    columns = ["method", "cosine", "training error", "test error", "steps", "seconds", "update"]
    campaigns.print_rows([dict.fromkeys(columns, "recurrent-backpropagation")], columns)
    shown = capsys.readouterr().out
    assert "…" not in shown
    cells = "".join(line.split("│")[1].strip() for line in shown.splitlines() if line.startswith("│"))
    assert cells == "recurrent-backpropagation"


def test_a_run_takes_fewer_epochs_than_planned_but_not_than_begun_and_says_so(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("train", "--resume", str(finished), "--epochs", "1") == 2
    assert "has already begun epoch 2" in capsys.readouterr().err
    assert run("train", "--help") == 0
    assert "no fewer than were begun" in " ".join(capsys.readouterr().out.replace("│", "").split())


@pytest.mark.slow
def test_every_data_set_of_the_registry_is_known_to_the_commands() -> None:
    """One that is added in the registry can be fetched and trained on: nothing else lists them."""
    program = """
from dataclasses import replace
from importlib import reload
import eqprop.data
from eqprop.data import loading, registry
registry.FILE_SETS["mine"] = replace(registry.MNIST, name="mine")
reload(loading), reload(eqprop.data)
from eqprop.cli.main import main, parse
assert parse(["train", "mine", "--net", "conv"]).experiment.dataset == "mine"
raise SystemExit(main(["data", "fetch", "mine", "--data-dir", "/none"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, "no folder /none" in done.stderr) == (2, True), done.stderr


def test_train_without_json_prints_a_table_and_the_folder_as_it_is_spelt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # In brackets, as in rich's markup: it must neither be swallowed nor be taken for a closing tag.
    assert run(*TRAIN, "--run-dir", "[red] [/b]") == 0
    shown = capsys.readouterr().out.splitlines()
    assert any("validation" in line and "%" in line for line in shown)
    assert shown[-1] == "in [red] [/b]"


def test_without_a_run_dir_a_new_one_in_runs_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*TRAIN, "--json") == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("digits-64-5-10-")
    assert json.loads(capsys.readouterr().out)["run_dir"] == f"runs/{folder.name}"


# ---- what is left behind ----


def test_a_run_folder_holds_all_there_is_to_know(finished: Path) -> None:
    data = {"config.json", "data.json", "history.jsonl", "result.json"}
    data |= {"checkpoint.safetensors", "weights.safetensors"}
    pictures = {"learning_curve.png", "receptive_fields.png"}
    evaluated = {"confusion_matrix.png"}  # by another test, perhaps
    assert {path.name for path in finished.iterdir()} - evaluated == data | pictures
    command = parse(TRAIN)
    assert isinstance(command, Train)
    assert Experiment.from_dict(json.loads((finished / "config.json").read_text())) == command.experiment
    history = [json.loads(line) for line in (finished / "history.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in history] == [1, 2]
    assert all(0 <= record[name] <= 1 for record in history for name in ("train_error", "valid_error"))
    shapes = {"W/input-hidden": (64, 5), "W/hidden-output": (5, 10), "b/hidden": (5,), "b/output": (10,)}
    assert {name: array.shape for name, array in weights(finished).items()} == shapes


@pytest.mark.parametrize("name", ["learning_curve", "receptive_fields", "confusion_matrix"])
def test_a_picture_has_something_on_it(name: str, finished: Path) -> None:
    if name == "confusion_matrix":
        assert run("evaluate", str(finished)) == 0
    picture = matplotlib.image.imread(finished / f"{name}.png", format="png")
    assert picture.shape[0] > 100 and picture.shape[1] > 100
    assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 10


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(finished: Path, tmp_path: Path) -> None:
    assert run(*TRAIN, "--run-dir", str(tmp_path / "again")) == 0
    assert run(*TRAIN, "--seed", "1", "--run-dir", str(tmp_path / "other")) == 0
    assert same(weights(tmp_path / "again"), weights(finished))
    assert not same(weights(tmp_path / "other"), weights(finished))


def test_evaluate_touches_nothing_that_a_run_in_use_may_need(finished: Path) -> None:
    # A run that is still going writes beside its checkpoint before it renames.
    half = finished / ".checkpoint.safetensors.x1.part"
    half.write_bytes(b"half")
    own = finished / "confusion_matrix.png"
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in finished.iterdir() if path != own}
    assert run("evaluate", str(finished)) == 0
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in finished.iterdir() if path != own}
    half.unlink(missing_ok=True)
    assert after == before


def test_what_evaluate_draws_is_what_it_measured(finished: Path) -> None:
    experiment = Experiment.from_dict(json.loads((finished / "config.json").read_text()))
    digits = data.load("digits", valid=experiment.learning.valid)
    result, predicted = evaluate(experiment.build(digits), Run.open(finished))
    assert np.mean(predicted != digits.test.labels) == pytest.approx(result["test_error"], abs=1e-6)


def test_evaluate_works_where_it_may_not_write(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", str(finished))

    monkeypatch.setattr("eqprop.cli.evaluate.write_figure", refuse)
    assert run("evaluate", str(finished), "--json") == 0
    shown = capsys.readouterr()
    assert "test_error" in json.loads(shown.out)
    assert "no confusion_matrix.png" in shown.err


def test_a_training_builds_its_parts_once_and_goes_a_short_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One network, one trainer; and at most 20 frames of ours from `main` to the Φ of a minibatch that is learned."""
    built: list[type] = []
    ways: list[list[str]] = []

    def counted(kind: type, name: str) -> None:
        before = getattr(kind, name)

        def after(self: Any, *args: Any, **kwargs: Any) -> None:
            built.append(kind)
            before(self, *args, **kwargs)

        monkeypatch.setattr(kind, name, after)

    def phi(*args: Any) -> Any:
        frames = traceback.extract_stack()
        ways.append([frame.name for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)])
        return before(*args)

    before = Graph.phi
    monkeypatch.setattr(Graph, "phi", phi)
    counted(Graph, "__init__")
    counted(Trainer, "__check_init__")
    # A size of its own, so that it is traced here and not taken from another test.
    assert run(*TRAIN, "--hidden", "7", "--epochs", "1", "--run-dir", tmp_path / "run") == 0
    assert built == [Graph, Trainer]
    learned = [way[way.index("main") + 1 :] for way in ways if "_advance" in way]
    assert learned and max(map(len, learned)) <= 20, max(learned, key=len)


# ---- data ----


def test_data_list_names_every_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EQPROP_DATA", str(tmp_path))
    assert run("data", "list") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in NAMES)
    assert "bundled" in shown
    assert "not fetched" in shown
    assert list(tmp_path.iterdir()) == []


def test_data_fetch_prints_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "fetch", "digits") == 0
    folder = Path(capsys.readouterr().out.removesuffix("\n"))
    assert any(folder.glob("digits*"))


# ---- options ----


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


HELP = {
    "": ["train", "evaluate", "data"],
    "train": [*PRESETS, *map(flag, OPTIONS), *(flag(f.name) for f in fields(OutputOptions))],
    "evaluate": [flag(f.name) for f in fields(Evaluate) if f.name != "run_dir"],
    "data": ["list", "fetch"],
    "data list": [],
    "data fetch": [*NAMES, "--data-dir"],
}


@pytest.mark.parametrize("command", HELP)
def test_help_mentions_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command.split(), "--help") == 0
    shown = capsys.readouterr().out
    assert f"usage: eqprop {command}".strip() in shown
    assert [word for word in HELP[command] if word not in shown] == []


def test_help_shows_the_defaults_of_the_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    for name, usual in PRESETS.items():
        assert run("train", name, "--help") == 0
        assert f"passes over the training examples (default: {usual.learning.epochs})" in capsys.readouterr().out


def test_python_m_eqprop_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "eqprop", "--help"], capture_output=True, text=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: eqprop ")


@pytest.mark.parametrize(
    ("args", "dataset"),
    [
        (["train"], "digits"),
        (["train", "fashion"], "fashion"),
        (["train", "--run-dir", "mnist"], "digits"),
        (["train", "--run-dir", "mnist", "fashion"], "fashion"),
        (["train", "--data-dir", "digits", "mnist"], "mnist"),
    ],
)
def test_the_data_set_decides_the_defaults_whatever_folders_are_called(args: list[str], dataset: str) -> None:
    command = parse(args)
    assert isinstance(command, Train)
    assert command.experiment == PRESETS[dataset]


# For each option: a value other than the one it has in BASE, and the settings under which it applies.
BASE: dict[str, Any] = {"hidden": (5,), "epochs": 2, "batch_size": 20, "learning_rate": (0.01,), "train": 60}
GRADIENT: dict[str, Any] = {"relaxation": "gradient", "epsilon": 0.4}
CROSS_ENTROPY: dict[str, Any] = {"cost": "cross-entropy", "scale": 2.0}
SGD: dict[str, Any] = {"optimizer": "sgd", "momentum": 0.5, "learning_rate": (0.1,)}
CONV: dict[str, Any] = {"architecture": "conv", "hidden": (3,), "train": 40}
CIRCUIT: dict[str, Any] = {"architecture": "resistive", "hidden": (6,), "train": 40}
DIODES: dict[str, Any] = CIRCUIT | {"diode": "shockley"}
RANGE: dict[str, Any] = CIRCUIT | {"least": 0.001, "most": 0.2}
SKIP = {"input-hidden", "input-output", "hidden-output"}
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "hidden": ((5, 4), {}),
    "architecture": ("skip", {}),
    "activation": ("tanh", {}),
    "gain": (0.7, {}),
    "gains": ((0.5, 0.7), {}),
    "kernel": (5, CONV),
    "padding": ((2,), CONV),
    "pool": ("average", CONV),
    "weights": ("binary", {}),
    "bias": (0.2, {}),
    "cost": ("cross-entropy", {}),
    "targets": ((0.2, 0.8), {}),
    "scale": (3.0, CROSS_ENTROPY),
    "l1": (0.01, {}),
    "l2": (0.1, {}),
    "nudge": ("one-sided", {}),
    "beta": (0.25, {}),
    "growth": (1.5, {}),
    "order": ("both", {}),
    "relaxation": ("gradient", {}),
    "nudged_relaxation": ("gradient", {}),
    "omega": (1.0, {}),
    "epsilon": (0.3, GRADIENT),
    "free_steps": (3, {}),
    "nudged_steps": (3, {}),
    "tol": (0.05, {}),
    "surrogate": (True, {}),
    "tune": (True, {}),
    "accelerate": (True, {}),
    "persistent": (True, {}),
    "carry": (True, {}),
    "precision": ("bfloat16", {}),
    "temperature": (0.1, {"method": "stochastic"}),
    "method": ("contrastive-hebbian", {}),
    "epochs": (3, {}),
    "batch_size": (15, {}),
    "optimizer": ("sgd", {}),
    "learning_rate": ((0.01, 0.02), {}),
    "momentum": (0.9, SGD),
    "nesterov": (True, SGD),
    "weight_decay": (0.1, {}),
    "schedule": ("cosine", {}),
    "balance": (True, {}),
    "changes": (True, {}),
    "decay": (0.5, {}),
    "shuffle": (False, {}),
    "seed": (1, {}),
    "valid": (200, {"train": None, "epochs": 1}),
    "train": (50, {}),
    "normalise": (True, CONV),
    "deviations": (3.0, CONV | {"normalise": True}),
    "flip": (True, CONV),
    "crop": (2, CONV),
    "input_gain": (50.0, CIRCUIT),
    "diode": ("shockley", CIRCUIT),
    "saturation": (1e-5, DIODES),
    "ideality": (2.0, DIODES),
    "amplification": (2.0, CIRCUIT),
    "source_resistance": (0.1, CIRCUIT),
    "least": (0.001, CIRCUIT),
    "most": (0.1, CIRCUIT),
    "states": (64, RANGE),
    "rounding": ("nearest", RANGE | {"states": 64}),
    "write_noise": (0.02, RANGE),
    "write_spread": (0.3, CIRCUIT),
    "up_down": (0.2, CIRCUIT),
    "soft_bounds": (True, RANGE),
    "stuck": (0.2, CIRCUIT),
    "drift": (0.05, CIRCUIT),
    "volts": ((0.1, 0.2), CIRCUIT),
    "bits": (6, CIRCUIT | {"volts": (1.0,)}),
    "read_noise": (0.01, CIRCUIT),
    "offset": (0.01, CIRCUIT),
    "reads": (4, CIRCUIT | {"read_noise": 0.01}),
}
RESISTIVE = [name for name, (_, where) in CHANGES.items() if where.get("architecture") == "resistive"]


def experiment(settings: dict[str, Any]) -> Experiment:
    chosen: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    for name, value in settings.items():
        chosen[OPTIONS[name]][name] = value
    base = preset("digits", architecture=settings.get("architecture", "layered"), hidden=settings.get("hidden"))
    return replace(base, **{group: replace(getattr(base, group), **values) for group, values in chosen.items()})


_trained: dict[Experiment, Any] = {}


def trained(of: Experiment) -> Any:
    """θ after a short training; remembered, for the settings that others are compared with."""
    if of not in _trained:
        setup = of.build(data.load("digits", valid=of.learning.valid))
        state, _ = fit(setup.trainer, setup.state, setup.feed, epochs=of.learning.epochs)
        _trained[of] = jax.tree.map(np.asarray, state.theta)
    return _trained[of]


def test_the_table_of_changes_is_complete() -> None:
    nothing_missing(OPTIONS, CHANGES, "options without a row in CHANGES")
    nothing_missing(CHANGES, OPTIONS, "rows of CHANGES without an option")


@pytest.mark.parametrize("name", slow_but(CHANGES, *(name for name in CHANGES if name not in RESISTIVE[:-1])))
def test_every_option_reaches_the_experiment(name: str) -> None:
    value, where = CHANGES[name]
    kind = {option: asked for option, asked in where.items() if "architecture" in where and option != name}
    words = [word for option, asked in (kind | {name: value}).items() for word in given(option, asked)]
    command = parse(["train", "digits", *words])
    assert isinstance(command, Train)
    assert command.experiment == experiment(kind | {name: value})
    assert command.experiment != experiment(kind)


@pytest.mark.parametrize(("words", "shown"), [((), "default: 500"), (("--net", "conv"), "default: 16 32")])
def test_help_shows_the_defaults_of_the_network_that_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], shown: str
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert run("train", "digits", *words, "--help") == 0
    hidden = capsys.readouterr().out.split("--hidden")[1].split("--net")[0]
    assert shown in re.sub(r"[\s│]+", " ", hidden)


def test_help_names_every_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "--help") == 0
    nothing_missing(NAMES, capsys.readouterr().out, "the help of `dataset` in cli/train.py does not name")


SWITCHES = [name for name, value in PRESETS["digits"].flat().items() if isinstance(value, bool)]


@pytest.mark.parametrize(
    "words", slow_but([("digits",), ("cifar10",), ("fashion", "--net", "conv")], ("digits",)), ids=" ".join
)
@pytest.mark.slow
def test_a_switch_can_be_turned_on_and_off_whatever_its_default(words: tuple[str, ...]) -> None:
    """What is asked for holds, though it is the default of the data set, or of the network, anyway."""
    for value in (True, False):
        for name in SWITCHES:
            command = parse(["train", *words, *given(name, value)])
            assert isinstance(command, Train)
            assert getattr(getattr(command, OPTIONS[name]), name) is value


def given(name: str, value: Any) -> list[str]:
    """The words that ask for a value of an option."""
    if isinstance(value, bool):
        return [flag(name) if value else flag(f"no_{name}")]
    return [flag(name), *map(str, value if isinstance(value, tuple) else [value])]


# These are data of the one program that trains with BASE: the others compile a program each.
RECORDS = ("changes", "surrogate")  # options that only add to the history
NUMBERS = ("gain", "bias", "targets", "beta", "omega", "learning_rate", "decay", "epochs", "shuffle", "seed")


@pytest.mark.filterwarnings("ignore::eqprop.LearningWarning")  # tiny networks, in trainings that are short
@pytest.mark.parametrize("name", slow_but((name for name in CHANGES if name not in RECORDS), *NUMBERS))
def test_every_option_changes_what_is_learned(name: str) -> None:
    value, where = CHANGES[name]
    before, after = trained(experiment(BASE | where)), trained(experiment(BASE | where | {name: value}))
    leaves = zip(*map(jax.tree.leaves, (before, after)), strict=False)
    assert jax.tree.structure(before) != jax.tree.structure(after) or any(not np.array_equal(a, b) for a, b in leaves)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))


def test_gradient_steps_take_the_same_time_whatever_their_size() -> None:
    """7 N free and N nudged units of time n ε for N layers (section 5.1), rounded up."""
    for hidden, epsilon, free, nudged in (
        ((5,), 0.5, 28, 4),
        ((5, 4, 3), 0.5, 56, 8),
        ((5,), 0.25, 56, 8),
        ((5,), 0.1, 140, 20),
        ((5,), 0.3, 47, 7),
        ((5, 4), 0.7, 30, 5),  # 21 / 0.7 is 30.000000000000004 in floating point
    ):
        rule: Any = experiment({"hidden": hidden, "relaxation": "gradient", "epsilon": epsilon}).assemble(2, 2)[1].rule
        assert (rule.free.steps, rule.nudged.steps) == (free, nudged)
    rule = experiment({"hidden": (5,), "nudged_relaxation": "gradient", "epsilon": 0.25}).assemble(2, 2)[1].rule
    assert (rule.free.steps, rule.nudged.steps) == (4, 8)


def test_the_method_and_the_architecture_decide_defaults_too() -> None:
    def settings(*words: str) -> tuple[Any, ...]:
        command = parse(["train", *words])
        assert isinstance(command, Train)
        chosen = command.experiment
        return chosen.network.activation, chosen.settling.beta, chosen.settling.relaxation

    assert settings("digits") == ("hard_sigmoid", 0.9, "block")
    assert settings("digits", "--architecture", "fully-connected") == ("hard_sigmoid", 0.9, "gradient")
    assert settings("digits", "--method", "stochastic") == ("tanh", None, "block")
    asked = ("--activation", "sigmoid", "--beta", "0.9")
    assert settings("--method", "stochastic", *asked, "mnist") == ("sigmoid", 0.9, "block")


@pytest.mark.parametrize("name", PRESETS)
def test_networks_for_images_have_the_channels_of_their_preset_or_those_asked_for(name: str) -> None:
    def channels(*words: str) -> tuple[tuple[int, ...], int]:
        command = parse(["train", name, "--net", "conv", *words])
        assert isinstance(command, Train)
        return command.experiment.network.hidden, len(command.experiment.network.gains)

    usual = preset(name, architecture="conv").network
    assert channels() == (usual.hidden, len(usual.gains))
    assert channels("--hidden", "500") == ((500,), 2 * bool(usual.gains))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "options", "joined"),
    [
        ("skip", ["--learning-rate", "0.01", "0.02"], SKIP),
        ("fully-connected", ["--balance"], {*SKIP, "hidden-hidden", "output-output"}),
    ],
)
def test_other_architectures_have_rates_pictures_and_a_name(
    architecture: str, options: list[str], joined: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run(*TRAIN, "--architecture", architecture, *options, "--json", "--run-dir", str(folder)) == 0
    assert json.loads(capsys.readouterr().out)["net"] == f"64-5-10-{architecture}"
    assert {name.removeprefix("W/") for name in weights(folder) if name.startswith("W/")} == joined
    assert (folder / "receptive_fields.png").exists()
    assert run("evaluate", str(folder), "--json") == 0


@pytest.mark.parametrize("architecture", slow_but(["skip", "fully-connected"], "skip"))
@pytest.mark.slow
def test_other_architectures_learn(architecture: str) -> None:
    of = preset("digits", architecture=architecture)
    learning = replace(of.learning, train=600, epochs=6, learning_rate=(0.005,))
    of = replace(of, network=replace(of.network, hidden=(50,)), learning=learning)
    digits = data.load("digits")
    setup = of.build(digits)
    state, _ = fit(setup.trainer, setup.state, setup.feed, epochs=6)
    assert setup.trainer.measure(state.theta, digits.test.v)["error"] < 0.15


@pytest.mark.parametrize("name", PRESETS)
def test_settings_survive_json(name: str) -> None:
    of_circuits = {key for key, (_, needed) in CHANGES.items() if needed.get("architecture") == "resistive"}
    values = {key: value for key, (value, _) in CHANGES.items() if key not in of_circuits}
    values |= CONV | {"balance": False, "carry": False, "surrogate": False, "tune": False}
    changed = replace(experiment(values | {"method": "negative"}), dataset=name)
    circuit = replace(experiment({key: CHANGES[key][0] for key in of_circuits} | RANGE), dataset=name)
    for settings in (PRESETS[name], changed, circuit):
        kept = settings.without_idle()  # settings that do nothing beside the others are not kept
        assert Experiment.from_dict(json.loads(json.dumps(settings.to_dict()))) == kept
        parts = [vars(part) for part in vars(settings).values() if is_dataclass(part)]
        assert settings.flat() == {"dataset": name} | dict(chain.from_iterable(part.items() for part in parts))


@pytest.mark.slow
def test_weights_align_with_feedback_that_is_fixed(tmp_path: Path) -> None:
    """As Lillicrap et al. (2014) found for backpropagation; at first the two know nothing of each other."""
    settings = ["--method", "fixed-feedback", "--epochs", 6, "--hidden", 100]
    assert run("train", "digits", *settings, "--run-dir", tmp_path / "run") == 0
    angles = [record["angle"] for record in Run(tmp_path / "run").read_history()]
    assert 85 < angles[0] < 95 and angles == sorted(angles, reverse=True) and angles[-1] < 80
