"""`eqprop reproduce images`: what it trains, that it goes on where it was left, and what it writes."""

import json
import os
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from eqprop import InputError, data
from eqprop.cli.campaigns import asked_for
from eqprop.store import Run
from eqprop.study import preset
from eqprop.study.images import DATASETS, WAYS, ImageCampaign, ImageSet
from marks import slow_but
from tests.command import run

TINY = ["--datasets", "digits", "--train", "96", "--epochs", "2", "--narrow", "4"]


@pytest.mark.parametrize("dataset", DATASETS)
def test_all_ways_train_the_same_shape_on_the_same_views(dataset: Any) -> None:
    campaign = ImageCampaign((dataset,), epochs=7)
    trials = {trial.kind: trial.experiment for trial in campaign.trials()}
    assert trials.keys() == WAYS.keys()
    usual = preset(dataset, "equilibrium", "conv")
    learning = replace(usual.learning, epochs=7)
    assert trials["symmetric"] == replace(usual, learning=learning, settling=replace(usual.settling, nudge="symmetric"))
    for way, experiment in trials.items():
        assert experiment.images == usual.images
        assert experiment.network.hidden == usual.network.hidden
        for name in ("epochs", "batch_size", "optimizer", "schedule", "seed", "train"):
            assert getattr(experiment.learning, name) == getattr(learning, name)
        size = {"cifar10": (32, 32, 3)}.get(dataset, (28, 28, 1))
        _, trainer = experiment.assemble(size, 10)  # where a nudge that does not suit the energy is refused
        assert trainer.F.space.shapes == usual.layers(size, 10).shapes
        assert type(trainer.rule).__name__ == {
            "through-time": "BackpropagationThroughTime",
            "backpropagation": "Backpropagation",
        }.get(way, "EquilibriumPropagation")


@pytest.mark.parametrize("dataset", slow_but(get_args(ImageSet), "digits"))
@pytest.mark.slow
def test_the_free_phase_of_the_holomorphic_way_settles(dataset: Any) -> None:
    """With the weights that training begins with, on images that are mostly dark; and its steps are well below all."""
    outline, random = data.outline(dataset), np.random.default_rng(0)
    images = random.uniform(size=(8, prod(outline.shape))).astype(np.float32) ** 4
    few = data.Split(images, np.eye(10, dtype=np.float32)[:8])
    setup = ImageCampaign((dataset,)).experiment(dataset, "holomorphic").build(replace(outline, train=few))
    rule: Any = setup.trainer.rule
    x, _ = setup.train.v
    s, info = rule.free(setup.trainer.F, setup.state.theta, (x, None), 0.0, setup.net.rest(8))
    assert info.converged.all()
    assert info.steps.max() <= rule.free.steps / 2
    assert rule.free.tol < 0.01 * np.std(s["conv1"])


@pytest.mark.slow
@pytest.mark.parametrize("ways", [("symmetric", "backpropagation"), tuple(WAYS)], ids=len)
def test_it_writes_its_report_and_goes_on_where_it_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ways: tuple[str, ...]
) -> None:
    folder = tmp_path / "all"

    def stop(trial: Any, *_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("eqprop.study.images.ImageCampaign.examine", stop)
        assert run("reproduce", "images", *TINY, "--methods", *ways, "--run-dir", folder) == 130
    assert f"eqprop reproduce images --resume {folder}" in capsys.readouterr().err
    before = Run(folder / "digits-symmetric").read_history()
    assert run("reproduce", "images", "--resume", folder, "--json") == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [one["method"] for one in printed["runs"]] == list(ways)
    assert {one["net"] for one in printed["runs"]} == {"8x8x1-4-8-10-conv"}
    assert Run(folder / "digits-symmetric").read_history() == before  # its training was done
    text = (folder / "README.md").read_text()
    for words in (*(WAYS[way].title for way in ways), "hours on one GPU", "eqprop train cifar10 --net residual"):
        assert words in text
    assert (folder / "learning_curves.png").read_bytes()[:4] == b"\x89PNG"
    for option in (["--epochs", "9"], ["--short"], ["--methods", "holomorphic"]):
        assert run("reproduce", "images", "--resume", folder, *option) == 2
        assert f"{option[0]} with --resume" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_minutes_end_a_training_early(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    options = [*TINY, "--methods", "backpropagation", "--minutes", "0.00001", "--run-dir", folder]
    assert run("reproduce", "images", *options) == 0
    assert len(Run(folder / "digits-backpropagation").read_history()) == 1


@pytest.mark.slow
def test_the_short_form_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        for name in DATASETS:
            data.load(name)
    except InputError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"a data set cannot be had here: {error}")
    assert run("reproduce", "images", "--short", "--run-dir", tmp_path / "all", "--json") == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(printed["runs"]) == len(DATASETS) * len(WAYS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--datasets mnist mnist", "datasets=mnist mnist: name some, each once"),
        ("--methods symmetric symmetric", "methods=symmetric symmetric: name some, each once"),
        ("--narrow 0", "narrow=0"),
        ("--minutes -1", "minutes=-1"),
        ("--epochs 0", "epochs=0"),
        ("--resume nowhere", "nowhere is not the folder of `eqprop reproduce images`"),
        ("--data-dir . --datasets mnist fashion", "holds one data set"),
    ],
)
def test_bad_input_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("reproduce", "images", *options.split()) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []  # nothing was begun


def test_a_campaign_that_goes_on_keeps_its_settings(tmp_path: Path) -> None:
    begun = ImageCampaign(datasets=("digits",), methods=("symmetric",), epochs=2)
    begun.save(tmp_path, ["eqprop reproduce images"])
    kept, commands = asked_for(ImageCampaign, {"epochs": 2, "minutes": 3.0}, False, tmp_path, free={"minutes"})
    assert kept == replace(begun, minutes=3.0)
    assert commands[0] == "eqprop reproduce images" and len(commands) == 2
    for asked, short, odd in (({"epochs": 3}, False, "--epochs"), ({"epochs": 2}, True, "--short")):
        with pytest.raises(InputError, match=f"{odd} with --resume, but .* has its own settings"):
            asked_for(ImageCampaign, asked, short, tmp_path, free={"minutes"})
