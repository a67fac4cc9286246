"""`eqprop.live`: a page for a system of one's own."""

import asyncio
import contextlib
import sys
import webbrowser
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any

import optax

from eqprop.errors import InputError
from eqprop.nudge import Nudge
from eqprop.page.choices import Pair
from eqprop.page.scene import Scene, scene_of
from eqprop.relax import Relaxation
from eqprop.rule import Rule
from eqprop.study.methods import Phases
from eqprop.total import TotalEnergy
from eqprop.types import Shape, Theta

PORT = 8753


def live(
    F: TotalEnergy,
    theta: Theta,
    v: tuple[Any, Any],
    *,
    title: str = "your energy",
    shape: Shape | None = None,
    labels: tuple[str, ...] | None = None,
    beta: float = 0.5,
    relaxations: Mapping[str, Pair | tuple[Relaxation, Relaxation] | Relaxation] | None = None,
    nudges: Mapping[str, Callable[[float], Nudge]] | None = None,
    rules: Mapping[str, Callable[[Phases], Rule]] | None = None,
    optimizer: optax.GradientTransformation | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
) -> Any:
    """Watch F settle, be nudged and learn: in the browser, until Ctrl-C.

    In a notebook, the page is a widget, which is returned.

    F, theta: the system, which must say its `space`, and its weights.
    v: examples to settle, (inputs, targets); the first axis counts them.
    title: a name for it.
    shape: how an input is drawn, as (28, 28); by default as it is.
    labels: a name for each output.
    beta: the strength of the nudge at first.
    relaxations, nudges, rules: your own beside the library's, by name: a relaxation, or one for each phase; a function
        β → nudge; a function of the `Phases` (free, second, nudge) → rule.
    optimizer: how the page trains; by default plain gradient descent.
    host, port, browser: where the page is served, and whether it is opened.
    """
    notebook = "ipykernel" in sys.modules
    require("anywidget" if notebook else "websockets", "in a notebook the live page" if notebook else "the live page")
    scene = scene_of(
        F,
        theta,
        v,
        title=title,
        shape=shape,
        labels=labels,
        beta=beta,
        relaxations=relaxations,
        nudges=nudges,
        rules=rules,
        optimizer=optimizer,
    )
    if notebook:
        from eqprop.page.widget import Watch

        return Watch(scene)
    return serve(scene, host, port, browser=browser)


def require(package: str, what: str = "the live page") -> None:
    """Refuse to begin without the package that is needed in the end."""
    if not find_spec(package):
        raise InputError(
            f"{what} needs the package {package}, of the extra `live`: pip install 'eqprop[live]', or in a clone "
            "pip install '.[live]'"
        )


def serve(
    scene: Scene,
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the page until Ctrl-C. Without a port, the usual one, or any that is free."""
    if not is_loopback(host):
        say(
            f"host={host}: everybody who can reach this machine and has the address can use its processor and see this "
            "network; nothing is encrypted"
        )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(scene, host, port, browser, say))


async def _serve(scene: Scene, host: str, port: int | None, browser: bool, say: Callable[[str], None]) -> None:
    from eqprop.page.server import Server

    for chosen in (PORT, 0) if port is None else (port,):
        try:
            async with Server(scene, host, chosen).running() as server:
                say(f"{scene.title}: {server.address}")
                say("Ctrl-C ends it")
                if browser:
                    webbrowser.open(server.address)
                await asyncio.Event().wait()
        except InputError:
            if chosen == 0 or port is not None:
                raise


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
