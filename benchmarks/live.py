"""The live page in a browser: how soon it shows, how soon it answers a stroke, how smoothly it moves."""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Report
from benchmarks.timing import spread
from eqprop.errors import InputError

try:
    from playwright.sync_api import Page, sync_playwright
except ModuleNotFoundError as error:
    raise InputError("the benchmark `live` drives a browser by playwright: pip install playwright") from error

CHROMIUM = Path("/usr/bin/chromium")
TEXT = """
`eqprop live` on MNIST in headless Chromium (1280 × 900), both on this machine's cores. *First paint*: from the request,
with the server up. *Page weight*: all files together, as sent. *Stroke to frame*: from the pen's first touch on the
input to the first frame in which a layer of the state has changed. *Frames a second* in which a layer was drawn anew:
while a settling plays at 60 steps a second, and while the network trains, when each answer shows new weights.
"""
# Notes when layers are drawn, and when the pen touches the input.
WATCH = """
window.drawn = []; window.touched = null;
const put = CanvasRenderingContext2D.prototype.putImageData;
CanvasRenderingContext2D.prototype.putImageData = function (...given) {
  if (this.canvas.closest(".layer, .outputs")) window.drawn.push(performance.now());
  return put.apply(this, given);
};
const touch = (event) => { if (event.target.closest(".input")) window.touched = performance.now(); };
addEventListener("pointerdown", touch, true);
"""
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
WEIGHT = """() => [...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")]
  .reduce((sum, entry) => sum + entry.transferSize, 0)"""


def run(short: bool) -> Report:
    if not CHROMIUM.exists():
        raise InputError(f"the benchmark `live` needs {CHROMIUM}: install Debian's package chromium")
    rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        for hidden in (["500"], ["500", "500", "500"]):
            run_dir = Path(folder) / "-".join(hidden)
            eqprop("train", "mnist", "--hidden", *hidden, "--train", "2000", "--epochs", "1", "--run-dir", str(run_dir))
            rows.append({"network": "-".join(["784", *hidden, "10"])} | look(browser, run_dir, 3 if short else 10))
        browser.close()
    return Report("The live page: paint, answers, frames", TEXT, rows)


def eqprop(*args: str) -> None:
    subprocess.run([sys.executable, "-m", "eqprop", *args], check=True, capture_output=True)


def look(browser: Any, run_dir: Path, rounds: int) -> dict[str, Any]:
    command = [sys.executable, "-u", "-m", "eqprop", "live", str(run_dir), "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        address = next(found[0] for line in server.stderr if (found := re.search(r"http://\S+", line)))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.add_init_script(WATCH)
        page.goto(address)
        page.get_by_text("It reads").wait_for(timeout=120_000)
        paint, weight = page.evaluate(PAINT), page.evaluate(WEIGHT)
        page.get_by_label("Speed").select_option(index=6)
        for warm in range(2):
            stroke(page, warm)
        strokes = [stroke(page, number) for number in range(rounds)]
        playing = [frames(page, 2.0) for _ in range(rounds)]
        page.locator("summary", has_text="Train on the data").click()
        page.get_by_role("button", name="Train on the data").click()
        page.wait_for_timeout(8000)  # what it compiles
        training = [frames(page, 2.0, play=False) for _ in range(rounds)]
        page.close()
    finally:
        server.terminate()
        server.wait()
    return {
        "first paint, ms": paint,
        "page weight, kB": weight / 1000,
        "stroke to frame, ms": spread(np.array(strokes)),
        "frames a second, playing": spread(np.array(playing)),
        "frames a second, training": spread(np.array(training)),
    }


def stroke(page: Page, number: int) -> float:
    """Milliseconds from the touch of the pen to the first layer that is drawn anew."""
    box = page.locator(".input canvas").first.bounding_box()
    assert box is not None
    page.wait_for_timeout(800)
    x, y = box["x"] + box["width"] * (0.3 + 0.04 * (number % 10)), box["y"] + box["height"] * 0.4
    page.mouse.move(x, y)
    page.evaluate("() => { window.drawn.length = 0; window.touched = null; }")
    page.mouse.down()
    page.mouse.move(x + 10, y + 20)
    page.mouse.up()
    page.wait_for_function("() => window.touched !== null && window.drawn.some((at) => at > window.touched)")
    return page.evaluate("() => window.drawn.find((at) => at > window.touched) - window.touched")


def frames(page: Page, seconds: float, *, play: bool = True) -> float:
    """Frames a second in which a layer was drawn anew; several layers of one frame are one."""
    if play:
        page.keyboard.press("Home")
        page.keyboard.press(" ")
    page.evaluate("() => { window.drawn.length = 0; }")
    begun = time.perf_counter()
    page.wait_for_timeout(seconds * 1000 if not play else 600)
    drawn = np.array(page.evaluate("() => window.drawn"))
    if len(drawn) < 2:
        return len(drawn) / (time.perf_counter() - begun)
    distinct = drawn[np.insert(np.diff(drawn) > 4, 0, True)]
    return (len(distinct) - 1) / ((distinct[-1] - distinct[0]) / 1000)
