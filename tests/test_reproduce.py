"""`eqprop reproduce`: what it trains, that it goes on where it was left, and what it writes."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqprop import data
from eqprop.errors import InputError
from eqprop.store import Run
from eqprop.study import paper, rates, reproduction_page
from eqprop.study.accelerated import _share, forms_of
from eqprop.study.paper import NETS, Net, as_published, as_written, fast, time_of_a_sweep
from eqprop.study.reproduction import Reproduction
from eqprop.train import InOrder
from marks import slow
from tests.command import run

# A network on scikit-learn's digits, which need no fetching.
DIGITS = """
import sys
from eqprop.study.paper import NETS
NETS["1"] = ("digits", 1)
from eqprop.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETS, "1", ("digits", 1))


@pytest.mark.parametrize(
    ("net", "sizes", "iterations", "rates"),
    [
        ("1", (784, 500, 10), (20, 4), (0.1, 0.05)),
        ("2", (784, 500, 500, 10), (100, 6), (0.4, 0.1, 0.01)),
        ("3", (784, 500, 500, 500, 10), (500, 8), (0.128, 0.032, 0.008, 0.002)),
    ],
)
def test_as_written_is_what_the_paper_says(net: Any, sizes: Any, iterations: Any, rates: Any) -> None:
    experiment = as_written(net).experiment
    parts: Any = experiment.assemble(784, 10, batches=2500)
    built, trainer = parts
    assert tuple(built.sizes.values()) == sizes
    assert (trainer.rule.free.steps, trainer.rule.nudged.steps) == iterations
    assert trainer.rule.free.epsilon == trainer.rule.nudged.epsilon == 0.5
    theta: Any = jax.tree.map(jnp.ones_like, built.init(jax.random.key(0)))
    optimizer = trainer.optimizer.init(theta)
    for count in (0, 2500, 100_000):  # the rates do not decay
        later = jax.tree.map(lambda leaf, n=count: jnp.full_like(leaf, n) if leaf.dtype == int else leaf, optimizer)
        updates, _ = trainer.optimizer.update(theta, later, theta)
        found = [-updates["W"][synapse.name].max() for synapse in built.synapses]
        assert np.allclose(found, rates, rtol=1e-6)
    assert type(trainer.rule.nudge).__name__ == "RandomSign"
    assert (trainer.rule.nudge.beta, experiment.learning.batch_size, trainer.persistent) == (1.0, 20, True)
    assert (built.rho["output"].name, experiment.network.gain) == ("hard_sigmoid", 1.0)


@pytest.mark.parametrize(
    ("net", "iterations", "beta", "rates", "epochs"),
    [
        ("1", (20, 4), 0.5, (0.1, 0.05), 25),
        ("2", (150, 6), 1.0, (0.4, 0.1, 0.01), 60),
        ("3", (500, 8), 1.0, (0.128, 0.032, 0.008, 0.002), 500),
    ],
)
def test_as_published_is_the_authors_settings_in_the_papers_terms(
    net: Any, iterations: Any, beta: float, rates: Any, epochs: int
) -> None:
    """Their β and rates, as their code has them, count twice: its cost lacks the ½."""
    experiment = as_published(net).experiment
    settling, learning = experiment.settling, experiment.learning
    assert (settling.free_steps, settling.nudged_steps) == iterations
    assert settling.beta == 2 * beta
    assert learning.learning_rate == pytest.approx([2 * rate for rate in rates])
    assert (learning.epochs, learning.batch_size, learning.shuffle, learning.decay) == (epochs, 20, False, 1.0)
    assert (settling.nudge, settling.epsilon, settling.persistent) == ("random-sign", 0.5, True)
    assert experiment.network == as_written(net).experiment.network


@pytest.mark.parametrize(("net", "beta", "rates"), [("1", 0.5, (0.1, 0.05)), slow("2", 1.0, (0.4, 0.1, 0.01))])
def test_as_published_is_what_the_code_of_the_authors_does(
    monkeypatch: pytest.MonkeyPatch, net: Any, beta: float, rates: Any
) -> None:
    """In NumPy and in their terms: ‖y − d‖² as the cost, β and rates as they write them, minibatches in order."""
    monkeypatch.setitem(NETS, net, ("digits", NETS[net][1]))
    experiment, digits = as_published(net).experiment, data.load("digits")
    setup: Any = experiment.build(digits)
    trainer, state, network = setup.trainer, setup.state, setup.net
    names = {"W": [synapse.name for synapse in network.synapses], "b": list(network.free)}
    W, b = ([np.asarray(state.theta[k][name], float) for name in names[k]] for k in ("W", "b"))
    steps = {"1": (20, 4), "2": (150, 6)}[net]
    s = [np.zeros((40, len(bias))) for bias in b]
    for batch in range(2):
        sign = np.sign(trainer.rule.nudge(_nudge_key(state, batch))[0][1])
        x, y = (a[20 * batch : 20 * (batch + 1)] for a in digits.train.v)
        free = _clipped_steps(W, b, x, y, [u[20 * batch : 20 * (batch + 1)] for u in s], 0.0, steps[0])
        nudged = _clipped_steps(W, b, x, y, free, float(sign) * beta, steps[1])
        for k, rate in enumerate(rates):
            below = [x if k == 0 else layers[k - 1] for layers in (nudged, free)]
            contrast = (below[0].T @ nudged[k] - below[1].T @ free[k]) / (20 * sign * beta)
            W[k] = W[k] + rate * contrast
            b[k] = b[k] + rate * (nudged[k] - free[k]).mean(0) / (sign * beta)
    assert isinstance(setup.feed, InOrder)
    state = trainer.advance(state, setup.feed, 2)
    for k, theirs in (("W", W), ("b", b)):
        for name, values in zip(names[k], theirs, strict=True):
            np.testing.assert_allclose(state.theta[k][name], values, atol=1e-5)


def _nudge_key(state: Any, batch: int) -> Any:
    """The key that the rule hears in a minibatch of the first epoch."""
    return jax.random.fold_in(jax.random.split(jax.random.fold_in(state.key, 0))[1], batch)


def _clipped_steps(W: Any, b: Any, x: Any, y: Any, s: Any, beta: float, steps: int) -> Any:
    """s ← Π(s + ½ (−s + W s_before + Wᵀ s_after + b − 2 β (s − y) at the output)), all layers at once."""
    s = list(s)
    for _ in range(steps):
        fields = []
        for k in range(len(s)):
            field = (x if k == 0 else s[k - 1]) @ W[k] + b[k] - s[k]
            field = field + (s[k + 1] @ W[k + 1].T if k + 1 < len(s) else -2 * beta * (s[k] - y))
            fields.append(field)
        s = [np.clip(u + 0.5 * field, 0, 1) for u, field in zip(s, fields, strict=True)]
    return s


def test_the_accelerated_form_differs_in_the_free_phase_only() -> None:
    nets: Any = (("2", "2-accelerated"), ("3", "3-accelerated"))
    for net, accelerated in nets:
        slow, quick = as_published(net).experiment, as_published(accelerated).experiment
        assert (slow.network, slow.learning, slow.cost) == (quick.network, quick.learning, quick.cost)
        rules: Any = [experiment.assemble(784, 10)[1].rule for experiment in (slow, quick)]
        assert rules[0].nudged == rules[1].nudged
        assert rules[0].nudge == rules[1].nudge
        assert rules[0].free != rules[1].free


@pytest.mark.parametrize("omega", [1.0, 1.2, 1.5])
def test_a_sweep_takes_slow_modes_as_far_as_the_paper_does_in_its_time(omega: float) -> None:
    sizes = (4, 7, 5, 3)
    starts = np.cumsum((0, *sizes))
    couplings = np.zeros((sum(sizes), sum(sizes)))
    layers = [slice(a, b) for a, b in pairwise(starts)]
    for pre, post in pairwise(layers):
        couplings[pre, post] = np.random.default_rng(0).normal(size=(pre.stop - pre.start, post.stop - post.start))
    couplings += couplings.T
    couplings *= (1 - 1e-4) / np.linalg.eigvalsh(couplings)[-1]
    hessian = np.eye(len(couplings)) - couplings
    sweep = np.eye(len(hessian))
    for layer in layers:  # s ← s − ω ∂E/∂s, layer by layer
        sweep[layer] -= omega * hessian[layer] @ sweep
    slowest, rate = np.linalg.eigvalsh(hessian)[0], -np.log(np.abs(np.linalg.eigvals(sweep)).max())
    assert rate / slowest == pytest.approx(time_of_a_sweep(omega), rel=2e-3)


def test_the_accelerated_free_phase_takes_as_long_as_the_published_one() -> None:
    nets: tuple[tuple[Net, int], ...] = (("2-accelerated", 25), ("3-accelerated", 83))
    for net, sweeps in nets:
        settling = as_published(net).experiment.settling
        assert (settling.relaxation, settling.free_steps, settling.tol) == ("block", sweeps, None)


def test_the_fast_recipe_trains_the_same_networks() -> None:
    for net in ("1", "2", "3", "fashion"):
        quick, slow = fast(net).experiment, as_written(net).experiment
        assert (quick.dataset, quick.network.hidden) == (slow.dataset, slow.network.hidden)


@pytest.mark.parametrize(
    ("options", "count"),
    [("1", 3), ("2", 1), ("2 --seeds 2", 2), ("1 2-accelerated", 4), ("3-accelerated 1", 2), ("1 --short", 1)],
)
def test_several_seeds_are_of_the_first_network_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, count: int
) -> None:
    found: list[Reproduction] = []

    def keep(campaign: Reproduction, *_: Any) -> tuple[Path, list[Any]]:
        found.append(campaign)
        return tmp_path, []

    monkeypatch.setattr("eqprop.cli.reproduce.carry_out", keep)
    assert run("reproduce", "as-published", "--nets", *options.split(), "--run-dir", tmp_path / "all", "--json") == 0
    assert len(found[0].trials()) == count


def test_only_as_published_has_accelerated_networks() -> None:
    with pytest.raises(InputError, match="nets=2-accelerated"):
        Reproduction("fast", ("2-accelerated",))


def test_a_shorter_campaign_says_what_it_used() -> None:
    short = Reproduction("fast", ("1",), epochs=4, train=10_000, valid=2_000)
    said = "Not the full experiments: 4 epochs, 10,000 images to train on, 2,000 for validation."
    assert reproduction_page.shortened(short) == [said]
    assert not reproduction_page.shortened(Reproduction("fast"))


def test_seeds_count_from_the_first() -> None:
    trials = Reproduction("as-published", ("2", "3-accelerated"), seed=3, seeds=2).trials()
    names = ["mnist-2-hidden-seed3", "mnist-2-hidden-seed4", "mnist-3-hidden-accelerated-seed3"]
    assert [trial.name for trial in trials] == names
    assert [trial.experiment.learning.seed for trial in trials] == [3, 4, 3]


def test_a_seed_with_a_dead_output_is_given_up_for_the_next(tmp_path: Path) -> None:
    campaign = Reproduction("as-published", ("2",))
    first, second = (replace(as_published("2", seed), name=f"mnist-2-hidden-seed{seed}") for seed in (0, 1))
    assert campaign.trials(tmp_path) == [first]
    dead = [{"valid_error": 0.19}, {"valid_error": 0.17}]
    assert [campaign.hopeless(first, dead[:n]) for n in (0, 1, 2)] == [False, False, True]
    assert not campaign.hopeless(first, [{"valid_error": 0.19}, {"valid_error": 0.08}])
    for other in (Reproduction("as-published", ("2",), train=1000), Reproduction("as-written", ("2",))):
        assert not other.hopeless(first, dead)
    run_ = Run.create(tmp_path / first.name, first.experiment.to_dict())
    run_.write_history(dead)
    (run_.folder / "checkpoint.safetensors").touch()
    assert campaign.trials(tmp_path) == [second]
    assert campaign.given_up(tmp_path) == [first]
    assert reproduction_page.given_up(first, tmp_path) == "mnist-2-hidden-seed0 19.0, 17.0 %"


def test_time_is_up_when_another_epoch_would_not_fit_in() -> None:
    campaign = Reproduction("fast", minutes=1.0)
    epochs = [{"seconds": 15.0, "valid_seconds": 5.0}] * 3
    assert [campaign.time_is_up(epochs[:n]) for n in range(4)] == [False, False, False, True]
    assert not Reproduction("fast").time_is_up(epochs)


@pytest.mark.slow
@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize("mode", ["fast", slow("as-written"), slow("as-published")])
def test_a_campaign_writes_its_report_and_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    folder = tmp_path / "all"
    options = ["--nets", "1", "--epochs", "2", "--train", "200", "--valid", "100", "--run-dir", folder]
    count = {"fast": 2, "as-published": 1, "as-written": None}[mode]
    seeds = ["--seeds", count] if count else []
    assert run("reproduce", mode, *options, *seeds, "--json") == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [one["net"] for one in printed["runs"]] == ["64-500-10"] * (count or 1)
    text = (folder / "README.md").read_text()
    for part in ("digits, 64-500-10", "paper's epochs", "wall clock", "cosine"):
        assert part in text
    assert "Not the full experiments: 2 epochs, 200 images" in text
    assert ("2 seeds" in text) == (count == 2)
    assert ("what its authors' code does" in text) == (mode == "as-published")
    assert ("What the paper leaves open" in text) == (mode == "as-written")
    for name in ("learning_curves", "weight_changes"):
        assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert f"]({name}.png)" in text
    history = Run(folder / "digits-1-hidden-seed0").read_history()
    assert {"change W/input-hidden", "change W/hidden-output"} <= history[-1].keys()
    found = json.loads((folder / "digits-1-hidden-seed0" / "diagnosis.json").read_text())
    assert found["start"].keys() == found["end"].keys() == {"residual", "at_0", "at_1", "dead", "cosine", "norm"}


@pytest.mark.usefixtures("digits")
@pytest.mark.slow
def test_a_finished_campaign_goes_on_to_more_epochs_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "all"
    options = ["--nets", "1", "--seeds", "1", "--train", "200", "--valid", "100"]
    assert run("reproduce", "fast", *options, "--epochs", "1", "--run-dir", folder) == 0
    before = Run(folder / "digits-1-hidden-seed0").read_history()
    assert run("reproduce", "fast", "--resume", folder) == 0
    assert Run(folder / "digits-1-hidden-seed0").read_history() == before
    assert run("reproduce", "fast", "--resume", folder, "--epochs", "2") == 0
    after = Run(folder / "digits-1-hidden-seed0").read_history()
    assert (after[:1], len(after)) == (before, 2)
    capsys.readouterr()
    for option in (["--train", "50"], ["--nets", "1", "2"], ["--seeds", "3"], ["--short"]):
        assert run("reproduce", "fast", "--resume", folder, *option) == 2
        assert f"{option[0]} with --resume" in capsys.readouterr().err
    assert run("reproduce", "fast", "--resume", folder, "--epochs", "1") == 2
    assert "has already done 2" in capsys.readouterr().err
    assert run("reproduce", "as-written", "--resume", folder) == 2
    assert "eqprop reproduce fast" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("digits")
def test_a_campaign_that_is_killed_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    options = ["--nets", "1", "--seeds", "2", "--train", "200", "--valid", "100", "--epochs", "2", "--run-dir"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run("reproduce", "fast", *options, whole) == 0
    command = [sys.executable, "-c", DIGITS, "reproduce", "fast", *options, str(killed)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    second = killed / "digits-1-hidden-seed1" / "config.json"
    while not second.exists() and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert run("reproduce", "fast", "--resume", killed) == 0
    for name in ("digits-1-hidden-seed0", "digits-1-hidden-seed1"):
        one, two = (Run(folder / name).read_history() for folder in (whole, killed))
        times = {"seconds", "valid_seconds"}
        assert [{k: v for k, v in r.items() if k not in times} for r in one] == [
            {k: v for k, v in r.items() if k not in times} for r in two
        ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("fast --nets 1 1", "name some, each once"),
        ("fast --seeds 0", "seeds=0"),
        ("fast --nets 2-accelerated", "invalid choice"),
        ("fast --minutes -1", "minutes=-1"),
        ("fast --epochs 0", "epochs=0"),
        ("fast --valid 0", "valid=0"),
        ("fast --resume nowhere", "nowhere is not the folder of `eqprop reproduce`"),
        ("fast --data-dir . --nets 1 fashion", "holds one data set"),
        ("rates --resume nowhere", "nowhere is not the folder of `eqprop reproduce rates`"),
        ("rates --resume . --run-dir x", "exclude each other"),
        ("accelerated", "no runs: name with --runs"),
        ("accelerated --runs nowhere", "nowhere is not the folder of a run"),
    ],
)
def test_bad_input_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("reproduce", *options.split()) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []  # nothing was begun


@pytest.mark.slow
def test_the_question_of_the_rates_is_answered_and_goes_on_where_it_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = data.load("digits")
    wide = np.zeros((len(small.train), 784), np.float32)
    wide[:, :64] = small.train.x
    monkeypatch.setattr(
        rates.data,
        "load",
        lambda *_: replace(
            small, shape=(28, 28), train=replace(small.train, x=wide), valid=replace(small.train, x=wide)[:50]
        ),
    )
    monkeypatch.setattr(rates, "NUDGES", dict(list(rates.NUDGES.items())[1:]))
    monkeypatch.setattr(rates, "SCALES", {"one rate": (0.05, 1e9), "the paper's rates": (1.0,)})
    question = rates.Question(hidden=1, epochs=1, train=60, valid=50, residuals=(1e-1, 1e-4))
    path, examples = tmp_path / "rates.json", data.load(question.dataset)
    question.save(path, [], ["eqprop reproduce rates"])
    counts: list[int] = []

    def stop(done: int, _: int) -> None:
        counts.append(done)
        if len(counts) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        question.answer(path, examples, observe=stop)
    entries = question.answer(path, examples, observe=lambda done, _: counts.append(done))
    assert counts == [0, 1, 2, 3, 3, 4, 5, 6]
    assert rates.Question.load(path)[:2] == (question, entries)
    with pytest.raises(InputError, match="another question"):
        replace(question, epochs=2).answer(path, examples)
    found: Any = [rates.best(entries, nudge, r, "one rate") for nudge in rates.NUDGES for r in question.residuals]
    assert all(entry["run"][3] == 0.05 for entry in found)
    assert all(entry["residual"] <= entry["run"][1] for entry in found)
    assert min(found[-1]["cosine"].values()) > 0.85
    question.write(entries, tmp_path, ["eqprop reproduce rates"])
    assert (tmp_path / "rates.png").exists()
    assert "learning rate of its own" in (tmp_path / "README.md").read_text()


@pytest.mark.slow
def test_two_forms_that_are_the_same_are_found_to_be_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for net in ("2", "2-accelerated"):
        monkeypatch.setitem(NETS, net, ("digits", 2))
    small = data.load("digits")
    monkeypatch.setattr(data, "load", lambda *_: small)
    monkeypatch.setattr(paper, "accelerated", lambda settling: settling)
    experiment = as_published("2").experiment
    experiment = replace(experiment, learning=replace(experiment.learning, train=100))
    folder, out = tmp_path / "run", tmp_path / "out"
    Run.create(folder, experiment.to_dict()).save(experiment.build(small).state, [], 0.0)
    assert run("reproduce", "accelerated", "--runs", folder, "--batches", "3", "--run-dir", out, "--json") == 0
    (found,) = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert (found["net"], found["epochs"], found["batches"]) == ("2", 0, 3)
    assert found["residuals"]["published"] == found["residuals"]["accelerated"]
    assert np.shape(found["residuals"]["published"]) == (3, 20)
    for values in found["cosine"]["accelerated and published"].values():
        np.testing.assert_allclose(values, [1.0] * 3, rtol=1e-12)
    assert np.max(found["residuals"]["longer"]) < np.max(found["residuals"]["published"])
    assert min(map(min, found["cosine"]["longer and published"].values())) < 1 - 1e-6
    assert "the accelerated form is" in (out / "README.md").read_text()
    assert (out / "accelerated.png").exists()
    assert run("reproduce", "accelerated", "--runs", folder, "--batches", "6", "--run-dir", tmp_path / "more") == 2
    assert "batches=6: only 5 are left" in capsys.readouterr().err
    assert run("reproduce", "accelerated", "--resume", out, "--runs", tmp_path) == 2
    assert "--runs with --resume" in capsys.readouterr().err
    # A run that holds out other examples than is usual.
    experiment = replace(experiment, learning=replace(experiment.learning, valid=30))
    Run.create(tmp_path / "held", experiment.to_dict()).save(experiment.build(small.hold_out(30)).state, [], 0.0)
    assert forms_of(tmp_path / "held", small, 3).state.particles["output"].shape == (60, 10)


def test_a_share_is_all_of_them_only_if_it_is() -> None:
    alike = np.ones(600)
    assert _share(alike) == "100%"
    alike[0] = -0.01
    assert _share(alike) == "> 99%"
    assert _share(np.array([1.0, 0.98])) == "50%"
