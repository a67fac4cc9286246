"""The Python code that does what the page shows."""

from typing import Any

from eqprop.page.messages import Request
from eqprop.page.scene import Scene

IMPORTS = """\
import jax
import jax.numpy as jnp

import eqprop as ep
"""
FREE = """\
free = {free!r}
nudged = {nudged!r}
rest = F.space.rest(1)
path = free.trace(F, theta, v, 0.0, rest)  # every state on the way down
s, info = free(F, theta, v, 0.0, rest)
"""
PREDICT = """\
print("prediction", F.predict(theta, jax.tree.map(lambda a: a[0], v), jax.tree.map(lambda u: u[0], s)))
"""
SHOW = """\
print("state", s)
"""
NUDGE = """\
betas, weights = {nudge!r}(jax.random.key({seed}))
for beta in betas:
    pulled, _ = nudged(F, theta, v, beta, s)
    print("beta", beta, "moves the state by", jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), pulled, s))
"""
LEARN = """\
learned = ep.EquilibriumPropagation({nudge!r}, free, nudged)(F, theta, v, rest)
theta = F.project(jax.tree.map(lambda w, g: w - {rate!r} * g, theta, learned.gradient))
"""


def write_code(scene: Scene, request: Request) -> str:
    """The input, the settling, the nudge and one step of learning, of the first side."""
    side = Request((request.items("sides", 2) or [{}])[0])
    relaxation = side.choice("relaxation", scene.relaxations, next(iter(scene.relaxations)))
    nudge = side.choice("nudge", scene.nudges, next(iter(scene.nudges)))
    beta = side.number("beta", -100, 100, scene.beta)
    target = request.maybe_whole("target", 0, len(scene.labels) - 1)
    pair = scene.relaxations[relaxation].made
    parts = [IMPORTS, scene.code, _input(scene, request.inner("input"), target)]
    parts.append(FREE.format(free=Source(pair.free), nudged=Source(pair.nudged)))
    parts[-1] += PREDICT if scene.labels else SHOW
    if target is not None and beta:
        made = Source(scene.nudges[nudge].made(beta))
        parts.append(NUDGE.format(nudge=made, seed=request.whole("seed", 0, 2**31, 0)))
        parts.append(LEARN.format(nudge=made, rate=request.number("rate", 0, 1e6, 0.1)))
    if request.items("clamp", 200) or request.items("did", 200):
        parts.append("# Units that were held by hand, and what was learned before, are not repeated here.\n")
    return "\n".join(parts)


def _input(scene: Scene, given: Request, target: int | None) -> str:
    """The line that says which input and target; an F of one's own may need a target even where nothing nudges it."""
    wanted = "" if target is None else f"jnp.eye({len(scene.labels)})[{target}:{target + 1}]"
    if "example" in given.fields:
        row = given.whole("example", 0, len(scene.pixels) - 1)
        return f"v = (x[{row}:{row + 1}], {wanted or f'y[{row}:{row + 1}]'})\n"
    size = scene.shape
    pixels = given.fields.get("pixels")
    digits = [round(float(p), 3) for p in pixels] if isinstance(pixels, list) and len(pixels) <= 10_000 else []
    return f"drawn = jnp.array({digits}).reshape(1, *x.shape[1:])  # {size}\nv = (drawn, {wanted or 'y[:1]'})\n"


class Source:
    """An object as Python code that makes it: `ep.Block(steps=60, …)`; one's own without the `ep.`."""

    def __init__(self, made: Any):
        self.made = made

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self.made).items())
        kind = type(self.made)
        return f"{'ep.' if kind.__module__.startswith('eqprop.') else ''}{kind.__name__}({given})"
