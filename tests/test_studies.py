"""The studies of section 5: what they train and predict, what they say, and that they go on where they were left."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ttest_rel

import eqprop as ep
from eqprop import data
from eqprop.errors import InputError
from eqprop.study import Study, circuits, depth, epsilon, layers, memory, rates, sign
from eqprop.study.pages import paragraph
from eqprop.study.paper import PUBLISHED, as_published
from tests.command import run

RNG = np.random.default_rng(0)
TINY: dict[str, Any] = {
    "epsilon": epsilon.Question(epochs=2, train=40, valid=50, seeds=2, steps=(1.0, 0.5), durations=(1.0,)),
    "sign": sign.Question(epochs=2, train=40, valid=50, seeds=2),
    "layers": layers.Question(blocks=2, width=8, epochs=2, train=200, rates=(0.002,)),
    "depth": depth.Question((1, 2), width=8, seeds=1, images=5, epochs=1, train=40, valid=50),
}


@pytest.fixture
def digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits in place of MNIST, which needs fetching: their pixels, and others that are dark; and a small network."""
    small = data.load("digits")

    def widened(split: data.Split) -> data.Split:
        return replace(split, x=np.pad(split.x, ((0, 0), (0, 784 - 64))))

    parts = {part: widened(getattr(small, part)) for part in ("train", "valid", "test")}
    monkeypatch.setattr(data, "load", lambda *_: replace(small, shape=(28, 28), **parts))
    beta, row = PUBLISHED[1]
    monkeypatch.setitem(PUBLISHED, 1, (beta, replace(row, hidden=(8,))))


# ---- what is trained ----


@pytest.mark.parametrize(("step", "free", "nudged"), [(1.0, 10, 2), (0.5, 20, 4), (0.25, 40, 8), (0.125, 80, 16)])
def test_iterations_follow_the_step_size(step: float, free: int, nudged: int) -> None:
    experiment = epsilon.Question().experiment(step, 1.0, 0)
    rule: Any = experiment.assemble(784, 10)[1].rule
    for phase, steps in ((rule.free, free), (rule.nudged, nudged)):
        assert (phase.steps, phase.epsilon) == (steps, step)
    settings = as_published("1").experiment.settling
    assert replace(experiment.settling, epsilon=0.5, free_steps=20, nudged_steps=4) == settings


def test_durations_are_multiples_of_the_papers() -> None:
    settling = as_published("1").experiment.settling
    found = [epsilon.at(settling, 0.5, duration) for duration in (0.25, 0.5, 1.0, 2.0)]
    assert [(one.free_steps, one.nudged_steps) for one in found] == [(5, 1), (10, 2), (20, 4), (40, 8)]


def test_the_signs_differ_in_nothing_but_the_nudge() -> None:
    question = sign.Question()
    random, fixed = (question.experiment(name, 3) for name in sign.SIGNS)
    assert replace(random, settling=replace(random.settling, nudge="one-sided")) == fixed
    rules: Any = [experiment.assemble(784, 10)[1].rule for experiment in (random, fixed)]
    nudges = [rule.nudge for rule in rules]
    assert [(type(nudge).__name__, nudge.beta) for nudge in nudges] == [("RandomSign", 1.0), ("OneSided", 1.0)]


@pytest.mark.parametrize("kind", [circuits, depth, epsilon, layers, memory, rates], ids=lambda kind: kind.__name__)
def test_a_study_of_nothing_is_refused(kind: Any) -> None:
    """All lists among its settings at once, and each alone."""
    lists = {
        field.name: () for field in fields(kind.Question) if isinstance(getattr(kind.Question(), field.name), tuple)
    }
    for nothing in (lists, *({name: ()} for name in lists)):
        with pytest.raises(
            InputError, match=r"name some|give (at least )?one|give numbers of hidden layers|belong to them"
        ):
            kind.Question(**nothing)


# ---- iterations, predicted ----


def spectrum(*values: float) -> np.ndarray:
    """A symmetric matrix with these eigenvalues."""
    turn, _ = np.linalg.qr(RNG.normal(size=(len(values), len(values))))
    return turn @ np.diag(values) @ turn.T


def test_the_slowest_mode_sets_the_pace() -> None:
    assert depth.slowest_mode(np.array([0.1, 1.0]), 0.5, 0.95**37) == pytest.approx(37)
    assert depth.slowest_mode(np.array([1.0, 3.8]), 0.5, 0.9**37) == pytest.approx(37)  # overshoots: 1 − ε λ = −0.9
    assert depth.slowest_mode(np.array([0.1, 4.1]), 0.5, 1e-4) == np.inf
    assert depth.slowest_mode(np.array([-0.1]), 0.5, 1e-4) == np.inf
    assert depth.slowest_mode(np.array([2.0]), 0.5, 1e-4) == 1
    assert depth.slowest_mode(np.array([]), 0.5, 1e-4) == 1
    assert depth.slowest_mode(np.array([0.1]), 0.5, 2.0) == 0


@pytest.mark.parametrize("values", [(0.03, 0.4, 1.0), (0.2, 0.9, 1.7), (0.5, 1.0, 3.4), (1.0, 1.0, 1.0)])
def test_all_modes_predict_each_step_of_a_quadratic(values: tuple[float, ...]) -> None:
    H, e = spectrum(*values), RNG.normal(size=3)
    found = depth.all_modes(*np.linalg.eigh(H), e, 0.5, 1e-4, 10_000)
    steps = 0
    while np.abs(H @ e).max() > 1e-4:
        e, steps = e - 0.5 * H @ e, steps + 1
    assert found == steps > 3


def test_all_modes_know_when_nothing_or_too_much_is_left() -> None:
    values, vectors = np.linalg.eigh(spectrum(0.5, 1.0))
    assert depth.all_modes(values, vectors, np.zeros(2), 0.5, 1e-4, 100) == 0
    assert depth.all_modes(values, vectors, 1e9 * np.ones(2), 0.5, 1e-4, 100) > 50
    assert depth.all_modes(values, vectors, 1e99 * np.ones(2), 0.5, 1e-4, 100) == 100
    assert depth.all_modes(np.array([]), np.zeros((0, 0)), np.array([]), 0.5, 1e-4, 100) == 0


@pytest.mark.usefixtures("x64")
def test_without_a_box_what_is_measured_is_what_all_modes_predict() -> None:
    H = jnp.asarray(spectrum(0.05, 0.3, 0.6, 1.2))

    def F(theta: Any, v: Any, beta: Any, s: Any) -> Any:
        return s @ H @ s / 2 - v @ s

    v = jnp.asarray(RNG.normal(size=(6, 4)))
    found = depth.iterations(F, 0.0, v, jnp.zeros((6, 4)), epsilon=0.5, tol=1e-4, most=5000)
    assert found[depth.MEASURED] == found[depth.MODES]
    assert found[depth.FOUND] == [0] * 6
    assert found["unsettled"] == 0
    np.testing.assert_allclose(found["lowest"], 0.05)
    bound = np.log(1e-4 / np.abs(v).max(axis=1)) / np.log(1 - 0.5 * 0.05)
    np.testing.assert_allclose(found[depth.SLOWEST], bound, atol=0.06)
    assert depth.iterations(F, 0.0, v, jnp.zeros((6, 4)), epsilon=0.5, tol=1e-4, most=20)["unsettled"] == 6


@pytest.mark.usefixtures("x64")
@pytest.mark.slow
def test_iterations_in_a_box_are_those_of_plain_numpy() -> None:
    net = ep.Hopfield.layered(6, 5, 4)
    theta = jax.tree.map(lambda w: 2 * w.astype(float), net.init(jax.random.key(1), 1.0))
    x = RNG.uniform(size=(4, 6))
    F = ep.Total(net, ep.SquaredError())
    found = depth.iterations(F, theta, (jnp.asarray(x), None), net.rest(4), epsilon=0.5, tol=1e-4, most=5000)
    W = np.zeros((9, 9))
    W[:5, 5:] = theta["W"]["hidden-output"]
    W += W.T
    for k, drive in enumerate(x @ np.asarray(theta["W"]["input-hidden"])):
        path = [np.zeros(9)]
        fields = [np.pad(drive, (0, 4))]
        for _ in range(4000):
            path.append(np.clip(path[-1] + 0.5 * (fields[-1] - path[-1]), 0, 1))
            fields.append(np.pad(drive, (0, 4)) + W @ path[-1])
        residuals = [np.abs(s - np.clip(field, 0, 1)).max() for s, field in zip(path, fields, strict=True)]
        steps = next(n for n, residual in enumerate(residuals) if residual <= 1e-4)
        sets = [(s > 0) & (s < 1) for s in path]
        assert found[depth.MEASURED][k] == steps
        assert found[depth.FOUND][k] == max(n + 1 for n in range(steps) if (sets[n] != sets[-1]).any())
        here = sets[-1]
        lowest = np.linalg.eigvalsh((np.eye(9) - W)[np.ix_(here, here)]).min()
        assert found["lowest"][k] == pytest.approx(lowest)
        assert found["inside"][k] == pytest.approx(here.mean())
    assert min(found["inside"]) < 1  # some units do end at an end of the box


# ---- what is said ----


def signed(random: list[float], fixed: list[float]) -> list[dict[str, Any]]:
    """Entries of several seeds, in another order than they are asked for."""
    entries = []
    for name, values in zip(sign.SIGNS, (random, fixed), strict=True):
        for seed, value in reversed(list(enumerate(values))):
            end = {"train": 0.3 * value}
            entries.append({"run": [name, seed], "train": [9.0, 0.0], "valid": [9.0, value], "end": end})
    return entries


def test_the_difference_between_the_signs_is_paired() -> None:
    random, fixed = [5.0, 6.0, 7.0, 8.0], [5.3, 6.1, 7.4, 8.2]
    gap, error = sign.difference(signed(random, fixed), "validation error")
    assert gap == pytest.approx(0.25)
    assert gap / error == pytest.approx(ttest_rel(fixed, random).statistic)


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ([5.3, 6.1, 7.4], "**It does: with the random sign the validation error ends at 6.00 %"),
        ([4.7, 5.9, 6.6], "**It does the opposite: "),
        ([5.3, 5.9, 7.1], "**No difference is seen: "),
    ],
)
def test_the_sentence_about_the_sign_is_what_the_numbers_say(fixed: list[float], words: str) -> None:
    said = sign.Question(seeds=3).sentence(signed([5.0, 6.0, 7.0], fixed))
    assert said.startswith(words)
    assert f"of 1.80 and {sum(fixed) / 10:.2f} % at the fixed points" in said


@pytest.mark.parametrize(("longer", "words"), [(9.0, "as the paper says"), (5.1, "against what the paper says")])
def test_the_sentence_about_the_step_size_is_what_the_numbers_say(longer: float, words: str) -> None:
    question = epsilon.Question(seeds=2, steps=(1.0, 0.5, 0.25), durations=(1.0, 2.0))
    errors = {(1.0, 1.0): 80.0, (0.5, 1.0): 5.0, (0.25, 1.0): 5.5, (0.5, 2.0): longer}
    entries = [{"run": list(run), "valid": [50.0, errors[run[:2]] + 0.1 * run[2]]} for run in question.runs()]
    said = question.sentence(entries)
    assert words in said
    assert "0.50 points, from 5.05 to 5.55 %" in said
    assert "At ε = 1, outside the range that the paper speaks of, it is 80.05 %" in said


# ---- carrying out ----


@pytest.mark.slow
@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize("name", TINY)
def test_a_study_goes_on_where_it_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    question: Study = TINY[name]
    whole, folder = tmp_path / "whole", tmp_path / "some"
    monkeypatch.setattr(type(question), "short", vars(question))
    assert run("reproduce", name, "--short", "--run-dir", whole, "--json") == 0
    entries = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert [tuple(entry["run"]) for entry in entries] == list(question.runs())
    folder.mkdir()
    path = folder / f"{name}.json"
    question.save(path, [], ["eqprop"])

    def stop(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        question.answer(path, data.load(question.dataset), observe=stop)
    assert len(question.load(path)[1]) == 2
    assert run("reproduce", name, "--resume", folder) == 0
    assert question.load(path)[1] == entries
    text = (folder / "README.md").read_text()
    assert f"]({name}.png)" in text
    assert "`eqprop`, `eqprop" in text.splitlines()[-1]  # all commands that led to it
    assert paragraph(TINY[name].sentence(entries)) in text
    assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    assert run("reproduce", name, "--resume", folder, "--short") == 2
    assert "--short with --resume" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (epsilon.Question, {"seeds": 0}, "seeds=0"),
        (epsilon.Question, {"steps": (1.0,)}, "steps="),
        (sign.Question, {"seeds": 1}, "two seeds or more"),
        (sign.Question, {"epochs": 0}, "epochs=0"),
        (depth.Question, {"depths": (0, 1)}, "depths="),
        (depth.Question, {"images": 0}, "images=0"),
    ],
)
def test_bad_settings_are_refused(kind: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        kind(**settings)
