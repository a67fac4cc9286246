"""The live page in a notebook: the same page, with messages of a widget in the place of the socket."""

import base64
import time
from typing import Any

import jax
import numpy as np
import pytest

import eqprop as ep
from eqprop.page import scene_of
from eqprop.page.widget import Watch

NET = ep.Hopfield.layered(64, 16, 10)
# What anywidget does with the module in a notebook: a model that sends and hears, and an element to draw in.
NOTEBOOK = """async (esm) => {
  const heard = [];
  window.model = {
    on: (name, hear) => name === "msg:custom" && heard.push(hear),
    off: () => {},
    send: async (message) => (await window.toPython(message)).forEach(([header, buffers]) => {
      const views = buffers.map((text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer));
      heard.forEach((hear) => hear(header, views));
    }),
  };
  const url = URL.createObjectURL(new Blob([esm], { type: "text/javascript" }));
  const widget = (await import(url)).default;
  window.close = await widget.render({ model: window.model, el: document.getElementById("cell") });
}"""


@pytest.fixture
def widget(monkeypatch: pytest.MonkeyPatch) -> Watch:
    F = ep.Total(NET, ep.SquaredError())
    scene = scene_of(F, NET.init(jax.random.key(0)), ep.data.load("digits").test.v, shape=(8, 8))
    widget = Watch(scene)
    sent: list[Any] = []
    monkeypatch.setattr(widget, "send", lambda header, buffers: sent.append((header, buffers)))
    monkeypatch.setattr(widget, "sent", sent, raising=False)
    return widget


def test_a_widget_answers_and_trains_between_messages(widget: Any) -> None:
    assert str(widget) == "<Watch: your energy>"
    widget._hear(widget, {"kind": "settle", "id": 3, "input": {"example": 0}, "target": 1}, [])
    header, buffers = widget.sent.pop()
    assert header["id"] == 3
    shapes = dict(header["arrays"])
    assert [len(b) for b in buffers] == [4 * int(np.prod(shape)) for shape in shapes.values()]
    widget._hear(widget, "nonsense", [])
    assert "kind=None" in widget.sent.pop()[0]["error"]
    widget._hear(widget, {"kind": "train", "on": True, "id": 4}, [])
    until = time.monotonic() + 60
    while len(widget.sent) < 4 and time.monotonic() < until:
        time.sleep(0.05)
    widget._hear(widget, {"kind": "train", "on": False, "id": 5}, [])
    widget.trains.join(10)
    assert not widget.trains.is_alive()
    assert [header.get("kind") for header, _ in widget.sent].count("progress") >= 3


@pytest.mark.slow
def test_the_widget_shows_the_page(widget: Any, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 900, "height": 900})
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))

    def to_python(message: Any) -> list[Any]:
        widget._hear(widget, message, [])
        answers = [(header, [base64.b64encode(b).decode() for b in buffers]) for header, buffers in widget.sent]
        widget.sent.clear()
        return answers

    page.expose_function("toPython", to_python)
    notebook = ".jp-OutputArea-output pre { word-break: break-all }"  # as JupyterLab has it
    page.set_content(f"<style>{widget._css}{notebook}</style><div class='jp-OutputArea-output' id='cell'></div>")
    page.evaluate(NOTEBOOK, widget._esm)
    page.get_by_text("It reads").wait_for(timeout=60_000)
    page.get_by_role("button", name="Show the same in Python").click()
    code = page.locator("dialog pre").evaluate("pre => getComputedStyle(pre).wordBreak")
    assert code == "normal", "it breaks words, as JupyterLab would"
    page.keyboard.press("Escape")
    assert page.locator("#cell canvas").count() >= 3
    page.evaluate("() => window.close()")
    assert page.locator("#cell canvas").count() == 0
    assert trouble == []
