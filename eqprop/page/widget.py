"""The page in a notebook: Jupyter, Colab, VS Code, marimo."""

import threading
import time
from typing import Any

import anywidget

from eqprop.page.bundle import STATIC, bundle
from eqprop.page.messages import Reply, Request
from eqprop.page.scene import Scene
from eqprop.page.session import Session


def _read(*names: str) -> str:
    return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)


class Watch(anywidget.AnyWidget):
    """A page on a scene. Messages take the place of the socket, and the session is this object's own."""

    _esm = f"{_read('vendor/uPlot.iife.min.js')}\n{bundle('widget.js')}\nexport default {{ render: renderWidget }};\n"
    _css = _read("vendor/uPlot.min.css", "style.css")

    def __init__(self, scene: Scene, **kwargs: Any):
        super().__init__(**kwargs)
        self.session = Session(scene)
        self.turn = threading.Lock()
        self.trains: threading.Thread | None = None
        self.on_msg(self._hear)

    def __repr__(self) -> str:
        return f"<Watch: {self.session.scene.title}>"

    def _hear(self, widget: Any, content: Any, buffers: list[bytes]) -> None:
        with self.turn:
            reply = self.session.answer(Request(content if isinstance(content, dict) else {}))
        self._say(reply)
        if self.session.trains and (self.trains is None or not self.trains.is_alive()):
            self.trains = threading.Thread(target=self._train, daemon=True)
            self.trains.start()

    def _train(self) -> None:
        """Train in between the messages, for as long as the page wants to."""
        while self.session.trains:
            with self.turn:
                progress = self.session.step()
            if progress is not None:
                self._say(progress)
            time.sleep(0.01)  # so that messages get their turn

    def _say(self, reply: Reply) -> None:
        self.send(reply.header(), reply.buffers())
