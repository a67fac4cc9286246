"""The demonstration without a server says what the library says: the same steps, energies and learned weights."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqprop as ep
from eqprop.page.bundle import IMPORT, STATIC, bundle
from marks import slow_but

sync_api = pytest.importorskip("playwright.sync_api")

TOLERANCE = 1e-5
SIZES = (64, 32, 10)
NET = ep.Hopfield.layered(*SIZES)
F = ep.Total(NET, ep.SquaredError())
RELAXATIONS = {
    "block": (ep.Block(100, 1e-4), ep.Block(100, 1e-4, order="backward")),
    "gradient": (ep.Gradient(100, 1e-4), ep.Gradient(100, 1e-4)),
}
NUDGES = {"symmetric": ep.Symmetric, "one-sided": ep.OneSided}
ASK = """async ([kind, fields]) => {
  const { localBackend } = await import("/local.js");
  window.backend ??= localBackend();
  const reply = await window.backend.ask(kind, fields);
  const arrays = Object.entries(reply.arrays).map(([name, { shape, data }]) => [name, { shape, data: [...data] }]);
  return { ...reply, arrays: Object.fromEntries(arrays) };
}"""
THETA = "() => ({ W: backend.theta().W.map((w) => [...w]), b: backend.theta().b.map((b) => [...b]) })"


@pytest.fixture
def page(browser: Any, page_files: str) -> Iterator[Any]:
    """A page beside the demonstration, whose backend can be asked."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(page_files + "style.css")  # any page of this origin
    yield page
    context.close()


def ask(page: Any, kind: str, **fields: Any) -> dict[str, Any]:
    reply = page.evaluate(ASK, [kind, fields])
    for name, array in reply["arrays"].items():
        reply["arrays"][name] = np.array(array["data"], np.float64).reshape(array["shape"])
    return reply


def theta_of(page: Any) -> Any:
    """The weights of the demonstration, as the library has them."""
    theta = page.evaluate(THETA)
    names, layers = ("input-hidden", "hidden-output"), ("hidden", "output")
    shapes = [SIZES[:2], SIZES[1:]]
    return {
        "W": {name: jnp.array(w, jnp.float32).reshape(s) for name, w, s in zip(names, theta["W"], shapes, strict=True)},
        "b": {name: jnp.array(b, jnp.float32) for name, b in zip(layers, theta["b"], strict=True)},
    }


def one_hot(label: int) -> jax.Array:
    return jax.nn.one_hot(jnp.array([label]), 10)


@pytest.mark.parametrize("relaxation", slow_but(RELAXATIONS, "block"))
@pytest.mark.parametrize("nudge", slow_but(NUDGES, "symmetric"))
@pytest.mark.parametrize("example", slow_but([0, 82], 82))
def test_every_frame_is_the_librarys(page: Any, relaxation: str, nudge: str, example: int) -> None:
    side = {"relaxation": relaxation, "nudge": nudge, "beta": 0.5}
    reply = ask(page, "settle", input={"example": example}, target=3, sides=[side])
    theta, arrays = theta_of(page), reply["arrays"]
    v = (jnp.array(arrays["x"].reshape(1, -1), jnp.float32), one_hot(3))
    start = NET.rest(1)
    phases = reply["sides"][0]["phases"]
    assert [phase["beta"] for phase in phases] == ([0, 0.5, -0.5] if nudge == "symmetric" else [0, 0.5])
    for phase in phases:
        first, last, beta = phase["first"], phase["last"], float(phase["beta"])
        frames = slice(first, last + 1)
        settles = RELAXATIONS[relaxation][beta != 0]
        settled, info = settles(F, theta, v, beta, start)
        assert int(info.steps[0]) == last - first
        traced = type(settles)(last - first, None, **({"order": settles.order} if relaxation == "block" else {}))
        trace = traced.trace(F, theta, v, beta, start)
        for layer, path in trace.state.items():
            np.testing.assert_allclose(arrays[f"0/{layer}"][frames], path[0], atol=TOLERANCE)
        np.testing.assert_allclose(arrays["0/energy"][frames], trace.energy[0], atol=TOLERANCE, rtol=TOLERANCE)
        np.testing.assert_allclose(arrays["0/residual"][frames][1:], trace.residual[0][1:], atol=TOLERANCE)
        cost = jax.vmap(lambda s: F.cost_at(theta, (v[0][0], v[1][0]), s))(jax.tree.map(lambda u: u[0], trace.state))
        np.testing.assert_allclose(arrays["0/cost"][frames], cost, atol=TOLERANCE)
        np.testing.assert_array_equal(arrays["0/prediction"], arrays["0/output"])
        if beta == 0:
            start = settled


@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize("nudge", slow_but(NUDGES, "one-sided"))
def test_it_learns_the_librarys_weights(page: Any, relaxation: str, nudge: str) -> None:
    side = {"relaxation": relaxation, "nudge": nudge, "beta": 0.5}
    shown = ask(page, "settle", input={"example": 82}, target=3, sides=[side])
    theta = theta_of(page)
    ask(page, "learn", input={"example": 82}, target=3, side=side, rule="equilibrium", rate=0.1, times=3)
    free, nudged = RELAXATIONS[relaxation]
    rule = ep.EquilibriumPropagation(NUDGES[nudge](0.5), free, nudged)
    v = (jnp.array(shown["arrays"]["x"].reshape(1, -1), jnp.float32), one_hot(3))
    for _ in range(3):
        gradient = rule(F, theta, v, NET.rest(1)).gradient
        theta = jax.tree.map(lambda w, g: w - 0.1 * g, theta, gradient)
    for learned, expected in zip(jax.tree.leaves(theta_of(page)), jax.tree.leaves(theta), strict=True):
        np.testing.assert_allclose(learned, expected, atol=TOLERANCE)


def test_what_was_done_can_be_done_again(page: Any) -> None:
    side = {"relaxation": "block", "nudge": "symmetric", "beta": 0.5}
    way = {"side": side, "rule": "equilibrium", "rate": 0.1}
    did = [
        {"kind": "weights", "to": "random", "seed": 3},
        {"kind": "train", "updates": 30, **way},
        {"kind": "learn", "input": {"example": 1}, "target": 2, "times": 2, **way},
    ]
    assert ask(page, "replay", did=did)["updates"] == 32
    first = theta_of(page)
    ask(page, "weights", to="opened")
    assert ask(page, "replay", did=did)["updates"] == 32
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), first, theta_of(page)))


def test_what_is_held_stays_and_the_rest_settles(page: Any) -> None:
    side = {"relaxation": "block", "nudge": "symmetric", "beta": 0.5}
    clamp = [{"layer": "hidden", "unit": 5, "value": 0.25}]
    arrays = ask(page, "settle", input={"example": 0}, target=None, sides=[side], clamp=clamp)["arrays"]
    assert (arrays["0/hidden"][:, 5] == 0.25).all()
    assert arrays["0/residual"][-1] <= 1e-4
    assert np.isnan(arrays["0/cost"]).all()
    dreamed = ask(page, "settle", input={"example": 0}, target=None, sides=[side], dream=3, seed=1)["arrays"]
    assert (dreamed["0/output"] == np.eye(10)[3]).all() and np.ptp(dreamed["0/input"][-1]) > 0.5


def test_the_demonstration_is_small() -> None:
    assert (STATIC / "demo-data.js").stat().st_size < 60_000
    weight = sum(path.stat().st_size for path in STATIC.rglob("*") if path.is_file())
    assert weight < 300_000


@pytest.mark.slow
def test_modules_can_be_joined(tmp_path: Path) -> None:
    """No name is taken twice, nothing is imported that the bundler does not see, and the whole is JavaScript."""
    names: dict[str, str] = {}
    for path in sorted(STATIC.glob("*.js")):
        text = path.read_text()
        assert len(re.findall(r"^import\b", text, re.MULTILINE)) == len(IMPORT.findall(text)), path
        assert "export default" not in text and "await import" not in text, path
        if path.stem in ("live", "demo", "widget"):
            continue
        for name in re.findall(r"^(?:export )?(?:async )?(?:const|let|class|function) (\w+)", text, re.MULTILINE):
            assert name not in names, f"{name} is in {path.name} and {names[name]}"
            names[name] = path.name
    joined = tmp_path / "joined.mjs"
    joined.write_text(bundle("local.js", "wire.js", "widget.js") + "\nexport default { render: renderWidget };\n")
    assert "import {" not in joined.read_text()
    subprocess.run(["node", "--check", str(joined)], check=True)


@pytest.mark.slow
def test_the_data_are_the_librarys(page: Any) -> None:
    digits = ep.data.load("digits")
    reply = ask(page, "examples", order="given", first=0, count=100)
    np.testing.assert_allclose(reply["arrays"]["pixels"].reshape(100, 64), digits.test.x[:100], atol=1e-7)
    assert reply["labels"] == digits.test.y[:100].argmax(1).tolist()
