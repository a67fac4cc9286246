"""The live page as a person uses it, in a real browser, on the demonstration without a server."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eqprop.page.bundle import standalone

sync_api = pytest.importorskip("playwright.sync_api")
WIDE, NARROW = (1280, 900), (400, 800)


@pytest.fixture
def visit(browser: Any, page_files: str) -> Iterator[Any]:
    """Opens pages; in the end nothing may have gone wrong in any, and nothing may have been asked of another host."""
    address = f"{page_files}demo.html"
    contexts, trouble = [], []

    def open_page(hash: str = "", size: tuple[int, int] = WIDE, where: str = address, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on(
            "console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: trouble.append(str(error)))
        here = address.rsplit("/", 1)[0] if where == address else where
        page.on("request", lambda r: None if r.url.startswith((here, "data:", "blob:")) else trouble.append(r.url))
        page.goto(where + hash)
        page.locator(".phase:not(:empty)").wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


def fold(page: Any, title: str) -> Any:
    """Opens a panel."""
    page.locator("summary", has_text=title).click()
    return page.locator("details", has=page.locator("summary", has_text=title))


def until_still(page: Any) -> None:
    """Until it has played to the end; what was asked for just now first has to be answered."""
    page.wait_for_timeout(150)
    page.get_by_role("button", name="Play (space)").wait_for()


def where(page: Any) -> str:
    return f"{page.locator('.phase').inner_text()}, {page.locator('.count').inner_text()}"


def until_step(page: Any, step: str) -> None:
    """Until this is the step that is shown: the page draws in the next frame, not at once."""
    sync_api.expect(page.locator(".count")).to_have_text(f"step {step}")


def numbers(text: str) -> list[float]:
    return [float(n.replace("−", "-")) for n in re.findall(r"[-−]?\d+(?:\.\d+)?(?:e[-−]?\d+)?", text)]


def pick_wrong(page: Any) -> None:
    """Takes the example that is most wrong, and nudges it towards its label."""
    panel = fold(page, "Examples")
    panel.get_by_role("button", name="Most wrong first").click()
    first = panel.locator(".thumb", has=page.locator(".wrong")).first
    label = numbers(first.get_attribute("aria-label").split(":")[1])[0]
    first.click()
    fold(page, "Examples")
    until_still(page)
    page.get_by_role("group", name="Nudge towards").get_by_role("button", name=f"{label:g}", exact=True).click()
    until_still(page)


def test_it_settles_and_time_obeys(visit: Any) -> None:
    page = visit()
    until_still(page)
    assert where(page).startswith("Free phase, step 7 of 7") and page.locator(".reads").inner_text() == "It reads 7"
    page.wait_for_function("document.querySelector('.spoken').textContent.includes('at rest after 7 steps')")
    page.keyboard.press("ArrowLeft")
    until_step(page, "6 of 7")
    page.get_by_role("button", name="Rewind").click()
    until_step(page, "0 of 7")
    page.get_by_role("button", name="One step on").click()
    until_step(page, "1 of 7")
    page.get_by_role("slider", name="Step").fill("3")
    until_step(page, "3 of 7")
    page.keyboard.press("Tab")
    page.locator("h1").click()
    page.keyboard.press("End")
    until_step(page, "7 of 7")
    page.get_by_label("Speed").select_option("60")
    page.locator("h1").click()
    page.keyboard.press("Home")
    until_step(page, "0 of 7")
    page.keyboard.press(" ")
    until_step(page, "7 of 7")


@pytest.mark.slow
def test_what_is_shown_is_the_number(visit: Any) -> None:
    page = visit("#in=e3&at=2")
    page.locator(".layer canvas").nth(1).hover(position={"x": 5, "y": 5})
    shown = page.locator(".tip").inner_text()
    frames = page.evaluate(
        """async () => {
          const { localBackend } = await import("./local.js");
          const side = { relaxation: "block", nudge: "symmetric", beta: 0.5 };
          const reply = await localBackend().ask("settle", { input: { example: 3 }, target: null, sides: [side] });
          return [...reply.arrays["0/hidden"].data];
        }"""
    )
    assert shown.startswith("hidden, unit 0: ")
    assert numbers(shown)[1] == pytest.approx(frames[2 * 32], abs=5.1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_a_digit_is_drawn(visit: Any, size: tuple[int, int]) -> None:
    page = visit(size=size)
    until_still(page)
    page.get_by_role("button", name="Clear").click()
    canvas = page.locator(".drawable")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    at = lambda x, y: (box["x"] + x / 8 * box["width"], box["y"] + y / 8 * box["height"])  # noqa: E731
    page.mouse.move(*at(4, 0.8))
    page.mouse.down()
    for y in range(2, 8):
        page.mouse.move(*at(4, y))
        page.wait_for_timeout(30)
    page.mouse.up()
    until_still(page)
    assert page.locator(".reads").inner_text() == "It reads 1"
    assert page.locator(".which").inner_text() == "your drawing"
    page.get_by_role("button", name="Erase").click()
    page.mouse.click(*at(4, 4))
    page.wait_for_function("location.hash.includes('in=p')")


WATCH = """() => {
  window.waits = [];
  const layer = document.querySelectorAll(".layer canvas")[1];
  const copy = Object.assign(document.createElement("canvas"), { width: layer.width, height: layer.height });
  const seen = copy.getContext("2d", { willReadFrequently: true });
  const read = () => {
    seen.drawImage(layer, 0, 0);
    return seen.getImageData(0, 0, copy.width, copy.height).data.join();
  };
  let begun = null;
  let before = null;
  document.querySelector(".drawable").addEventListener("pointerdown", (event) => {
    [before, begun] = [read(), event.timeStamp];
  }, true);
  const look = () => {
    if (begun !== null && read() !== before) {
      window.waits.push(performance.now() - begun);
      begun = null;
    }
    requestAnimationFrame(look);
  };
  look();
}"""


@pytest.mark.slow
def test_the_state_moves_soon_after_the_pen(visit: Any) -> None:
    """From the pen's touch to the first frame whose pixels are others; once of four, as the machine may be busy."""
    waits = []
    for _ in range(4):
        page = visit()
        until_still(page)
        page.get_by_role("button", name="Clear").click()
        page.wait_for_timeout(200)
        until_still(page)
        page.evaluate(WATCH)
        box = page.locator(".drawable").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.wait_for_function("window.waits.length === 1")
        page.mouse.up()
        waits.append(page.evaluate("window.waits[0]"))
    assert min(waits) <= 100, waits


@pytest.mark.slow
def test_a_finger_draws(visit: Any) -> None:
    page = visit(size=NARROW, has_touch=True)
    until_still(page)
    page.locator(".drawable").tap()
    page.wait_for_function("document.querySelector('.which').textContent === 'your drawing'")


def test_a_nudge_and_its_difference(visit: Any) -> None:
    page = visit()
    until_still(page)
    pick_wrong(page)
    sync_api.expect(page.locator(".phase")).to_contain_text("Pulled towards")
    page.get_by_role("button", name="Free · now · difference").click()
    assert numbers(page.locator(".layer figcaption").nth(2).inner_text())[0] > 0.01
    assert page.locator(".layer canvas").count() == 3 and page.locator(".layer canvas").last.is_visible()
    page.get_by_role("slider", name="Strength β").fill("-0.3")
    page.wait_for_function("document.querySelector('.phase').textContent.startsWith('Pushed')")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("document.querySelector('.phase').textContent.startsWith('Pulled')")
    page.get_by_role("button", name="nothing").click()
    page.wait_for_function("document.querySelector('.phase').textContent === 'Free phase'")


@pytest.mark.slow
def test_it_learns_what_it_is_shown(visit: Any) -> None:
    page = visit()
    until_still(page)
    pick_wrong(page)
    page.locator(".layer canvas").nth(1).click(position={"x": 45, "y": 75})
    unit = page.locator(".fold-unit")
    unit.locator("figure").nth(2).wait_for()
    assert "before" in unit.inner_text() and "change" in unit.inner_text() and "after" in unit.inner_text()
    panel = fold(page, "Learn this")
    panel.get_by_role("button", name="5 times").click()
    story = panel.locator(".story li")
    story.wait_for()
    before, after = numbers(story.inner_text().split("cost")[1])[:2]
    assert after < before
    panel.get_by_role("button", name="Forget").click()
    page.wait_for_function("!location.hash.includes('did=')")


@pytest.mark.slow
def test_it_trains(visit: Any) -> None:
    page = visit()
    panel = fold(page, "Train on the data")
    panel.get_by_role("button", name="Random weights").click()
    panel.get_by_text("it knows nothing yet").wait_for()
    panel.get_by_role("button", name="Train on the data").click()
    page.wait_for_function(
        "/test error (\\d|1\\d|2\\d)\\./.test(document.querySelector('.told').textContent)", timeout=60_000
    )
    panel.get_by_role("button", name="Stop").click()
    panel.get_by_role("button", name="Train on the data").wait_for()
    assert panel.locator(".fields canvas").count() == 25 and panel.locator(".uplot").count() == 1
    page.wait_for_function("location.hash.includes('train')")
    told = panel.locator(".told").inner_text()
    again = visit("#" + page.url.split("#")[1])
    assert "train" in again.url and numbers(told)[0] > 50


@pytest.mark.slow
def test_two_ways_side_by_side(visit: Any) -> None:
    page = visit("#in=e5&target=2")
    panel = fold(page, "Settings")
    panel.get_by_label("Compare with a second way").check()
    page.locator(".stage").nth(1).wait_for()
    titles = page.locator(".side").all_inner_texts()
    assert titles[0].startswith("—— Block descent") and titles[1].startswith("– – The paper's step")
    until_still(page)
    page.locator(".check").click()  # with the mouse: space then plays, and does not tick it again
    page.wait_for_function("document.querySelectorAll('.stage').length === 1")
    until_still(page)
    page.keyboard.press(" ")
    page.keyboard.press("3")
    page.wait_for_function("document.querySelector('.phase').textContent.startsWith('Pulled towards 3')")
    assert page.locator(".stage").count() == 1
    page.locator(".check").click()
    page.locator(".stage").nth(1).wait_for()
    until_still(page)
    panel.get_by_label("Settles by").nth(1).select_option("block")
    panel.get_by_label("Nudge", exact=True).nth(1).select_option("one-sided")
    page.wait_for_function("document.querySelectorAll('.side')[1].textContent.includes('one-sided')")
    panel.get_by_label("Compare with a second way").uncheck()
    page.wait_for_function("document.querySelectorAll('.stage').length === 1")


@pytest.mark.slow
def test_units_are_held(visit: Any) -> None:
    page = visit()
    until_still(page)
    page.locator(".bars canvas").click(position={"x": 60, "y": 8})
    page.locator(".fold-unit").get_by_text("output 0").wait_for()
    page.get_by_role("button", name="Hold it").click()
    page.wait_for_function("location.hash.includes('hold=output')")
    page.locator(".bars canvas").hover(position={"x": 60, "y": 8})
    assert page.locator(".tip").inner_text() == "output 0: 1.000"
    panel = fold(page, "Hold units by hand")
    panel.get_by_label("Layer").select_option("hidden")
    panel.get_by_role("button", name="Hold the layer").click()
    panel.get_by_text("hidden, all of it = 0").wait_for()
    panel.get_by_role("button", name="Let all go").click()
    page.wait_for_function("!location.hash.includes('hold=')")


@pytest.mark.slow
def test_it_dreams_and_wakes(visit: Any) -> None:
    page = visit()
    panel = fold(page, "Let it dream")
    panel.get_by_label("Label").select_option("8")
    panel.get_by_role("button", name="Dream", exact=True).click()
    page.wait_for_function("document.querySelector('.phase').textContent === 'Dreaming of 8'")
    until_still(page)
    panel.get_by_role("button", name="From another start").click()
    page.wait_for_function("location.hash.includes('seed=1')")
    panel.get_by_role("button", name="Wake up").click()
    page.wait_for_function("document.querySelector('.phase').textContent === 'Free phase'")


@pytest.mark.slow
def test_an_address_holds_everything(visit: Any) -> None:
    page = visit("#in=e5&target=2&side=gradient~one-sided~0.4&hold=hidden~3~0.5&at=20&view=triple&speed=15")
    sync_api.expect(page.locator(".which")).to_contain_text("example 5: ")
    before = where(page), page.locator(".which").inner_text()
    assert "Pulled towards 2, β = 0.40" in before[0] or "Free phase, step 20" in before[0]
    page.locator("h1").click()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(600)
    again = visit("#" + page.url.split("#")[1])
    sync_api.expect(again.locator(".which")).to_have_text(before[1])
    assert where(again) == before[0]
    assert again.locator(".mark.pinned").count() == 1


@pytest.mark.slow
def test_a_wrong_address_does_no_harm(visit: Any) -> None:
    page = visit("#in=p!!&target=77&side=x~y~z&hold=a~b~c!hidden~999~1&at=-3&did={&speed=7.5&dream=no")
    until_still(page)
    assert page.locator(".reads").inner_text() == "It reads 7"


@pytest.mark.slow
def test_it_is_shared(visit: Any) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    until_still(page)
    page.get_by_role("button", name="Copy a link").click()
    page.get_by_text("The link is copied.").wait_for()
    assert "#in=e0" in page.evaluate("navigator.clipboard.readText()")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a picture").click()
    assert Path(download.value.path()).read_bytes()[:4] == b"\x89PNG"
    page.get_by_role("button", name="Show the same in Python").click()
    code = page.locator("dialog pre").inner_text()
    compile(code, "page", "exec")
    assert "ep.Hopfield.layered(64, 32, 10)" in code


@pytest.mark.slow
def test_keys_and_help(visit: Any) -> None:
    page = visit()
    until_still(page)
    page.keyboard.press("]")
    page.wait_for_function("document.querySelector('.which').textContent.startsWith('example 1')")
    page.keyboard.press("4")
    page.wait_for_function("document.querySelector('.phase').textContent.startsWith('Pulled towards 4')")
    page.keyboard.press("d")
    assert page.locator(".layer figcaption").nth(2).is_visible()
    page.keyboard.press("n")
    page.wait_for_function("document.querySelector('.phase').textContent === 'Free phase'")
    page.keyboard.press("?")
    assert "play or pause" in page.locator("dialog").inner_text()
    assert page.locator("dialog dt").all_inner_texts() == ["energy", "free phase", "nudge", "beta", "cost", "residual"]
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    named = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, canvas")]
          .filter((e) => e.checkVisibility() && !e.closest(".uplot") && !e.closest(".thumb"))
          .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length)).length"""
    )
    assert named == 0


@pytest.mark.slow
def test_the_tour(visit: Any) -> None:
    page = visit()
    until_still(page)
    page.get_by_role("button", name="Guided tour").click()
    tour = page.get_by_role("dialog", name="Guided tour")
    titles = []
    for step in range(5):
        titles.append(tour.locator("h2").inner_text())
        assert tour.get_by_role("link").get_attribute("href") == "https://arxiv.org/abs/1602.05179"
        page.wait_for_timeout(300)
        tour.get_by_role("button", name="Done" if step == 4 else "Next").click()
    assert titles == ["It settles", "A nudge", "The difference travels back", "It learns", "It trains"]
    assert tour.is_hidden()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_dark(visit: Any, scheme: str) -> None:
    page = visit(size=NARROW, color_scheme=scheme)
    until_still(page)
    assert page.locator(".eqprop-page").get_attribute("data-theme") == scheme
    for summary in page.locator("summary").all():
        summary.click()
    page.keyboard.press("d")
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    page.get_by_role("button", name="Dark or light").click()
    assert page.locator(".eqprop-page").get_attribute("data-theme") != scheme


@pytest.mark.slow
@pytest.mark.parametrize("width", [700, 1100])
def test_titles_of_curves_leave_room_for_the_numbers(visit: Any, width: int) -> None:
    page = visit(size=(width, 900))
    until_still(page)
    room = "h3 => h3.scrollWidth - h3.clientWidth"
    assert [title.evaluate(room) for title in page.locator(".curve h3").all()] == [0, 0, 0]


@pytest.mark.slow
def test_it_opens_from_the_file_system(visit: Any, tmp_path: Path) -> None:
    path = tmp_path / "demo.html"
    path.write_text(standalone(), encoding="utf-8")
    page = visit(where=path.as_uri())
    until_still(page)
    assert page.locator(".reads").inner_text() == "It reads 7"
