"""What a page asks for, answered: it settles, learns, trains; each page has a session of its own."""

import time
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.errors import DivergedError, InputError
from eqprop.page import fields
from eqprop.page.code import write_code
from eqprop.page.course import Course, Phase, settle
from eqprop.page.held import INPUT, Dreaming, Held, bounds_of
from eqprop.page.learner import Learner
from eqprop.page.messages import Reply, Request
from eqprop.page.scene import Scene
from eqprop.relax import Gradient
from eqprop.rule import Rule
from eqprop.total import System
from eqprop.types import Data, Key, Layers, Theta

MOST_UPDATES = 200_000
"""Minibatches that an address may ask to train once more."""
SEEDS = 2**31
DREAM = Gradient(steps=300, epsilon=0.2)
Held_ = dict[str, dict[int | None, Any]]


class Side(NamedTuple):
    """One way to settle and to nudge."""

    relaxation: str
    nudge: str
    beta: float


class Session:
    """The answers to the messages of one page. They are given one after the other, by one thread at a time."""

    def __init__(self, scene: Scene):
        self.scene, self.learner = scene, Learner(scene)
        self.last: Course | None = None
        self.wrong: tuple[Theta, np.ndarray, np.ndarray, np.ndarray] | None = None
        self.kinds: dict[str, Callable[[Request], Reply]] = {
            "hello": self.hello,
            "settle": self.settle,
            "examples": self.examples,
            "unit": self.unit,
            "fields": self.fields,
            "learn": self.learn,
            "train": self.train,
            "weights": self.weights,
            "replay": self.replay,
            "code": lambda request: Reply({"code": write_code(self.scene, request)}),
        }

    def answer(self, request: Request) -> Reply:
        """The answer to a message, which may be a refusal in words."""
        try:
            reply = self.kinds[request.choice("kind", self.kinds)](request)
        except (InputError, DivergedError) as error:
            reply = Reply({"error": str(error)})
        number = request.fields.get("id")
        return reply._replace(words=reply.words | {"id": number if type(number) is int else None})

    @property
    def trains(self) -> bool:
        """Whether `step` has something to do."""
        return self.learner.trainer is not None

    def step(self) -> Reply | None:
        """Train for a moment, and tell; None if the page does not train."""
        if not self.trains:
            return None
        words: dict[str, Any] = {"kind": "progress"}
        try:
            words |= {"losses": self.learner.turn(), "test_error": self.learner.test_error(), "on": True}
        except (InputError, DivergedError) as problem:
            self.learner.stop()
            words |= {"losses": [], "error": str(problem), "on": False}
        return Reply(words | {"updates": self.learner.updates})

    # What there is

    def hello(self, request: Request) -> Reply:
        scene = self.scene
        shapes, (low, high) = scene.F.space.shapes, scene.bounds
        layers = [
            {"name": name, "shape": list(shape), "low": _end(low[name].min()), "high": _end(high[name].max())}
            for name, shape in shapes.items()
        ]
        drawable = len(scene.shape) == 2 or (len(scene.shape) == 3 and scene.shape[2] == 1)
        most = self._most_beta()
        words = {
            "title": scene.title,
            "about": _about(sum(map(prod, shapes.values())), scene),
            "layers": layers,
            "input": {"shape": list(scene.shape), "low": scene.low, "high": scene.high, "drawable": drawable},
            "outputs": {"layer": scene.layer, "labels": list(scene.labels)},
            "targets": bool(scene.labels),
            "examples": len(scene.pixels),
            "relaxations": _listed(scene.relaxations),
            "nudges": _listed(scene.nudges),
            "rules": _listed(scene.rules),
            "side": self._usual()._asdict(),
            "rule": next(iter(scene.rules), None),
            "rate": scene.rate,
            "betas": [-most, most],
            "abilities": {
                "clamp": True,
                "dream": scene.dreams,
                "learn": bool(scene.rules and scene.labels),
                "train": scene.trainer is not None,
                "unit": True,
                "wrong": scene.trainer is not None,
                "code": True,
            },
            "updates": self.learner.updates,
        }
        return Reply(words)

    def examples(self, request: Request) -> Reply:
        """Some of the examples, in the order of the data, or those that the network gets wrong, the worst first."""
        scene = self.scene
        order = request.choice("order", ("given", "wrong"), "given")
        first, count = request.whole("first", 0, len(scene.pixels), 0), request.whole("count", 1, 100, 24)
        rows = np.arange(len(scene.pixels))
        words, arrays = {}, {}
        some = slice(first, first + count)
        if order == "wrong":
            rows, outputs, cost = self._find_wrong()
            words, arrays = {"predicted": outputs[some].tolist()}, {"cost": cost[some]}
        shown = rows[some]
        labels = scene.targets[shown].argmax(axis=1).tolist() if scene.labels else []
        words = {"predicted": None, "indices": shown.tolist(), "labels": labels, "total": len(rows)} | words
        return Reply(words, {"pixels": scene.pixels[shown]} | arrays)

    def _find_wrong(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows, what they are taken for, and their costs; found once for the same weights."""
        if self.wrong is None or self.wrong[0] is not self.learner.theta:
            outputs, cost = self.learner.outputs()
            rows = np.flatnonzero(outputs != self.scene.targets[: len(outputs)].argmax(axis=1))
            rows = rows[np.argsort(-cost[rows], kind="stable")]
            self.wrong = self.learner.theta, rows, outputs[rows], cost[rows]
        return self.wrong[1:]

    # Settling

    def settle(self, request: Request) -> Reply:
        """Settle one input freely and under its nudges, once for each side."""
        begun, scene = time.perf_counter(), self.scene
        sides = [self._side(Request(side)) for side in request.items("sides", 2)] or [self._usual()]
        key = jax.random.key(request.whole("seed", 0, SEEDS, 0))
        dream = request.maybe_whole("dream", 0, len(scene.labels) - 1)
        if dream is None:
            pixels, target = self._pixels(request.inner("input")), self._target(request)
            courses = [self._awake(request, side, pixels, target, key) for side in sides]
        else:
            courses, target = [self._dream(request, dream, key)], dream
            pixels = courses[0].state[INPUT][-1]
        self.last = courses[0]
        arrays = {"x": pixels}
        for number, course in enumerate(courses):
            arrays |= {f"{number}/{layer}": path for layer, path in course.state.items()}
            arrays |= {f"{number}/energy": course.energy, f"{number}/residual": course.residual}
            arrays[f"{number}/cost"] = course.cost if target is not None else np.full_like(course.energy, np.nan)
            if course.prediction is not None:
                arrays[f"{number}/prediction"] = course.prediction
        told = [{"phases": [_told(phase) for phase in course.phases]} for course in courses]
        return Reply({"sides": told, "milliseconds": round(1000 * (time.perf_counter() - begun), 2)}, arrays)

    def _awake(self, request: Request, side: Side, pixels: np.ndarray, target: int | None, key: Key) -> Course:
        scene = self.scene
        free, nudged = scene.relaxations[side.relaxation].made
        betas = self._betas(side, key) if target is not None else []
        v: Data = (scene.encode(pixels)[None], scene.target(target)[None])
        held, waves = self._held(request), any(isinstance(beta, complex) for beta in betas)
        if held and waves:
            raise InputError("units cannot be held while β is complex: choose another nudge, or let them go")
        F = scene.F if waves else with_held(scene.F, scene.bounds, held)
        s = F.space.project(self._start(request))
        return settle(F, self.learner.theta, v, s, free, nudged, betas, key, predicts=bool(scene.labels))

    def _dream(self, request: Request, label: int, key: Key) -> Course:
        """The outputs held at a label, and the input let go from a random start."""
        scene = self.scene
        if not scene.dreams or scene.layer is None:
            raise InputError(f"dream={label}: this network has no energy for its input; leave it out")
        F = Dreaming(scene.F, scene.encode(scene.pixels[0]).shape, scene.low, scene.high)
        held: Held_ = {scene.layer: {None: scene.target(label)}, **self._held(request)}
        F = with_held(F, bounds_of(F.space), held)
        noise = jax.random.uniform(key, (1, *F.space.shapes[INPUT]), minval=scene.low, maxval=scene.high)
        s = F.space.project({INPUT: noise, **scene.F.space.rest(1)})
        v = (jnp.zeros((1, 1)), scene.target(label)[None])
        course = settle(F, self.learner.theta, v, s, DREAM, DREAM, [], key, predicts=True)
        drawn = course.state[INPUT].reshape(-1, *scene.shape)
        return course._replace(state=course.state | {INPUT: drawn})

    def _held(self, request: Request) -> Held_:
        """The units that are held by hand, by layer; None stands for all of a layer."""
        shapes, held = self.scene.F.space.shapes, {}
        for item in map(Request, request.items("clamp", 200)):
            layer = item.choice("layer", shapes)
            unit = item.maybe_whole("unit", 0, prod(shapes[layer]) - 1)
            held.setdefault(layer, {})[unit] = item.number("value", -100, 100)
        return held

    def _start(self, request: Request) -> Layers:
        """Where the settling begins: at rest, or at a frame of the last one."""
        if request.fields.get("start", "rest") == "rest" or self.last is None:
            return self.scene.F.space.rest(1)
        return self.last.at(request.inner("start").whole("frame", 0, len(self.last.energy) - 1))

    def _betas(self, side: Side, key: Key) -> list[complex]:
        if side.beta == 0:
            return []
        nudge = self.scene.nudges[side.nudge].made(side.beta)
        betas = np.asarray(nudge(key)[0])[1 if nudge.uses_free else 0 :]
        return [complex(b) if np.iscomplexobj(betas) else float(b) for b in betas]

    # Learning

    def unit(self, request: Request) -> Reply:
        """The weights that lead to a unit, and how one example would change them."""
        shapes, theta = self.scene.F.space.shapes, self.learner.theta
        layer = request.choice("layer", shapes)
        unit = request.whole("unit", 0, prod(shapes[layer]) - 1)
        before = fields.field(self.scene, theta, layer, unit)
        arrays = {"before": before}
        if self._target(request) is not None and self.scene.rules:
            after = fields.field(self.scene, self.learner.learned(*self._lesson(request)), layer, unit)
            arrays |= {"change": after - before, "after": after}
        return Reply({"from": fields.source(self.scene, layer)}, arrays)

    def fields(self, request: Request) -> Reply:
        """The weights that lead to the first units of a layer."""
        shapes = self.scene.F.space.shapes
        layer = request.choice("layer", shapes)
        count = min(request.whole("count", 1, 100, 25), prod(shapes[layer]))
        found = fields.first_fields(self.scene, self.learner.theta, layer, count)
        return Reply({"from": fields.source(self.scene, layer)}, {"fields": found})

    def learn(self, request: Request) -> Reply:
        """Learn one example, as often as asked for."""
        self.learner.learn(*self._lesson(request), request.whole("times", 1, 100, 1))
        return Reply({"updates": self.learner.updates})

    def _lesson(self, request: Request) -> tuple[Rule, Data, float]:
        """The rule, the example and the rate."""
        scene = self.scene
        if (target := self._target(request)) is None:
            raise InputError("target=null: choose what the answer should be, to learn it")
        v = (scene.encode(self._pixels(request.inner("input")))[None], scene.target(target)[None])
        return self._rule(request), v, request.number("rate", 0, 1e6, scene.rate)

    def train(self, request: Request) -> Reply:
        """Begin to train, or stop; `step` does it."""
        if request.flag("on"):
            self.learner.begin(self._rule(request))
        else:
            self.learner.stop()
        return Reply({"on": self.trains, "updates": self.learner.updates})

    def _rule(self, request: Request) -> Rule:
        if not self.scene.rules:
            raise InputError("no rule of the library learns in this system: give `rules` of your own")
        side = self._side(request.inner("side")) if "side" in request.fields else self._usual()
        name = request.choice("rule", self.scene.rules, next(iter(self.scene.rules)))
        return self.scene.rule(name, side.nudge, side.beta)

    def weights(self, request: Request) -> Reply:
        """Back to the weights that the page opened with, or to random ones."""
        self.learner.set(request.choice("to", ("opened", "random")), request.whole("seed", 0, SEEDS, 0))
        return Reply({"updates": self.learner.updates})

    def replay(self, request: Request) -> Reply:
        """The weights of a shared address: all that was done to them, once more."""
        did = [Request(item) for item in request.items("did", 200)]
        trained = sum(item.whole("updates", 1, MOST_UPDATES) for item in did if item.fields.get("kind") == "train")
        if trained > MOST_UPDATES:
            raise InputError(f"did: {trained} minibatches are too many to train once more; the most are {MOST_UPDATES}")
        again = {"weights": self.weights, "learn": self.learn, "train": self._train_again}
        self.learner.set("opened")
        for item in did:
            again[item.choice("kind", again)](item)
        return Reply({"updates": self.learner.updates})

    def _train_again(self, request: Request) -> None:
        self.learner.begin(self._rule(request))
        self.learner.train_to(self.learner.updates + request.whole("updates", 1, MOST_UPDATES))
        self.learner.stop()

    # What messages mean

    def _usual(self) -> Side:
        scene = self.scene
        return Side(scene.watch or next(iter(scene.relaxations)), next(iter(scene.nudges)), scene.beta)

    def _side(self, request: Request) -> Side:
        usual, most = self._usual(), self._most_beta()
        return Side(
            request.choice("relaxation", self.scene.relaxations, usual.relaxation),
            request.choice("nudge", self.scene.nudges, usual.nudge),
            request.number("beta", -most, most, usual.beta),
        )

    def _most_beta(self) -> float:
        """The end of the slider: four times the usual β, and at least 1 unless that is very small."""
        beta = abs(self.scene.beta)
        return max(4 * beta, 1.0) if beta > 0.05 else 4 * beta

    def _target(self, request: Request) -> int | None:
        return request.maybe_whole("target", 0, len(self.scene.labels) - 1)

    def _pixels(self, given: Request) -> np.ndarray:
        scene = self.scene
        if "example" in given.fields:
            return scene.pixels[given.whole("example", 0, len(scene.pixels) - 1)]
        return given.numbers("pixels", prod(scene.shape), scene.low, scene.high).reshape(scene.shape)


def with_held(F: System, bounds: tuple[Layers, Layers], held: Held_) -> Held:
    """F with some units, or whole layers, held at values."""

    def hold(bound: Layers) -> Layers:
        for layer, units in held.items():
            for unit, value in units.items():
                old = bound[layer]
                where = () if unit is None else np.unravel_index(unit, old.shape)
                bound = bound | {layer: old.at[where].set(value)}
        return bound

    return Held(F, *map(hold, bounds))


def _about(units: int, scene: Scene) -> str:
    """What is watched, and why something may be missing."""
    known = f"This network has {units:,} units that settle."
    if scene.labels:
        return known
    return (
        f"{known} It does not say what it predicts, so that nothing can nudge or teach it: give `predict` to ep.system."
    )


def _listed(choices: Any) -> list[dict[str, str]]:
    return [{"name": name, "title": each.title, "about": each.about} for name, each in choices.items()]


def _end(bound: Any) -> float | None:
    return float(bound) if np.isfinite(bound) else None


def _told(phase: Phase) -> dict[str, Any]:
    told = {"name": phase.name, "first": phase.first, "last": phase.last}
    if isinstance(phase.beta, complex):
        return told | {"beta": abs(phase.beta), "angle": float(np.angle(phase.beta))}
    return told | {"beta": phase.beta}
