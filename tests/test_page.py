"""The live page, without a browser: what a session answers is what the library computes."""

import json
import struct
import sys
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqprop as ep
from eqprop.page import Scene, Session, running, scene_of, scene_of_data
from eqprop.page.messages import Reply, Request, parse
from marks import slow_but

NET = ep.Hopfield.layered(64, 16, 10)
F = ep.Total(NET, ep.SquaredError())
THETA = NET.init(jax.random.key(0))
DATA = ep.data.load("digits")
V = DATA.test.v


@pytest.fixture(scope="module")
def scene() -> Scene:
    return scene_of(F, THETA, V, shape=(8, 8), title="digits, 64-16-10")


@pytest.fixture
def session(scene: Scene) -> Session:
    return Session(scene)


def ask(session: Session, kind: str, **fields: Any) -> Reply:
    reply = session.answer(Request({"kind": kind, "id": 7, **fields}))
    assert "error" not in reply.words, reply.words
    assert reply.words["id"] == 7
    return reply


def side(relaxation: str, nudge: str = "symmetric", beta: float = 0.5) -> dict[str, Any]:
    return {"relaxation": relaxation, "nudge": nudge, "beta": beta}


def one(row: int, label: int) -> tuple[Any, Any]:
    return V[0][row : row + 1], np.eye(10, dtype=np.float32)[label : label + 1]


WAYS = {
    "block": (ep.Block(60), ep.Block(60, order="backward")),
    "accelerated": (ep.Block(60, accelerate=True), ep.Block(60, accelerate=True, order="backward")),
    "gradient": (ep.Gradient(200), ep.Gradient(200)),
}


@pytest.mark.parametrize("name", slow_but(WAYS, "block", "gradient"))
def test_frames_are_those_of_trace(session: Session, name: str) -> None:
    reply = ask(session, "settle", input={"example": 3}, target=5, sides=[side(name, beta=0.25)])
    free, pulled, pushed = reply.words["sides"][0]["phases"]
    assert [phase["beta"] for phase in (free, pulled, pushed)] == [0, 0.25, -0.25]
    relaxations, v = WAYS[name], one(3, 5)
    path = relaxations[0].trace(F, THETA, v, 0.0, NET.rest(1))
    compare(reply, free, path, 0.0, v)
    end = jax.tree.map(lambda u: u[:, free["last"]], path.state)
    for phase in (pulled, pushed):
        compare(reply, phase, relaxations[1].trace(F, THETA, v, phase["beta"], end), phase["beta"], v)


def compare(reply: Reply, phase: dict[str, Any], path: ep.Trace, beta: float, v: tuple[Any, Any]) -> None:
    """All frames of a phase beside the trace, as far as it goes; it ends where the state rests."""
    frames = slice(phase["first"], phase["last"] + 1)
    count = phase["last"] - phase["first"] + 1
    for layer in path.state:
        np.testing.assert_allclose(reply.arrays[f"0/{layer}"][frames], path.state[layer][0, :count], atol=2e-7)
    np.testing.assert_allclose(reply.arrays["0/energy"][frames], path.energy[0, :count], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(reply.arrays["0/residual"][frames], path.residual[0, :count], atol=1e-6)
    assert reply.arrays["0/residual"][phase["last"]] <= 1e-4
    assert (reply.arrays["0/residual"][frames][:-1] > 1e-4).all()
    outputs = np.asarray(path.state["output"][0, :count])
    np.testing.assert_allclose(reply.arrays["0/prediction"][frames], outputs, atol=2e-7)
    np.testing.assert_allclose(reply.arrays["0/cost"][frames], 0.5 * ((outputs - v[1][0]) ** 2).sum(1), rtol=1e-5)


def test_two_sides_settle_the_same_input(session: Session) -> None:
    both = ask(session, "settle", input={"example": 3}, target=5, sides=[side("gradient"), side("block")])
    for number, name in enumerate(["gradient", "block"]):
        alone = ask(session, "settle", input={"example": 3}, target=5, sides=[side(name)])
        np.testing.assert_array_equal(both.arrays[f"{number}/hidden"], alone.arrays["0/hidden"])


def test_a_settling_goes_on_from_a_frame(session: Session) -> None:
    first = ask(session, "settle", input={"example": 3}, sides=[side("gradient")])
    on = ask(session, "settle", input={"example": 3}, sides=[side("gradient")], start={"frame": 4})
    np.testing.assert_allclose(on.arrays["0/hidden"], first.arrays["0/hidden"][4:], atol=1e-6)
    assert np.isnan(on.arrays["0/cost"]).all()


def test_without_a_target_there_is_no_nudge_and_nothing_random(session: Session) -> None:
    first, again = (ask(session, "settle", input={"example": 3}, target=None) for _ in range(2))
    assert len(first.words["sides"][0]["phases"]) == 1
    np.testing.assert_array_equal(first.arrays["0/hidden"], again.arrays["0/hidden"])


def test_what_is_drawn_is_what_settles(session: Session) -> None:
    drawn = ask(session, "settle", input={"pixels": V[0][3].tolist()}, sides=[side("block")])
    taken = ask(session, "settle", input={"example": 3}, sides=[side("block")])
    np.testing.assert_array_equal(drawn.arrays["0/hidden"], taken.arrays["0/hidden"])
    np.testing.assert_array_equal(drawn.arrays["x"], V[0][3].reshape(8, 8))


def test_outputs_that_are_held_leave_the_state_of_a_clamped_energy(session: Session) -> None:
    held = [{"layer": "output", "unit": k, "value": float(k == 2)} for k in range(10)]
    reply = ask(session, "settle", input={"example": 3}, sides=[side("block")], clamp=held)
    outputs = np.eye(10, dtype=np.float32)[2:3]
    assert (reply.arrays["0/output"] == outputs).all()
    clamped = ep.Clamped(NET, ("output",))
    v = (one(3, 2), {"output": outputs})
    s, _ = ep.Block(200, 1e-6)(clamped, THETA, v, 0.0, {"hidden": jnp.zeros((1, 16))})
    np.testing.assert_allclose(reply.arrays["0/hidden"][-1], s["hidden"][0], atol=2e-4)


def test_a_whole_layer_and_one_unit_can_be_held(session: Session) -> None:
    held = [{"layer": "hidden", "unit": None, "value": 0.25}, {"layer": "hidden", "unit": 3, "value": 1.0}]
    reply = ask(session, "settle", input={"example": 3}, sides=[side("gradient")], clamp=held)
    wanted = np.full(16, 0.25)
    wanted[3] = 1.0
    assert (reply.arrays["0/hidden"] == wanted).all()


def test_a_dream_is_a_minimum_of_the_energy_with_the_input_let_go(session: Session) -> None:
    """Then ∂/∂x (½x² − Φ) = 0 inside of the box: x = clip(W ρ(h))."""
    reply = ask(session, "settle", input={"example": 3}, dream=4, seed=1)
    assert (np.diff(reply.arrays["0/energy"]) <= 1e-5).all()
    assert (reply.arrays["0/output"] == np.eye(10)[4]).all()
    hidden = reply.arrays["0/hidden"][-1]
    np.testing.assert_allclose(
        reply.arrays["0/input"][-1].ravel(), np.clip(THETA["W"]["input-hidden"] @ hidden, 0, 1), atol=1e-3
    )
    other = ask(session, "settle", input={"example": 3}, dream=4, seed=2)
    assert (other.arrays["0/input"][0] != reply.arrays["0/input"][0]).any()


@pytest.mark.slow
def test_a_unit_shows_its_weights_and_how_they_would_change(session: Session) -> None:
    given = {"input": {"example": 3}, "target": 5, "rate": 0.3, "side": side("block")}
    learned = session.scene.rule("equilibrium", "symmetric", 0.5)(F, THETA, one(3, 5), NET.rest(1))
    for layer, synapse, unit in (("hidden", "input-hidden", 11), ("output", "hidden-output", 5)):
        reply = ask(session, "unit", layer=layer, unit=unit, **given)
        np.testing.assert_allclose(reply.arrays["before"].ravel(), THETA["W"][synapse][:, unit], atol=1e-6)
        change = -0.3 * learned.gradient["W"][synapse][:, unit]
        np.testing.assert_allclose(reply.arrays["change"].ravel(), change, atol=1e-6)
    assert reply.words["from"] == "hidden"
    several = ask(session, "fields", layer="hidden", count=25)
    np.testing.assert_allclose(several.arrays["fields"].reshape(16, 64), THETA["W"]["input-hidden"].T, atol=1e-6)


@pytest.mark.slow
def test_the_usual_rate_suits_a_network_that_is_trained() -> None:
    scene = scene_of_data("digits", say=lambda _: None, updates=126)
    assert 1e-3 < scene.rate < 10


def test_learning_moves_the_prediction_to_the_target(session: Session) -> None:
    before = ask(session, "settle", input={"example": 3}, target=5)
    assert ask(session, "learn", input={"example": 3}, target=5, rate=0.1, times=5).words["updates"] == 5
    after = ask(session, "settle", input={"example": 3}, target=5)
    costs = [reply.arrays["0/cost"][reply.words["sides"][0]["phases"][0]["last"]] for reply in (before, after)]
    assert costs[1] < 0.9 * costs[0]
    ask(session, "weights", to="opened")
    again = ask(session, "settle", input={"example": 3}, target=5)
    np.testing.assert_array_equal(again.arrays["0/hidden"], before.arrays["0/hidden"])


@pytest.mark.slow
def test_an_address_repeats_what_was_learned_to_the_bit(session: Session) -> None:
    lesson = {"input": {"example": 3}, "target": 5, "rate": 0.1, "times": 2}
    ask(session, "train", on=True)
    while session.learner.updates < 40:
        progress = session.step()
        assert progress is not None and progress.words["on"]
    ask(session, "train", on=False)
    assert session.step() is None
    trained = session.learner.updates
    ask(session, "learn", **lesson)
    did = [{"kind": "train", "updates": trained}, {"kind": "learn", **lesson}]
    other = Session(session.scene)
    ask(other, "replay", did=did)
    assert other.learner.updates == session.learner.updates == trained + 2
    for mine, theirs in zip(*(jax.tree.leaves(s.learner.theta) for s in (session, other)), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow
def test_training_lowers_the_test_error(session: Session) -> None:
    ask(session, "train", on=True)
    errors = []
    for _ in range(200):  # each takes a share of a second, in which a busy machine learns little
        session.learner.tested = 0.0
        reply = session.step()
        assert reply is not None
        errors += [reply.words["test_error"]]
        if errors[-1] < 0.6 * errors[0]:
            return
    pytest.fail(f"the test error stays where it was: {errors[::20]}")


def test_wrong_examples_come_with_the_most_costly_first(session: Session) -> None:
    reply = ask(session, "examples", order="wrong", count=30)
    assert (np.diff(reply.arrays["cost"]) <= 0).all()
    rows, labels = reply.words["indices"], reply.words["labels"]
    assert labels == DATA.test.labels[rows].tolist()
    assert all(a != b for a, b in zip(labels, reply.words["predicted"], strict=True))
    np.testing.assert_array_equal(reply.arrays["pixels"].reshape(len(rows), 64), V[0][rows])
    given = ask(session, "examples", first=5, count=2)
    assert given.words["indices"] == [5, 6] and given.words["total"] == len(V[0])


def test_the_code_learns_what_the_page_has_learned_over_more_than_an_epoch() -> None:
    scene = scene_of_data("digits", say=lambda _: None, updates=128)
    names: dict[str, Any] = {"ep": ep}
    exec(scene.code, names)
    assert int(names["state"].step) == 128 and int(names["state"].batch) == 2
    jax.tree.map(np.testing.assert_array_equal, names["theta"], scene.theta)


@pytest.mark.parametrize("notebook", [False, True])
def test_a_package_that_is_missing_is_told_before_anything_else(
    monkeypatch: pytest.MonkeyPatch, notebook: bool
) -> None:
    package = "anywidget" if notebook else "websockets"
    monkeypatch.setattr(running, "find_spec", lambda name: None if name == package else name)
    monkeypatch.setitem(sys.modules, "ipykernel", running)
    if not notebook:
        monkeypatch.delitem(sys.modules, "ipykernel")
    where = "in a notebook " if notebook else ""
    with pytest.raises(ep.InputError, match=f"^{where}the live page needs the package {package}, of the extra `live`"):
        ep.live(F, None, V)  # which it would refuse, too


@pytest.mark.slow
def test_the_code_does_what_the_page_shows(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scene = scene_of_data("digits", say=lambda _: None, updates=3)
    session = Session(scene)
    reply = ask(session, "settle", input={"example": 1}, target=5, sides=[side("block", beta=0.25)])
    code = ask(session, "code", input={"example": 1}, target=5, sides=[side("block", beta=0.25)], rate=0.1)
    names: dict[str, Any] = {}
    exec(code.words["code"], names)
    assert "prediction" in capsys.readouterr().out
    end = reply.words["sides"][0]["phases"][0]["last"]
    np.testing.assert_allclose(names["s"]["hidden"][0], reply.arrays["0/hidden"][end], atol=1e-4)


def spring(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    x, y = v
    cost = 0.0 if y is None else ((s - y) ** 2).sum() / 2
    return (s**2).sum() / 2 - s @ theta @ x + beta * cost


@pytest.mark.slow
def test_an_energy_of_ones_own_can_be_watched() -> None:
    """A state that is one array, with nothing but a space: it settles to θx."""
    theta, x = jnp.array([[0.5, 0.25], [0.0, 0.5]]), np.array([[1.0, 0.5]], np.float32)
    mine = ep.system(spring, space=ep.Space((2,)), predict=lambda theta, v, s: s)
    session = Session(scene_of(mine, theta, (x, np.zeros((1, 2), np.float32)), relaxations={"mine": ep.Gradient(50)}))
    hello = ask(session, "hello").words
    assert hello["layers"] == [{"name": "state", "shape": [2], "low": None, "high": None}]
    names = [each["name"] for each in hello["relaxations"]]
    assert names[0] == "mine" and "block" not in names
    assert "holomorphic" in [each["name"] for each in hello["nudges"]]
    reply = ask(session, "settle", input={"example": 0}, target=1, sides=[side("mine", "one-sided", 1.0)])
    free, nudged = reply.words["sides"][0]["phases"]
    np.testing.assert_allclose(reply.arrays["0/state"][free["last"]], theta @ x[0], atol=1e-3)
    np.testing.assert_allclose(reply.arrays["0/state"][nudged["last"]], (theta @ x[0] + np.eye(2)[1]) / 2, atol=1e-3)
    around = ask(session, "settle", input={"example": 0}, target=1, sides=[side("mine", "holomorphic", 0.5)])
    assert len(around.words["sides"][0]["phases"]) > 2
    ask(session, "learn", input={"example": 0}, target=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flow", "noise"])
def test_other_relaxations_can_be_watched(session: Session, name: str) -> None:
    reply = ask(session, "settle", input={"example": 3}, target=5, sides=[side(name, "one-sided")])
    settled = ask(session, "settle", input={"example": 3}, target=5, sides=[side("block", "one-sided")])
    ends = [r.arrays["0/output"][r.words["sides"][0]["phases"][0]["last"]] for r in (reply, settled)]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-3 if name == "flow" else 0.3)
    assert len(reply.arrays["0/energy"]) > 10


GOOD: dict[str, Any] = {"kind": "settle", "input": {"example": 0}}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no kind": ({}, "kind=None"),
    "unknown kind": ({"kind": "rm -rf"}, "kind='rm -rf'"),
    "no input": ({"kind": "settle"}, "input=None"),
    "example too high": (GOOD | {"input": {"example": 360}}, "example=360"),
    "example is true": (GOOD | {"input": {"example": True}}, "example=True"),
    "too few pixels": (GOOD | {"input": {"pixels": [0.5] * 63}}, "64 numbers"),
    "pixels of text": (GOOD | {"input": {"pixels": ["a"] * 64}}, "64 numbers"),
    "pixels that are not numbers": (GOOD | {"input": {"pixels": [float("nan")] * 64}}, "from 0 to 1"),
    "pixels outside": (GOOD | {"input": {"pixels": [2] * 64}}, "from 0 to 1"),
    "target too high": (GOOD | {"target": 10}, "target=10"),
    "three sides": (GOOD | {"sides": [{}, {}, {}]}, "sides"),
    "a side of text": (GOOD | {"sides": ["block"]}, "JSON object"),
    "unknown relaxation": (GOOD | {"sides": [{"relaxation": "x"}]}, "relaxation='x'"),
    "a huge nudge": (GOOD | {"sides": [{"beta": 1e9}]}, "beta=1000000000.0"),
    "a nudge that is no number": (GOOD | {"sides": [{"beta": float("nan")}]}, "beta=nan"),
    "a unit that is not there": (GOOD | {"clamp": [{"layer": "hidden", "unit": 16, "value": 0}]}, "unit=16"),
    "a layer that is not there": (GOOD | {"clamp": [{"layer": "x", "unit": 0, "value": 0}]}, "layer='x'"),
    "too many held": (GOOD | {"clamp": [{}] * 201}, "clamp"),
    "a frame that is not there": (GOOD | {"start": {"frame": 10**9}}, "frame=1000000000"),
    "a negative seed": (GOOD | {"seed": -1}, "seed=-1"),
    "a dream of nothing": (GOOD | {"dream": 10}, "dream=10"),
    "nothing to learn": ({"kind": "learn", "input": {"example": 0}}, "target=null"),
    "learning for ever": ({"kind": "learn", "input": {"example": 0}, "target": 1, "times": 10**6}, "times=1000000"),
    "a rate that explodes": ({"kind": "learn", "input": {"example": 0}, "target": 1, "rate": 1e30}, "rate=1e+30"),
    "an unknown rule": ({"kind": "learn", "input": {"example": 0}, "target": 1, "rule": "x"}, "rule='x'"),
    "too many examples": ({"kind": "examples", "count": 10**6}, "count=1000000"),
    "train maybe": ({"kind": "train", "on": 1}, "on=1"),
    "weights from elsewhere": ({"kind": "weights", "to": "/etc"}, "to='/etc'"),
    "random weights": ({"kind": "weights", "to": "random"}, "random weights"),
    "an endless address": ({"kind": "replay", "did": [{"kind": "train", "updates": 10**9}]}, "updates=1000000000"),
    "an address of nonsense": ({"kind": "replay", "did": [{"kind": "x"}]}, "kind='x'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_messages_are_refused_in_words(session: Session, name: str) -> None:
    fields, words = BAD[name]
    if "start" in fields:
        ask(session, "settle", input={"example": 0})
    reply = session.answer(Request(fields))
    assert words in reply.words["error"], reply.words
    ask(session, "settle", input={"example": 0})  # it goes on


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "3", "null", "[" * 100_000, b"\xff\xfe", '{"a": 1' + "0" * 5000 + "}"]
)
def test_what_is_no_message_is_refused(text: Any) -> None:
    with pytest.raises(ep.InputError, match="JSON object"):
        parse(text)


def test_a_reply_is_packed_as_the_page_reads_it() -> None:
    packed = Reply({"id": 3}, {"a": np.arange(6.0).reshape(2, 3), "b": np.array(7.0)}).pack()
    (length,) = struct.unpack("<I", packed[:4])
    header = json.loads(packed[4 : 4 + length])
    assert header == {"id": 3, "arrays": [["a", [2, 3]], ["b", []]]} and length % 4 == 0
    numbers = np.frombuffer(packed[4 + length :], "<f4")
    assert numbers.tolist() == [0, 1, 2, 3, 4, 5, 7] and prod([2, 3]) + 1 == len(numbers)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"F": lambda theta, v, beta, s: jnp.sum(s**2)}, r"space=eqprop.Space\(10\)"),
        ({"F": ep.system(lambda theta, v, beta, s: s, space=ep.Space(10))}, "must give one number"),
        (
            {"F": ep.system(lambda theta, v, beta, s: jnp.sum(s), space=ep.Space(10)), "labels": "ab"},
            "what it predicts",
        ),
        ({"theta": None}, "fails for one example"),
        ({"v": (V[0][:, :9], V[1])}, "does not fit layer 'input'"),
        ({"v": (V[0], V[1].argmax(1))}, "one_hot"),
        ({"relaxations": ep.Gradient(9)}, "a dict by name"),
        ({"relaxations": {"mine": ep.Gradient}}, "give a relaxation"),
        ({"nudges": {"mine": ep.Symmetric(0.5)}}, "a function of β"),
        ({"rules": {"mine": 5}}, "a function of the phases"),
        ({"optimizer": 0.1}, "one of optax"),
        ({"beta": "strong"}, "give the number"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ep.InputError, match=sentence):
        scene_of(**({"F": F, "theta": THETA, "v": V} | given))
