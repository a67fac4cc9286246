"""The page of `eqprop live` in a real browser: what Python computes is what is clicked and shown."""

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import jax
import optax
import pytest

import eqprop as ep
from eqprop.page import Scene, Session, scene_of
from eqprop.page.messages import Request
from eqprop.page.server import Server

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
WIDE, NARROW = (1280, 900), (400, 800)
DATA = ep.data.load("digits")


def layered() -> Scene:
    """A network that reads most digits, and some of them wrong."""
    net = ep.Hopfield.layered(64, 32, 10)
    F = ep.Total(net, ep.SquaredError())
    trainer = ep.Trainer(F, ep.EquilibriumPropagation(), optax.adam(0.003))
    feed = ep.Shuffled(DATA.train.v, batch_size=20)
    state = trainer.init(net.init(jax.random.key(0)), feed, jax.random.key(1))
    theta = trainer.advance(state, feed, 50).theta
    return scene_of(F, theta, DATA.test.v, shape=(8, 8), title="digits", optimizer=optax.adam(0.003))


def convolutional() -> Scene:
    net = ep.Hopfield.convolutional((8, 8, 1), (4, 6), 10)
    x, y = DATA.test.v
    theta = net.init(jax.random.key(0))
    return scene_of(ep.Total(net, ep.SquaredError()), theta, (x.reshape(-1, 8, 8, 1), y), title="maps")


class Serving:
    """A server in a thread of its own, for as long as the tests need it."""

    def __init__(self, scene: Scene):
        self.scene, self.loop, self.up = scene, asyncio.new_event_loop(), threading.Event()
        self.address, self.over = "", asyncio.Event()
        self.server: Server | None = None
        self.thread = threading.Thread(target=lambda: self.loop.run_until_complete(self.serve()), daemon=True)
        self.thread.start()
        assert self.up.wait(60)

    async def serve(self) -> None:
        async with Server(self.scene).running() as self.server:
            self.address = self.server.address
            self.up.set()
            await self.over.wait()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join(30)
        self.loop.close()


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    serving = Serving(layered())
    yield serving
    serving.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """Opens pages; in the end nothing may have gone wrong in any, and nothing may have been asked of another host."""
    contexts, trouble = [], []

    def open_page(serving: Serving, hash: str = "", size: tuple[int, int] = WIDE) -> Any:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda said: trouble.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        here = serving.address.split("?")[0]
        page.on("request", lambda r: None if r.url.startswith((here, "data:", "blob:")) else trouble.append(r.url))
        page.goto(serving.address + hash)
        page.locator(".phase:not(:empty)").wait_for()
        until_still(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


def until_still(page: Any) -> None:
    page.get_by_role("button", name="Play (space)").wait_for()


def until(page: Any, selector: str, words: str) -> None:
    sync_api.expect(page.locator(selector).first).to_contain_text(re.compile(words), timeout=60_000)


def fold(page: Any, title: str) -> Any:
    page.locator("summary", has_text=title).click()
    return page.locator("details", has=page.locator("summary", has_text=title))


def nudge_towards(page: Any, label: str) -> None:
    page.get_by_role("group", name="Nudge towards").get_by_role("button", name=label, exact=True).click()
    until(page, ".phase", f"towards {label}")
    until_still(page)


@pytest.mark.slow
def test_the_numbers_on_the_page_are_those_of_the_library(visit: Any, serving: Serving) -> None:
    page = visit(serving, "#in=e3&at=2")
    page.locator(".layer canvas").nth(1).hover(position={"x": 5, "y": 5})
    shown = page.locator(".tip").inner_text()
    assert shown.startswith("hidden, unit 0: ")
    free = next(iter(serving.scene.relaxations.values())).made.free
    v = (serving.scene.encode(serving.scene.pixels[3])[None], serving.scene.targets[3:4])
    path = free.trace(serving.scene.F, serving.scene.theta, v, 0.0, serving.scene.F.space.rest(1))  # pyright: ignore
    assert float(shown.split(":")[1].replace("−", "-")) == pytest.approx(
        float(path.state["hidden"][0, 2, 0]), abs=5.1e-4
    )


@pytest.mark.slow
def test_it_is_nudged_and_learns(visit: Any, serving: Serving) -> None:
    page = visit(serving, "#in=e5")
    nudge_towards(page, "2")
    page.get_by_role("button", name="Free · now · difference").click()
    page.locator(".layer canvas").nth(1).click(position={"x": 45, "y": 45})
    unit = page.locator(".fold-unit")
    unit.locator("figure").nth(2).wait_for()
    panel = fold(page, "Learn this")
    panel.get_by_role("button", name="5 times").click()
    story = panel.locator(".story li")
    story.wait_for()
    before, after = map(float, re.findall(r"\d+\.\d+(?:e[-−]\d+)?", story.inner_text().split("cost")[1])[:2])
    assert after < before
    again = visit(serving, "#" + page.url.split("#")[1])  # whoever has the address sees the same
    until_still(again)
    assert again.locator(".bars").inner_text() == page.locator(".bars").inner_text()


@pytest.mark.slow
def test_wrong_examples_come_first(visit: Any, serving: Serving) -> None:
    page = visit(serving)
    panel = fold(page, "Examples")
    panel.get_by_role("button", name="Most wrong first").click()
    panel.locator(".thumb", has=page.locator(".wrong")).first.click()
    rows = Session(serving.scene).answer(Request({"kind": "examples", "order": "wrong"})).words["indices"]
    until(page, ".which", f"example {rows[0]}:")


@pytest.mark.slow
def test_it_trains_and_its_answers_go_on(visit: Any, serving: Serving) -> None:
    page = visit(serving)
    panel = fold(page, "Train on the data")
    panel.get_by_role("button", name="Train on the data").click()
    until(page, ".told", r"test error \d")
    page.get_by_role("button", name="Clear").click()
    until(page, ".which", "your drawing")
    panel.get_by_role("button", name="Stop").click()
    panel.get_by_role("button", name="Train on the data").wait_for()
    assert panel.locator(".fields canvas").count() == 25


@pytest.mark.slow
def test_two_ways_units_held_and_dreams(visit: Any, serving: Serving) -> None:
    page = visit(serving, "#in=e5&target=2")
    panel = fold(page, "Settings")
    panel.get_by_label("Compare with a second way").check()
    page.locator(".stage").nth(1).wait_for()
    names = [
        option["title"] for option in Session(serving.scene).answer(Request({"kind": "hello"})).words["relaxations"]
    ]
    titles = page.locator(".side").all_inner_texts()
    assert len(titles) == 2 and all(any(name in title for name in names) for title in titles)
    panel.get_by_label("Compare with a second way").uncheck()
    sync_api.expect(page.locator(".stage")).to_have_count(1)
    page.locator(".bars canvas").click(position={"x": 60, "y": 8})
    page.get_by_role("button", name="Hold it").click()
    sync_api.expect(page).to_have_url(re.compile("hold=output"))  # the page's policy lets no script be evaluated
    held = fold(page, "Hold units by hand")
    held.get_by_label("Layer").select_option("hidden")
    held.get_by_role("button", name="Hold the layer").click()
    held.get_by_role("button", name="Let all go").click()
    dream = fold(page, "Let it dream")
    dream.get_by_label("Label").select_option("8")
    dream.get_by_role("button", name="Dream", exact=True).click()
    until(page, ".phase", "Dreaming of 8")
    until_still(page)
    dream.get_by_role("button", name="Wake up").click()
    until(page, ".phase", "Free phase|Pulled")


@pytest.mark.slow
def test_the_code_runs(visit: Any, serving: Serving) -> None:
    page = visit(serving, "#in=e5&target=2")
    page.get_by_role("button", name="Show the same in Python").click()
    code = page.locator("dialog pre").inner_text()
    compile(code, "page", "exec")
    assert "x[5:6]" in code and "ep.Symmetric(beta=0.5)" in code


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_feature_maps_are_drawn(visit: Any, size: tuple[int, int]) -> None:
    serving = Serving(convolutional())
    try:
        page = visit(serving, size=size)
        until(page, ".reads", r"It reads \d")
        assert page.locator(".layer canvas").count() >= 3
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0
    finally:
        serving.close()


@pytest.mark.slow
def test_a_closed_tab_frees_its_seat(visit: Any, serving: Serving) -> None:
    page = visit(serving)
    assert serving.server is not None and len(serving.server.sessions) >= 1
    before = len(serving.server.sessions)
    page.close()
    for _ in range(100):
        if len(serving.server.sessions) < before:
            break
        threading.Event().wait(0.1)
    assert len(serving.server.sessions) < before
