"""Random calls of public names: what a call takes is known by its parameters' names, and then one or two are spoilt."""

import inspect
import tempfile
import typing
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import optax

import eqprop as ep
from campaign.base import FINE, Outcome, judged, odd_numbers
from eqprop.compile import compile_quickly, keep_programs

WHAT = "calls of public names, with arguments of other kinds, shapes and types, empty, or not finite"
COUNTS = (1500, 12_000)
SECONDS = 60.0

MODULES = ("eqprop", "eqprop.data", "eqprop.device", "eqprop.spice", "eqprop.sklearn", "eqprop.plots")
# These serve, wait for others, or fetch; campaigns for files and command lines have what they read.
KEEPERS = {"eqprop.data.Split", "eqprop.data.Split.from_labels"}  # they keep what they are given; feeds refuse it
LEFT_OUT = {"live", "bench", "verify", "fetch", "run"}

matplotlib.use("Agg")
compile_quickly()
jax.config.update("jax_disable_most_optimizations", True)
keep_programs(Path(tempfile.gettempdir()) / "campaign-programs")


@cache
def samples() -> dict[str, Any]:
    """Arguments that are right, by the name of the parameter."""
    net = ep.Hopfield.layered(3, 4, 2)
    F, key = ep.Total(net, ep.SquaredError()), jax.random.key(0)
    x, y = np.random.default_rng(0).random((6, 3), np.float32), np.eye(2, dtype=np.float32)[[0, 1, 0, 1, 1, 0]]
    theta, s, rule = net.init(key), net.rest(6), ep.EquilibriumPropagation(free=ep.Block(5), nudged=ep.Block(5))
    trainer, feed = ep.Trainer(F, rule, optax.sgd(0.1)), ep.Shuffled((x, y), batch_size=3)
    state = trainer.init(theta, feed, key)
    circuit = ep.Resistive.layered(3, 4, 2)
    values: dict[str, Any] = {
        "F": F, "theta": theta, "v": (x, y), "x": x, "y": y, "s": s, "key": key, "beta": 0.5, "weight": None,
        "net": net, "network": net, "energy": net, "cost": F.cost, "rule": rule, "free": ep.Block(5),
        "nudged": ep.Block(5), "relaxation": ep.Block(5), "nudge": ep.Symmetric(0.5), "optimizer": optax.sgd(0.1),
        "trainer": trainer, "feed": feed, "state": state, "batch": next(feed.epoch(key)), "batch_size": 3,
        "valid": (x, y), "layers": {"input": 3, "output": 2}, "shapes": {"input": 3, "output": 2},
        "synapses": [("input", "output")], "sizes": (3, 4, 2), "space": net.space, "pre": "input", "post": "output",
        "steps": 3, "epochs": 1, "folder": Path("folder"), "path": Path("file.safetensors"),
        "settling": ep.Block(5).init(s),
        "function": abs, "rates": 0.1, "circuit": circuit, "labels": np.array([0, 1, 0, 1, 1, 0]), "X": x,
        "betas": jnp.array([0.1, 0.2]), "size": 2, "stride": 1, "batches": 1, "number": 1, "examples": 6,
        "name": "digits", "dataset": "digits", "force": s, "output": y[0], "w": jnp.array([0.5, -0.5]),
        "low": 0.0, "high": 1.0, "kernel": (3, 3), "image": (8, 8), "channels": (2,), "shape": (3,), "classes": 2,
        "step": 0, "epoch": 0, "first": 0, "count": 1, "history": [{"epoch": 1, "train_error": 0.1, "cost": 0.2}],
        "graph": net, "updates": theta, "params": theta, "gradient": theta, "length": 4, "indices": jnp.arange(3),
        "values": {"hidden": 0.1, "output": 0.2}, "title": "a title", "block": ("hidden",), "temperature": 0.1,
        "make": lambda epoch: iter([(x, y)]), "order": np.arange(6).reshape(2, 3), "separation": ep.Power(),
        "images": np.zeros((4, 8, 8), np.float32), "t": 0,
    }  # fmt: skip
    return values


def prepare() -> None:
    """Look for all that can be called."""
    targets()


@cache
def odd() -> list[Callable[[], Any]]:
    """Values that hardly anything takes; each is made anew, as some can be used up."""
    plain = [
        None, True, False, 0, -1, 1, 2, 7, 3.5, -0.5, float("nan"), float("inf"), -float("inf"), 1e308, 1e-308, 10**30,
        -(10**30), 2**31, 2**63, 1j, "", "x", "hidden", "input", "\ud800", b"x", (), (3, 4), [], [1, 2], [[1], [2, 3]],
        [0.5, float("nan")], {}, {"hidden": 4}, {"a": "b"}, {1: 2}, {"hidden": None}, set(), np.float32(0.5),
        np.int64(3),
        np.float64("nan"), np.bool_(True), np.array(0.5), np.array([]), np.zeros((0, 3)), np.zeros((6, 3)),
        np.ones((6, 2), int),
        np.full((6, 3), np.nan), np.full((2,), np.inf), np.array("x"), np.array(["a", "b"]), np.array([object()]),
        np.array([1 + 2j]), np.zeros((1, 1, 1, 1, 1)), np.ones(3, np.float16), np.ones((6, 3), np.float64),
        np.ones((6, 3), np.uint8), np.ones(6, bool), np.array(["2020-01-01"], "M8[D]"), object(), int, ep, print, abs,
        Path("nowhere"), range(3), ..., NotImplemented, slice(3), np.array([[1, 2], [3, 4]], object),
    ]  # fmt: skip
    made: list[Callable[[], Any]] = [lambda value=value: value for value in plain]
    made += [
        lambda: jnp.ones((6, 3), jnp.bfloat16),
        lambda: jnp.zeros((6, 3)),
        lambda: jnp.array(jnp.nan),
        lambda: jnp.ones((2, 2), complex),
        lambda: jax.random.key(1),
        lambda: iter([1, 2]),
        lambda: (n for n in range(2)),
        lambda: lambda *_: 0.0,
        lambda: lambda *_: "no number",
        lambda: ep.Hopfield.layered(5, 2),
        lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
        lambda: memoryview(b"abc"),
    ]
    return made


class Target(typing.NamedTuple):
    """Something to call; a method has the class whose instances have it."""

    label: str
    function: Any
    owner: type | None = None


@cache
def targets() -> list[Target]:
    """Every public function, constructor and class method, and the methods that are entrances (`eqprop.boundary`)."""
    found = []
    for module in map(import_module, MODULES):
        for name in sorted(set(module.__all__) - LEFT_OUT):
            value = getattr(module, name)
            label = f"{module.__name__}.{name}"
            if isinstance(value, type):
                found += _of_class(label, value)
            elif callable(value) and not isinstance(value, ModuleType):
                found.append(Target(label, value))
    return found


def _of_class(label: str, kind: type) -> list[Target]:
    if issubclass(kind, BaseException | tuple) or inspect.isabstract(kind) or getattr(kind, "_is_protocol", False):
        return []  # errors, results, and what users subclass
    found = [Target(label, kind)]
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        if isinstance(member, classmethod) and hasattr(member.__func__, "entrance"):
            found.append(Target(f"{label}.{name}", getattr(kind, name)))
        elif hasattr(member, "entrance") and name != "__init__":
            found.append(Target(f"{label}.{name}", name, kind))
    return found


def parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    except (TypeError, ValueError):
        return []


def right(parameter: inspect.Parameter) -> Any:
    """What ought to do for a parameter."""
    if parameter.default is not inspect.Parameter.empty:
        return parameter.default
    return samples().get(parameter.name, 1)


def spoilt(random: Random, value: Any) -> Any:
    """Another value: an odd one, a right one for another parameter, or the same with a part of it changed."""
    choice = random.random()
    if choice < 0.55:
        return random.choice(odd())()
    if choice < 0.75:
        return samples()[random.choice(sorted(samples()))]
    leaves, tree = jax.tree.flatten(value)
    if not leaves or isinstance(value, eqx.Module) or hasattr(value, "_fields"):  # which the library made
        return random.choice(odd())()
    place = random.randrange(len(leaves))
    leaves[place] = _bent(random, leaves[place])
    return jax.tree.unflatten(tree, leaves)


def _bent(random: Random, leaf: Any) -> Any:
    """An array of another shape, type or content."""
    if not isinstance(leaf, np.ndarray | jax.Array) or jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        return random.choice(odd())()
    a = np.atleast_1d(np.asarray(leaf))
    ways: list[Callable[[], Any]] = [
        lambda: a[:0], lambda: a[..., None], lambda: a.T, lambda: a[:1], lambda: a.astype(int),
        lambda: a.astype(np.float64),
        lambda: a.astype(np.float16), lambda: a.astype(complex), lambda: jnp.asarray(a, jnp.bfloat16),
        lambda: a.astype(bool),
        lambda: np.full_like(a, np.nan, dtype=np.float32), lambda: np.full_like(a, np.inf, dtype=np.float32),
        lambda: a.tolist(),
        lambda: a.astype(str), lambda: None, lambda: np.float32(1.0), lambda: a * 1e30, lambda: a.ravel(),
        lambda: a.astype(object),
        lambda: random.choice(odd())(),
    ]  # fmt: skip
    return random.choice(ways)()


@cache
def instance(kind: type) -> Any:
    """One that is right, if the parameters' names lead to it."""
    for name in samples().values():
        if type(name) is kind:
            return name
    wanted = {p.name: right(p) for p in parameters(kind) if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return kind(**wanted)


def attack(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    target = random.choice(targets())
    function = target.function
    if target.owner is not None:
        try:
            function = getattr(instance(target.owner), target.function)
        except Exception:
            return Outcome(FINE, "no instance")
    positional, named = [], {}
    taken = parameters(function)
    bad = set(random.sample(range(len(taken)), min(len(taken), random.choice([1] * 10 + [0, 2, 2, 3]))))
    odd_given = False
    ahead = next((k for k, p in enumerate(taken) if p.kind is p.VAR_POSITIONAL), 0)  # what comes before *sizes
    for k, parameter in enumerate(taken):
        value = right(parameter)
        if k in bad:
            value = spoilt(random, value)
            if callable(value) and "Callable" in str(parameter.annotation):
                value = None  # of another function only a call can tell
            odd_given = odd_given or any(True for _ in odd_numbers(value))
        elif parameter.default is not inspect.Parameter.empty and k >= ahead:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += list(value) if isinstance(value, list | tuple) else [value]
        elif parameter.kind is parameter.POSITIONAL_ONLY or k < ahead:
            positional.append(value)
        elif parameter.kind is not parameter.VAR_KEYWORD:
            named[parameter.name] = value
    say(f"{target.label}({_shown(positional, named)})")
    outcome, result = judged(lambda: function(*positional, **named))
    if outcome.word == FINE and target.label not in KEEPERS and (where := next(odd_numbers(result), None)):
        return Outcome("not finite", f"{where}{' (given)' if odd_given else ''}")
    return outcome


def _shown(positional: list[Any], named: dict[str, Any]) -> str:
    parts = [_brief(value) for value in positional] + [f"{name}={_brief(value)}" for name, value in named.items()]
    return ", ".join(parts)


def _brief(value: Any) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) < 60 else f"<{type(value).__name__}{getattr(value, 'shape', '')}>"
