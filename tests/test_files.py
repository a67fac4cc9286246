"""Files from strangers and from before: whatever is in them, they are read whole or refused in a sentence."""

import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from sklearn.datasets import load_iris

from command import run
from eqprop import InputError, Run, data
from eqprop.data.packing import Folder, Unavailable, checked
from eqprop.sklearn import EqPropClassifier, EqPropRegressor
from eqprop.store import checkpoint
from eqprop.store.checkpoint import NOTES, SUM, _digest
from eqprop.store.reading import read_bytes, read_json
from eqprop.study import METHODS, experiment_of, preset

OLD = Path(__file__).parent / "data" / "0.1.0"
DEEP = b"[" * 100_000 + b"]" * 100_000


def signed(arrays: dict[str, np.ndarray], text: str) -> bytes:
    """A file whose checksum is right, whatever it says: anybody can compute one."""
    return safetensors.numpy.save(arrays, {NOTES: text, SUM: _digest(arrays, text)})


def parts(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    return checkpoint.read(path)


def resigned(path: Path, change: Callable[[dict[str, np.ndarray], dict[str, Any]], Any]) -> None:
    """Change the arrays or the notes of a file and sign it again; a text that `change` returns replaces the notes."""
    arrays, notes = parts(path)
    text = change(arrays, notes)
    path.write_bytes(signed(arrays, text if isinstance(text, str) else json.dumps(notes)))


def raw(kind: str, width: float) -> bytes:
    """A file with numbers of a type that NumPy does not have."""
    size = int(2 * width)
    header = {"a": {"dtype": kind, "shape": [2], "data_offsets": [0, size]}, "__metadata__": {NOTES: "{}", SUM: "0"}}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a copy of what an earlier version wrote."""
    shutil.copytree(OLD, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    return tmp_path / "old"


CONFIGS = {
    "deep": DEEP,
    "deep, in a table": b'{"network": ' + b'{"hidden": ' * 2000 + b"1" + b"}" * 2001,
    "a number of 5000 digits": b'{"dataset": "digits", "settling": {"beta": ' + b"9" * 5000 + b"}}",
    "a number of 400 digits": b'{"dataset": "digits", "settling": {"beta": ' + b"9" * 400 + b"}}",
    "2^63 for the batch": b'{"dataset": "digits", "learning": {"batch_size": 9223372036854775808}}',
    "a choice that is a list": b'{"dataset": "digits", "settling": {"nudge": []}}',
    "a choice that is a table": b'{"dataset": "digits", "settling": {"nudge": {}}}',
    "a data set that is a list": b'{"dataset": []}',
    "no text": b"\xff\xfe\x00",
    "nothing": b"",
    "null": b"null",
    "a key twice removed": b'{"dataset": "digits", "network": null}',
    "lone surrogate": b'{"dataset": "\\ud800"}',
}


@pytest.mark.parametrize("content", CONFIGS.values(), ids=CONFIGS)
def test_settings_that_cannot_be_are_refused_in_a_sentence(
    place: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (place / "run" / "config.json").write_bytes(content)
    for command in ("evaluate run", "train --resume run"):
        assert run(*command.split()) == 2
        assert "error: run/config.json" in capsys.readouterr().err.replace("\n", " ") or b"dataset" in content


NOTED = {
    "a list": "[]",
    "null": "null",
    "a number": "7",
    "no JSON": "{",
    "deep": DEEP.decode(),
    "nothing": "{}",
    "no history": '{"seconds": 0.0}',
    "history null": '{"history": null, "seconds": 0.0}',
    "history of numbers": '{"history": [1, 2], "seconds": 0.0}',
    "records of texts": '{"history": [{"epoch": "one"}, {}], "seconds": 0.0}',
    "seconds a text": '{"history": [], "seconds": "0"}',
    "more than there is": '{"history": [], "seconds": 0.0, "more": 1}',
    "another number of epochs": '{"history": [{}], "seconds": 0.0}',
}


@pytest.fixture(scope="module")
def like() -> Any:
    """A state of the kind that the old run has."""
    return experiment_of(Run(OLD / "run")).build(data.load("digits")).state


@pytest.mark.parametrize("text", NOTED.values(), ids=NOTED)
def test_notes_in_a_signed_file_are_checked(place: Path, like: Any, text: str) -> None:
    for name, load in (("checkpoint", Run("run").load), ("weights", lambda like: Run("run").load_weights(like.theta))):
        resigned(place / "run" / f"{name}.safetensors", lambda *_: text)
        with pytest.raises(InputError, match=f"run/{name}.safetensors"):
            load(like)


@pytest.mark.parametrize(
    ("name", "value"), [("batch", -7), ("epoch", -1), ("step", -(2**31)), ("epoch", 9), ("theta/b/output", np.nan)]
)
def test_a_state_that_no_training_leads_to_is_refused(place: Path, like: Any, name: str, value: float) -> None:
    resigned(place / "run" / "checkpoint.safetensors", lambda a, _: a.update({name: np.full_like(a[name], value)}))
    with pytest.raises(InputError, match=r"run/checkpoint.safetensors (is no checkpoint|has weights)"):
        Run("run").load(like)


def test_weights_that_are_not_finite_are_refused(place: Path, like: Any) -> None:
    resigned(
        place / "run" / "weights.safetensors", lambda a, _: a.update({k: np.full_like(v, np.inf) for k, v in a.items()})
    )
    with pytest.raises(InputError, match="not finite"):
        Run("run").load_weights(like.theta)


@pytest.mark.parametrize(("kind", "width"), [("F8_E4M3", 1), ("F8_E5M2", 1), ("F8_E8M0", 1), ("F4", 0.5)])
def test_types_of_numbers_that_numpy_lacks_are_refused(tmp_path: Path, kind: str, width: float) -> None:
    (tmp_path / "c").write_bytes(raw(kind, width))
    with pytest.raises(
        InputError, match=f"c was not written by eqprop: 'a' has numbers of the type {kind}|InvalidHeader"
    ):
        checkpoint.read(tmp_path / "c")


def test_a_file_larger_than_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    size = 10**15
    header = {"a": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
    text = json.dumps(header | {"__metadata__": {NOTES: "{}", SUM: "0"}}).encode()
    with open(tmp_path / "c", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        try:
            file.truncate(8 + len(text) + size)  # a hole, which takes no room on disk
        except OSError:
            pytest.skip("files cannot be so long here")
    with pytest.raises(InputError, match=r"to read .*c would take 2 PB of memory"):
        checkpoint.read(tmp_path / "c")
    with pytest.raises(InputError, match="'W'"):  # and what is of another shape, before that
        checkpoint.load(tmp_path / "c", {"W": np.zeros(3)})


def test_texts_are_bounded_and_pipes_are_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b" " * 100)
    with pytest.raises(InputError, match="long has more than 99 B"):
        read_bytes(tmp_path / "long", 99)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is no file"):
        read_json(tmp_path / "pipe")
    with pytest.raises(InputError, match="cannot be read"):
        read_json(tmp_path)


def test_a_small_archive_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    monkeypatch.setattr("eqprop.data.packing.MOST_BYTES", 1000)
    with pytest.raises(Unavailable, match="more than 1 kB"):
        checked(gzip.compress(bytes(10**6)), "0", "bomb.gz")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unavailable, match="pipe is no file"):
        Folder(tmp_path).content("pipe")


# ---- estimators ----

X, Y = load_iris(return_X_y=True)
KINDS: list[tuple[str, Any]] = [("classifier", EqPropClassifier), ("regressor", EqPropRegressor)]


def change_value(name: str, value: Any) -> Callable[[Any, Any], None]:
    return lambda _, notes: notes["values"].update({name: value})


def change_array(name: str, value: Any) -> Callable[[Any, Any], None]:
    return lambda arrays, _: arrays.update({name: np.asarray(value)})


ESTIMATORS: dict[str, Callable[[Any, Any], Any]] = {
    "notes a list": lambda *_: "[]",
    "notes null": lambda *_: "null",
    "notes without keys": lambda *_: json.dumps({"estimator": "EqPropClassifier"}),
    "params a list": lambda _, notes: notes.update(params=[]),
    "an unknown parameter": lambda _, notes: notes["params"].update(evil=1),
    "a method in the place of a number": change_value("predict", "mine"),
    "its class": change_value("__class__", "mine"),
    "another shape": change_array("theta_/W/input-hidden", np.zeros((2, 5), np.float32)),
    "weights below weights": change_array("theta_/W/input-hidden/more", np.zeros(1)),
    "weights that are no table": lambda arrays, _: (arrays.clear(), arrays.update({"theta_": np.zeros(1)})),
    "weights that are missing": lambda arrays, _: arrays.pop("theta_/b/hidden"),
    "weights that are not finite": change_array("theta_/b/hidden", np.full(5, np.nan, np.float32)),
    "weights that are whole": change_array("theta_/b/hidden", np.zeros(5, int)),
    "a mean of another length": change_array("mean_", np.zeros(7)),
    "sizes as numbers": change_value("_sizes", 5),
    "sizes of none": change_value("_sizes", {"tuple": []}),
    "sizes beyond memory": change_value("_sizes", {"tuple": [4, 10**12, 3]}),
    "negative sizes": change_value("_sizes", {"tuple": [4, -5, 3]}),
    "an architecture that is not": change_value("_architecture", "ring"),
    "features of another number": change_value("n_features_in_", 7),
    "outputs a text": change_value("n_outputs_", "3"),
    "a table that is none": change_value("n_iter_", {"dict": 3}),
    "a list for a key": change_value("n_iter_", {"dict": [[[1], 2]]}),
}


@pytest.mark.parametrize("change", ESTIMATORS.values(), ids=ESTIMATORS)
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_a_fitted_estimator_is_whole_or_refused(
    place: Path, name: str, kind: Any, change: Callable[[Any, Any], Any]
) -> None:
    path = place / f"{name}.safetensors"
    resigned(path, change)
    with pytest.raises(InputError, match=f"{name}.safetensors"):
        kind.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda _, notes: notes["texts"].update(classes_=["U", ["a", "b"]]),
        lambda _, notes: notes["texts"].update(classes_=["U", ["a", "b", "b"]]),
        lambda _, notes: notes["texts"].update(classes_=["X", ["a", "b", "c"]]),
        lambda _, notes: notes["texts"].update(classes_=3),
        lambda _, notes: notes["texts"].update(classes_=["O", ["a", "b", {"c": 1}]]),
        change_value("temperature_", 0.0),
        change_value("temperature_", "warm"),
    ],
)
def test_the_classes_of_a_classifier_are_checked(place: Path, change: Callable[[Any, Any], Any]) -> None:
    resigned(place / "classifier.safetensors", change)
    with pytest.raises(InputError, match=r"classifier\.safetensors"):
        EqPropClassifier.load(place / "classifier.safetensors")


# ---- what earlier versions wrote ----


def test_an_old_run_is_evaluated_as_it_was(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads((place / "run" / "result.json").read_text())
    assert run("evaluate", "run", "--json") == 0
    now = json.loads(capsys.readouterr().out.splitlines()[-1])
    for name in ("train_error", "valid_error", "test_error"):
        # Version 0.1.0 had percent. One example may be on the edge of two classes.
        assert now[name] == pytest.approx(before[name] / 100, abs=0.006), name
    assert now["epochs"] == before["epochs"]


def test_an_old_run_goes_on(place: Path) -> None:
    assert run("train", "--resume", "run", "--epochs", "3") == 0
    assert [record["epoch"] for record in Run("run").read_history()] == [1, 2, 3]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_an_old_estimator_predicts_as_it_did(name: str, kind: Any) -> None:
    estimator = kind.load(OLD / f"{name}.safetensors")
    if name == "classifier":
        labels = np.array(["setosa", "versicolor", "virginica"])[Y]
        assert estimator.score(X, labels) == pytest.approx(0.6067, abs=0.01)
    else:
        assert estimator.score(X[:, :3], X[:, 3]) == pytest.approx(-10.1865, abs=0.01)


# ---- settings that do nothing ----

OTHER: dict[str, Any] = {"nudge": "random-sign", "beta": 0.31, "order": "both", "omega": 1.1, "epsilon": 0.3}
OTHER |= {"free_steps": 9, "nudged_steps": 9, "temperature": 0.3}


@pytest.mark.parametrize("method", METHODS)
def test_what_is_said_to_do_nothing_changes_no_rule(method: str) -> None:
    usual = preset("digits", method)
    for name in usual.idle.keys() & OTHER.keys():
        other = replace(usual, settling=replace(usual.settling, **{name: OTHER[name]}))
        rules = [repr(each.method.rule(each.phases)) for each in (usual, other)]
        assert rules[0] == rules[1], name
        assert other.to_dict() == usual.to_dict()
